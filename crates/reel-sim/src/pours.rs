//! Programs that pour, and viewers of their streams, beside all other viewers. Streams, windows,
//! arrivals, admission, deliveries and the uplink are the server's own; programs, links and the
//! thread that takes messages are simulated.

mod program;
mod viewer;
mod writer;

use crate::core::Core;
use crate::pours_report::PoursReport;
use crate::sessions::ClientSessions;
use crate::title::Title;
use reel_pour::Pours;
use reel_pour::limits::POUR_MEMORY_BYTES;
use reel_testkit::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use viewer::{Served, Viewer};
use writer::{Asked, TICK_NS, Writer};

/// How many programs pour, and viewers watch what they pour. Every sixth program is of the same
/// manner, and every fourth viewer has a link that is too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PourSpec {
    /// Programs.
    pub writers: usize,
    /// Viewers.
    pub viewers: usize,
    /// Bytes that programs may write in a second, all together, before the processors are fully
    /// reserved; without it they never are.
    pub written_bytes_per_s: Option<u64>,
}

/// Tags of viewers of poured streams in the engine: those of others are smaller.
pub(crate) const POUR_TAG: u64 = 1 << 41;

/// All programs that pour, and their viewers.
pub(crate) struct Pourers {
    pours: Pours,
    writers: Vec<Writer>,
    viewers: Vec<Viewer>,
    title: Option<Arc<Title>>,
    /// As of [`PourSpec::written_bytes_per_s`].
    most_bytes_per_s: Option<u64>,
    tick_ns: u64,
}

impl Pourers {
    pub(crate) fn new(spec: &PourSpec, titles: &[Arc<Title>], rng: &Rng, now_ns: u64) -> Pourers {
        let writers = (0..spec.writers).map(|number| Writer::new(number, rng.part(number as u64), now_ns));
        let viewers =
            (0..spec.viewers as u64).map(|number| Viewer::new(number, rng.part((1 << 32) + number), now_ns));
        Pourers {
            pours: Pours::default(),
            writers: writers.collect(),
            viewers: viewers.collect(),
            title: titles.first().map(Arc::clone),
            most_bytes_per_s: spec.written_bytes_per_s,
            tick_ns: now_ns,
        }
    }

    /// When something is to be done, if nothing happens before.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let writers = self.writers.iter().map(Writer::next_ns);
        let viewers = self.viewers.iter().map(Viewer::next_ns);
        let tick_ns = (!self.writers.is_empty()).then_some(self.tick_ns);
        writers.chain(viewers).chain(tick_ns).min()
    }

    /// Does all that is to be done now, or that something which has happened requires. Returns
    /// whether there was something. The error is a broken law.
    pub(crate) fn turn(
        &mut self,
        (core, sessions): (&mut Core, &mut ClientSessions),
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<bool, String> {
        let is_due = self.next_ns().is_some_and(|next_ns| next_ns <= now_ns);
        if !core.take_pour_event() && !is_due {
            return Ok(false);
        }
        let is_tick = self.tick_ns <= now_ns;
        if is_tick {
            self.tick_ns = now_ns + TICK_NS;
        }
        let Some(title) = self.title.clone() else { return Ok(true) };
        self.write((sessions, &title), is_tick, now_ns, report)?;
        let title = &title;
        let mut served = Served { engine: &mut core.engine, sessions, pours: &self.pours, title };
        for viewer in &mut self.viewers {
            viewer.turn(&mut served, &self.writers, now_ns, report)?;
        }
        let reserved_bytes = self.reserved_bytes();
        report.memory_most_bytes = report.memory_most_bytes.max(reserved_bytes);
        match reserved_bytes <= POUR_MEMORY_BYTES {
            true => Ok(true),
            false => Err(format!("the windows of poured streams take {reserved_bytes} B")),
        }
    }

    /// Programs begin, write and end.
    fn write(
        &mut self,
        (sessions, title): (&mut ClientSessions, &Title),
        is_tick: bool,
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<(), String> {
        for number in 0..self.writers.len() {
            if self.writers[number].begins(now_ns) {
                let mut asked = Asked {
                    reserved_bytes: self.reserved_bytes(),
                    written_bytes_per_s: self.writers.iter().map(Writer::bytes_per_s).sum(),
                    most_bytes_per_s: self.most_bytes_per_s,
                    pours: &self.pours,
                    sessions,
                    title,
                };
                self.writers[number].begin(&mut asked, now_ns, report)?;
            }
            let writer = &mut self.writers[number];
            let rings = writer.turn(sessions, now_ns, report);
            if let (Ok(stream), true) = (&mut writer.stream, rings || is_tick) {
                stream.take(now_ns, report)?;
                stream.lasts(sessions, now_ns)?;
            }
        }
        Ok(())
    }

    /// Its sessions are used. `false` if one of them was ended.
    pub(crate) fn touch(&self, sessions: &ClientSessions, now_ns: u64) -> bool {
        let streams = self.writers.iter().filter_map(|writer| writer.stream.as_ref().ok());
        streams.map(|stream| &stream.session).all(|session| sessions.touch(session, now_ns))
            && self.viewers.iter().all(|viewer| viewer.touch(sessions, now_ns))
    }

    /// What is set aside for windows: of streams that are poured, and of those that have ended and
    /// still have viewers.
    fn reserved_bytes(&self) -> u64 {
        let mut windows: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for (number, writer) in self.writers.iter().enumerate() {
            if let Ok(stream) = &writer.stream {
                windows.insert((number, writer.streams), stream.program.terms.window_bytes());
            }
        }
        for watching in self.viewers.iter().filter_map(|viewer| viewer.watches.as_ref().ok()) {
            windows.insert(watching.stream, watching.window_bytes);
        }
        windows.values().sum()
    }
}
