//! The way from the name of a title to a session of it.

use crate::limits::OPENING_TIME_MAX_NS;
use crate::poured::LIVE;
use crate::{ClassRights, KeyOf, KeyUse, OpenedSession, Refusal, Titles};
use reel_admit::{
    Choices, Client, FormerSession, KeptSession, OpenRefused, Session, SessionClient, Sessions,
};
use reel_cache::SessionKey;
use reel_disk::Disks;
use reel_disk::limits::WAKE_MAX_NS;
use reel_library::{Form as StoredForm, LibraryError};
use reel_play::limits::POURED_ROUNDS;
use reel_play::{
    Form, NewSession, PlayCounters, Playable, PlayableTitle, SessionRefused, change_class, open_session,
    resume_session,
};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, Kind};
use reel_rt::{Workers, now_ns};
use reel_volume::WakeOccasion;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Opens titles and sessions for all front ends.
#[derive(Clone)]
pub struct Opener {
    titles: Arc<Titles>,
    sessions: Arc<Sessions<PlayableTitle>>,
    disks: Disks,
    counters: Arc<PlayCounters>,
    rights: Arc<ClassRights>,
    time_max_ns: u64,
    /// Whether the key of a session is for the client that opened it.
    binds_client: bool,
}

impl Opener {
    /// Opens `titles` for `sessions` in the classes of `disks`.
    pub fn new(
        titles: Arc<Titles>,
        sessions: Arc<Sessions<PlayableTitle>>,
        disks: Disks,
        counters: Arc<PlayCounters>,
    ) -> Opener {
        let rights = Arc::default();
        let time_max_ns = OPENING_TIME_MAX_NS;
        Opener { titles, sessions, disks, counters, rights, time_max_ns, binds_client: false }
    }

    /// The same opener, of whose classes clients may ask for those that these rights allow.
    #[must_use]
    pub fn with_rights(self, rights: ClassRights) -> Opener {
        Opener { rights: Arc::new(rights), ..self }
    }

    /// The same opener; the key of a session is then for the client that opened it, or for all that
    /// have it.
    #[must_use]
    pub fn binding_clients(self, binds_client: bool) -> Opener {
        Opener { binds_client, ..self }
    }

    /// Whether a key may be used so.
    ///
    /// # Errors
    /// As of [`KeyOf::allows`].
    pub fn check_key(&self, key: KeyOf<'_>, used: KeyUse<'_>) -> Result<(), Refusal> {
        key.allows(used, &self.disks.classes(), self.binds_client)
    }

    /// The same opener, whose clients wait for so long instead of [`OPENING_TIME_MAX_NS`].
    #[must_use]
    pub fn giving_up_after(self, time_max_ns: u64) -> Opener {
        Opener { time_max_ns, ..self }
    }

    /// How long a client waits for [`Opener::title_later`]. While disks may sleep, the time in
    /// which they spin up comes on top.
    pub fn time_max_ns(&self) -> u64 {
        let wake_ns = if self.titles.volume().may_sleep() { WAKE_MAX_NS } else { 0 };
        self.time_max_ns + wake_ns
    }

    /// All titles.
    pub fn titles(&self) -> &Arc<Titles> {
        &self.titles
    }

    /// All sessions.
    pub fn sessions(&self) -> &Arc<Sessions<PlayableTitle>> {
        &self.sessions
    }

    /// A thread has panicked while it worked on a title. If that sets the title aside, its sessions
    /// end.
    pub fn panicked(&self, id: &str) {
        self.titles.panicked(id);
        if self.titles.is_set_aside(id) {
            self.sessions.close_title(id);
        }
    }

    /// Opens a form of a title. Waits for its index to be read from the disks. Those that may sleep
    /// are woken together and waited for: a session that begins then finds them awake.
    ///
    /// # Errors
    /// [`Refusal`] if there is no such title or form, if it cannot be read, or if a thread panics
    /// on it.
    pub fn title(&self, id: &str, form: StoredForm) -> Result<Arc<PlayableTitle>, Refusal> {
        let title = || id.to_owned();
        if self.titles.is_set_aside(id) {
            return Err(Refusal::SetAside { title: title() });
        }
        self.titles.volume().wake(WakeOccasion::Open);
        // What is half done is dropped by the panic: a title is shared only when it is complete.
        let opened = catch_unwind(AssertUnwindSafe(|| self.titles.open(id, form))).map_err(|_| {
            self.panicked(id);
            Refusal::Panicked { title: title() }
        })?;
        if opened.is_ok() {
            self.titles.volume().await_awake();
        }
        opened.map_err(|error| match error {
            LibraryError::NoSuchTitle { id } => Refusal::NoSuchTitle { title: id },
            LibraryError::OnlyStream { .. }
            | LibraryError::NoStream { .. }
            | LibraryError::NotMerged { .. } => Refusal::NoSuchForm { reason: error.to_string() },
            LibraryError::TooManyMerged { .. } => Refusal::TooManyMerged { reason: error.to_string() },
            error => {
                tracing::error!(title = id, %error, "a title cannot be opened");
                Refusal::Unreadable { reason: error.to_string() }
            }
        })
    }

