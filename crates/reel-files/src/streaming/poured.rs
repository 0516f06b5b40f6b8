//! Poured streams that are controlled as files: read by a thread each, or played by the server into
//! destinations.

use super::{Streaming, of_ask, why_not};
use crate::asking::Turn;
use crate::limits::POURED_BLOCK_BYTES;
use crate::media::{Media, OpenAs, PouredBytes, PouredStream};
use crate::poured::poured_name;
use crate::problem::Problem;
use crate::server::Server;
use crate::stream::Wanted;
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread;

impl<S: Server + Media> Streaming<S> {
    /// Has the server admit a poured stream, tells the stream, and has a thread read it.
    pub(super) fn admit_poured(
        self: &Arc<Self>,
        number: u64,
        (name, as_of): (&str, OpenAs<'_>),
        turn: Turn,
    ) -> Result<(), Problem> {
        let admitted = self.ask_to_admit_poured(number, (name, as_of), turn);
        let (pour, bytes) = self.tell(
            number,
            admitted,
            |stream, (opened, rate_bps)| {
                let pour = stream.started_poured(opened.connection, rate_bps)?;
                Ok((pour, opened.bytes))
            },
            // The connection ends with what was opened.
            |_, _| {},
        )?;
        let streaming = Arc::clone(self);
        let reader = thread::Builder::new().name("reel-poured".to_owned());
        let started = reader.spawn(move || streaming.read_poured((number, pour), bytes));
        started.map(drop).map_err(|error| {
            let problem = Problem::new(rustix::io::Errno::AGAIN, format!("no thread is available: {error}"));
            self.poured_ended((number, pour), Err(problem.clone()));
            problem
        })
    }

    /// Has the server admit a poured stream and play it into a destination.
    pub(super) fn join_poured(
        &self,
        number: u64,
        wanted: &Wanted,
        to: &Arc<str>,
        turn: Turn,
    ) -> Result<(), Problem> {
        let name = poured_name(&wanted.title).unwrap_or_default();
        let rate_bps = self.poured_bps(name, turn);
        let checked = rate_bps.and_then(|rate_bps| self.held().table.stream(number)?.check_poured(rate_bps));
        let opened = checked
            .map_err(|problem| (problem, None))
            .and_then(|()| self.server.open_to_join(name, wanted.as_of(), turn.until).map_err(why_not));
        let joining = self.tell(
            number,
            opened,
            |stream, session| stream.join_poured(session, to, turn.put),
            |table, session| table.leave(session),
        );
        self.join(number, &joining?, turn)
    }

    /// A poured stream that was opened, and its rate; or why there is none, as
    /// [`Streaming::ask_to_admit`].
    fn ask_to_admit_poured(
        &self,
        number: u64,
        (name, as_of): (&str, OpenAs<'_>),
        turn: Turn,
    ) -> Result<(PouredStream, u64), (Problem, Option<String>)> {
        let no_refusal = |problem| (problem, None);
        let rate_bps = self.poured_bps(name, turn).map_err(no_refusal)?;
        let mut held = self.held();
        let checked = held.table.check_poured();
        let checked = checked.and_then(|()| held.table.stream(number)?.check_poured(rate_bps));
        drop(held);
        checked.map_err(no_refusal)?;
        match self.server.open_poured(name, as_of, turn.until) {
            Ok(opened) => Ok((opened, rate_bps)),
            Err(not_opened) => Err(why_not(not_opened)),
        }
    }

    /// The rate of a poured stream, which there has to be.
    pub(super) fn poured_bps(&self, name: &str, turn: Turn) -> Result<u64, Problem> {
        let rate_bps = self.server.poured_bps(name, turn.until).map_err(|error| of_ask(&error))?;
        rate_bps.ok_or_else(|| {
            let text = format!("no program pours {name:.80?} now; `reel pour NAME` does");
            Problem::new(rustix::io::Errno::NOENT, text)
        })
    }

    /// Reads a poured stream until it ends or is not wanted any more.
    fn read_poured(&self, (number, pour): (u64, u64), mut bytes: Box<dyn PouredBytes>) {
        let mut block = vec![0; POURED_BLOCK_BYTES];
        while let Some(room) = self.poured_room((number, pour)) {
            let most = room.min(block.len());
            let read = match bytes.read(&mut block[..most]) {
                Ok(0) => return self.poured_ended((number, pour), Ok(())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    let text = "the stream has broken off: its program is gone, it was read too slowly, or the server does not answer";
                    let problem = Problem::new(rustix::io::Errno::IO, text);
                    return self.poured_ended((number, pour), Err(problem));
                }
            };
            if let Ok(stream) = self.held().table.stream(number) {
                stream.poured(pour, &block[..read]);
            }
            self.changed.notify_all();
        }
    }

    /// Waits for room for more of a poured stream; `None` if no more is wanted.
    fn poured_room(&self, (number, pour): (u64, u64)) -> Option<usize> {
        let mut held = self.held();
        loop {
            match held.table.stream(number).ok()?.poured_room(pour)? {
                0 => held = self.looked_at.wait(held).unwrap_or_else(PoisonError::into_inner),
                room => return Some(room),
            }
        }
    }

    fn poured_ended(&self, (number, pour): (u64, u64), how: Result<(), Problem>) {
        if let Ok(stream) = self.held().table.stream(number) {
            stream.poured_ended(pour, how);
        }
        self.changed.notify_all();
    }
}
