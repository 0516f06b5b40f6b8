//! One stream: what may be done with it, and which bytes its reader gets when. Pure: the time is
//! an argument, and what the server says is told to it.

mod poured;

use crate::branches::{Branches, Progress};
use crate::command::seconds;
use crate::limits::{
    ANSWER_TIME, DEFAULT_CLASS, GATHER_TIME, LOOK_EVERY, PIECE_BYTES_MAX, PIECE_BYTES_MIN, SERVER_SILENCE_MAX,
};
use crate::media::{FileForm, MediaSession, OpenAs};
use crate::node::StreamFile;
use crate::outlets::OutletFacts;
use crate::pace::Pace;
use crate::poured::poured_name;
use crate::problem::Problem;
use crate::times::FileTimes;
use poured::Poured;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The user and the group of the process that made a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    owner: Owner,
    title: Option<Arc<str>>,
    class: Arc<str>,
    rate_bps: Option<u64>,
    position_ns: u64,
    state: State,
    /// Where the reader is, once it was started.
    place: Option<Place>,
    /// The form of the file in which that is.
    form: FileForm,
    /// The media time at which it was in a file of another form.
    resume_ns: Option<u64>,
    /// Where the server plays it, or has played it.
    branches: Branches,
    error: String,
    refusal: String,
    /// Sessions that are to be ended.
    left: Vec<Arc<MediaSession>>,
    /// Files of it that are open, and since when none is.
    open_files: u32,
    unused_since: Instant,
    has_reader: bool,
    waiting: Option<Waiting>,
    /// The number of the last piece that was asked for.
    asked: u64,
}

#[derive(Debug)]
enum State {
    New,
    Starting,
    Playing(Playing),
    /// A program pours it.
    Poured(Poured),
    /// The server plays it into its branches.
    Joined(Joined),
    Paused,
    /// All was read.
    Ended,
    /// The server does not admit it.
    Refused(Problem),
    /// Something else went wrong.
    Failed(Problem),
}

/// The next byte of the reader.
#[derive(Clone, Debug)]
struct Place {
    times: Arc<FileTimes>,
    byte: u64,
}

#[derive(Debug)]
struct Playing {
    session: Arc<MediaSession>,
    pace: Pace,
    /// Bytes from the place of the reader on.
    buffer: Vec<u8>,
    /// A piece was asked for and has not come.
    awaits_piece: bool,
    /// The class in which the server is asked to admit it instead.
    changes_to: Option<Arc<str>>,
}

#[derive(Debug)]
struct Joined {
    session: Arc<MediaSession>,
    /// When the server is to be asked next how far it is; `None` while it is asked.
    look_at: Option<Instant>,
    /// When the server last said how far it is.
    heard: Instant,
    /// The class that the server is asked to change it to.
    changes_to: Option<Arc<str>>,
}

/// A read of `data` that is not answered.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    bytes: usize,
    put: Instant,
}

/// What is to be asked of the server to start a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The title.
    pub title: Arc<str>,
    /// The form of its file.
    pub form: FileForm,
    /// The class.
    pub class: Arc<str>,
    /// The user whose stream it is.
    pub user: u32,
}

impl Wanted {
    /// How it is to be opened.
    pub fn as_of(&self) -> OpenAs<'_> {
        OpenAs { class: &self.class, user: self.user }
    }
}

/// What is to be asked of the server to change the class of a stream that plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassChange {
    /// Its session.
    pub session: Arc<MediaSession>,
    /// The class.
    pub class: Arc<str>,
}

/// A piece that is to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceWanted {
    /// Of this session.
    pub session: Arc<MediaSession>,
    /// These bytes of the file.
    pub range: Range<u64>,
    /// The number by which it is told ([`Stream::piece`]).
    pub number: u64,
}

/// What the server is to play into a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// This session.
    pub session: Arc<MediaSession>,
    /// As it was written.
    pub to: Arc<str>,
    /// From this byte of the file on; without one, from where it is.
    pub from_byte: Option<u64>,
    /// The branch.
    pub branch: usize,
    /// The outlet whose destination it is to replace; `None` for a further outlet.
    pub replaces: Option<u64>,
}