    /// The same for a thread that must not wait: one of the `workers` opens the title, and gives it
    /// to `reply`. An opener holds no workers, since they end when nothing holds them.
    ///
    /// A title whose turn comes too late is not opened, and `reply` is not called: the caller gives
    /// up after [`Opener::time_max_ns`].
    ///
    /// # Errors
    /// [`Refusal::TooManyOpenings`] if too many titles wait to be opened. Then `reply` is not
    /// called.
    pub fn title_later(
        &self,
        workers: &Workers,
        (id, form): (String, StoredForm),
        reply: impl FnOnce(Result<Arc<PlayableTitle>, Refusal>) + Send + 'static,
    ) -> Result<(), Refusal> {
        let opener = self.clone();
        let until_ns = now_ns().saturating_add(self.time_max_ns());
        let is_taken = workers.run(move || {
            if now_ns() < until_ns {
                reply(opener.title(&id, form));
            }
        });
        if is_taken { Ok(()) } else { Err(Refusal::TooManyOpenings) }
    }

    /// The class of this name for a client; the periodic class without one.
    ///
    /// # Errors
    /// [`Refusal::NoSuchClass`], [`Refusal::ClassOfOthers`].
    pub fn class(&self, name: Option<&str>, client: impl Into<Client>) -> Result<Class, Refusal> {
        let Some(name) = name else { return Ok(Class::PERIODIC) };
        let class = self.disks.classes().by_name(name);
        let class = class.ok_or_else(|| Refusal::NoSuchClass { class: name.to_owned() })?;
        if !self.rights.allow(name, client.into()) {
            return Err(Refusal::ClassOfOthers { class: name.to_owned() });
        }
        Ok(class)
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
    ) -> Result<OpenedSession, Refusal> {
        let key = SessionKey::random().map_err(|error| self.refuse(OpenRefused::NoRandom(error).into()))?;
        let session = self.open_as(NewSession { key, title_id, title, form, client }, now_ns)?;
        Ok(OpenedSession::new(&self.sessions, session))
    }

    /// Opens a session of a client on a stream of this rate that a program pours. It begins now: a
    /// stream waits for no viewer. What is reserved is released some seconds after its last
    /// response has ended. A refusal is counted.
    ///
    /// # Errors
    /// [`Refusal::Session`].
    pub fn poured_session(
        &self,
        (name, bytes_per_s): (&str, u64),
        client: SessionClient,
        now_ns: u64,
    ) -> Result<OpenedSession, Refusal> {
        let playing = self.titles.poured(name, bytes_per_s);
        let offers = playing.choices(Form::Stream).filter(|_| self.has_deadlines(client.class));
        let offers = offers.unwrap_or_else(Choices::none);
        let name = format!("{LIVE}{name}");
        let opened = self.sessions.open_pushed(&name, playing, offers, client, now_ns, now_ns);
        let session = opened.map_err(|refused| self.refuse(refused.into()))?;
        session.needs_answers();
        let session = OpenedSession::new(&self.sessions, session);
        self.continue_poured(&session, now_ns).map_err(|refused| self.refuse(refused.into()))?;
        Ok(session)
    }

    /// Opens a session of the program that pours a stream of this name and rate: what it writes
    /// costs the processors as much as what a viewer of it is sent. It begins now, and lasts until
    /// it is dropped, however long the program is silent, if it is touched. A refusal is counted.
    ///
    /// # Errors
    /// [`Refusal::Session`].
    pub fn writer_session(
        &self,
        (name, bytes_per_s): (&str, u64),
        client: SessionClient,
        now_ns: u64,
    ) -> Result<OpenedSession, Refusal> {
        let playing = self.titles.poured(name, bytes_per_s);
        let offers = playing.writer_choices().unwrap_or_else(Choices::none);
        let name = format!("{LIVE}{name}");
        let opened = self.sessions.open_pushed(&name, playing, offers, client, now_ns, now_ns);
        let session = opened.map_err(|refused| self.refuse(refused.into()))?;
        let session = OpenedSession::new(&self.sessions, session);
        self.continue_poured(&session, now_ns).map_err(|refused| self.refuse(refused.into()))?;
        Ok(session)
    }

