//! Streams that programs pour: their messages are taken when the rate has room for them.

use super::opening::Refused;
use super::{PROGRAM_POURS_MAX, Programs};
use crate::limits::{POUR_MESSAGES_PER_TURN, PROGRAM_TICK_NS, PROMPT_DELAY_NS};
use reel_admit::Client;
use reel_arena::SharedMemory;
use reel_arena::mms::{CONSUMER_BYTES, Consumer, Ending, Message};
use reel_client::limits::{POURED_BYTES_MAX, POURED_MESSAGE_BYTES_MAX, POURED_MESSAGES};
use reel_client::{PourRequest, RefusalCode, Reply, say};
use reel_pour::{PourRefused, PourTerms, PourWriter};
use reel_qos::Class;
use reel_serve::{Serve, Writing};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A stream that a program pours.
pub(super) struct Pouring {
    consumer: Consumer<SharedMemory, SharedMemory>,
    writer: PourWriter,
    /// A message that was taken, and for which the rate has no room yet.
    pending: Option<Message>,
    /// Bytes of the messages that were taken.
    taken_bytes: u64,
    /// Its program is to ring with each message: its viewers have little time.
    is_prompt: bool,
    /// What is reserved for it of the processors.
    reserved: Writing,
}

/// What becomes of a stream after its messages were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poured {
    /// It continues. `true` if its program waits, and is to be woken.
    Continues(bool),
    /// All of it has come.
    Complete,
    /// Its program writes what it may not.
    Wrong,
}

/// Why a program that pours is disconnected.
pub(super) const WRONG_POUR: &str = "a program poured what it may not; it is disconnected";
const ENDED_POUR: &str = "the session of a program that pours was ended; it is disconnected";

/// Most bytes of the memory that a program writes: descriptors and messages.
const PRODUCER_BYTES_MAX: u64 =
    (POURED_BYTES_MAX + 2 * 4096 + POURED_MESSAGES as usize * reel_arena::mms::SLOT_WORDS * 8) as u64;

impl Pouring {
    /// Takes the messages whose time has come, or comes before the next look.
    pub(super) fn take(&mut self, now_ns: u64) -> Poured {
        let (mut must_ring, mut has_come) = (false, false);
        for _ in 0..POUR_MESSAGES_PER_TURN {
            let Some(message) = self.pending.take().or_else(|| self.consumer.take()) else { break };
            let Some(range) = self.range(&message) else { return Poured::Wrong };
            if self.writer.ready_ns() > now_ns + PROGRAM_TICK_NS {
                self.pending = Some(message);
                break;
            }
            let mut bytes = Vec::with_capacity(range.len());
            // The only copy: viewers send from it, and the program may write there again.
            self.consumer.producer_memory().copy_to(range, &mut bytes);
            self.taken_bytes += bytes.len() as u64;
            self.writer.push(Arc::from(bytes), now_ns);
            has_come = true;
            must_ring |= self.consumer.give_back(1);
        }
        if has_come {
            self.writer.tell();
        }
        if self.is_prompt && self.pending.is_none() {
            // What has come in the meantime is taken with the next tick.
            let _ = self.consumer.await_messages(1);
        }
        match self.consumer.ending() {
            // What has come and has to wait is a part of it.
            _ if self.pending.is_some() => Poured::Continues(must_ring),
            None => Poured::Continues(must_ring),
            Some(Ending::Complete) => Poured::Complete,
            Some(_) => Poured::Wrong,
        }
    }

    /// Ends it. It is broken unless all of it has come.
    pub(super) fn end(mut self, now_ns: u64) {
        if self.take(now_ns) == Poured::Complete {
            self.writer.complete();
        }
    }

    /// Where a message is, if it is one.
    fn range(&self, message: &Message) -> Option<std::ops::Range<usize>> {
        let memory = self.consumer.producer_memory();
        let (start, bytes) = (usize::try_from(message.offset).ok()?, message.bytes as usize);
        let end = start.checked_add(bytes).filter(|end| *end <= memory.bytes())?;
        (message.in_producer && (1..=POURED_MESSAGE_BYTES_MAX).contains(&bytes)).then_some(start..end)
    }
}

impl From<PourRefused> for Refused {
    fn from(refused: PourRefused) -> Self {
        let code = match refused {
            PourRefused::TooMany | PourRefused::NoMemory { .. } | PourRefused::Taken(_) => {
                RefusalCode::Unavailable
            }
            _ => RefusalCode::BadRequest,
        };
        Refused(code, 0, refused.to_string())
    }
}

fn bad(text: &str) -> Refused {
    Refused(RefusalCode::BadRequest, 0, text.to_owned())
}

/// The reading end of the memory that a program writes.
fn consumer_of(
    producer_bytes: u64,
    descriptors: Vec<OwnedFd>,
) -> Result<Consumer<SharedMemory, SharedMemory>, Refused> {
    let Ok([own, theirs]) = <[OwnedFd; 2]>::try_from(descriptors) else {
        return Err(bad("a stream that is poured comes with two memories"));
    };
    let bytes = usize::try_from(producer_bytes).ok().filter(|_| producer_bytes <= PRODUCER_BYTES_MAX);
    let bytes = bytes.ok_or_else(|| bad("the memory of the stream is too large"))?;
    let map = |memory, bytes, writable| {
        SharedMemory::map(memory, bytes, writable)
            .map_err(|error| bad(&format!("the memory of the stream cannot be mapped: {error}")))
    };
    let (own, theirs) = (map(own, bytes, false)?, map(theirs, CONSUMER_BYTES, true)?);
    Consumer::new(own, theirs, bytes)
        .ok_or_else(|| bad("the memory of the stream does not begin as it should"))
}