/// When the server is to be asked how far a stream is that it plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Now.
    Now(Arc<MediaSession>),
    /// At this time.
    At(Instant),
}

/// The answer to a read of `data`.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing was asked.
    Unasked,
    /// None yet; look again at this time.
    NotYet(Instant),
    /// These bytes.
    Bytes(Vec<u8>),
    /// The end of the file.
    End,
    /// The reader is to ask again, if no signal ends it (`EINTR`), or an error.
    Error(Errno),
}

impl Stream {
    /// A stream of a user, of which nothing is set.
    pub fn new(owner: Owner, now: Instant) -> Stream {
        Stream {
            owner,
            title: None,
            class: DEFAULT_CLASS.into(),
            rate_bps: None,
            position_ns: 0,
            state: State::New,
            place: None,
            form: FileForm::Mp4,
            resume_ns: None,
            branches: Branches::default(),
            error: String::new(),
            refusal: String::new(),
            left: Vec::new(),
            open_files: 0,
            unused_since: now,
            has_reader: false,
            waiting: None,
            asked: 0,
        }
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The value of one of its files.
    pub fn value(&self, file: StreamFile) -> String {
        match file {
            StreamFile::Title => self.title.as_deref().unwrap_or_default().to_owned(),
            StreamFile::Class => (*self.class).to_owned(),
            StreamFile::Rate if let State::Poured(poured) = &self.state => poured.rate_bps.to_string(),
            StreamFile::Position if self.is_poured() => String::new(),
            StreamFile::Rate => {
                let of_title = self.place.as_ref().map(|place| place.times.mean_bps());
                self.rate_bps.or(of_title).map(|rate_bps| rate_bps.to_string()).unwrap_or_default()
            }
            StreamFile::Position => seconds(self.position_ns()),
            StreamFile::State => self.word().to_owned(),
            StreamFile::Error => self.error.clone(),
            StreamFile::Refusal => self.refusal.clone(),
            StreamFile::OfBranch(branch, file) => self.branches.value(branch, file).unwrap_or_default(),
            StreamFile::Ctl | StreamFile::Data => String::new(),
        }
    }

    fn word(&self) -> &'static str {
        match &self.state {
            State::New => "new",
            State::Starting => "starting",
            State::Playing(_) | State::Poured(_) => "playing",
            State::Joined(_) => "joined",
            State::Paused => "paused",
            State::Ended => "ended",
            State::Refused(_) => "refused",
            State::Failed(_) => "failed",
        }
    }

    fn position_ns(&self) -> u64 {
        let resume_ns = self.resume_ns.unwrap_or(self.position_ns);
        self.place.as_ref().map_or(resume_ns, |place| place.times.at_ns(place.byte))
    }

    /// Whether settings can be written now.
    ///
    /// # Errors
    /// It was started.
    pub fn may_set(&self) -> Result<(), Problem> {
        match &self.state {
            State::New | State::Refused(_) | State::Failed(_) | State::Ended => Ok(()),
            _ => Err(Problem::busy(format!(
                "the stream is {}; settings are written before start",
                self.word()
            ))),
        }
    }

    /// Its title, if one is set.
    pub(crate) fn title(&self) -> Option<&Arc<str>> {
        self.title.as_ref()
    }

    /// Whether its title is the name of a poured stream.
    fn is_poured(&self) -> bool {
        self.title.as_deref().and_then(poured_name).is_some()
    }

    /// Sets the title, of which there is one, or the name of a poured stream.
    ///
    /// # Errors
    /// As [`Stream::may_set`].
    pub fn set_title(&mut self, title: Arc<str>) -> Result<(), Problem> {
        self.may_set()?;
        (self.title, self.place, self.resume_ns) = (Some(title), None, None);
        Ok(())
    }

