//! The sessions of a running server, as the control plane sees them: opened, listed and ended for
//! the API.

use crate::{SessionRefusal, SessionReport, SessionService};
use reel_admit::OpenRefused;
use reel_disk::Disks;
use reel_library::LibraryError;
use reel_play::{Form, PlayCounters, PlayableTitle, SessionRefused, Titles, open_session};
use reel_qos::{AdmitError, Class};
use reel_rt::now_ns;
use std::net::IpAddr;
use std::sync::Arc;

/// Opens, lists and ends sessions.
pub struct ServerSessions {
    /// All sessions.
    pub sessions: Arc<reel_admit::Sessions<PlayableTitle>>,
    /// The titles that can be opened.
    pub titles: Arc<Titles>,
    /// The disks, for the classes.
    pub disks: Disks,
    /// What all engines count.
    pub counters: Arc<PlayCounters>,
}

impl SessionService for ServerSessions {
    fn open(&self, id: &str, client: IpAddr) -> Result<SessionReport, SessionRefusal> {
        let title = self.titles.open(id).map_err(|error| match error {
            LibraryError::NoSuchTitle { .. } => SessionRefusal::NoSuchTitle,
            other => SessionRefusal::Failed(other.to_string()),
        })?;
        let classes = self.disks.classes();
        let (requester, now_ns) = ((client, Class::PERIODIC), now_ns());
        let opened = open_session(&self.sessions, &classes, (id, title), Form::Ladder, requester, now_ns);
        let session = opened.map_err(|refused| {
            if let SessionRefused::Refused(refused) = &refused {
                self.counters.refused(refused);
            }
            refusal(&refused)
        })?;
        Ok(SessionReport {
            key: session.key().to_string(),
            title: id.to_owned(),
            expires_in_s: self.sessions.idle_max_ns() / 1_000_000_000,
            starts_in_s: (session.start_ns(now_ns) - now_ns).div_ceil(1_000_000_000),
        })
    }

    fn list(&self) -> Vec<SessionReport> {
        let idle_max_ns = self.sessions.idle_max_ns();
        let report = |summary: reel_admit::SessionSummary| SessionReport {
            key: summary.key.to_string(),
            title: summary.title_id,
            expires_in_s: idle_max_ns.saturating_sub(summary.idle_ns) / 1_000_000_000,
            starts_in_s: summary.starts_in_ns.div_ceil(1_000_000_000),
        };
        self.sessions.list(now_ns()).into_iter().map(report).collect()
    }

    fn close(&self, key: &str) -> bool {
        key.parse().is_ok_and(|key| self.sessions.close(&key))
    }
}

/// What the API says of a refusal.
fn refusal(refused: &SessionRefused) -> SessionRefusal {
    let (detail, is_too_long) = (refused.to_string(), refused.is_too_long());
    match refused {
        SessionRefused::Refused(refused) if !is_too_long => {
            let refusal = match refused {
                OpenRefused::NotAdmitted(AdmitError::Refused(refusal)) => Some(refusal.clone()),
                _ => None,
            };
            SessionRefusal::Refused { detail, retry_after_s: refused.retry_after_s(), refusal }
        }
        _ => SessionRefusal::TooLong(detail),
    }
}
