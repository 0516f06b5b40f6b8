//! The sessions of a running server, as the control plane sees them: opened, listed and ended for
//! the API.

use crate::wire::{FileStretch, FileTimes};
use crate::{SessionRefusal, SessionReport, SessionService};
use reel_admit::SessionClient;
use reel_play::{Form, Playable, SessionRefused};
use reel_qos::Class;
use reel_rt::now_ns;
use reel_serve::{Opener, Refusal};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Opens, lists and ends sessions.
pub struct ServerSessions {
    /// Opens titles and sessions, and knows all sessions.
    pub opener: Opener,
}

impl SessionService for ServerSessions {
    fn open(&self, id: &str, client: IpAddr) -> Result<SessionReport, SessionRefusal> {
        let title = self.opener.title(id, reel_library::Form::Cmaf).map_err(refusal)?;
        let (client, now_ns) = (SessionClient::new(client, Class::PERIODIC), now_ns());
        let session = self.opener.session(id, title, Form::Ladder, client, now_ns).map_err(refusal)?.keep();
        Ok(SessionReport {
            key: session.key().to_string(),
            title: id.to_owned(),
            expires_in_s: self.opener.sessions().idle_max_ns() / 1_000_000_000,
            starts_in_s: (session.start_ns(now_ns) - now_ns).div_ceil(1_000_000_000),
        })
    }

    fn file_times(&self, id: &str) -> Result<FileTimes, SessionRefusal> {
        let title = self.opener.title(id, reel_library::Form::Cmaf).map_err(refusal)?;
        let file = title
            .file()
            .ok_or_else(|| SessionRefusal::Failed(format!("the title {id:?} is not played as one file")))?;
        let stretch = |(byte, at_ns): &(u64, u64)| FileStretch { byte: *byte, at_ns: *at_ns };
        Ok(FileTimes {
            bytes: file.body.bytes(),
            duration_ns: title.duration_ns(),
            stretches: file.times.iter().map(stretch).collect(),
        })
    }

    fn opening_time_max_ns(&self) -> u64 {
        self.opener.time_max_ns()
    }

    fn list(&self) -> Vec<SessionReport> {
        let idle_max_ns = self.opener.sessions().idle_max_ns();
        let report = |summary: reel_admit::SessionSummary| SessionReport {
            key: summary.key.to_string(),
            title: summary.title_id,
            expires_in_s: idle_max_ns.saturating_sub(summary.idle_ns) / 1_000_000_000,
            starts_in_s: summary.starts_in_ns.div_ceil(1_000_000_000),
        };
        self.opener.sessions().list(now_ns()).into_iter().map(report).collect()
    }

    fn close(&self, key: &str) -> bool {
        key.parse().is_ok_and(|key| self.opener.sessions().close(&key))
    }

    fn set_aside(&self) -> BTreeMap<String, String> {
        let reason = |title: String| (title.clone(), Refusal::SetAside { title }.to_string());
        self.opener.titles().all_set_aside().into_iter().map(reason).collect()
    }
}

/// What the API says of a refusal.
fn refusal(refusal: Refusal) -> SessionRefusal {
    let (detail, retry_after_s) = (refusal.to_string(), refusal.retry_after_s());
    match refusal {
        Refusal::NoSuchTitle { .. } => SessionRefusal::NoSuchTitle,
        Refusal::Session(refused) if refused.is_too_long() => SessionRefusal::TooLong(detail),
        Refusal::Session(SessionRefused::Refused(refused)) => {
            let (is_of_client, refusal) = (refused.is_of_client(), refused.refusal().cloned());
            SessionRefusal::Refused { detail, retry_after_s, is_of_client, refusal }
        }
        _ => SessionRefusal::Failed(detail),
    }
}