    /// Sets the class, of which there is one. While the stream plays or is joined, the server is to
    /// admit its session in that class first. The caller asks, and says [`Stream::changed`]. Until
    /// then, and if it refuses, nothing changes.
    ///
    /// # Errors
    /// It is being started, or changed already.
    pub fn set_class(&mut self, class: Arc<str>) -> Result<Option<ClassChange>, Problem> {
        match &mut self.state {
            State::Playing(Playing { session, changes_to, .. })
            | State::Joined(Joined { session, changes_to, .. })
                if class != self.class =>
            {
                if changes_to.is_some() {
                    return Err(Problem::busy("the class is being changed"));
                }
                *changes_to = Some(class.clone());
                return Ok(Some(ClassChange { session: Arc::clone(session), class }));
            }
            State::Starting => return Err(Problem::busy("the stream is being started")),
            State::Poured(_) if class != self.class => {
                return Err(Problem::busy("a poured stream plays in its class to its end; `pause` it first"));
            }
            State::Playing(_) | State::Joined(_) | State::Poured(_) => {}
            _ => self.class = class,
        }
        Ok(None)
    }

    /// Sets the rate in bits per second.
    ///
    /// # Errors
    /// As [`Stream::may_set`].
    pub fn set_rate(&mut self, rate_bps: u64) -> Result<(), Problem> {
        self.may_set()?;
        self.rate_bps = Some(rate_bps);
        Ok(())
    }

    /// Sets the media time to begin with.
    ///
    /// # Errors
    /// As [`Stream::may_set`].
    pub fn set_position(&mut self, position_ns: u64) -> Result<(), Problem> {
        self.may_set()?;
        (self.position_ns, self.place, self.resume_ns) = (position_ns, None, None);
        Ok(())
    }

    /// Begins to start it. The caller asks the server, and says [`Stream::started`] or
    /// [`Stream::not_started`].
    ///
    /// # Errors
    /// It is started, or nothing says which title.
    pub fn start(&mut self) -> Result<Wanted, Problem> {
        self.start_as(FileForm::Mp4)
    }

    fn start_as(&mut self, form: FileForm) -> Result<Wanted, Problem> {
        match &self.state {
            State::Starting | State::Playing(_) | State::Poured(_) | State::Joined(_) => {
                return Err(Problem::busy(format!("the stream is {}", self.word())));
            }
            // From the beginning, as any file that is opened again.
            State::Ended => (self.place, self.resume_ns) = (None, None),
            State::New | State::Paused | State::Refused(_) | State::Failed(_) => {}
        }
        let title =
            self.title.clone().ok_or_else(|| Problem::invalid("write the id of a title to `title` first"))?;
        if form != self.form {
            // The same media time in the other file.
            self.resume_ns = self.place.take().map(|place| place.times.at_ns(place.byte)).or(self.resume_ns);
            self.form = form;
        }
        self.state = State::Starting;
        Ok(Wanted { title, form, class: self.class.clone(), user: self.owner.uid })
    }

    /// Whether the title can be started with what is set, before the server is asked to admit it.
    ///
    /// # Errors
    /// The position is behind the end, the rate is below that of the title, or the title is not the
    /// one that was begun.
    pub fn check(&self, times: &FileTimes) -> Result<(), Problem> {
        if self.place.as_ref().is_some_and(|place| *place.times != *times) {
            return Err(Problem::new(Errno::IO, "the title was replaced; write `title` or `position` again"));
        }
        if self.place.is_none() && self.position_ns() >= times.end_ns() {
            let end = seconds(times.end_ns());
            return Err(Problem::invalid(format!(
                "the position is behind the end, which is at {end} seconds"
            )));
        }
        let mean_bps = times.mean_bps();
        match self.rate_bps {
            Some(rate_bps) if rate_bps < mean_bps => Err(Problem::new(
                Errno::DQUOT,
                format!("the title has {mean_bps} bits per second, so {rate_bps} can never be in time"),
            )),
            _ => Ok(()),
        }
    }

    /// The server has changed the class of its session.
    ///
    /// # Errors
    /// The session was left meanwhile, so its class is that of no stream.
    pub fn changed(&mut self, change: &ClassChange) -> Result<(), Problem> {
        *self.changing(change)? = None;
        self.class = Arc::clone(&change.class);
        self.refusal.clear();
        Ok(())
    }

    /// The server has not. Its answer is given if it has refused that.
    pub fn not_changed(&mut self, change: &ClassChange, refusal: Option<&str>) {
        if let Ok(changes_to) = self.changing(change) {
            *changes_to = None;
            self.refusal = refusal.unwrap_or_default().to_owned();
        }
    }

