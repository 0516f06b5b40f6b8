//! The server's side of a program that writes: messages are taken when the rate has room for them,
//! as the thread of programs takes them (`reel-local`).

use super::program::{Manner, Program};
use crate::pours::viewer::CONTINUE_EVERY_NS;
use crate::pours_report::PoursReport;
use crate::scale::OBJECT_SCALE;
use crate::sessions::{ClientSession, ClientSessions};
use crate::title::Title;
use reel_admit::OpenRefused;
use reel_play::PlayableTitle;
use reel_pour::{Arrivals, PourRefused, PourWriter, Pours};
use reel_qos::Resource;
use reel_testkit::Rng;
use std::collections::VecDeque;
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

/// Messages in the memory of a program, at most (`reel_client::limits::POURED_MESSAGES`).
const UNREAD_MAX: usize = 256;
/// How often messages are looked for, and how far ahead (`PROGRAM_TICK_NS`).
pub(super) const TICK_NS: u64 = SECOND_NS / 50;
/// A program whose viewers have no more time rings with each message (`PROMPT_DELAY_NS`).
const PROMPT_DELAY_NS: u64 = SECOND_NS / 2;

/// What a program asks the server, and what the other programs have.
pub(super) struct Asked<'a> {
    pub(super) pours: &'a Pours,
    pub(super) sessions: &'a mut ClientSessions,
    pub(super) title: &'a Title,
    /// What is set aside for windows.
    pub(super) reserved_bytes: u64,
    /// What is written by all programs that were admitted.
    pub(super) written_bytes_per_s: u64,
    /// As of [`PourSpec::written_bytes_per_s`](super::PourSpec::written_bytes_per_s).
    pub(super) most_bytes_per_s: Option<u64>,
}

/// A program, and its stream while it pours.
pub(super) struct Writer {
    number: usize,
    rng: Rng,
    /// The stream, or when the program begins.
    pub(super) stream: Result<Stream, u64>,
    /// Counts streams, so that no two are the same.
    pub(super) streams: u64,
}

/// A stream that is poured.
pub(super) struct Stream {
    pub(super) program: Program,
    writer: PourWriter,
    pub(super) session: ClientSession,
    continues_ns: u64,
    /// What the program has made, and the server has not taken.
    unread: VecDeque<Arc<[u8]>>,
    bucket: Bucket,
    /// The same computation as the stream's own, for when messages are due.
    arrivals: Arrivals,
    /// Where messages begin, in simulated bytes, and when they are due: of those that are not due.
    places: VecDeque<(u64, u64)>,
    taken_bytes: u64,
}

/// How far what was taken is ahead of the rate (Govindan, section 3.1: w(t)).
struct Bucket {
    ahead_bytes: f64,
    at_ns: u64,
}

impl Writer {
    pub(super) fn new(number: usize, mut rng: Rng, now_ns: u64) -> Writer {
        let begins_ns = now_ns + rng.below(5 * SECOND_NS);
        Writer { number, rng, stream: Err(begins_ns), streams: 0 }
    }

    pub(super) fn name(&self) -> String {
        format!("stream-{}", self.number)
    }

    /// When it is to be looked at, if no tick comes before.
    pub(super) fn next_ns(&self) -> u64 {
        match &self.stream {
            Err(begins_ns) => *begins_ns,
            Ok(stream) => {
                let has_room = stream.unread.len() < UNREAD_MAX;
                let makes_ns = if has_room { stream.program.next_ns } else { u64::MAX };
                makes_ns.min(stream.program.ends_ns.unwrap_or(u64::MAX))
            }
        }
    }

    /// Whether its program begins to pour now.
    pub(super) fn begins(&self, now_ns: u64) -> bool {
        matches!(&self.stream, Err(begins_ns) if *begins_ns <= now_ns)
    }

