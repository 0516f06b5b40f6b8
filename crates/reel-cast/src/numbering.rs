//! Numbers, times and headers of the packets of a cast. Pure.

use reel_media::transport::SYMBOL_PAYLOAD_BYTES;
use reel_play::PushedTimes;
use reel_rtp::fec::{FEC_HEADERS_BYTES, FecHeader, Geometry, Recovery};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, MP2T};
use std::ops::Range;
use std::sync::Arc;

/// Ticks of the programme clock (27 MHz) in one of RTP's clock (90 kHz).
const TICKS_OF_STAMP: u64 = 300;

/// A source of packets: a cast, or a channel of one.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    ssrc: u32,
    template: HeaderTemplate,
    /// Of its first packet.
    sequence: u16,
    time_stamp: u32,
    fec_sequence: u16,
    /// Whether its next packet does not continue the one before.
    begins: bool,
}

/// What the headers of some packets are written from that a source sends one after another.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    source: Source,
    clock: Clock,
    /// The symbol at which the source began, if it is one of these.
    first: Option<u64>,
}

/// When symbols are sent.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// As the clock of the stream says.
    Passes(PushedTimes),
    /// At a constant rate: so many symbols in this time.
    Slot {
        /// The time.
        duration_ns: u64,
        /// The symbols, with one matrix more, in whose time the FEC packets of the last one leave.
        symbols: u64,
    },
}

impl Source {
    /// A new source, which begins with this time stamp: random numbers, so that it is not taken for
    /// one before it (RFC 3550, section 5.1).
    pub(crate) fn new(random: [u8; 8], time_stamp: u32) -> Source {
        let [s0, s1, s2, s3, n0, n1, f0, f1] = random;
        let ssrc = u32::from_be_bytes([s0, s1, s2, s3]);
        Source {
            ssrc,
            template: HeaderTemplate::mp2t(ssrc),
            sequence: u16::from_be_bytes([n0, n1]),
            time_stamp,
            fec_sequence: u16::from_be_bytes([f0, f1]),
            begins: true,
        }
    }

    /// The source's own number.
    pub(crate) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Its time stamp at a moment, in 90 kHz since its beginning.
    pub(crate) fn stamp(&self, ticks: u64) -> u32 {
        self.time_stamp.wrapping_add(ticks as u32)
    }

    /// The headers of what it sends next, from symbol `first` of this clock on.
    pub(crate) fn numbering(&self, clock: Clock, first: u64) -> Numbering {
        Numbering { source: self.clone(), clock, first: self.begins.then_some(first) }
    }

    /// The same for what it sends `ticks` of 90 kHz after its beginning.
    pub(crate) fn numbering_at(&self, clock: Clock, ticks: u64) -> Numbering {
        let source = Source { time_stamp: self.stamp(ticks), ..self.clone() };
        Numbering { source, clock, first: self.begins.then_some(0) }
    }

    /// It has sent so many symbols and FEC packets, and continues `ticks` of 90 kHz later.
    pub(crate) fn passed(&mut self, symbols: u64, fec_packets: u64, ticks: u64) {
        self.sequence = self.sequence.wrapping_add(symbols as u16);
        self.fec_sequence = self.fec_sequence.wrapping_add(fec_packets as u16);
        self.time_stamp = self.stamp(ticks);
        self.begins = false;
    }
}

impl AsMut<Source> for Source {
    fn as_mut(&mut self) -> &mut Source {
        self
    }
}

impl Clock {
    /// When a symbol is sent, in nanoseconds after the start of its session or slot.
    pub(crate) fn due_ns(&self, symbol: u64) -> u64 {
        match self {
            Clock::Passes(times) => times.due_ns(symbol),
            Clock::Slot { duration_ns, symbols } => part(symbol, *duration_ns, *symbols),
        }
    }

