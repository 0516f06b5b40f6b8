//! A program's side: streams in sets, read in place.

mod inherited;

pub use inherited::InheritedPour;

use super::socket::{Heard, dial, hear, say};
use super::wire::{InStepRequest, OpenedStream, PourRequest, RefusalCode, Reply, Request, WireError};
use crate::limits::OPENS_UNANSWERED_MAX;
use crate::pour::{PourWanted, Pouring};
use reel_arena::mms::{CONSUMER_BYTES, Consumer, Ending, ImpossibleCount, Message};
use reel_arena::{ArenaError, Others, SharedMemory};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A connection to a server, and the streams opened through it.
pub struct Client {
    socket: OwnedFd,
    /// Mapped once, for all streams.
    arena: Option<Arc<SharedMemory>>,
    streams: BTreeMap<u64, Mapped>,
    next_tag: u64,
    /// Kernel calls made to wait, to wake and to be woken.
    kernel_calls: u64,
    /// The answer to a change of class or to a request to pour that was not taken yet, with the
    /// name of the stream.
    answered: Option<(u64, Result<(), ClientError>)>,
    /// Streams that are poured.
    pouring: BTreeMap<u64, Pouring>,
}

/// What to open.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Id of the title.
    pub title: String,
    /// Name of the class; empty for a stream with deadlines.
    pub class: String,
    /// Where in the title's file to begin, in bytes.
    pub from_bytes: u64,
}

