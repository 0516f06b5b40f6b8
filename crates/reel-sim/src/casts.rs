//! Casts beside the viewers: titles that are sent by the clock, each in a loop, some of them by a
//! schedule. Sessions, demands, runs, trains and times are the server's own
//! ([`reel_cast::Feed`]); only sockets are left out.

use crate::casts_report::CastsReport;
use crate::content::first_wrong;
use crate::core::bytes_of;
use crate::library::title_record;
use crate::scale::OBJECT_SCALE;
use crate::sessions::{ClientSession, ClientSessions};
use crate::title::{Title, Track};
use reel_broadcast::Scheme;
use reel_cache::Depth;
use reel_cast::limits::CAST_TRAIN_BYTES;
use reel_cast::{Broadcast, BroadcastBound, BroadcastConfig, Destination, Feed};
use reel_library::Stream;
use reel_media::transport::{JoinPoint, StreamIndex, TICKS_PER_S, TimePoint};
use reel_play::{Engine, PlayableTitle};
use reel_ring::Chunk;
use reel_rtp::fec::Geometry as FecGeometry;
use std::sync::Arc;

/// Which casts there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CastSpec {
    /// Casts of a title to one group, in a loop.
    pub plain: usize,
    /// Casts by the scheme `rfs`.
    pub schedules: usize,
    /// The longest wait of the clients of these, in nanoseconds.
    pub wait_ns: u64,
}

/// Tags of casts in the engine: those of clients are smaller.
pub(crate) const CAST_TAG: u64 = 1 << 40;

/// How long after a refusal a cast asks again.
const ASK_AGAIN_NS: u64 = 1_000_000_000;

/// All casts.
pub(crate) struct Casts {
    casts: Vec<Cast>,
    /// What is due of them by that time was sent.
    pumped_ns: u64,
}

struct Cast {
    stream: Arc<Stream>,
    title: Arc<Title>,
    feed: Feed<Title>,
    ahead: Depth,
    /// The session of what is sent next, and when it begins.
    next: Option<(ClientSession, u64)>,
    ask_ns: u64,
}

impl Casts {
    /// The casts of a scenario, of the first titles, for members that are read so much ahead.
    ///
    /// # Errors
    /// A title cannot be sent so.
    pub(crate) fn new(spec: &CastSpec, titles: &[Arc<Title>], ahead: Depth) -> anyhow::Result<Casts> {
        let cast = |(number, title): (usize, &Arc<Title>)| {
            let bound = BroadcastBound::Wait(spec.wait_ns);
            let config = BroadcastConfig { scheme: Scheme::RecursiveFrequencySplitting, bound };
            Cast::new(number as u64, title, (number >= spec.plain).then_some(config), ahead)
        };
        let casts = titles.iter().cycle().take(spec.plain + spec.schedules).enumerate();
        Ok(Casts { casts: casts.map(cast).collect::<Result<_, _>>()?, pumped_ns: 0 })
    }

    /// When one of them is to be looked at, if nothing happens before.
    pub(crate) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        self.casts.iter().filter_map(|cast| cast.next_ns(now_ns)).min()
    }

    /// Sends what is due, if time has passed or something has arrived for a cast. Returns whether
    /// something was sent.
    pub(crate) fn turn(
        &mut self,
        (engine, sessions): (&mut Engine<Title>, &mut ClientSessions),
        has_arrived: bool,
        now_ns: u64,
        report: &mut CastsReport,
    ) -> Result<bool, String> {
        if !has_arrived && self.pumped_ns == now_ns {
            return Ok(false);
        }
        self.pumped_ns = now_ns;
        let before = report.packets + report.fec_packets;
        for cast in &mut self.casts {
            cast.turn((engine, sessions), now_ns, report)?;
        }
        report.sum(self.casts.iter().map(|cast| cast.feed.counts()));
        Ok(report.packets + report.fec_packets > before)
    }

    /// Its sessions are used. `false` if one of them was ended.
    pub(crate) fn touch(&self, sessions: &ClientSessions, now_ns: u64) -> bool {
        let next = self.casts.iter().filter_map(|cast| cast.next.as_ref().map(|(session, _)| session));
        let mut all = self.casts.iter().flat_map(|cast| cast.feed.sessions()).chain(next);
        all.all(|session| sessions.touch(session, now_ns))
    }
}