    /// What the program does now. Returns whether it rings.
    pub(super) fn turn(&mut self, sessions: &ClientSessions, now_ns: u64, report: &mut PoursReport) -> bool {
        let Ok(stream) = &mut self.stream else { return false };
        if stream.program.ends_ns.is_none_or(|ends_ns| ends_ns > now_ns) {
            return stream.make(now_ns, report);
        }
        let dies = stream.program.manner == Manner::Dies;
        if !dies && !stream.unread.is_empty() {
            // A program ends its stream when the server has taken all of it.
            stream.program.ends_ns = Some(now_ns + TICK_NS);
            return false;
        }
        let begins_ns = now_ns + self.rng.below(10 * SECOND_NS);
        let ended = std::mem::replace(&mut self.stream, Err(begins_ns));
        if let Ok(stream) = ended {
            sessions.close(&stream.session);
            if !dies {
                stream.writer.complete();
            }
        }
        *if dies { &mut report.died } else { &mut report.completed } += 1;
        false
    }

    /// Asks for a stream, in the order of the server: memory for its window, its session, its name.
    pub(super) fn begin(
        &mut self,
        asked: &mut Asked<'_>,
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<(), String> {
        let program = Program::new(self.number, self.rng.part(self.streams), now_ns);
        let (name, terms) = (self.name(), program.terms.clone());
        self.streams += 1;
        if let Err(refused) = asked.pours.check(&name, &terms) {
            report.refused += 1;
            self.stream = Err(now_ns + 2 * SECOND_NS);
            return asked.is_short_of_memory(&refused);
        }
        let title = asked.title.to_be_cast(PlayableTitle::of_poured(&name, terms.bytes_per_s));
        let user = self.number as u32;
        match asked.sessions.open_writer((&name, &Arc::new(title)), user, now_ns) {
            Ok(session) => {
                asked.has_room(terms.bytes_per_s)?;
                report.begun += 1;
                let writer = asked.pours.begin(&name, terms, now_ns);
                let writer = writer.map_err(|refused| format!("a stream was refused: {refused}"))?;
                self.stream = Ok(Stream::new(program, writer, session, now_ns));
                Ok(())
            }
            Err(refused) => {
                report.not_admitted += 1;
                self.stream = Err(now_ns + 2 * SECOND_NS);
                asked.is_short_of_processors(terms.bytes_per_s, &refused)
            }
        }
    }

    /// The rate of what it pours now.
    pub(super) fn bytes_per_s(&self) -> u64 {
        self.stream.as_ref().map_or(0, |stream| stream.program.terms.bytes_per_s)
    }
}

impl Asked<'_> {
    /// What is said to be free must be what is not reserved.
    fn is_short_of_memory(&self, refused: &PourRefused) -> Result<(), String> {
        let should = reel_pour::limits::POUR_MEMORY_BYTES.saturating_sub(self.reserved_bytes);
        match refused {
            PourRefused::NoMemory { free, .. } if *free == should => Ok(()),
            PourRefused::NoMemory { free, .. } => {
                Err(format!("{free} B of the windows' memory are said to be free, not {should}"))
            }
            refused => Err(format!("a stream was refused: {refused}")),
        }
    }

    /// No more is admitted than the processors carry. A thousandth for rounding.
    fn has_room(&self, bytes_per_s: u64) -> Result<(), String> {
        let all = self.written_bytes_per_s + bytes_per_s;
        match self.most_bytes_per_s.is_none_or(|most| all <= most + most / 1000) {
            true => Ok(()),
            false => Err(format!("programs write {all} B/s, and the processors carry less")),
        }
    }

    /// And none is refused for which there is room.
    fn is_short_of_processors(&self, bytes_per_s: u64, refused: &OpenRefused) -> Result<(), String> {
        let is_of_core = refused.refusal().is_some_and(|refusal| refusal.resource == Resource::Core);
        let all = self.written_bytes_per_s + bytes_per_s;
        match is_of_core && self.most_bytes_per_s.is_some_and(|most| all >= most - most / 1000) {
            true => Ok(()),
            false => Err(format!("a program that would make it {all} B/s was refused: {refused}")),
        }
    }
}

