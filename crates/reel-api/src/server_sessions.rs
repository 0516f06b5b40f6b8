//! The sessions of a running server, as the control plane sees them: opened, listed and ended for
//! the API.

use crate::wire::{FileStretch, FileTimes};
use crate::{SessionRefusal, SessionReport, SessionService};
use reel_admit::{Client, Session, SessionClient, SessionSummary};
use reel_play::{Form, Playable, PlayableTitle, SessionRefused};
use reel_pour::Pours;
use reel_qos::Class;
use reel_rt::now_ns;
use reel_serve::{KeyOf, KeyUse, LIVE, Opener, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens, lists and ends sessions.
pub struct ServerSessions {
    /// Opens titles and sessions, and knows all sessions.
    pub opener: Opener,
    /// What programs pour.
    pub pours: Pours,
}

impl SessionService for ServerSessions {
    fn open(&self, id: &str, client: Client) -> Result<SessionReport, SessionRefusal> {
        let title = self.opener.title(id, reel_library::Form::Cmaf).map_err(refusal)?;
        let (client, now_ns) = (SessionClient::new(client, Class::PERIODIC), now_ns());
        let session = self.opener.session(id, title, Form::Ladder, client, now_ns).map_err(refusal)?.keep();
        Ok(self.report(session.summary(now_ns)))
    }

    fn open_poured(
        &self,
        name: &str,
        class: Option<&str>,
        client: Client,
    ) -> Result<SessionReport, SessionRefusal> {
        let now_ns = now_ns();
        let viewer = self.pours.view(name, now_ns);
        let viewer = viewer.ok_or_else(|| SessionRefusal::NoSuchTitle(format!("{LIVE}{name}")))?;
        let class = self.opener.class(class, client).map_err(refusal)?;
        let stream = (name, viewer.terms().bytes_per_s);
        let session = self.opener.poured_session(stream, SessionClient::new(client, class), now_ns);
        Ok(self.report(session.map_err(refusal)?.keep().summary(now_ns)))
    }

    fn file_times(&self, id: &str, form: reel_library::Form) -> Result<FileTimes, SessionRefusal> {
        let title = self.opener.title(id, form).map_err(refusal)?;
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
        self.opener.sessions().list(now_ns()).into_iter().map(|session| self.report(session)).collect()
    }

    fn one(&self, key: &str, client: Client) -> Result<SessionReport, SessionRefusal> {
        let now_ns = now_ns();
        Ok(self.report(self.of_key(key, client, now_ns)?.summary(now_ns)))
    }

    fn change_class(&self, key: &str, class: &str, client: Client) -> Result<SessionReport, SessionRefusal> {
        let now_ns = now_ns();
        let session = self.of_key(key, client, now_ns)?;
        match self.opener.change_class(&session, class, client, now_ns) {
            Ok(true) => Ok(self.report(session.summary(now_ns))),
            Ok(false) => Err(SessionRefusal::NoSuchSession),
            Err(refused) => Err(refusal(refused)),
        }
    }

    fn close(&self, key: &str, client: Client) -> Result<(), SessionRefusal> {
        let key = key.parse().map_err(|_| SessionRefusal::NoSuchSession)?;
        let (sessions, now_ns) = (self.opener.sessions(), now_ns());
        match (sessions.find(&key, now_ns), sessions.former(&key)) {
            (Some(session), _) => self.check(KeyOf::session(&session), client)?,
            (None, Some(former)) => self.check(KeyOf::former(&former), client)?,
            (None, None) => {}
        }
        sessions.close(&key).then_some(()).ok_or(SessionRefusal::NoSuchSession)
    }

    fn set_aside(&self) -> BTreeMap<String, String> {
        let reason = |title: String| (title.clone(), Refusal::SetAside { title }.to_string());
        self.opener.titles().all_set_aside().into_iter().map(reason).collect()
    }
}

impl ServerSessions {
    /// The session of a key. What the server sends of its own accord is no session of a client.
    fn of_key(
        &self,
        key: &str,
        client: Client,
        now_ns: u64,
    ) -> Result<Arc<Session<PlayableTitle>>, SessionRefusal> {
        let session = key.parse().ok().and_then(|key| self.opener.sessions().find(&key, now_ns));
        let session = session.filter(|session| session.client() != Client::Server);
        let session = session.ok_or(SessionRefusal::NoSuchSession)?;
        self.check(KeyOf::session(&session), client)?;
        Ok(session)
    }

    /// Whether a client may use a key.
    fn check(&self, key: KeyOf<'_>, client: Client) -> Result<(), SessionRefusal> {
        let used = KeyUse { title: None, class: None, client };
        self.opener.check_key(key, used).map_err(refusal)
    }

    fn report(&self, session: SessionSummary) -> SessionReport {
        let idle_max_ns = self.opener.sessions().idle_max_ns();
        SessionReport {
            key: session.key.to_string(),
            title: session.title_id,
            class: self.opener.class_name(session.class),
            expires_in_s: idle_max_ns.saturating_sub(session.idle_ns) / 1_000_000_000,
            starts_in_s: session.starts_in_ns.div_ceil(1_000_000_000),
        }
    }
}

/// What the API says of a refusal.
fn refusal(refusal: Refusal) -> SessionRefusal {
    let (detail, retry_after_s) = (refusal.to_string(), refusal.retry_after_s());
    match refusal {
        Refusal::NoSuchTitle { title } => SessionRefusal::NoSuchTitle(title),
        Refusal::TooManyMerged { .. } => {
            SessionRefusal::Refused { detail, retry_after_s, is_of_client: false, refusal: None }
        }
        Refusal::NoSuchForm { .. } => SessionRefusal::NoSuchForm(detail),
        Refusal::NoSuchClass { .. } => SessionRefusal::NoSuchClass(detail),
        Refusal::ClassOfOthers { .. } => SessionRefusal::ClassOfOthers(detail),
        Refusal::KeyOfClient | Refusal::KeyOfUser => SessionRefusal::KeyOfClient(detail),
        Refusal::Session(refused) if refused.is_too_long() => SessionRefusal::TooLong(detail),
        Refusal::Session(SessionRefused::Refused(refused)) => {
            let (is_of_client, refusal) = (refused.is_of_client(), refused.refusal().cloned());
            SessionRefusal::Refused { detail, retry_after_s, is_of_client, refusal }
        }
        _ => SessionRefusal::Failed(detail),
    }
}