impl Programs {
    /// Begins a stream that a program pours, or refuses it.
    pub(super) fn pour(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: PourRequest,
        descriptors: Vec<OwnedFd>,
    ) {
        let tag = request.tag;
        let poured = self.begin_pour(serve, token, request, descriptors);
        let Some(program) = self.programs.get_mut(token) else { return };
        let reply = match poured {
            Ok(pouring) => {
                program.pours.insert(tag, pouring);
                Reply::Poured { tag }
            }
            Err(Refused(code, retry_after_s, text)) => Reply::NotPoured { tag, code, retry_after_s, text },
        };
        // A program that does not read its socket would not read this either.
        let _ = say(&program.socket, &reply.encode(), &[]);
        self.watch(serve);
    }

    fn begin_pour(
        &mut self,
        serve: &Serve<'_>,
        token: u64,
        request: PourRequest,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Pouring, Refused> {
        let user = self.may_pour(token, request.tag)?;
        let PourRequest {
            name, content_type, bytes_per_s, workahead_bytes, delay_ns, producer_bytes, ..
        } = request;
        let consumer = consumer_of(producer_bytes, descriptors)?;
        let terms = PourTerms { bytes_per_s, workahead_bytes, delay_ns, content_type };
        let (pours, now_ns) = (&self.shared.pours, serve.now_ns());
        pours.check(&name, &terms)?;
        let client = serve.session_client(Client::User(user), Class::PERIODIC);
        let reserved = Writing::begin(serve.opener(), (&name, bytes_per_s), client, now_ns)
            .inspect_err(|_| pours.refused())?;
        // Another thread may have begun one meanwhile.
        let writer = pours.begin(&name, terms, now_ns)?;
        tracing::info!(name, "a program pours a stream");
        let is_prompt = delay_ns <= PROMPT_DELAY_NS;
        Ok(Pouring { consumer, writer, pending: None, taken_bytes: 0, is_prompt, reserved })
    }

    /// The user of a program, if it may pour another stream, by this name of its own.
    fn may_pour(&mut self, token: u64, tag: u64) -> Result<u32, Refused> {
        let program = self.programs.get_mut(token).ok_or_else(|| bad("the program is gone"))?;
        if program.streams.contains_key(&tag) || program.pours.contains_key(&tag) {
            return Err(bad("the program has a stream of this name already"));
        }
        if program.pours.len() >= PROGRAM_POURS_MAX {
            let text = format!("the program pours {PROGRAM_POURS_MAX} streams, the most that one may pour");
            return Err(Refused(RefusalCode::Unavailable, 0, text));
        }
        Ok(program.user)
    }

    /// Takes what programs have poured.
    pub(super) fn take_poured(&mut self, serve: &mut Serve<'_>) {
        for token in self.programs.tokens(|program| !program.pours.is_empty()) {
            if !self.pours_last(serve, token) {
                tracing::warn!("{ENDED_POUR}");
                self.gone(serve, token);
            } else if !self.take_poured_of(serve, token) {
                tracing::warn!("{WRONG_POUR}");
                self.gone(serve, token);
            }
        }
    }

    /// A program that pours has rung: takes what it has poured, and gives it to programs that read
    /// it. `false` if it does what it may not.
    pub(super) fn poured(&mut self, serve: &mut Serve<'_>, token: u64) -> bool {
        let pours = self.programs.get_mut(token).is_some_and(|program| !program.pours.is_empty());
        if !pours {
            return true;
        }
        let is_right = self.take_poured_of(serve, token);
        let readers = self.playing.iter().filter(|(_, playing)| playing.live.is_some());
        let readers: Vec<_> = readers.map(|(id, _)| *id).collect();
        self.pump(serve, &readers);
        is_right
    }

    /// Whether something is still reserved for all that a program pours.
    fn pours_last(&mut self, serve: &Serve<'_>, token: u64) -> bool {
        let Some(program) = self.programs.get_mut(token) else { return true };
        program.pours.values_mut().all(|pouring| pouring.reserved.lasts(serve.opener(), serve.now_ns()))
    }

    /// The same of one program; `false` if it does what it may not.
    fn take_poured_of(&mut self, serve: &Serve<'_>, token: u64) -> bool {
        let Some(program) = self.programs.get_mut(token) else { return true };
        let (mut must_ring, mut complete) = (false, Vec::new());
        for (tag, pouring) in &mut program.pours {
            let before_bytes = pouring.taken_bytes;
            let poured = pouring.take(serve.now_ns());
            serve.parts().play.taken(self.shared.front_end, pouring.taken_bytes - before_bytes);
            match poured {
                Poured::Continues(rings) => must_ring |= rings,
                Poured::Complete => complete.push(*tag),
                Poured::Wrong => return false,
            }
        }
        for pouring in complete.into_iter().filter_map(|tag| program.pours.remove(&tag)) {
            tracing::info!(name = pouring.writer.name(), "a poured stream is complete");
            pouring.writer.complete();
        }
        if must_ring {
            // One that does not read its socket has bells to take.
            let _ = say(&program.socket, &Reply::Bell.encode(), &[]);
        }
        true
    }

    /// Whether a program pours.
    pub(super) fn pours(&self) -> bool {
        !self.programs.tokens(|program| !program.pours.is_empty()).is_empty()
    }
}