    fn changing(&mut self, change: &ClassChange) -> Result<&mut Option<Arc<str>>, Problem> {
        let word = self.word();
        match &mut self.state {
            State::Playing(Playing { session, changes_to, .. })
            | State::Joined(Joined { session, changes_to, .. })
                if *session == change.session =>
            {
                Ok(changes_to)
            }
            _ => Err(Problem::busy(format!("the stream is {word} meanwhile"))),
        }
    }

    /// The server has admitted it.
    ///
    /// # Errors
    /// It was paused meanwhile, and the session is not needed.
    pub fn started(&mut self, session: MediaSession, times: FileTimes, now: Instant) -> Result<(), Problem> {
        let session = Arc::new(session);
        match &mut self.state {
            State::Starting => {
                let begin = times.stretch_at(self.position_ns());
                self.resume_ns = None;
                let place = self.place.get_or_insert_with(|| Place { times: Arc::new(times), byte: begin });
                let pace = Pace::new(place.byte, self.rate_bps, now);
                let buffer = Vec::new();
                let playing = Playing { session, pace, buffer, awaits_piece: false, changes_to: None };
                self.state = State::Playing(playing);
            }
            _ => {
                self.left.push(session);
                return Err(Problem::busy(format!("the stream is {} meanwhile", self.word())));
            }
        }
        self.refusal.clear();
        Ok(())
    }

    /// It was not started. The answer of the server is given if that has refused it.
    pub fn not_started(&mut self, problem: &Problem, refusal: Option<&str>) {
        if matches!(self.state, State::Starting) {
            self.stop(problem, refusal);
        }
    }

    /// It does not continue.
    fn stop(&mut self, problem: &Problem, refusal: Option<&str>) {
        self.leave();
        self.error.clone_from(&problem.text);
        self.refusal = refusal.unwrap_or_default().to_owned();
        self.state = match refusal {
            Some(_) => State::Refused(problem.clone()),
            None => State::Failed(problem.clone()),
        };
    }

    /// Ends its session, if it has one.
    fn leave(&mut self) {
        if let State::Playing(Playing { session, .. }) | State::Joined(Joined { session, .. }) = &self.state {
            self.left.push(Arc::clone(session));
        }
    }

    /// Pauses it: nothing is reserved for it until it is started again.
    ///
    /// # Errors
    /// It does not play.
    pub fn pause(&mut self) -> Result<(), Problem> {
        if !matches!(self.state, State::Playing(_) | State::Poured(_)) {
            return Err(Problem::busy(format!("the stream is {}, so it cannot be paused", self.word())));
        }
        self.leave();
        self.state = State::Paused;
        Ok(())
    }

    /// Goes to another media time.
    ///
    /// # Errors
    /// It was not started, or the title is shorter.
    pub fn seek(&mut self, position_ns: u64, now: Instant) -> Result<(), Problem> {
        if self.is_poured() {
            return Err(Problem::invalid("a poured stream plays where it is now, and has no other place"));
        }
        let word = self.word();
        let (State::Playing(_) | State::Paused, Some(place)) = (&self.state, &mut self.place) else {
            return Err(Problem::busy(format!("the stream is {word}; write `position` and start it")));
        };
        if position_ns >= place.times.end_ns() {
            let end = seconds(place.times.end_ns());
            return Err(Problem::invalid(format!("the title ends at {end} seconds")));
        }
        place.byte = place.times.stretch_at(position_ns);
        if let State::Playing(playing) = &mut self.state {
            playing.buffer.clear();
            playing.awaits_piece = false;
            playing.pace = Pace::new(place.byte, self.rate_bps, now);
        }
        // A piece that is under way is of another place.
        self.asked += 1;
        Ok(())
    }

