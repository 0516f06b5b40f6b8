//! A transport stream that is sent by the clock: when its packets are due, and what that demands.
//!
//! ```text
//!   stream time   0 ... PUSH_LEAD ............................ until_ns
//!                 reads begin | symbol 0 is sent ... last symbol of the last pass
//! ```
//! A pass is the stream once, up to the end of a matrix: what is missing there is filled with the
//! null packets that are stored behind the stream, at its mean rate. So each FEC packet protects
//! packets that were sent.

use crate::limits::{FEC_HEADER_BYTES, PUSH_LEAD_NS, PUSHED_HEADER_BYTES};
use crate::playable::PlainFile;
use reel_admit::limits::SEND_LEAD_NS;
use reel_admit::{Choices, Loss, Stretch, demand, shared_demand};
use reel_cache::{Body, Depth, MediaKind, Part, SharedTrack, SharedTracks};
use reel_library::Stream;
use reel_media::transport::{SYMBOL_PACKETS, SYMBOL_PAYLOAD_BYTES, StreamIndex, TICKS_PER_S};
use reel_qos::Demand;
use reel_qos::limits::ROUND_NS;
use reel_volume::Geometry;
use std::ops::Range;
use std::sync::Arc;

/// When the symbols of a stream are due that is sent a number of times in a row. A symbol is the
/// payload of one packet of RTP. Pure.
#[derive(Clone, Debug)]
pub struct PushedTimes {
    index: Arc<StreamIndex>,
    passes: u64,
    pass_symbols: u64,
    pass_ticks: u64,
}

/// A stream that is sent by the clock.
pub struct PushedStream {
    /// The stream.
    pub stream: Arc<Stream>,
    /// When its symbols are due.
    pub times: PushedTimes,
    /// Whether its parity is sent, too.
    pub with_parity: bool,
    /// Its passes as one body, and the stream time at which each stripe begins to be sent.
    pub(crate) file: PlainFile,
    /// The parity of its passes as one body, with the times of its data.
    pub(crate) parity: PlainFile,
    /// What it demands; `None` if it is too long to be promised.
    pub(crate) choices: Option<Choices>,
}

impl PushedTimes {
    /// The times of `passes` passes of a stream that is stored in matrices of so many symbols.
    pub fn new(index: Arc<StreamIndex>, matrix_symbols: u64, passes: u64) -> PushedTimes {
        let symbols = index.packets.div_ceil(SYMBOL_PACKETS as u64);
        let pass_symbols = symbols.next_multiple_of(matrix_symbols.max(1));
        let mut times = PushedTimes { index, passes, pass_symbols, pass_ticks: 0 };
        times.pass_ticks = times.ticks_within(pass_symbols);
        times
    }

    /// How often the stream is sent.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Symbols of one pass: whole matrices.
    pub fn pass_symbols(&self) -> u64 {
        self.pass_symbols
    }

    /// Symbols of all passes.
    pub fn symbols(&self) -> u64 {
        self.pass_symbols * self.passes
    }

    /// When a symbol is due since the beginning of the first one, in ticks of 27 MHz.
    pub fn ticks(&self, symbol: u64) -> u64 {
        let (pass, within) = (symbol / self.pass_symbols, symbol % self.pass_symbols);
        pass * self.pass_ticks + self.ticks_within(within)
    }

    /// When a symbol is due on the clock of its session, in nanoseconds after its start.
    pub fn due_ns(&self, symbol: u64) -> u64 {
        PUSH_LEAD_NS + nanoseconds(self.ticks(symbol))
    }

    /// The end of the last pass on the clock of its session, in nanoseconds after its start.
    pub fn until_ns(&self) -> u64 {
        self.due_ns(self.symbols())
    }

    /// How long one pass takes, in nanoseconds.
    pub fn pass_ns(&self) -> u64 {
        nanoseconds(self.pass_ticks)
    }

    /// The first symbol that is not due before a time on the clock of its session.
    pub fn symbol_at(&self, stream_ns: u64) -> u64 {
        // The last tick before that time.
        let Some(before) = ticks_until(stream_ns.saturating_sub(PUSH_LEAD_NS)).checked_sub(1) else {
            return 0;
        };
        let pass = (before / self.pass_ticks.max(1)).min(self.passes);
        let within = before - pass * self.pass_ticks;
        let mut symbol = self.last_symbol_at(within);
        while symbol < self.pass_symbols && self.ticks_within(symbol) <= within {
            symbol += 1;
        }
        (pass * self.pass_symbols + symbol).min(self.symbols())
    }

    /// When a packet of one pass is due. Beyond the stream, packets follow at its mean rate.
    fn ticks_within(&self, symbol: u64) -> u64 {
        let index = &self.index;
        let packet = symbol * SYMBOL_PACKETS as u64;
        match packet.checked_sub(index.packets) {
            Some(beyond) => index.duration_ticks() + part(beyond, index.duration_ticks(), index.packets),
            None => index.ticks_at(packet),
        }
    }

