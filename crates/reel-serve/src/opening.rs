//! The way from the name of a title to a session of it.

use crate::Refusal;
use reel_admit::{Session, Sessions};
use reel_disk::Disks;
use reel_library::LibraryError;
use reel_play::{Form, PlayCounters, PlayableTitle, SessionRefused, Titles, open_session};
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
    workers: Workers,
}

impl Opener {
    /// Opens `titles` on threads of `workers`, for `sessions` in the classes of `disks`.
    pub fn new(
        titles: Arc<Titles>,
        sessions: Arc<Sessions<PlayableTitle>>,
        disks: Disks,
        counters: Arc<PlayCounters>,
        workers: Workers,
    ) -> Opener {
        Opener { titles, sessions, disks, counters, workers }
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

    /// The same for a thread that must not wait: another one opens the title, and gives it to
    /// `reply`.
    ///
    /// # Errors
    /// [`Refusal::TooManyOpenings`] if too many titles wait to be opened. Then `reply` is not
    /// called.
    pub fn title_later(
        &self,
        id: String,
        reply: impl FnOnce(Result<Arc<PlayableTitle>, Refusal>) + Send + 'static,
    ) -> Result<(), Refusal> {
        let opener = self.clone();
        let is_taken = self.workers.run(move || reply(opener.title(&id)));
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
        title: (&str, Arc<PlayableTitle>),
        form: Form,
        requester: (IpAddr, Class),
        now_ns: u64,
    ) -> Result<Arc<Session<PlayableTitle>>, Refusal> {
        let classes = self.disks.classes();
        let opened = open_session(&self.sessions, &classes, title, form, requester, now_ns);
        opened.map_err(|refused| {
            if let SessionRefused::Refused(refused) = &refused {
                self.counters.refused(refused);
            }
            Refusal::Session(refused)
        })
    }
}
