//! Streams that are controlled as files: what the kernel and the server say is told to the
//! [`StreamTable`], and what it wants is done.

mod poured;

use crate::asking::{Asking, Turn};
use crate::command::{self, Command};
use crate::limits::{END_TIME, PIECE_THREADS, PIECE_TIME};
use crate::line::one_line;
use crate::media::{FileForm, Media, MediaSession, NotOpened, Refused};
use crate::merged::is_merged;
use crate::node::{BranchFile, Group, Node, StreamFile};
use crate::poured::poured_name;
use crate::problem::Problem;
use crate::server::{AskError, Server};
use crate::stream::{Answer, ClassChange, Joining, Look, Owner, PieceWanted, Stream, Wanted};
use crate::stream_table::StreamTable;
use crate::times::FileTimes;
use crate::tree::{Tree, TreeError};
use fuser::{Errno, ReplyData};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The streams of a mount. Nothing here waits for the server but what has a [`Turn`].
pub(crate) struct Streaming<S> {
    server: Arc<S>,
    held: Mutex<Held>,
    /// A read, a piece or a change has come.
    changed: Condvar,
    /// A stream was looked at: the reader of a poured one may have room for more.
    looked_at: Condvar,
    pieces: Asking,
}

#[derive(Default)]
struct Held {
    table: StreamTable,
    /// Reads of `data` that are not answered, by stream.
    reads: HashMap<u64, ReplyData>,
    has_ended: bool,
}