    /// Whether it has to be started before it is joined to a destination. Returns what is wanted
    /// then.
    ///
    /// # Errors
    /// It is read, or as [`Stream::start`].
    pub fn start_to_join(&mut self, to: &str) -> Result<Option<Wanted>, Problem> {
        let form = FileForm::of_destination(to);
        match &self.state {
            _ if self.has_reader => Err(Problem::busy("`data` is open; a stream is either read or joined")),
            State::Poured(_) => {
                Err(Problem::busy("the stream was started to be read; `pause` it first, and join it then"))
            }
            State::Playing(playing) if playing.changes_to.is_some() => {
                Err(Problem::busy("the class is being changed"))
            }
            // What was begun as MP4 continues as a transport stream, or the other way round.
            State::Playing(_) if form != self.form => {
                self.pause()?;
                self.start_as(form).map(Some)
            }
            State::Playing(_) => Ok(None),
            State::Joined(_) => {
                Err(Problem::busy("the stream is joined; `split` makes a further branch of it"))
            }
            _ => self.start_as(form).map(Some),
        }
    }

    /// Begins to join it, which plays. The caller asks the server, and says [`Stream::joined`] or
    /// [`Stream::not_joined`].
    ///
    /// # Errors
    /// It does not play, or is read meanwhile.
    pub fn join(&mut self, to: &Arc<str>, now: Instant) -> Result<Joining, Problem> {
        let word = self.word();
        let (State::Playing(playing), Some(place), false) = (&self.state, &self.place, self.has_reader)
        else {
            return Err(Problem::busy(format!("the stream is {word} meanwhile")));
        };
        let (session, from_byte) = (Arc::clone(&playing.session), place.byte);
        self.begin_joined(session, (to, from_byte), now)
    }

    /// The first branch of a session that the server is to play.
    fn begin_joined(
        &mut self,
        session: Arc<MediaSession>,
        (to, from_byte): (&Arc<str>, u64),
        now: Instant,
    ) -> Result<Joining, Problem> {
        let mut branches = Branches::default();
        let branch = branches.split()?;
        let replaces = branches.goes_to(branch, to)?;
        self.branches = branches;
        // A piece that is under way is not needed.
        self.asked += 1;
        let look_at = Some(now + LOOK_EVERY);
        let joined = Joined { session: Arc::clone(&session), look_at, heard: now, changes_to: None };
        self.state = State::Joined(joined);
        Ok(Joining { session, to: Arc::clone(to), from_byte: Some(from_byte), branch, replaces })
    }

    /// Makes a further branch, whose destination is written then.
    ///
    /// # Errors
    /// It is not joined, or there are too many.
    pub fn split(&mut self) -> Result<(), Problem> {
        match &self.state {
            State::Joined(_) => self.branches.split().map(drop),
            _ => Err(Problem::busy(format!("the stream is {}; join it first", self.word()))),
        }
    }

    /// The destination of a branch is written. The caller asks the server, as for
    /// [`Stream::join`].
    ///
    /// # Errors
    /// It is not joined, or the branch has ended.
    pub fn join_branch(&mut self, branch: usize, to: &Arc<str>) -> Result<Joining, Problem> {
        let State::Joined(joined) = &self.state else {
            return Err(Problem::busy(format!("the stream is {}; join it first", self.word())));
        };
        let replaces = self.branches.goes_to(branch, to)?;
        let session = Arc::clone(&joined.session);
        Ok(Joining { session, to: Arc::clone(to), from_byte: None, branch, replaces })
    }

    /// The server plays it into a destination.
    pub fn joined(&mut self, joining: &Joining, facts: OutletFacts) {
        if self.is_in(&joining.session) {
            self.branches.has(joining.branch, Some(facts));
        }
    }

    /// The server does not. If it was to be the only one, the stream is paused.
    pub fn not_joined(&mut self, joining: &Joining, refusal: Option<&str>) {
        if !self.is_in(&joining.session) {
            return;
        }
        self.branches.has(joining.branch, None);
        self.refusal = refusal.unwrap_or_default().to_owned();
        if joining.from_byte.is_some() {
            self.leave();
            self.state = State::Paused;
        }
    }

    /// How many branches it has.
    pub fn branches(&self) -> usize {
        self.branches.len()
    }

    /// When the server is to be asked how far it is, if it plays it. The caller asks if that is
    /// now, and says [`Stream::outlets`] or [`Stream::no_outlets`].
    pub fn look(&mut self, now: Instant) -> Option<Look> {
        let State::Joined(joined) = &mut self.state else { return None };
        let at = joined.look_at?;
        if at > now {
            return Some(Look::At(at));
        }
        joined.look_at = None;
        Some(Look::Now(Arc::clone(&joined.session)))
    }