    /// A symbol of one pass that is due at that time or somewhat before.
    fn last_symbol_at(&self, ticks: u64) -> u64 {
        let index = &self.index;
        let packet = match ticks.checked_sub(index.duration_ticks()) {
            Some(beyond) => index.packets + part(beyond, index.packets, index.duration_ticks()),
            None => index.packet_at(ticks),
        };
        (packet / SYMBOL_PACKETS as u64).min(self.pass_symbols)
    }

    /// Bytes that are sent in each round of the session.
    fn sent_bytes(&self, packet_bytes: u64) -> Vec<u64> {
        let rounds = self.until_ns().div_ceil(ROUND_NS);
        let mut before = 0;
        (1..=rounds)
            .map(|round| {
                let until = self.symbol_at(round * ROUND_NS);
                (until - std::mem::replace(&mut before, until)) * packet_bytes
            })
            .collect()
    }
}

impl PushedStream {
    /// `passes` passes of a stream, for members whose readers read ahead by `depth`.
    pub(crate) fn new(stream: Arc<Stream>, passes: u64, with_parity: bool, depth: Depth) -> PushedStream {
        let geometry = stream.map.geometry();
        let times = PushedTimes::new(Arc::clone(&stream.index), geometry.matrix_symbols(), passes);
        let pass_bytes = times.pass_symbols * stream.places.symbol_bytes() as u64;
        let parity_bytes = pass_bytes / geometry.data_rows() as u64;
        let in_a_row =
            |part: Part| (0..passes).map(|_| Body::new([part.clone()])).fold(Body::default(), Body::then);
        let body = in_a_row(Part::Object(Arc::clone(&stream.map), 0..pass_bytes));
        let parity = in_a_row(Part::Parity(Arc::clone(&stream.map), 0..parity_bytes));
        let stripes = stripes(&stream, &times);
        let choices = choices_of(&stream, &times, with_parity, &stripes, depth);
        let sent = |rows: u64, bytes| -> Arc<[(u64, u64)]> {
            let sent = stripes.iter().map(|stripe| (stripe.body_offset / rows, stripe.due_ns));
            sent.chain([(bytes, times.until_ns())]).collect()
        };
        let (of_data, of_parity) = (sent(1, body.bytes()), sent(geometry.data_rows() as u64, parity.bytes()));
        PushedStream {
            file: PlainFile { body, times: of_data },
            parity: PlainFile { body: parity, times: of_parity },
            stream,
            times,
            with_parity,
            choices,
        }
    }

    /// Its symbols from one on, as a body.
    pub fn symbols_from(&self, symbol: u64) -> Body {
        let at = symbol * self.stream.places.symbol_bytes() as u64;
        self.file.body.slice(at..self.file.body.bytes())
    }

    /// The parity of its matrices from one on, as a body.
    pub fn parity_from(&self, matrix: u64) -> Body {
        let at = matrix * self.stream.map.geometry().row_bytes() as u64;
        self.parity.body.slice(at..self.parity.body.bytes())
    }
}

/// Some matrices of a stream that a channel sends at a constant rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPiece {
    /// The channel, from 0.
    pub channel: usize,
    /// The matrices, of which there is at least one.
    pub matrices: Range<u64>,
    /// When they begin to be sent, in nanoseconds after the start of the session.
    pub from_ns: u64,
    /// For how long they are sent, in nanoseconds.
    pub duration_ns: u64,
}

impl PushedStream {
    /// Some slots of a schedule: what its channels send at the same time. `pieces` are in the order
    /// of their times, and none begins before [`PUSH_LEAD_NS`].
    pub(crate) fn of_slots(
        stream: Arc<Stream>,
        pieces: &[SlotPiece],
        with_parity: bool,
        depth: Depth,
    ) -> PushedStream {
        let geometry = stream.map.geometry();
        let (row_bytes, matrix_symbols) = (geometry.row_bytes() as u64, geometry.matrix_symbols());
        let times = PushedTimes::new(Arc::clone(&stream.index), matrix_symbols, 1);
        let matrices = times.pass_symbols / matrix_symbols;
        let until_ns = pieces.iter().map(|piece| piece.from_ns + piece.duration_ns).max().unwrap_or(0);
        let whole = |part: Part| {
            let (body, sent) = (Body::new([part.clone()]), [(0, 0), (part.bytes(), until_ns)]);
            PlainFile { body, times: Arc::from(sent) }
        };
        let data_bytes = matrices * row_bytes * geometry.data_rows() as u64;
        let file = whole(Part::Object(Arc::clone(&stream.map), 0..data_bytes));
        let parity = whole(Part::Parity(Arc::clone(&stream.map), 0..matrices * row_bytes));
        let choices = demand_of_slots(&stream, pieces, with_parity, until_ns, depth)
            .map(|demand| Choices::from(Arc::from([Arc::new(demand)])));
        PushedStream { stream, times, with_parity, file, parity, choices }
    }

