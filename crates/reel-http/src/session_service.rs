//! The sessions of a running server, as the control plane sees them: opened, listed and ended for
//! the API.

use crate::control::{self, SessionRefusal, SessionReport};
use crate::data::{DataCounters, Film, Films, Form, open_session};
use reel_admit::{OpenRefused, Sessions};
use reel_disk::Disks;
use reel_library::LibraryError;
use reel_qos::{AdmitError, Class};
use reel_rt::now_ns;
use std::net::IpAddr;
use std::sync::Arc;

/// Opens, lists and ends sessions.
pub(crate) struct ServerSessions {
    pub(crate) sessions: Arc<Sessions<Film>>,
    pub(crate) films: Arc<Films>,
    pub(crate) disks: Disks,
    pub(crate) counters: Arc<DataCounters>,
}

impl control::SessionService for ServerSessions {
    fn open(&self, title: &str, client: IpAddr) -> Result<SessionReport, SessionRefusal> {
        let film = self.films.open(title).map_err(|error| match error {
            LibraryError::NoSuchTitle { .. } => SessionRefusal::NoSuchTitle,
            other => SessionRefusal::Failed(other.to_string()),
        })?;
        let classes = self.disks.classes();
        let requester = (client, Class::PERIODIC);
        let opened = open_session(&self.sessions, &classes, title, film, Form::Ladder, requester);
        let too_long = || {
            SessionRefusal::TooLong(
                "this title is longer than what can be promised ahead, which is a day".to_owned(),
            )
        };
        let session = opened.ok_or_else(too_long)?.map_err(|refused| {
            self.counters.refused(&refused);
            if let OpenRefused::NotAdmitted(AdmitError::TooLong { .. }) = &refused {
                return SessionRefusal::TooLong(refused.to_string());
            }
            let retry_after_s = refused.retry_after_s();
            let refusal = match &refused {
                OpenRefused::NotAdmitted(AdmitError::Refused(refusal)) => Some(refusal.clone()),
                _ => None,
            };
            SessionRefusal::Refused { detail: refused.to_string(), retry_after_s, refusal }
        })?;
        Ok(SessionReport {
            key: session.key().to_string(),
            title: title.to_owned(),
            expires_in_s: self.sessions.idle_max_ns() / 1_000_000_000,
        })
    }

    fn list(&self) -> Vec<SessionReport> {
        let idle_max_ns = self.sessions.idle_max_ns();
        let report = |summary: reel_admit::SessionSummary| SessionReport {
            key: summary.key.to_string(),
            title: summary.title_id,
            expires_in_s: idle_max_ns.saturating_sub(summary.idle_ns) / 1_000_000_000,
        };
        self.sessions.list(now_ns()).into_iter().map(report).collect()
    }

    fn close(&self, key: &str) -> bool {
        key.parse().is_ok_and(|key| self.sessions.close(&key))
    }
}