    /// The server has said how far it is.
    pub fn outlets(&mut self, session: &MediaSession, outlets: &[OutletFacts], now: Instant) {
        let State::Joined(joined) = &mut self.state else { return };
        if *joined.session != *session {
            return;
        }
        (joined.look_at, joined.heard) = (Some(now + LOOK_EVERY), now);
        self.branches.told(outlets);
        if let (Some(place), Some(byte)) = (&mut self.place, self.branches.byte()) {
            place.byte = byte.min(place.times.bytes());
        }
        match self.branches.progress() {
            Progress::Moving => {}
            Progress::Complete => {
                self.leave();
                (self.state, self.unused_since) = (State::Ended, now);
            }
            Progress::Ended(reason) => {
                self.unused_since = now;
                self.stop(&Problem::new(Errno::IO, reason), None);
            }
        }
    }

    /// The server has not said how far it is, or that its session is gone. After some time of
    /// silence the stream has failed, so that a script which waits for its end has one.
    pub fn no_outlets(&mut self, session: &MediaSession, problem: &Problem, now: Instant) {
        let State::Joined(joined) = &mut self.state else { return };
        if *joined.session != *session {
            return;
        }
        joined.look_at = Some(now + LOOK_EVERY);
        let is_silent = now.saturating_duration_since(joined.heard) >= SERVER_SILENCE_MAX;
        if problem.errno == Errno::NOENT || is_silent {
            self.unused_since = now;
            self.branches.lost(&problem.text);
            self.stop(problem, None);
        }
    }

    fn is_in(&self, session: &MediaSession) -> bool {
        matches!(&self.state, State::Joined(joined) if *joined.session == *session)
    }

    /// Notes how a write ended, for the file `error`.
    pub fn note(&mut self, result: &Result<(), Problem>) {
        self.error = result.as_ref().err().map(|problem| problem.text.clone()).unwrap_or_default();
    }

    /// The piece to ask for next, if there is room for it. The caller asks, and says
    /// [`Stream::piece`].
    pub fn wants_piece(&mut self) -> Option<PieceWanted> {
        let (State::Playing(playing), Some(place)) = (&mut self.state, &self.place) else { return None };
        let rate_bps = self.rate_bps.unwrap_or(0).max(place.times.mean_bps());
        let piece_bytes = (rate_bps / 8).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let from = place.byte + playing.buffer.len() as u64;
        let bytes = piece_bytes.min(place.times.bytes() - from);
        if playing.awaits_piece || bytes == 0 || playing.buffer.len() as u64 >= piece_bytes {
            return None;
        }
        playing.awaits_piece = true;
        self.asked += 1;
        let session = Arc::clone(&playing.session);
        Some(PieceWanted { session, range: from..from + bytes, number: self.asked })
    }

    /// A piece came.
    pub fn piece(&mut self, number: u64, bytes: &[u8]) {
        if let State::Playing(playing) = &mut self.state
            && number == self.asked
        {
            playing.buffer.extend_from_slice(bytes);
            playing.awaits_piece = false;
        }
    }

    /// A piece did not come. The answer of the server is given if that has refused it.
    pub fn no_piece(&mut self, number: u64, problem: &Problem, refusal: Option<&str>) {
        if matches!(self.state, State::Playing(_)) && number == self.asked {
            self.stop(problem, refusal);
        }
    }

    /// Its reader asks for so many bytes.
    ///
    /// # Errors
    /// Another read of it is not answered.
    pub fn read(&mut self, bytes: usize, now: Instant) -> Result<(), Problem> {
        if self.waiting.is_some() {
            return Err(Problem::busy("another read of this stream waits"));
        }
        if let (State::Playing(playing), Some(place)) = (&mut self.state, &self.place) {
            playing.pace.asked(&place.times, place.byte, now);
        }
        self.waiting = Some(Waiting { bytes, put: now });
        Ok(())
    }

    /// The answer to the read that waits, if there is one by now.
    pub fn answer(&mut self, now: Instant) -> Answer {
        let Some(waiting) = self.waiting else { return Answer::Unasked };
        let answer = self.answer_to(waiting, now);
        if !matches!(answer, Answer::NotYet(_)) {
            self.waiting = None;
        }
        answer
    }