    /// The same in 90 kHz after the first symbol.
    pub(crate) fn ticks(&self, symbol: u64) -> u64 {
        match self {
            Clock::Passes(times) => times.ticks(symbol) / TICKS_OF_STAMP,
            Clock::Slot { .. } => stamp_ticks(self.due_ns(symbol)),
        }
    }
}

/// A time in nanoseconds as ticks of 90 kHz.
pub(crate) fn stamp_ticks(time_ns: u64) -> u64 {
    part(time_ns, 9, 100_000)
}

impl Numbering {
    /// The clock of its packets.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time stamp of a symbol.
    pub(crate) fn stamp(&self, symbol: u64) -> u32 {
        self.source.stamp(self.clock.ticks(symbol))
    }

    /// The headers of some packets, one behind the other.
    pub(crate) fn media_headers(&self, symbols: Range<u64>) -> Arc<[u8]> {
        let mut headers = vec![0; (symbols.end - symbols.start) as usize * HEADER_BYTES];
        let (each, _) = headers.as_chunks_mut::<HEADER_BYTES>();
        for (symbol, header) in symbols.zip(each) {
            let marker = self.first == Some(symbol);
            self.source.template.write(self.number(symbol), self.stamp(symbol), marker, header);
        }
        Arc::from(headers)
    }

    /// The headers of some FEC packets, which are numbered column by column.
    pub(crate) fn fec_headers(&self, geometry: Geometry, columns: Range<u64>) -> Arc<[u8]> {
        let mut headers = vec![0; (columns.end - columns.start) as usize * FEC_HEADERS_BYTES];
        let (each, _) = headers.as_chunks_mut::<FEC_HEADERS_BYTES>();
        for (column, header) in columns.zip(each) {
            let symbol = first_of(geometry, column);
            let (base, recovery) = (self.number(symbol), self.recovery(geometry, symbol));
            let sequence = self.source.fec_sequence.wrapping_add(column as u16);
            let sent_stamp = self.stamp(sent_with(geometry, column));
            FecHeader { base, geometry, recovery }.write(sequence, sent_stamp, header);
        }
        Arc::from(headers)
    }

    fn number(&self, symbol: u64) -> u16 {
        self.source.sequence.wrapping_add(symbol as u16)
    }

    /// The exclusive or of the headers of a column.
    fn recovery(&self, geometry: Geometry, symbol: u64) -> Recovery {
        let mut recovery = Recovery::default();
        for row in 0..u64::from(geometry.rows()) {
            let symbol = symbol + row * u64::from(geometry.columns());
            recovery.add(&Recovery {
                length: SYMBOL_PAYLOAD_BYTES as u16,
                payload_type: MP2T,
                marker: self.first == Some(symbol),
                time_stamp: self.stamp(symbol),
            });
        }
        recovery
    }
}

/// The first symbol of a column, whose columns are numbered through all matrices.
fn first_of(geometry: Geometry, column: u64) -> u64 {
    let columns = u64::from(geometry.columns());
    column / columns * u64::from(geometry.packets()) + column % columns
}

/// The symbol with which the FEC packet of a column is sent: those of a matrix are spread over the
/// next matrix, one for each D packets.
pub(crate) fn sent_with(geometry: Geometry, column: u64) -> u64 {
    u64::from(geometry.packets()) + column * u64::from(geometry.rows())
}