    /// A session of a poured stream continues for [`POURED_ROUNDS`] from now on. One that finds no
    /// room for so long keeps what it has.
    ///
    /// # Errors
    /// The session has nothing, and there is no room.
    pub fn continue_poured(&self, session: &Session<PlayableTitle>, now_ns: u64) -> Result<(), OpenRefused> {
        if self.has_deadlines(session.class()) {
            self.sessions.push(session, 0..POURED_ROUNDS as u64 * ROUND_NS, now_ns)?;
        }
        Ok(())
    }

    /// Has a session continue in the class of this name, which `client` asks for. It is admitted
    /// there, and what it holds is given back, in one step. `false` if it has ended. A refusal is
    /// counted.
    ///
    /// # Errors
    /// As of [`Opener::class`], and [`Refusal::Session`]. Then the session has its old class and
    /// all that it held.
    pub fn change_class(
        &self,
        session: &Session<PlayableTitle>,
        name: &str,
        client: impl Into<Client>,
        now_ns: u64,
    ) -> Result<bool, Refusal> {
        let class = self.class(Some(name), client)?;
        let changed = change_class(&self.sessions, &self.disks.classes(), session, class, now_ns);
        let changed = changed.map_err(|refused| self.refuse(refused))?;
        if changed && session.playing().is_poured() {
            self.continue_poured(session, now_ns).map_err(|refused| self.refuse(refused.into()))?;
        }
        Ok(changed)
    }

    /// Whether what is sent in a class has deadlines.
    pub fn has_deadlines(&self, class: Class) -> bool {
        self.disks.classes().kind(class) == Kind::Periodic
    }

    /// The name of a class.
    pub fn class_name(&self, class: Class) -> String {
        self.disks.classes().spec(class).name.clone()
    }

    /// The session of a key: the one that is open, or the one that ended because its client was
    /// silent for too long, opened again for `client`. Its client knows the key, so it stays open
    /// whatever becomes of the request. `None` if there was no such session, or if the title has
    /// been replaced.
    ///
    /// # Errors
    /// [`Refusal::Session`].
    pub fn session_again(
        &self,
        key: &SessionKey,
        title: Arc<PlayableTitle>,
        form: Form,
        client: impl Into<Client>,
        now_ns: u64,
    ) -> Result<Option<Arc<Session<PlayableTitle>>>, Refusal> {
        // Another request of the same player may have opened it meanwhile.
        if let Some(session) = self.sessions.touch(key, now_ns) {
            return Ok(Some(session));
        }
        let former = self.sessions.former(key).filter(|former| former.edition == edition_of(&title));
        let Some(FormerSession { title_id, class, .. }) = former else { return Ok(None) };
        let client = SessionClient::new(client, class);
        let new = NewSession { key: *key, title_id: &title_id, title, form, client };
        self.open_as(new, now_ns).map(Some)
    }

    /// What another process needs to open the sessions again.
    pub fn kept(&self, now_ns: u64) -> Vec<KeptSession> {
        let is_file = |title: &PlayableTitle, choices: &Choices| {
            title.choices(Form::File).is_some_and(|file| Arc::ptr_eq(&file.demands, &choices.demands))
        };
        self.sessions.kept(is_file, now_ns)
    }

    /// Opens a session again that another process has kept, if its title is still the same. A
    /// session for which nothing was reserved, or for which there is no room, is opened when its
    /// client asks for it.
    ///
    /// # Errors
    /// As of [`Opener::title`], and [`Refusal::Session`].
    pub fn resume(&self, kept: KeptSession, now_ns: u64) -> Result<bool, Refusal> {
        self.sessions.remember(kept.clone());
        if kept.playing.is_none() {
            return Ok(false);
        }
        let title = self.title(&kept.former.title_id, form_of(&kept.former.edition))?;
        let edition = edition_of(&title);
        if edition != kept.former.edition {
            return Ok(false);
        }
        let resumed = resume_session(&self.sessions, &self.disks.classes(), &kept, title, now_ns);
        resumed.map_err(|refused| self.refuse(refused))?.may_return_to(edition);
        Ok(true)
    }

    fn open_as(
        &self,
        new: NewSession<'_, PlayableTitle>,
        now_ns: u64,
    ) -> Result<Arc<Session<PlayableTitle>>, Refusal> {
        let edition = edition_of(&new.title);
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

/// What the editions of titles begin with that are played as their transport streams.
const STREAM: &str = "ts:";

/// Names the form that is played, and its bytes. A session returns to the same edition.
fn edition_of(title: &PlayableTitle) -> String {
    let form = if title.is_stream() { STREAM } else { "" };
    format!("{form}{}", title.title().stamp())
}

/// The form of an edition. Ids of titles have no colon.
fn form_of(edition: &str) -> StoredForm {
    if edition.starts_with(STREAM) { StoredForm::Ts } else { StoredForm::Cmaf }
}