impl Cast {
    fn new(
        number: u64,
        title: &Arc<Title>,
        config: Option<BroadcastConfig>,
        ahead: Depth,
    ) -> anyhow::Result<Cast> {
        let track = title.best();
        let geometry = track.map.geometry();
        let (columns, rows) = (geometry.row_symbols() as u16, geometry.data_rows() as u16);
        let record = title_record(format!("film-{}", title.number), Vec::new());
        let stream = Arc::new(Stream::simulated(record, stream_index(track), Arc::clone(&track.map)));
        let broadcast = config.map(|config| Broadcast::of_stream(&stream, true, config)).transpose()?;
        let to = Destination {
            tag: CAST_TAG + number,
            fec: Some(FecGeometry::new(columns, rows)?),
            group: [239, 1, 1, number as u8].into(),
            train_bytes: CAST_TRAIN_BYTES / OBJECT_SCALE,
        };
        let feed = Feed::new(to, broadcast);
        Ok(Cast { stream, title: Arc::clone(title), feed, ahead, next: None, ask_ns: 0 })
    }

    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let begins_ns = match &self.next {
            Some((_, start_ns)) => Some((*start_ns).max(now_ns + 1)),
            None => Some(self.ask_ns.max(now_ns + 1)),
        };
        [begins_ns, self.feed.due_after_ns(now_ns)].into_iter().flatten().min()
    }

    fn turn(
        &mut self,
        (engine, sessions): (&mut Engine<Title>, &mut ClientSessions),
        now_ns: u64,
        report: &mut CastsReport,
    ) -> Result<(), String> {
        if self.next.is_none() && self.ask_ns <= now_ns {
            self.ask(sessions, now_ns, report);
        }
        if let Some((session, start_ns)) = self.next.take_if(|(_, start_ns)| *start_ns <= now_ns) {
            let start_ns = start_ns.max(session.start_ns(now_ns));
            if !self.feed.begin(engine, session, start_ns, now_ns) {
                return Err("nothing is reserved for a cast that was admitted".to_owned());
            }
            report.begun += 1;
            self.ask_ns = now_ns;
            self.ask(sessions, now_ns, report);
        }
        let track = self.title.best();
        let mut wrong = None;
        let compare = |offset: u64, chunks: &[Chunk]| {
            let found = first_wrong_of(track, offset, chunks);
            wrong = wrong.or(found);
        };
        for ended in self.feed.pump(engine, now_ns, compare) {
            sessions.close(&ended);
        }
        wrong.map_or(Ok(()), |byte| Err(format!("byte {byte} of {} is cast wrong", track.map.name())))
    }

    /// Asks for the session of what is sent next.
    fn ask(&mut self, sessions: &mut ClientSessions, now_ns: u64, report: &mut CastsReport) {
        let start_ns = self.feed.next_start_ns().unwrap_or(now_ns).max(now_ns);
        let ahead = self.ahead;
        let playing = match self.feed.broadcast() {
            Some(broadcast) => {
                let pieces = broadcast.window(self.feed.next_place());
                PlayableTitle::of_slots(Arc::clone(&self.stream), &pieces, true, ahead)
            }
            None => PlayableTitle::of_stream(Arc::clone(&self.stream), 1, true, ahead),
        };
        let playing = Arc::new(self.title.to_be_cast(playing));
        match sessions.open_pushed(&playing, start_ns, now_ns) {
            Ok(session) => self.next = Some((session, start_ns)),
            Err(_) => {
                report.refused += 1;
                self.ask_ns = now_ns + ASK_AGAIN_NS;
            }
        }
    }
}

/// The first byte of a track, from `offset` on, that differs from what it holds.
fn first_wrong_of(track: &Track, offset: u64, chunks: &[Chunk]) -> Option<u64> {
    let mut at = offset;
    chunks.iter().find_map(|chunk| {
        let bytes = bytes_of(chunk);
        let range = at..at + bytes.len() as u64;
        at = range.end;
        first_wrong(track.seed, range, bytes)
    })
}

/// The index of a track that is sent as a stream: its matrices, with a key frame in each segment.
fn stream_index(track: &Track) -> StreamIndex {
    let geometry = track.map.geometry();
    let packet_at = |offset: u64| offset / geometry.symbol_bytes() as u64 * SYMBOL_PACKETS;
    let matrix_bytes = (geometry.row_bytes() * geometry.data_rows()) as u64;
    let bytes = track.map.bytes() / matrix_bytes * matrix_bytes;
    let ticks = |media_ns: u64| {
        u64::try_from(u128::from(media_ns) * u128::from(TICKS_PER_S) / 1_000_000_000).unwrap_or(u64::MAX)
    };
    let starts = (0..track.segments()).map(|number| (number, packet_at(track.segment(number).start)));
    let starts: Vec<_> = starts.take_while(|(_, packet)| *packet < packet_at(bytes)).collect();
    let time = |(number, packet): &(usize, u64)| TimePoint {
        packet: *packet,
        ticks: ticks(*number as u64 * track.segment_ns),
        jump: false,
    };
    let end = TimePoint { packet: packet_at(bytes), ticks: ticks(track.media_ns(bytes)), jump: false };
    StreamIndex {
        packets: packet_at(bytes),
        programme: 1,
        times: starts.iter().map(time).chain([end]).collect(),
        joins: starts.iter().map(|(_, packet)| JoinPoint { packet: *packet, tables: *packet }).collect(),
    }
}

/// Transport packets in a symbol.
const SYMBOL_PACKETS: u64 = reel_media::transport::SYMBOL_PACKETS as u64;
