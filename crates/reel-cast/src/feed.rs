//! A cast without sockets, as the simulator sends it: its runs, its trains and its times are those
//! of the server.

use crate::broadcast::Broadcast;
use crate::limits::{CAST_LATE_NS, CAST_TRAIN_PACKETS};
use crate::numbering::{Numbers, Source};
use crate::on_air::Begun;
use crate::piece::Port;
use crate::run::{Destination, Opener, Run};
use reel_admit::Session;
use reel_play::{Engine, Playable};
use reel_ring::Chunk;
use std::sync::Arc;

/// A cast that is sent to no network.
pub struct Feed<T> {
    to: Destination,
    broadcast: Option<Broadcast>,
    sources: Vec<Source>,
    runs: Vec<Run<T>>,
    next_place: u64,
    counts: FeedCounts,
}

/// What a cast has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// Media packets.
    pub packets: u64,
    /// FEC packets.
    pub fec_packets: u64,
    /// Packets that left more than 20 ms after they were due.
    pub late_packets: u64,
    /// How late the latest one was.
    pub late_most_ns: u64,
}

impl<T: Playable> Feed<T> {
    /// A cast of a stream as its clock says, or by a schedule.
    pub fn new(to: Destination, broadcast: Option<Broadcast>) -> Feed<T> {
        let channels = broadcast.as_ref().map_or(1, |broadcast| broadcast.schedule().channels().len());
        let source = |channel: usize| Source::new(channel as u32, 0);
        let sources = (0..channels).map(source).collect();
        Feed { to, broadcast, sources, runs: Vec::new(), next_place: 0, counts: FeedCounts::default() }
    }

    /// Its schedule.
    pub fn broadcast(&self) -> Option<&Broadcast> {
        self.broadcast.as_ref()
    }

    /// When the next session begins to be read, if another one is sent now.
    pub fn next_start_ns(&self) -> Option<u64> {
        Some(self.runs.last()?.next_start_ns())
    }

    /// The slot with which the next session begins.
    pub fn next_place(&self) -> u64 {
        self.next_place
    }

    /// Begins a session. `false` if nothing is reserved for it any more.
    pub fn begin(
        &mut self,
        engine: &mut Engine<T>,
        session: Arc<Session<T>>,
        start_ns: u64,
        now_ns: u64,
    ) -> bool {
        let (place, numbers) = (self.next_place, Numbers::default());
        let begun = Begun { session, start_ns, place, numbers, stamped_unix_ns: 0 };
        let mut opener = Opener { engine, to: self.to, now_ns };
        let run = match &self.broadcast {
            Some(broadcast) => Run::of_slots(&mut opener, begun, broadcast),
            None => Run::of_passes(&mut opener, begun, &mut self.sources[0], 0),
        };
        let Some(run) = run else { return false };
        self.next_place = run.next_place();
        self.runs.push(run);
        true
    }

    /// Sends what is due and in memory. Returns the sessions that were sent to their ends. `look`
    /// is shown the media of passes: the place in the stream, and the bytes as they are stored.
    pub fn pump(
        &mut self,
        engine: &mut Engine<T>,
        now_ns: u64,
        mut look: impl FnMut(u64, &[Chunk]),
    ) -> Vec<Arc<Session<T>>> {
        let mut opener = Opener { engine, to: self.to, now_ns };
        if let Some(broadcast) = &self.broadcast {
            for run in &mut self.runs {
                run.open_slots(&mut opener, &mut self.sources, broadcast);
            }
        }
        let (counts, has_slots) = (&mut self.counts, self.broadcast.is_some());
        for run in &mut self.runs {
            let playing = Arc::clone(run.session.playing());
            let Some(pushed) = playing.pushed() else { continue };
            let symbol_bytes = pushed.stream.places.symbol_bytes();
            for piece in &mut run.pieces {
                while let Some(due) = piece.take_due(engine, symbol_bytes, CAST_TRAIN_PACKETS, now_ns) {
                    let count = due.symbols.count;
                    if piece.port == Port::Media && !has_slots {
                        let symbol = due.packets.start % pushed.times.pass_symbols();
                        look(symbol * symbol_bytes as u64, due.symbols.chunks());
                    }
                    match piece.port {
                        Port::Media => counts.packets += count,
                        Port::Fec(_) => counts.fec_packets += count,
                    }
                    let late_ns = now_ns.saturating_sub(due.due_ns);
                    counts.late_most_ns = counts.late_most_ns.max(late_ns);
                    counts.late_packets += if late_ns > CAST_LATE_NS { count } else { 0 };
                }
            }
            run.pieces.retain(|piece| {
                if piece.is_done() {
                    engine.close(piece.delivery);
                }
                !piece.is_done()
            });
        }
        let ended = self.runs.extract_if(.., |run| run.is_done());
        ended.map(|run| run.session).collect()
    }

    /// When something is due after a time. What was due before waits, and an event follows.
    pub fn due_after_ns(&self, now_ns: u64) -> Option<u64> {
        let pieces = self.runs.iter().flat_map(|run| run.pieces.iter().filter_map(|piece| piece.due_ns()));
        let due = pieces.chain(self.runs.iter().filter_map(Run::opens_ns));
        due.filter(|due_ns| *due_ns > now_ns).min()
    }

    /// The sessions that are being sent.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session<T>>> {
        self.runs.iter().map(|run| &run.session)
    }

    /// What it has sent.
    pub fn counts(&self) -> FeedCounts {
        self.counts
    }
}