/// A message that was taken and not given back.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The stream it belongs to.
    pub stream: u64,
    /// Its position in the memory, and its kind.
    pub message: Message,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientState {
    /// Length of the whole file.
    pub file_bytes: u64,
    /// Messages taken and not given back.
    pub held: u64,
    /// Bytes of the messages that were given back.
    pub done_bytes: u64,
    /// Why no more messages come; `None` while they do.
    pub ending: Option<Ending>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no server.
    #[error("no server answers at the socket: {0}")]
    Connect(#[source] io::Error),
    /// The server has closed the connection.
    #[error("the server has closed the connection")]
    Gone,
    /// The socket failed.
    #[error("the socket to the server failed: {0}")]
    Socket(#[source] io::Error),
    /// The server sent something that is not a valid message.
    #[error("the server sent a message that is not valid: {0}")]
    Wire(#[from] WireError),
    /// The server gave memory that cannot be used.
    #[error("the server's memory cannot be used: {0}")]
    Memory(#[from] ArenaError),
    /// The server gave no valid stream, or messages outside of its memory.
    #[error("the server's answer is not a valid stream: {0}")]
    NoStream(&'static str),
    /// The server did not open the stream, or has it keep its class.
    #[error("{text}")]
    Refused {
        /// The kind of reason.
        code: RefusalCode,
        /// The reason.
        text: String,
        /// Seconds after which it is worth asking again; 0 if it is not.
        retry_after_s: u64,
    },
    /// So many streams cannot be in step.
    #[error("1 to {OPENS_UNANSWERED_MAX} streams can be in step")]
    NotASet,
    /// Messages were taken back while they were being read.
    #[error("{}", .0.text())]
    TakenBack(Ending),
    /// No command has opened a stream for this program.
    #[error("{0}")]
    NotInherited(&'static str),
    /// What this program has inherited is not valid.
    #[error("{0}")]
    InheritedWrong(&'static str),
    /// The stream is not poured, or not any more.
    #[error("this stream is not being poured")]
    NotPoured,
    /// The server's count of what it has read is impossible.
    #[error("the server's counters are impossible: {0}")]
    Count(#[from] ImpossibleCount),
    /// A message could not be written to a file.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
}

struct Mapped {
    consumer: Consumer<SharedMemory, SharedMemory>,
    arena: Arc<SharedMemory>,
    held: VecDeque<Message>,
    /// Bytes of the first message held that were written to a file.
    written_bytes: usize,
    done_bytes: u64,
    file_bytes: u64,
}

impl Client {
    /// Connects to the server whose socket is at `path`.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        Ok(Client::over(dial(path).map_err(ClientError::Connect)?))
    }

    /// A client of a connection without streams.
    fn over(socket: OwnedFd) -> Client {
        Client {
            socket,
            arena: None,
            streams: BTreeMap::new(),
            next_tag: 1,
            kernel_calls: 0,
            answered: None,
            pouring: BTreeMap::new(),
        }
    }

    /// Opens several streams with one call. Returns the name of each, or why it was not opened.
    ///
    /// # Errors
    /// If the connection fails. All of its streams have then ended.
    pub fn open(&mut self, set: &[Wanted]) -> Result<Vec<Result<u64, ClientError>>, ClientError> {
        let first = self.next_tag;
        let mut answers: Vec<Option<Result<u64, ClientError>>> = set.iter().map(|_| None).collect();
        for (sent, wanted) in set.iter().enumerate() {
            // An answer that does not fit into this socket is never sent. So answers are read
            // before more is requested.
            while sent >= OPENS_UNANSWERED_MAX && answers[sent - OPENS_UNANSWERED_MAX].is_none() {
                self.hear_answers(first, &mut answers)?;
                if answers[sent - OPENS_UNANSWERED_MAX].is_none() {
                    self.wait(PollFlags::IN)?;
                }
            }
            let Wanted { title, class, from_bytes } = wanted.clone();
            let tag = self.next_tag;
            self.next_tag += 1;
            let request = match (Request::Open { tag, from_bytes, title, class }).encode() {
                Ok(request) => request,
                // The other streams were requested, and continue.
                Err(error) => {
                    answers[sent] = Some(Err(error.into()));
                    continue;
                }
            };
            self.ask(&request, first, &mut answers)?;
        }
        self.await_answers(first, answers)
    }

    /// Opens several streams that are in step with one call: of titles, or of tracks (`film#video`,
    /// `film#audio`, `film#text`, `film#3`), all from one media time. They are admitted together.
    /// What they have of one media time is due at the same time, also after one of them was late:
    /// then the clock of all is moved ([`Client::due_ns`]). Returns the name of each.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the reason; then none of them is open. Or the connection
    /// failed.
    pub fn open_in_step(
        &mut self,
        titles: &[&str],
        class: &str,
        from_ns: u64,
    ) -> Result<Vec<u64>, ClientError> {
        if titles.is_empty() || titles.len() > OPENS_UNANSWERED_MAX {
            return Err(ClientError::NotASet);
        }
        let first = self.next_tag;
        let mut requests = Vec::new();
        // The casts fit: a set is small.
        for (number, title) in (0..).zip(titles) {
            let (tag, of, title) = (first + u64::from(number), titles.len() as u16, (*title).to_owned());
            let class = class.to_owned();
            let request = InStepRequest { tag, number, of, from_ns, title, class };
            requests.push(Request::OpenInStep(request).encode()?);
        }
        self.next_tag += requests.len() as u64;
        let mut answers: Vec<_> = requests.iter().map(|_| None).collect();
        for request in requests {
            self.ask(&request, first, &mut answers)?;
        }
        let answers = self.await_answers(first, answers)?;
        let opened: Vec<u64> = answers.iter().flatten().copied().collect();
        match answers.into_iter().find_map(Result::err) {
            None => Ok(opened),
            Some(error) => {
                self.close(&opened)?;
                Err(error)
            }
        }
    }

    /// When a message that was taken is due, on `CLOCK_MONOTONIC`: as it says, or later by as much
    /// as the clock of its set was moved since. `u64::MAX` if it has no deadline. Makes no call.
    pub fn due_ns(&self, held: &Held) -> u64 {
        self.streams.get(&held.stream).map_or(u64::MAX, |stream| stream.consumer.due_ns(&held.message))
    }

    /// Sends a request. Answers that come meanwhile are taken.
    fn ask(
        &mut self,
        request: &[u8],
        first: u64,
        answers: &mut [Option<Result<u64, ClientError>>],
    ) -> Result<(), ClientError> {
        while !say(&self.socket, request, &[]).map_err(ClientError::Socket)? {
            self.hear_answers(first, answers)?;
            self.wait(PollFlags::IN | PollFlags::OUT)?;
        }
        Ok(())
    }

    /// Waits for the answers to all requests.
    fn await_answers(
        &mut self,
        first: u64,
        mut answers: Vec<Option<Result<u64, ClientError>>>,
    ) -> Result<Vec<Result<u64, ClientError>>, ClientError> {
        loop {
            self.hear_answers(first, &mut answers)?;
            if answers.iter().all(Option::is_some) {
                return Ok(answers.into_iter().flatten().collect());
            }
            self.wait(PollFlags::IN)?;
        }
    }

    /// Has a stream continue in another class; an empty name is that of streams with deadlines. It
    /// is admitted there, or keeps its class and what is reserved for it. No byte is lost or comes
    /// twice. Messages that were written before keep the times that they have.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the connection failed.
    pub fn change_class(&mut self, name: u64, class: &str) -> Result<(), ClientError> {
        self.answered = None;
        self.tell(&Request::Change { tag: name, class: class.to_owned() })?;
        self.await_answer(name)
    }

    /// Changes how many bytes of each stream of a set are there at most that were not given back,
    /// from now on: at least one message, and no more than a stream begins with (1 MiB). A program
    /// that works in small steps leaves the rest with the server.
    ///
    /// # Errors
    /// The connection failed.
    pub fn resize(&mut self, set: &[u64], held_bytes: u64) -> Result<(), ClientError> {
        for tag in set {
            if self.streams.contains_key(tag) {
                self.tell(&Request::Resize { tag: *tag, held_bytes })?;
            }
        }
        Ok(())
    }

    /// Pours a stream: what is put into it is played to others while it comes. Returns the
    /// program's name for it. When the connection ends before [`Client::end_pour`], the stream is
    /// cut off.
    ///
    /// # Errors
    /// [`ClientError::Refused`], or the connection failed.
    pub fn pour(&mut self, wanted: PourWanted) -> Result<u64, ClientError> {
        let pouring = Pouring::new(&wanted, Others::Read)?;
        let tag = self.request_pour(wanted, &pouring)?.tag;
        self.pouring.insert(tag, pouring);
        Ok(tag)
    }

    /// Has the server take a stream from memory; the request that it has granted.
    fn request_pour(&mut self, wanted: PourWanted, pouring: &Pouring) -> Result<PourRequest, ClientError> {
        let tag = self.next_tag;
        self.next_tag += 1;
        let [own, theirs] = pouring.memories();
        let PourWanted { name, content_type, bytes_per_s, workahead_bytes, delay_ns } = wanted;
        let producer_bytes = own.bytes() as u64;
        let terms =
            PourRequest { tag, name, content_type, bytes_per_s, workahead_bytes, delay_ns, producer_bytes };
        let request = Request::Pour(terms.clone());
        self.answered = None;
        self.tell_with(&request, &[own.fd(), theirs.fd()])?;
        self.await_answer(tag)?;
        Ok(terms)
    }

    /// Puts bytes into a stream. Waits while the server takes none: the stream is ahead of its rate
    /// by as much as it may be.
    ///
    /// # Errors
    /// The server has ended the connection.
    pub fn put(&mut self, name: u64, bytes: &[u8]) -> Result<(), ClientError> {
        let mut left = bytes;
        loop {
            let Some(stream) = self.pouring.get_mut(&name) else { return Err(ClientError::NotPoured) };
            let put = stream.put(left)?;
            left = &left[put..];
            if stream.must_ring() {
                self.tell(&Request::Bell)?;
            }
            if left.is_empty() {
                return Ok(());
            }
            self.await_reads(name, Pouring::await_room)?;
        }
    }

    /// Ends a stream when the server has taken all of it.
    ///
    /// # Errors
    /// The server has ended the connection.
    pub fn end_pour(&mut self, name: u64) -> Result<(), ClientError> {
        while self.await_reads(name, Pouring::await_all_read)? {}
        if let Some(mut stream) = self.pouring.remove(&name) {
            stream.complete();
            self.tell(&Request::Close { tag: name })?;
        }
        Ok(())
    }

    /// Bytes that were put into a stream.
    pub fn poured_bytes(&self, name: u64) -> u64 {
        self.pouring.get(&name).map_or(0, Pouring::position)
    }

    /// Waits until the server has read more of a stream, if `asks` says so; whether it did.
    fn await_reads(
        &mut self,
        name: u64,
        asks: impl Fn(&mut Pouring) -> Result<bool, ImpossibleCount>,
    ) -> Result<bool, ClientError> {
        let Some(stream) = self.pouring.get_mut(&name) else { return Err(ClientError::NotPoured) };
        if !asks(stream)? {
            return Ok(false);
        }
        let waited = self.wait(PollFlags::IN).and_then(|()| self.hear_bells());
        if let Some(stream) = self.pouring.get_mut(&name) {
            stream.do_not_wait();
        }
        waited.map(|()| true)
    }

    fn await_answer(&mut self, name: u64) -> Result<(), ClientError> {
        loop {
            self.hear_bells()?;
            match self.answered.take() {
                Some((answered, answer)) if answered == name => return answer,
                _ => self.wait(PollFlags::IN)?,
            }
        }
    }

    /// Takes the messages that have come for streams of a set. With `wait` it waits until there is
    /// one, or until one of the streams has ended.
    ///
    /// # Errors
    /// The connection failed.
    pub fn read(&mut self, set: &[u64], wait: bool) -> Result<Vec<Held>, ClientError> {
        loop {
            let mut taken = Vec::new();
            for name in set {
                let Some(stream) = self.streams.get_mut(name) else { continue };
                while let Some(message) = stream.take()? {
                    taken.push(Held { stream: *name, message });
                }
            }
            if !wait || !taken.is_empty() || self.has_ended(set) {
                return Ok(taken);
            }
            self.await_any(set)?;
        }
    }

    /// Writes what is held of each stream to its file, and gives it back. Stops at a file that
    /// takes no more now. Returns the number of bytes written to all files.
    ///
    /// # Errors
    /// A file takes no more bytes, the connection failed, or messages were taken back while they
    /// were written.
    pub fn send(&mut self, set: &[(u64, BorrowedFd<'_>)]) -> Result<u64, ClientError> {
        let mut written = 0;
        for (name, file) in set {
            while let Some(stream) = self.streams.get_mut(name) {
                let Some((bytes, whole)) = stream.write_first(*file)? else { break };
                written += bytes;
                if whole {
                    self.give_back(*name, 1)?;
                }
            }
        }
        Ok(written)
    }

    /// Takes what has come for each stream and writes it to its file.
    ///
    /// # Errors
    /// Those of [`Client::read`] and [`Client::send`].
    pub fn read_send(&mut self, set: &[(u64, BorrowedFd<'_>)], wait: bool) -> Result<u64, ClientError> {
        let names: Vec<u64> = set.iter().map(|(name, _)| *name).collect();
        self.read(&names, wait)?;
        self.send(set)
    }

    /// The states of streams; `None` for one that is closed. Makes no kernel call.
    pub fn state(&self, set: &[u64]) -> Vec<Option<ClientState>> {
        let state = |name: &u64| {
            let stream = self.streams.get(name)?;
            Some(ClientState {
                file_bytes: stream.file_bytes,
                held: stream.held.len() as u64,
                done_bytes: stream.done_bytes,
                ending: stream.consumer.ending(),
            })
        };
        set.iter().map(state).collect()
    }

    /// Ends streams. Waits while the server has many messages to read: a stream that the server was
    /// not told to close would stay reserved, and would be read on.
    ///
    /// # Errors
    /// The connection failed.
    pub fn close(&mut self, set: &[u64]) -> Result<(), ClientError> {
        for tag in set {
            if self.streams.remove(tag).is_some() {
                self.tell(&Request::Close { tag: *tag })?;
            }
        }
        Ok(())
    }

    /// Gives the oldest `count` messages of a stream back. Their memory must not be read any more.
    ///
    /// # Errors
    /// The messages had been taken back before, so what was read from them is not valid. Or the
    /// connection failed.
    pub fn give_back(&mut self, name: u64, count: usize) -> Result<(), ClientError> {
        let Some(stream) = self.streams.get_mut(&name) else { return Ok(()) };
        let count = count.min(stream.held.len());
        let Some(last) = count.checked_sub(1).and_then(|last| stream.held.get(last)) else { return Ok(()) };
        if !stream.consumer.is_valid(last) {
            return Err(ClientError::TakenBack(stream.consumer.ending().unwrap_or(Ending::HeldTooLong)));
        }
        stream.done_bytes += stream.held.drain(..count).map(|message| u64::from(message.bytes)).sum::<u64>();
        stream.written_bytes = 0;
        if stream.consumer.give_back(count as u64) {
            self.tell(&Request::Bell)?;
        }
        Ok(())
    }

    /// Appends a copy of a message that is held.
    pub fn copy(&self, held: &Held, copy: &mut Vec<u8>) {
        if let Some(stream) = self.streams.get(&held.stream) {
            let (memory, range) = stream.place(&held.message);
            memory.copy_to(range, copy);
        }
    }

    /// Kernel calls that waiting and waking took so far: 0 in steady state.
    pub fn kernel_calls(&self) -> u64 {
        self.kernel_calls
    }

    fn has_ended(&self, set: &[u64]) -> bool {
        set.iter().any(|name| self.streams.get(name).is_none_or(|stream| stream.consumer.ending().is_some()))
    }

    /// Waits until a stream of a set has a message, or has ended.
    fn await_any(&mut self, set: &[u64]) -> Result<(), ClientError> {
        let mut sleep = true;
        for name in set {
            let Some(stream) = self.streams.get_mut(name) else { continue };
            sleep &= stream.consumer.await_messages(1);
        }
        let waited = if sleep { self.wait(PollFlags::IN).and_then(|()| self.hear_bells()) } else { Ok(()) };
        for name in set {
            if let Some(stream) = self.streams.get_mut(name) {
                stream.consumer.do_not_wait();
            }
        }
        waited
    }

    fn wait(&mut self, flags: PollFlags) -> Result<(), ClientError> {
        self.kernel_calls += 1;
        match poll(&mut [PollFd::new(&self.socket, flags)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(ClientError::Socket(error.into())),
        }
    }

    fn tell(&mut self, request: &Request) -> Result<(), ClientError> {
        self.tell_with(request, &[])
    }

    fn tell_with(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let message = request.encode()?;
        loop {
            self.kernel_calls += 1;
            match say(&self.socket, &message, descriptors) {
                Ok(true) => return Ok(()),
                // A server that has not taken many messages is about to poll its streams, so a bell
                // is not needed. Any other message would be lost, and has to wait.
                Ok(false) if *request == Request::Bell => return Ok(()),
                Ok(false) => self.wait(PollFlags::OUT)?,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(ClientError::Gone),
                Err(error) => return Err(ClientError::Socket(error)),
            }
        }
    }

    fn hear_bells(&mut self) -> Result<(), ClientError> {
        self.hear_answers(0, &mut [])
    }

    /// Takes what the server has sent so far.
    fn hear_answers(
        &mut self,
        first: u64,
        answers: &mut [Option<Result<u64, ClientError>>],
    ) -> Result<(), ClientError> {
        loop {
            self.kernel_calls += 1;
            let (bytes, descriptors) = match hear(&self.socket).map_err(ClientError::Socket)? {
                Heard::Nothing => return Ok(()),
                Heard::Gone => return Err(ClientError::Gone),
                Heard::Message(bytes, descriptors) => (bytes, descriptors),
            };
            let (tag, answer) = match Reply::decode(&bytes)? {
                Reply::Bell => continue,
                Reply::Opened(opened) => {
                    let mapped = self.map(&opened, descriptors);
                    if mapped.is_err() {
                        // No caller would read this stream, and no caller could close it.
                        self.tell(&Request::Close { tag: opened.tag })?;
                    }
                    (opened.tag, mapped)
                }
                Reply::Changed { tag } | Reply::Poured { tag } => {
                    self.answered = Some((tag, Ok(())));
                    continue;
                }
                Reply::NotChanged { tag, code, retry_after_s, text }
                | Reply::NotPoured { tag, code, retry_after_s, text } => {
                    self.answered = Some((tag, Err(ClientError::Refused { code, text, retry_after_s })));
                    continue;
                }
                Reply::Refused { tag, code, retry_after_s, text } => {
                    (tag, Err(ClientError::Refused { code, text, retry_after_s }))
                }
            };
            let place =
                tag.checked_sub(first).and_then(|place| answers.get_mut(usize::try_from(place).ok()?));
            if let Some(place) = place {
                *place = Some(answer);
            }
        }
    }

    fn map(&mut self, opened: &OpenedStream, descriptors: Vec<OwnedFd>) -> Result<u64, ClientError> {
        let Ok([arena, producer, consumer]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return Err(ClientError::NoStream("it came without its memory"));
        };
        let size = |bytes: u64| {
            usize::try_from(bytes).map_err(|_| ClientError::NoStream("it is beyond all addresses"))
        };
        let arena = match &self.arena {
            Some(arena) => Arc::clone(arena),
            None => Arc::new(SharedMemory::map(arena, size(opened.arena_bytes)?, false)?),
        };
        self.arena = Some(Arc::clone(&arena));
        if opened.consumer_bytes < CONSUMER_BYTES as u64 {
            return Err(ClientError::NoStream("its memory is too short"));
        }
        let producer_bytes = size(opened.producer_bytes)?;
        let theirs = SharedMemory::map(producer, producer_bytes, false)?;
        let own = SharedMemory::map(consumer, size(opened.consumer_bytes)?, true)?;
        let consumer = Consumer::new(theirs, own, producer_bytes)
            .ok_or(ClientError::NoStream("its memory does not begin as it should"))?;
        let (held, file_bytes) = (VecDeque::new(), opened.file_bytes);
        let mapped = Mapped { consumer, arena, held, written_bytes: 0, done_bytes: 0, file_bytes };
        self.streams.insert(opened.tag, mapped);
        Ok(opened.tag)
    }
}

impl Mapped {
    /// The next message, if it is within its memory.
    fn take(&mut self) -> Result<Option<Message>, ClientError> {
        let Some(message) = self.consumer.take() else { return Ok(None) };
        let room =
            if message.in_producer { self.consumer.producer_memory().bytes() } else { self.arena.bytes() };
        if message.offset.checked_add(message.bytes.into()).is_none_or(|end| end > room as u64) {
            return Err(ClientError::NoStream("a message is outside of its memory"));
        }
        self.held.push_back(message);
        Ok(Some(message))
    }

    /// Where a message is. It was checked when the message was taken.
    fn place(&self, message: &Message) -> (&SharedMemory, std::ops::Range<usize>) {
        let memory = if message.in_producer { self.consumer.producer_memory() } else { &*self.arena };
        let start = message.offset as usize;
        (memory, start..start + message.bytes as usize)
    }

    /// Writes (more of) the first message held. Returns the bytes written and whether that was all
    /// of it, or `None` if there is no message or the file takes nothing now.
    fn write_first(&mut self, file: BorrowedFd<'_>) -> Result<Option<(u64, bool)>, ClientError> {
        let Some(first) = self.held.front() else { return Ok(None) };
        let (memory, range) = self.place(first);
        let rest = range.start + self.written_bytes..range.end;
        let written = match memory.write_to(rest.clone(), file) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(ClientError::Write(error)),
        };
        self.written_bytes += written;
        Ok(Some((written as u64, written == rest.len())))
    }
}