    /// Some matrices of it, as a body.
    pub fn matrices(&self, matrices: Range<u64>) -> Body {
        let geometry = self.stream.map.geometry();
        let matrix_bytes = (geometry.row_bytes() * geometry.data_rows()) as u64;
        self.file.body.slice(matrices.start * matrix_bytes..matrices.end * matrix_bytes)
    }

    /// The parity of some matrices of it, as a body.
    pub fn parity_of(&self, matrices: Range<u64>) -> Body {
        let row_bytes = self.stream.map.geometry().row_bytes() as u64;
        self.parity.body.slice(matrices.start * row_bytes..matrices.end * row_bytes)
    }
}

/// The demand of channels that send at the same time.
fn demand_of_slots(
    stream: &Stream,
    pieces: &[SlotPiece],
    with_parity: bool,
    until_ns: u64,
    depth: Depth,
) -> Option<Demand> {
    let geometry = stream.map.geometry();
    let matrix_bytes = (geometry.row_bytes() * geometry.data_rows()) as u64;
    let channels = pieces.iter().map(|piece| piece.channel + 1).max().unwrap_or(0);
    let of_channel = |channel: usize| {
        let stretches = pieces.iter().filter(|piece| piece.channel == channel).map(|piece| Stretch {
            map: &stream.map,
            range: piece.matrices.start * matrix_bytes..piece.matrices.end * matrix_bytes,
            from_ns: piece.from_ns.saturating_sub(PUSH_LEAD_NS),
            due_ns: piece.from_ns.saturating_sub(SEND_LEAD_NS),
            duration_ns: piece.duration_ns,
            with_parity,
        });
        demand(geometry.members(), depth, stretches, Loss::AnyOne)
    };
    let demands: Vec<Demand> = (0..channels).map(of_channel).collect::<Option<_>>()?;
    let symbol_bytes = pushed_packet_bytes(geometry, with_parity);
    let mut sent = vec![0; usize::try_from(until_ns.div_ceil(ROUND_NS)).ok()?];
    for piece in pieces {
        let symbols = (piece.matrices.end - piece.matrices.start) * geometry.matrix_symbols();
        spread(&mut sent, symbols * symbol_bytes, piece);
    }
    Some(Demand::sum_of(&demands.iter().collect::<Vec<_>>()).sending(sent))
}

/// Counts bytes as sent evenly in the time of a piece.
fn spread(sent: &mut [u64], bytes: u64, piece: &SlotPiece) {
    let end_ns = piece.from_ns + piece.duration_ns;
    let mut before = 0;
    for round in piece.from_ns / ROUND_NS..end_ns.div_ceil(ROUND_NS) {
        let passed_ns = ((round + 1) * ROUND_NS).min(end_ns) - piece.from_ns;
        let until = part(bytes, passed_ns, piece.duration_ns);
        // Fits: the rounds up to the end were allocated.
        sent[round as usize] += until - before;
        before = until;
    }
}

/// Bytes on the network of a packet, with its part of a FEC packet.
pub fn pushed_packet_bytes(geometry: &Geometry, with_parity: bool) -> u64 {
    let packet_bytes = (SYMBOL_PAYLOAD_BYTES + PUSHED_HEADER_BYTES) as u64;
    let fec_bytes = (packet_bytes + FEC_HEADER_BYTES as u64).div_ceil(geometry.data_rows() as u64);
    packet_bytes + if with_parity { fec_bytes } else { 0 }
}

/// A stripe of one pass.
struct StripeOfPass {
    body_offset: u64,
    object_bytes: Range<u64>,
    due_ns: u64,
}

/// The stripes of all passes, in order.
fn stripes(stream: &Stream, times: &PushedTimes) -> Vec<StripeOfPass> {
    let symbol_bytes = stream.places.symbol_bytes() as u64;
    let stripe_bytes = stream.map.geometry().stripe_bytes() as u64;
    let (stripe_symbols, pass_bytes) = (stripe_bytes / symbol_bytes, times.pass_symbols * symbol_bytes);
    let of_pass = |pass: u64| {
        (0..pass_bytes.div_ceil(stripe_bytes)).map(move |stripe| StripeOfPass {
            body_offset: pass * pass_bytes + stripe * stripe_bytes,
            object_bytes: stripe * stripe_bytes..((stripe + 1) * stripe_bytes).min(pass_bytes),
            due_ns: times.due_ns(pass * times.pass_symbols + stripe * stripe_symbols),
        })
    };
    (0..times.passes).flat_map(of_pass).collect()
}