/// `value * to / from`.
fn part(value: u64, to: u64, from: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(to) / u128::from(from.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_media::transport::{StreamIndex, TICKS_PER_S, TimePoint};
    use reel_rtp::Packet;
    use reel_rtp::fec::{Decoder, FecPacket};

    const RANDOM: [u8; 8] = [1, 2, 3, 4, 0xff, 0xfe, 0xff, 0xff];
    const TIME_STAMP: u32 = 0xffff_fff0;

    fn times(passes: u64) -> PushedTimes {
        let point = |packet, seconds: u64| TimePoint { packet, ticks: seconds * TICKS_PER_S, jump: false };
        let times = vec![point(0, 0), point(1000, 2)];
        let index = StreamIndex { packets: 1000, programme: 1, times, joins: Vec::new() };
        PushedTimes::new(Arc::new(index), 20, passes)
    }

    #[test]
    fn what_follows_continues_the_numbers() {
        let times = times(2);
        let mut source = Source::new(RANDOM, TIME_STAMP);
        let first = source.numbering(Clock::Passes(times.clone()), 0);
        let symbols = times.symbols();
        source.passed(symbols, symbols / 4, first.clock().ticks(symbols));
        let second = source.numbering(Clock::Passes(times), 0);
        assert_eq!(second.media_headers(0..1), first.media_headers(symbols..symbols + 1));
        let begins = first.media_headers(0..2);
        let parse = |at: usize| Packet::parse(&begins[at * 12..(at + 1) * 12]).expect("a header");
        assert!(parse(0).marker && !parse(1).marker);
        assert_eq!((parse(0).sequence, parse(1).sequence), (0xfffe, 0xffff));
    }

    /// The time stamp of a packet of a slot says which packet of the slot it is.
    #[test]
    fn packets_of_a_slot_are_evenly_spread_and_known_by_their_stamps() {
        let (duration_ns, symbols) = (15_000_000_000, 5_713);
        let clock = Clock::Slot { duration_ns, symbols };
        for symbol in 0..=symbols {
            assert!(clock.due_ns(symbol).abs_diff(symbol * duration_ns / symbols) <= 1);
            // As clients compute it: ticks are rounded down.
            let found = (clock.ticks(symbol) * 100_000 / 9 + 11_113) * symbols / duration_ns;
            assert_eq!(found, symbol);
        }
    }

    /// Every packet that is lost comes back with its own header, over the wrap of the numbers.
    #[test]
    fn a_decoder_gets_lost_headers_back() {
        let (symbols, geometry) = (times(1).symbols(), Geometry::new(5, 4).expect("valid"));
        let source = Source::new(RANDOM, TIME_STAMP);
        for clock in [Clock::Passes(times(1)), Clock::Slot { duration_ns: 1_700_000_000, symbols: 180 }] {
            let numbering = source.numbering(clock, 0);
            let mut decoder = Decoder::new(geometry);
            let payload = |symbol: u64| [symbol as u8; SYMBOL_PAYLOAD_BYTES];
            let (mut lost, mut repaired) = (0, 0);
            for matrix in 0..symbols / 20 {
                let symbols = matrix * 20..(matrix + 1) * 20;
                let headers = numbering.media_headers(symbols.clone());
                for (at, symbol) in symbols.clone().enumerate() {
                    let packet = [&headers[at * 12..(at + 1) * 12], &payload(symbol)].concat();
                    if symbol % 7 != 3 {
                        decoder.push_media(&Packet::parse(&packet).expect("valid"));
                    }
                }
                let columns = matrix * 5..(matrix + 1) * 5;
                let fec = numbering.fec_headers(geometry, columns.clone());
                for (at, column) in columns.enumerate() {
                    let mut parity = [0; SYMBOL_PAYLOAD_BYTES];
                    for row in 0..4 {
                        let other = payload(first_of(geometry, column) + row * 5);
                        parity.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
                    }
                    let header = &fec[at * FEC_HEADERS_BYTES..(at + 1) * FEC_HEADERS_BYTES];
                    decoder.push_fec(&FecPacket::parse(&[header, &parity].concat()).expect("valid"));
                }
                while let Some(back) = decoder.next_repaired() {
                    let symbol = symbols.clone().find(|symbol| numbering.number(*symbol) == back.sequence);
                    let symbol = symbol.expect("of this matrix");
                    assert_eq!(back.time_stamp, numbering.stamp(symbol));
                    assert_eq!(back.payload, payload(symbol));
                    repaired += 1;
                }
                lost += symbols.filter(|symbol| symbol % 7 == 3).count();
            }
            assert!(lost > 20 && repaired == lost, "{repaired} of {lost}");
        }
    }
}
