//! A stream of what a program pours: its reader gets what has come, where it is now. There is no
//! time to go to, and no pace but that of the program.

use super::{Answer, Joining, State, Stream};
use crate::limits::{GATHER_TIME, POURED_BYTES_MAX};
use crate::media::{Connection, MediaSession};
use crate::problem::Problem;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Instant;

/// What is known of a poured stream that plays.
#[derive(Debug)]
pub(super) struct Poured {
    /// The number by which bytes are told.
    number: u64,
    pub(super) rate_bps: u64,
    /// What its reader has not got.
    buffer: Vec<u8>,
    /// How it has ended.
    ended: Option<Result<(), Problem>>,
    /// The server reserves what is needed until this is dropped.
    _connection: Box<dyn Connection>,
}

impl Poured {
    /// The answer to a read of so many bytes; `None` if there is none yet.
    pub(super) fn answer(&mut self, bytes: usize, put: Instant, now: Instant) -> Option<Answer> {
        let ready = self.buffer.len().min(bytes);
        let all_came = self.ended.is_some() || self.buffer.len() >= POURED_BYTES_MAX;
        let is_enough = ready == bytes || (ready > 0 && (all_came || now >= put + GATHER_TIME));
        is_enough.then(|| Answer::Bytes(self.buffer.drain(..ready).collect()))
    }

    /// When a read can be answered with less than it asks for.
    pub(super) fn gathers_until(&self, put: Instant) -> Option<Instant> {
        (!self.buffer.is_empty()).then(|| put + GATHER_TIME)
    }

    /// How it has ended, if its reader has got all that came.
    pub(super) fn end(&self) -> Option<Result<(), Problem>> {
        self.ended.clone().filter(|_| self.buffer.is_empty())
    }
}

impl Stream {
    /// Whether a poured stream plays.
    pub(crate) fn plays_poured(&self) -> bool {
        matches!(self.state, State::Poured(_))
    }

    /// Whether a poured stream of this rate can be started with what is set.
    ///
    /// # Errors
    /// The position is not 0, or the rate is below that of the stream.
    pub fn check_poured(&self, rate_bps: u64) -> Result<(), Problem> {
        if self.position_ns != 0 {
            return Err(Problem::invalid("a poured stream begins where it is now; write 0 to `position`"));
        }
        match self.rate_bps {
            Some(wanted_bps) if wanted_bps < rate_bps => Err(Problem::new(
                Errno::DQUOT,
                format!("the stream has {rate_bps} bits per second, so {wanted_bps} can never be in time"),
            )),
            _ => Ok(()),
        }
    }

    /// The server has admitted a poured stream. Returns the number by which its bytes are told
    /// ([`Stream::poured`]).
    ///
    /// # Errors
    /// It was paused meanwhile. The connection is ended.
    pub fn started_poured(&mut self, connection: Box<dyn Connection>, rate_bps: u64) -> Result<u64, Problem> {
        if !matches!(self.state, State::Starting) {
            return Err(Problem::busy(format!("the stream is {} meanwhile", self.word())));
        }
        self.asked += 1;
        let number = self.asked;
        let buffer = Vec::new();
        self.state = State::Poured(Poured { number, rate_bps, buffer, ended: None, _connection: connection });
        self.refusal.clear();
        Ok(number)
    }

    /// The server has admitted a session of a poured stream that it is to play into a destination.
    /// The caller asks for that, as for [`Stream::join`].
    ///
    /// # Errors
    /// It was closed or paused meanwhile. The session is ended.
    pub fn join_poured(
        &mut self,
        session: MediaSession,
        to: &Arc<str>,
        now: Instant,
    ) -> Result<Joining, Problem> {
        let session = Arc::new(session);
        if !matches!(self.state, State::Starting) {
            self.left.push(session);
            return Err(Problem::busy(format!("the stream is {} meanwhile", self.word())));
        }
        self.refusal.clear();
        self.begin_joined(session, (to, 0), now)
    }

    /// How many bytes of a poured stream may be told now; `None` if none are wanted any more.
    pub fn poured_room(&self, number: u64) -> Option<usize> {
        let State::Poured(poured) = &self.state else { return None };
        (poured.number == number).then(|| POURED_BYTES_MAX.saturating_sub(poured.buffer.len()))
    }

    /// These bytes of a poured stream came.
    pub fn poured(&mut self, number: u64, bytes: &[u8]) {
        if let State::Poured(poured) = &mut self.state
            && poured.number == number
        {
            poured.buffer.extend_from_slice(bytes);
        }
    }

    /// No more of a poured stream comes. If it has no reader, it has ended at once.
    pub fn poured_ended(&mut self, number: u64, how: Result<(), Problem>) {
        if let State::Poured(poured) = &mut self.state
            && poured.number == number
        {
            poured.ended = Some(how.clone());
            if !self.has_reader {
                self.poured_is_over(how);
            }
        }
    }

    /// Its reader has got all.
    pub(super) fn poured_is_over(&mut self, how: Result<(), Problem>) {
        match how {
            Ok(()) => self.state = State::Ended,
            Err(problem) => self.stop(&problem, None),
        }
    }
}