    fn answer_to(&mut self, Waiting { bytes, put }: Waiting, now: Instant) -> Answer {
        let give_up = put + ANSWER_TIME;
        let not_yet = |at: Instant| match give_up <= now {
            true => Answer::Error(Errno::INTR),
            false => Answer::NotYet(at.min(give_up)),
        };
        if let State::Poured(poured) = &mut self.state {
            let gathers_until = poured.gathers_until(put);
            return match (poured.answer(bytes, put, now), poured.end()) {
                (Some(answer), _) => answer,
                (None, Some(how)) => {
                    self.poured_is_over(how);
                    self.answer_to(Waiting { bytes, put }, now)
                }
                (None, None) => not_yet(gathers_until.unwrap_or(give_up)),
            };
        }
        let (playing, place) = match (&mut self.state, &mut self.place) {
            (State::Playing(playing), Some(place)) => (playing, place),
            (State::Ended, _) => return Answer::End,
            (State::Refused(problem) | State::Failed(problem), _) => return Answer::Error(problem.errno),
            _ => return not_yet(give_up),
        };
        let left = usize::try_from(place.times.bytes() - place.byte).unwrap_or(usize::MAX);
        let wanted = bytes.min(left);
        let allowed = playing.pace.until(&place.times, now).saturating_sub(place.byte);
        let ready = playing.buffer.len().min(usize::try_from(allowed).unwrap_or(usize::MAX)).min(wanted);
        if ready == wanted || (ready > 0 && now >= put + GATHER_TIME) {
            let given: Vec<u8> = playing.buffer.drain(..ready).collect();
            place.byte += ready as u64;
            if place.byte == place.times.bytes() {
                self.leave();
                self.state = State::Ended;
            }
            return Answer::Bytes(given);
        }
        let when = |more: usize| playing.pace.when(&place.times, place.byte + more as u64);
        let all = (playing.buffer.len() >= wanted).then(|| when(wanted));
        let some = (!playing.buffer.is_empty()).then(|| when(1).max(put + GATHER_TIME));
        // Never at once: what is rounded would be looked at without end.
        let soonest = now + Duration::from_millis(1);
        not_yet(all.into_iter().chain(some).min().unwrap_or(give_up).max(soonest))
    }

    /// One of its files is opened.
    pub fn opened(&mut self) {
        self.open_files += 1;
    }

    /// One of its files is closed.
    pub fn closed(&mut self, now: Instant) {
        self.open_files = self.open_files.saturating_sub(1);
        self.unused_since = now;
    }

    /// `data` is opened, by one reader at a time. Returns what is to be started, if it does not
    /// play.
    ///
    /// # Errors
    /// There is a reader, or as [`Stream::start`].
    pub fn open_data(&mut self) -> Result<Option<Wanted>, Problem> {
        if self.has_reader {
            return Err(Problem::busy("`data` is open; a stream has one reader"));
        }
        let wanted = match self.state {
            State::Playing(_) if self.form != FileForm::Mp4 => {
                return Err(Problem::busy("the stream is being joined"));
            }
            State::Playing(_) | State::Poured(_) => None,
            _ => Some(self.start()?),
        };
        self.has_reader = true;
        Ok(wanted)
    }

    /// Its reader is gone: nothing needs to be reserved.
    pub fn close_data(&mut self) {
        (self.has_reader, self.waiting) = (false, None);
        // What is being started for it is paused, too, or it waits for the next reader.
        let _ = self.pause();
    }

    /// When no file of it has been open for so long; `None` while one is, or the server plays it.
    pub fn unused_since(&self) -> Option<Instant> {
        let is_used = self.open_files > 0 || matches!(self.state, State::Joined(_));
        (!is_used).then_some(self.unused_since)
    }

    /// Sessions that are to be ended.
    pub fn take_left(&mut self) -> Vec<Arc<MediaSession>> {
        std::mem::take(&mut self.left)
    }

    /// It is closed. Returns the sessions that are to be ended.
    pub fn close(mut self) -> Vec<Arc<MediaSession>> {
        self.leave();
        self.left
    }
}