impl Stream {
    fn new(program: Program, writer: PourWriter, session: ClientSession, now_ns: u64) -> Stream {
        let arrivals = Arrivals::new(&program.terms, now_ns);
        let bucket = Bucket { ahead_bytes: 0.0, at_ns: now_ns };
        let (unread, places) = (VecDeque::new(), VecDeque::new());
        let continues_ns = now_ns + CONTINUE_EVERY_NS;
        Stream { program, writer, session, continues_ns, unread, bucket, arrivals, places, taken_bytes: 0 }
    }

    /// The program makes what it makes now. Returns whether it rings.
    fn make(&mut self, now_ns: u64, report: &mut PoursReport) -> bool {
        let mut made = false;
        while self.program.next_ns <= now_ns && self.unread.len() < UNREAD_MAX {
            self.unread.push_back(self.program.make(now_ns));
            made = true;
        }
        if made && self.unread.len() == UNREAD_MAX {
            report.held_back += 1;
        }
        made && self.program.terms.delay_ns <= PROMPT_DELAY_NS
    }

    /// Takes the messages whose time has come, or comes before the next look. Returns whether there
    /// were some. The error is a broken law.
    pub(super) fn take(&mut self, now_ns: u64, report: &mut PoursReport) -> Result<bool, String> {
        let mut some = false;
        while self.writer.ready_ns() <= now_ns + TICK_NS
            && let Some(message) = self.unread.pop_front()
        {
            let bytes = message.len() as u64;
            self.bucket.take(&self.program, bytes, now_ns)?;
            self.places.push_back((self.taken_bytes, self.arrivals.take(bytes, now_ns)));
            self.taken_bytes += bytes / OBJECT_SCALE;
            self.writer.push(message, now_ns);
            (report.messages, report.bytes, some) = (report.messages + 1, report.bytes + bytes, true);
        }
        self.places.retain(|(_, due_ns)| *due_ns >= now_ns);
        if some {
            self.writer.tell();
        }
        Ok(some)
    }

    /// It is reserved what follows.
    pub(super) fn lasts(&mut self, sessions: &ClientSessions, now_ns: u64) -> Result<(), String> {
        if now_ns <= self.continues_ns {
            return Ok(());
        }
        self.continues_ns = now_ns + CONTINUE_EVERY_NS;
        sessions.continue_poured(&self.session, now_ns)
    }

    /// Where a viewer begins that comes now.
    pub(super) fn joins_at(&self, now_ns: u64) -> u64 {
        let first = self.places.iter().find(|(_, due_ns)| *due_ns >= now_ns);
        first.map_or(self.taken_bytes, |(place, _)| *place)
    }
}

impl Bucket {
    /// No more is taken than the workahead, what comes until the next look, and one message.
    fn take(&mut self, program: &Program, bytes: u64, now_ns: u64) -> Result<(), String> {
        let rate = program.terms.bytes_per_s as f64;
        let passed = (now_ns - self.at_ns) as f64 / SECOND_NS as f64;
        self.at_ns = now_ns;
        self.ahead_bytes = (self.ahead_bytes - rate * passed).max(0.0) + bytes as f64;
        let looks = rate * TICK_NS as f64 / SECOND_NS as f64;
        // 1 for rounding.
        let may = program.terms.workahead_bytes as f64 + looks + bytes as f64 + 1.0;
        match self.ahead_bytes <= may {
            true => Ok(()),
            false => {
                Err(format!("a program is ahead of its rate by {} B, and may be by {may}", self.ahead_bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_beyond_the_rate_is_seen() {
        let program = Program::new(0, Rng::new(1), 0);
        let most = program.terms.workahead_bytes + program.terms.bytes_per_s / 50;
        let mut bucket = Bucket { ahead_bytes: 0.0, at_ns: 0 };
        bucket.take(&program, most, 0).unwrap();
        bucket.take(&program, 1000, 0).unwrap();
        assert!(bucket.take(&program, 1000, 0).unwrap_err().contains("ahead of its rate"));
        bucket.take(&program, 1000, SECOND_NS * 1000).unwrap();
    }
}