/// What passes of a stream demand, and what sessions that send a single pass share of it: all that
/// is read. `None` if it is too long to be promised.
fn choices_of(
    stream: &Stream,
    times: &PushedTimes,
    with_parity: bool,
    stripes: &[StripeOfPass],
    depth: Depth,
) -> Option<Choices> {
    let geometry = stream.map.geometry();
    let stretches = |with_parity: bool| stripes.iter().map(move |stripe| stripe.stretch(stream, with_parity));
    let demand = demand(geometry.members(), depth, stretches(with_parity), Loss::AnyOne)?;
    // The FEC packet of a column is sent while the packets of the next matrix are sent.
    let demand = demand.sending(times.sent_bytes(pushed_packet_bytes(geometry, with_parity)));
    if times.passes != 1 {
        return Some(Choices::from(Arc::from([Arc::new(demand)])));
    }
    let shared = shared_demand(geometry.members(), depth, stretches(with_parity))?;
    let nothing = Demand::peak_of(&[]);
    let track = SharedTrack {
        kind: MediaKind::Video,
        map: Arc::clone(&stream.map),
        starts: stripes.iter().map(|stripe| (stripe.due_ns, stripe.object_bytes.start)).collect(),
        track_ns: times.pass_ns(),
        with_parity,
    };
    Some(Choices {
        demands: Arc::from([Arc::new(demand.with_shared(&shared, &nothing, &nothing))]),
        shared: Arc::from([Some(Arc::new(SharedTracks::new(vec![track])))]),
    })
}

impl StripeOfPass {
    /// It is read within the lead before it is sent.
    fn stretch<'a>(&self, stream: &'a Stream, with_parity: bool) -> Stretch<'a> {
        Stretch {
            map: &stream.map,
            range: self.object_bytes.clone(),
            from_ns: self.due_ns.saturating_sub(PUSH_LEAD_NS),
            due_ns: self.due_ns.saturating_sub(SEND_LEAD_NS),
            duration_ns: 0,
            with_parity,
        }
    }
}

/// Ticks of 27 MHz as nanoseconds.
fn nanoseconds(ticks: u64) -> u64 {
    part(ticks, 1_000_000_000, TICKS_PER_S)
}

/// Ticks before a time, rounded up: what is due at one of them has its [`nanoseconds`] before it.
fn ticks_until(time_ns: u64) -> u64 {
    let ticks = (u128::from(time_ns) * u128::from(TICKS_PER_S)).div_ceil(1_000_000_000);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// `value * to / from`.
fn part(value: u64, to: u64, from: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(to) / u128::from(from.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reel_media::transport::TimePoint;

    prop_compose! {
        fn any_times()(
            steps in prop::collection::vec((1_u64..3000, 1_u64..9_000_000), 1..40),
            matrix in 4_u64..130,
            passes in 1_u64..5,
        ) -> PushedTimes {
            let mut times = vec![TimePoint { packet: 0, ticks: 0, jump: false }];
            let (mut packet, mut ticks) = (0, 0);
            for (packets, time) in steps {
                (packet, ticks) = (packet + packets, ticks + time);
                times.push(TimePoint { packet, ticks, jump: false });
            }
            let index = StreamIndex { packets: packet, programme: 1, times, joins: Vec::new() };
            PushedTimes::new(Arc::new(index), matrix, passes)
        }
    }

    proptest! {
        #[test]
        fn symbols_are_due_in_order_and_passes_follow_each_other(times in any_times(), part in 0.0..1.0) {
            let symbol = (times.symbols() as f64 * part) as u64;
            prop_assert!(times.ticks(symbol) <= times.ticks(symbol + 1));
            let within = symbol % times.pass_symbols();
            let pass = symbol / times.pass_symbols();
            prop_assert_eq!(times.ticks(symbol), pass * times.ticks(times.pass_symbols()) + times.ticks(within));
        }

        #[test]
        fn the_symbol_of_a_time_is_the_first_one_not_before_it(times in any_times(), part in 0.0..1.1) {
            let at_ns = (times.until_ns() as f64 * part) as u64;
            let symbol = times.symbol_at(at_ns);
            prop_assert!(symbol == times.symbols() || times.due_ns(symbol) >= at_ns);
            prop_assert!(symbol == 0 || times.due_ns(symbol - 1) < at_ns);
        }

        #[test]
        fn all_that_is_sent_is_counted_in_the_round_in_which_it_is_sent(times in any_times()) {
            let sent = times.sent_bytes(10);
            let mut counted = vec![0; sent.len()];
            for symbol in 0..times.symbols() {
                counted[(times.due_ns(symbol) / ROUND_NS) as usize] += 10;
            }
            prop_assert_eq!(sent, counted);
        }
    }
}