impl<S: Server + Media> Streaming<S> {
    /// No streams, and the threads that serve them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(server: Arc<S>) -> io::Result<Arc<Streaming<S>>> {
        let pieces = Asking::start("reel-piece", PIECE_THREADS, PIECE_TIME)?;
        let (changed, looked_at) = (Condvar::new(), Condvar::new());
        let streaming = Arc::new(Streaming { server, held: Mutex::default(), changed, looked_at, pieces });
        let clock = Arc::clone(&streaming);
        thread::Builder::new().name("reel-clock".to_owned()).spawn(move || clock.run())?;
        Ok(streaming)
    }

    /// Closes all streams, and ends their sessions. There are none after that.
    pub(crate) fn end(&self) {
        let left = {
            let mut held = self.held();
            held.has_ended = true;
            for number in held.table.numbers() {
                // It is there: the table is held.
                let _ = held.table.close(number);
            }
            held.reads.drain().for_each(|(_, read)| read.error(Errno::ENOTCONN));
            held.table.take_left()
        };
        self.changed.notify_all();
        let until = Instant::now() + END_TIME;
        left.iter().for_each(|session| self.end_session(session, until));
    }

    /// Makes a stream, and returns its number.
    pub(crate) fn add(&self, owner: Owner) -> Result<u64, Problem> {
        let mut held = self.held();
        match held.has_ended {
            true => Err(Problem::gone()),
            false => held.table.add(owner, Instant::now()),
        }
    }

    /// The numbers of all streams.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.held().table.numbers()
    }

    /// Whose a stream is; `None` if there is none.
    pub(crate) fn owner(&self, number: u64) -> Option<Owner> {
        self.held().table.stream(number).ok().map(|stream| stream.owner())
    }

    /// How many branches a stream has; `None` if there is no such stream.
    pub(crate) fn branches(&self, number: u64) -> Option<usize> {
        self.held().table.stream(number).ok().map(|stream| stream.branches())
    }

    /// One of the files of a stream is opened; its text.
    pub(crate) fn open(&self, number: u64, file: StreamFile) -> Result<String, Problem> {
        let mut held = self.held();
        let stream = held.table.stream(number)?;
        stream.opened();
        Ok(one_line(&stream.value(file)))
    }

    /// `data` is opened. The stream is started if it does not play.
    pub(crate) fn open_data(self: &Arc<Self>, number: u64, turn: Turn) -> Result<(), Problem> {
        let wanted = {
            let mut held = self.held();
            let stream = held.table.stream(number)?;
            let wanted = stream.open_data();
            stream.note(&wanted.as_ref().map(drop).map_err(Problem::clone));
            stream.opened();
            wanted.inspect_err(|_| stream.closed(turn.put))?
        };
        let started = wanted.map_or(Ok(()), |wanted| self.admit(number, &wanted, turn));
        if started.is_err() {
            self.close(number, StreamFile::Data, false);
        }
        started
    }

    /// One of the files of a stream is closed.
    pub(crate) fn closed(&self, number: u64, file: StreamFile) {
        self.close(number, file, true);
    }

    fn close(&self, number: u64, file: StreamFile, was_reader: bool) {
        let mut held = self.held();
        if let Ok(stream) = held.table.stream(number) {
            stream.closed(Instant::now());
            if file == StreamFile::Data {
                stream.close_data();
            }
        }
        if was_reader
            && file == StreamFile::Data
            && let Some(read) = held.reads.remove(&number)
        {
            read.error(Errno::EBADF);
        }
        drop(held);
        self.changed.notify_all();
    }

    /// A line was written to a file of a stream.
    pub(crate) fn write<T: Server>(
        self: &Arc<Self>,
        (number, file): (u64, StreamFile),
        written: &[u8],
        tree: &Tree<T>,
        turn: Turn,
    ) -> Result<(), Problem> {
        let done = command::line_of(written).and_then(|line| self.do_line((number, file), line, tree, turn));
        if let Ok(stream) = self.held().table.stream(number) {
            stream.note(&done);
        }
        self.changed.notify_all();
        done
    }

    fn do_line<T: Server>(
        self: &Arc<Self>,
        (number, file): (u64, StreamFile),
        line: &str,
        tree: &Tree<T>,
        turn: Turn,
    ) -> Result<(), Problem> {
        let there_is = |group, name: &str| match tree.lookup(&Node::Group(group), name, turn.put, turn.until)
        {
            Ok(_) => Ok(true),
            Err(TreeError::Asked(error)) => Err(of_ask(&error)),
            Err(_) => Ok(false),
        };
        match file {
            StreamFile::Title => {
                let title = command::title(line)?;
                self.held().table.stream(number)?.may_set()?;
                if is_merged(&title) {
                    return self.set_merged(number, title, turn);
                }
                if let Some(name) = poured_name(&title) {
                    self.poured_bps(name, turn)?;
                    return self.held().table.stream(number)?.set_title(title);
                }
                if !there_is(Group::Titles, &title)? {
                    return Err(no_title(&title));
                }
                self.held().table.stream(number)?.set_title(title)
            }
            StreamFile::Class => {
                let class = command::class(line)?;
                if !there_is(Group::Classes, &class)? {
                    return Err(Problem::invalid(format!("there is no class {class:?}")));
                }
                let wanted = self.held().table.stream(number)?.set_class(class)?;
                wanted.map_or(Ok(()), |change| self.change_class(number, &change, turn))
            }
            StreamFile::Rate => self.held().table.stream(number)?.set_rate(command::rate_bps(line)?),
            StreamFile::Position => {
                self.held().table.stream(number)?.set_position(command::position_ns(line)?)
            }
            StreamFile::Ctl => self.command(number, Command::parse(line)?, turn),
            StreamFile::OfBranch(branch, BranchFile::Dest) => {
                let joining = self.held().table.stream(number)?.join_branch(branch, &line.into())?;
                self.join(number, &joining, turn)
            }
            StreamFile::State
            | StreamFile::Error
            | StreamFile::Refusal
            | StreamFile::Data
            | StreamFile::OfBranch(..) => {
                Err(Problem::new(rustix::io::Errno::ACCESS, "it cannot be written"))
            }
        }
    }

    fn command(self: &Arc<Self>, number: u64, command: Command, turn: Turn) -> Result<(), Problem> {
        match command {
            Command::Start => {
                let wanted = self.held().table.stream(number)?.start()?;
                self.admit(number, &wanted, turn)
            }
            Command::Pause => self.held().table.stream(number)?.pause(),
            Command::Seek(position_ns) => self.held().table.stream(number)?.seek(position_ns, turn.put),
            Command::Join(to) => {
                let (wanted, left) = {
                    let mut held = self.held();
                    let stream = held.table.stream(number)?;
                    (stream.start_to_join(&to)?, stream.take_left())
                };
                // What it had in another form is not reserved beside what it needs now.
                left.iter().for_each(|session| self.end_session(session, turn.until));
                if let Some(wanted) = wanted.as_ref().filter(|wanted| poured_name(&wanted.title).is_some()) {
                    return self.join_poured(number, wanted, &to, turn);
                }
                wanted.map_or(Ok(()), |wanted| self.admit(number, &wanted, turn))?;
                let joining = self.held().table.stream(number)?.join(&to, turn.put)?;
                self.join(number, &joining, turn)
            }
            Command::Merge(with) => {
                let title = self.held().table.merged_title(number, with)?;
                self.set_merged(number, title, turn)
            }
            Command::Split => self.held().table.stream(number)?.split(),
            Command::Close => {
                let mut held = self.held();
                held.table.close(number)?;
                if let Some(read) = held.reads.remove(&number) {
                    read.error(Errno::ENOENT);
                }
                Ok(())
            }
        }
    }

    /// Sets a merged title, if the server can play it.
    fn set_merged(&self, number: u64, title: Arc<str>, turn: Turn) -> Result<(), Problem> {
        self.server.file_times(&title, FileForm::Mp4, turn.until).map_err(|error| why_not(error).0)?;
        self.held().table.stream(number)?.set_title(title)
    }

    /// Has the server admit what is wanted, and tells the stream.
    fn admit(self: &Arc<Self>, number: u64, wanted: &Wanted, turn: Turn) -> Result<(), Problem> {
        if let Some(name) = poured_name(&wanted.title) {
            return self.admit_poured(number, (name, wanted.as_of()), turn);
        }
        let admitted = self.ask_to_admit(number, wanted, turn.until);
        self.tell(
            number,
            admitted,
            |stream, (session, times)| stream.started(session, times, Instant::now()),
            |table, (session, _)| table.leave(session),
        )
    }

    /// Tells a stream what became of what was asked for it. What it was given goes to `left` if it
    /// was closed meanwhile.
    fn tell<A, T>(
        &self,
        number: u64,
        admitted: Result<A, (Problem, Option<String>)>,
        begin: impl FnOnce(&mut Stream, A) -> Result<T, Problem>,
        left: impl FnOnce(&mut StreamTable, A),
    ) -> Result<T, Problem> {
        let mut held = self.held();
        let told = match (admitted, held.table.stream(number)) {
            (Ok(admitted), Ok(stream)) => begin(stream, admitted),
            (Ok(admitted), Err(gone)) => {
                left(&mut held.table, admitted);
                Err(gone)
            }
            (Err((problem, refusal)), stream) => {
                if let Ok(stream) = stream {
                    stream.not_started(&problem, refusal.as_deref());
                }
                Err(problem)
            }
        };
        drop(held);
        self.changed.notify_all();
        told
    }

    /// The session and the times of what is wanted, or why there is none, with the answer of the
    /// server that has refused it.
    fn ask_to_admit(
        &self,
        number: u64,
        wanted: &Wanted,
        until: Instant,
    ) -> Result<(MediaSession, FileTimes), (Problem, Option<String>)> {
        let times = self.server.file_times(&wanted.title, wanted.form, until);
        let times = times.map_err(|error| (why_not(error).0, None))?;
        let checked = self.held().table.stream(number).and_then(|stream| stream.check(&times));
        checked.map_err(|problem| (problem, None))?;
        match self.server.open(&wanted.title, wanted.form, wanted.as_of(), until) {
            Ok(session) => Ok((session, times)),
            Err(not_opened) => Err(why_not(not_opened)),
        }
    }

    /// Has the server change the class of the session of a stream, and tells the stream.
    fn change_class(&self, number: u64, change: &ClassChange, turn: Turn) -> Result<(), Problem> {
        let changed = self.server.change_class(&change.session, &change.class, turn.until).map_err(why_not);
        let mut held = self.held();
        let stream = held.table.stream(number)?;
        match changed {
            Ok(()) => stream.changed(change),
            Err((problem, refusal)) => {
                stream.not_changed(change, refusal.as_deref());
                Err(problem)
            }
        }
    }

    /// Has the server play a stream into a destination, and tells the stream.
    fn join(&self, number: u64, joining: &Joining, turn: Turn) -> Result<(), Problem> {
        let Joining { session, to, from_byte, replaces, .. } = joining;
        let joined = match replaces {
            None => self.server.join(session, to, *from_byte, turn.until),
            Some(outlet) => self.server.replace(session, *outlet, to, turn.until),
        };
        let joined = joined.map_err(why_not_joined);
        let mut held = self.held();
        let stream = held.table.stream(number)?;
        match joined {
            Ok(facts) => {
                stream.joined(joining, facts);
                Ok(())
            }
            Err((problem, refusal)) => {
                stream.not_joined(joining, refusal.as_deref());
                Err(problem)
            }
        }
    }

    /// `data` is read.
    pub(crate) fn read(&self, number: u64, bytes: u32, reply: ReplyData) {
        let mut held = self.held();
        let asked = held.table.stream(number).and_then(|stream| stream.read(bytes as usize, Instant::now()));
        match asked {
            Ok(()) => drop(held.reads.insert(number, reply)),
            Err(problem) => reply.error(errno(&problem)),
        }
        drop(held);
        self.changed.notify_all();
    }

    /// Serves the streams until they end.
    fn run(self: Arc<Self>) {
        let mut held = self.held();
        while !held.has_ended {
            let now = Instant::now();
            let next = held.answer_reads(now).into_iter().chain(held.table.close_unused(now)).min();
            self.looked_at.notify_all();
            let (looks, look_at) = held.looks(now);
            let next = next.into_iter().chain(look_at).min();
            let pieces = held.pieces();
            let left = held.table.take_left();
            if pieces.is_empty() && left.is_empty() && looks.is_empty() {
                // Anything may be looked at once a minute.
                let wait = next.map_or(Duration::from_secs(60), |next| next.saturating_duration_since(now));
                held = self.changed.wait_timeout(held, wait).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(held);
            pieces.into_iter().for_each(|(number, piece)| self.ask_for(number, piece));
            left.into_iter().for_each(|session| self.leave(session));
            looks.into_iter().for_each(|(number, session)| self.look(number, session));
            held = self.held();
        }
        drop(held);
        self.looked_at.notify_all();
    }

    /// Has a thread ask for a piece.
    fn ask_for(self: &Arc<Self>, number: u64, wanted: PieceWanted) {
        let streaming = Arc::clone(self);
        self.pieces.put(move |turn| {
            let PieceWanted { session, range, number: piece } = wanted;
            let come = match turn {
                Some(turn) => streaming.server.piece(&session, range, turn.until).map_err(why_not),
                None => Err((Problem::new(rustix::io::Errno::AGAIN, "too many streams wait"), None)),
            };
            if let Ok(stream) = streaming.held().table.stream(number) {
                match come {
                    Ok(bytes) => stream.piece(piece, &bytes),
                    Err((problem, refusal)) => stream.no_piece(piece, &problem, refusal.as_deref()),
                }
            }
            streaming.changed.notify_all();
        });
    }

    /// Has a thread ask how far a stream is that the server plays.
    fn look(self: &Arc<Self>, number: u64, session: Arc<MediaSession>) {
        let streaming = Arc::clone(self);
        self.pieces.put(move |turn| {
            let told = match turn {
                Some(turn) => streaming.server.outlets(&session, turn.until).map_err(why_not_joined),
                None => Err((Problem::new(rustix::io::Errno::AGAIN, "too many streams wait"), None)),
            };
            if let Ok(stream) = streaming.held().table.stream(number) {
                match told {
                    Ok(outlets) => stream.outlets(&session, &outlets, Instant::now()),
                    Err((problem, _)) => stream.no_outlets(&session, &problem, Instant::now()),
                }
            }
            streaming.changed.notify_all();
        });
    }

    /// Has a thread end a session.
    fn leave(self: &Arc<Self>, session: Arc<MediaSession>) {
        let streaming = Arc::clone(self);
        self.pieces.put(move |turn| {
            if let Some(turn) = turn {
                streaming.end_session(&session, turn.until);
            }
        });
    }

    /// Ends a session. One that cannot be ended now ends when the server has heard nothing of it.
    fn end_session(&self, session: &MediaSession, until: Instant) {
        if let Err(error) = self.server.end(session, until) {
            tracing::debug!(%error, "a session is left to end by itself");
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Answers reads of `data` that can be answered. Returns when to look again.
    fn answer_reads(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let waiting: Vec<u64> = self.reads.keys().copied().collect();
        for number in waiting {
            let answer = match self.table.stream(number) {
                Ok(stream) => stream.answer(now),
                Err(problem) => Answer::Error(problem.errno),
            };
            if let Answer::NotYet(at) = answer {
                next = Some(next.map_or(at, |next| next.min(at)));
                continue;
            }
            let Some(reply) = self.reads.remove(&number) else { continue };
            match answer {
                Answer::Bytes(bytes) => reply.data(&bytes),
                Answer::End => reply.data(&[]),
                Answer::Error(error) => reply.error(Errno::from_i32(error.raw_os_error())),
                Answer::Unasked | Answer::NotYet(_) => reply.error(Errno::EIO),
            }
        }
        next
    }

    /// Streams of which the server is asked now how far they are, and when to ask for the next one.
    fn looks(&mut self, now: Instant) -> (Vec<(u64, Arc<MediaSession>)>, Option<Instant>) {
        let (mut looks, mut next) = (Vec::new(), None::<Instant>);
        for number in self.table.numbers() {
            match self.table.stream(number).ok().and_then(|stream| stream.look(now)) {
                Some(Look::Now(session)) => looks.push((number, session)),
                Some(Look::At(at)) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        (looks, next)
    }

    /// Pieces that are to be asked for, by stream.
    fn pieces(&mut self) -> Vec<(u64, PieceWanted)> {
        let numbers = self.table.numbers().into_iter();
        numbers.filter_map(|number| Some((number, self.table.stream(number).ok()?.wants_piece()?))).collect()
    }
}

/// The error number of a problem, as the kernel is told it.
pub(crate) fn errno(problem: &Problem) -> Errno {
    Errno::from_i32(problem.errno.raw_os_error())
}

fn no_title(title: &str) -> Problem {
    Problem::new(rustix::io::Errno::NOENT, format!("there is no title {title:?}"))
}

fn of_ask(error: &AskError) -> Problem {
    let errno = match error {
        AskError::Late => rustix::io::Errno::TIMEDOUT,
        AskError::Unreachable(_) | AskError::Unusable(_) => rustix::io::Errno::IO,
    };
    Problem::new(errno, error.to_string())
}

/// Why there is no session, or no piece of it, with the answer of the server that has refused it.
pub(crate) fn why_not(not_opened: NotOpened) -> (Problem, Option<String>) {
    match not_opened {
        NotOpened::Asked(error) => (of_ask(&error), None),
        NotOpened::Refused(refused) => (Problem::new(errno_of(&refused), refused.detail), Some(refused.json)),
    }
}

/// The same for a destination, whose refusals have other numbers.
fn why_not_joined(not_opened: NotOpened) -> (Problem, Option<String>) {
    let errno = match &not_opened {
        NotOpened::Refused(refused) => match refused.status {
            409 => Some(rustix::io::Errno::EXIST),
            422 => Some(rustix::io::Errno::INVAL),
            507 => Some(rustix::io::Errno::NOSPC),
            _ => None,
        },
        NotOpened::Asked(_) => None,
    };
    let (problem, refusal) = why_not(not_opened);
    (Problem { errno: errno.unwrap_or(problem.errno), ..problem }, refusal)
}

/// The error number of a refusal.
fn errno_of(refused: &Refused) -> rustix::io::Errno {
    use rustix::io::Errno as Number;
    match (refused.status, refused.kind.as_str()) {
        (_, "urn:reel:problem:too-long") => Number::DQUOT,
        (429 | 503, _) if refused.is_never => Number::DQUOT,
        (429 | 503, _) => Number::AGAIN,
        (400 | 422, _) | (404, "urn:reel:problem:no-such-form") => Number::INVAL,
        (403, _) => Number::ACCESS,
        // A branch that has ended since it was looked at.
        (404, "urn:reel:problem:no-such-outlet") => Number::BUSY,
        (404, _) => Number::NOENT,
        _ => Number::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno as Number;

    #[test]
    fn every_refusal_has_its_number() {
        let number = |status, kind: &str, is_never| {
            let kind = format!("urn:reel:problem:{kind}");
            errno_of(&Refused { status, kind, is_never, detail: String::new(), json: String::new() })
        };
        assert_eq!(number(503, "not-admitted", false), Number::AGAIN);
        assert_eq!(number(503, "not-admitted", true), Number::DQUOT);
        assert_eq!(number(429, "not-admitted", false), Number::AGAIN);
        assert_eq!(number(503, "too-long", false), Number::DQUOT);
        assert_eq!(number(503, "", false), Number::AGAIN);
        assert_eq!(number(404, "no-such-form", false), Number::INVAL);
        assert_eq!(number(404, "no-such-title", false), Number::NOENT);
        assert_eq!(number(404, "no-such-outlet", false), Number::BUSY);
        assert_eq!(number(422, "impossible-classes", false), Number::INVAL);
        let plain = [400, 403, 404, 410, 500].map(|status| number(status, "", false));
        assert_eq!(plain, [Number::INVAL, Number::ACCESS, Number::NOENT, Number::IO, Number::IO]);
    }
}
