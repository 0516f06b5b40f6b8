//! The way from the name of a title to a session of it.

use crate::{Refusal, Titles};
use reel_admit::{FormerSession, OpenRefused, Session, SessionClient, Sessions};
use reel_cache::SessionKey;
use reel_disk::Disks;
use reel_library::LibraryError;
use reel_play::{Form, NewSession, PlayCounters, PlayableTitle, SessionRefused, open_session};
use reel_qos::Class;
use reel_rt::Workers;
use std::net::IpAddr;
use std::sync::Arc;

/// Opens titles and sessions for all front ends.
#[derive(Clone)]
pub struct Opener {
    titles: Arc<Titles>,
    sessions: Arc<Sessions<PlayableTitle>>,
    disks: Disks,
    counters: Arc<PlayCounters>,
}

impl Opener {
    /// Opens `titles` for `sessions` in the classes of `disks`.
    pub fn new(
        titles: Arc<Titles>,
        sessions: Arc<Sessions<PlayableTitle>>,
        disks: Disks,
        counters: Arc<PlayCounters>,
    ) -> Opener {
        Opener { titles, sessions, disks, counters }
    }

    /// All sessions.
    pub fn sessions(&self) -> &Arc<Sessions<PlayableTitle>> {
        &self.sessions
    }

    /// Opens a title. Waits for its index to be read from the disks.
    ///
    /// # Errors
    /// [`Refusal`] if there is no such title, or if it cannot be read.
    pub fn title(&self, id: &str) -> Result<Arc<PlayableTitle>, Refusal> {
        self.titles.open(id).map_err(|error| match error {
            LibraryError::NoSuchTitle { .. } => Refusal::NoSuchTitle { title: id.to_owned() },
            error => {
                tracing::error!(title = id, %error, "a title cannot be opened");
                Refusal::Unreadable { reason: error.to_string() }
            }
        })
    }

    /// The same for a thread that must not wait: one of the `workers` opens the title, and gives it
    /// to `reply`. An opener holds no workers, since they end when nothing holds them.
    ///
    /// # Errors
    /// [`Refusal::TooManyOpenings`] if too many titles wait to be opened. Then `reply` is not
    /// called.
    pub fn title_later(
        &self,
        workers: &Workers,
        id: String,
        reply: impl FnOnce(Result<Arc<PlayableTitle>, Refusal>) + Send + 'static,
    ) -> Result<(), Refusal> {
        let opener = self.clone();
        let is_taken = workers.run(move || reply(opener.title(&id)));
        if is_taken { Ok(()) } else { Err(Refusal::TooManyOpenings) }
    }

    /// The class of this name; the periodic class without one.
    ///
    /// # Errors
    /// [`Refusal::NoSuchClass`].
    pub fn class(&self, name: Option<&str>) -> Result<Class, Refusal> {
        let Some(name) = name else { return Ok(Class::PERIODIC) };
        let class = self.disks.classes().by_name(name);
        class.ok_or_else(|| Refusal::NoSuchClass { class: name.to_owned() })
    }

    /// Opens a session of a client on a title in a class. A refusal is counted.
    ///
    /// # Errors
    /// [`Refusal::Session`].
    pub fn session(
        &self,
        title_id: &str,
        title: Arc<PlayableTitle>,
        form: Form,
        client: SessionClient,
        now_ns: u64,
    ) -> Result<Arc<Session<PlayableTitle>>, Refusal> {
        let key = SessionKey::random().map_err(|error| self.refuse(OpenRefused::NoRandom(error).into()))?;
        self.open_as(NewSession { key, title_id, title, form, client }, now_ns)
    }

    /// The session of a key: the one that is open, or the one that ended because its client was
    /// silent for too long, opened again for `address`. `None` if there was no such session, or if
    /// the title has been replaced.
    ///
    /// # Errors
    /// [`Refusal::Session`].
    pub fn session_again(
        &self,
        key: &SessionKey,
        title: Arc<PlayableTitle>,
        form: Form,
        address: IpAddr,
        now_ns: u64,
    ) -> Result<Option<Arc<Session<PlayableTitle>>>, Refusal> {
        // Another request of the same player may have opened it meanwhile.
        if let Some(session) = self.sessions.touch(key, now_ns) {
            return Ok(Some(session));
        }
        let former = self.sessions.former(key).filter(|former| former.edition == title.title().stamp());
        let Some(FormerSession { title_id, class, .. }) = former else { return Ok(None) };
        let client = SessionClient::new(address, class);
        let new = NewSession { key: *key, title_id: &title_id, title, form, client };
        self.open_as(new, now_ns).map(Some)
    }

    fn open_as(
        &self,
        new: NewSession<'_, PlayableTitle>,
        now_ns: u64,
    ) -> Result<Arc<Session<PlayableTitle>>, Refusal> {
        let edition = new.title.title().stamp();
        let opened = open_session(&self.sessions, &self.disks.classes(), new, now_ns);
        let session = opened.map_err(|refused| self.refuse(refused))?;
        session.may_return_to(edition);
        Ok(session)
    }

    fn refuse(&self, refused: SessionRefused) -> Refusal {
        if let SessionRefused::Refused(refused) = &refused {
            self.counters.refused(refused);
        }
        Refusal::Session(refused)
    }
}
