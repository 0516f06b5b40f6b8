//! Numbers, times and headers of the packets of a cast. Pure.

use reel_media::transport::SYMBOL_PAYLOAD_BYTES;
use reel_play::PushedTimes;
use reel_rtp::fec::{FEC_HEADERS_BYTES, FecHeader, Geometry, Recovery};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, MP2T};
use std::ops::Range;
use std::sync::Arc;

/// Ticks of the programme clock (27 MHz) in one of RTP's clock (90 kHz).
const TICKS_OF_STAMP: u64 = 300;

/// A source of packets: a channel of a cast.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    ssrc: u32,
    template: HeaderTemplate,
    /// At the beginning of 1970.
    time_stamp: u32,
    /// Whether its next packet does not continue the one before.
    begins: bool,
}

/// The numbers of the packets that a source sends next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    media: u16,
    fec: u16,
}

impl Numbers {
    /// After so many packets of media and of FEC.
    pub(crate) fn after(self, symbols: u64, fec_packets: u64) -> Numbers {
        Numbers {
            media: self.media.wrapping_add(symbols as u16),
            fec: self.fec.wrapping_add(fec_packets as u16),
        }
    }

    /// At a time of day, of a source that sends so many symbols in this time, and an FEC packet for
    /// each `rows` of them. So a source that begins again does not go back, if it sent at about
    /// this rate before.
    pub(crate) fn at(unix_ns: u64, (symbols, time_ns): (u64, u64), rows: Option<u64>) -> Numbers {
        let symbols = part(unix_ns, symbols, time_ns);
        Numbers::default().after(symbols, rows.map_or(0, |rows| symbols / rows.max(1)))
    }
}

/// What the headers of some packets are written from that a source sends one after another.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    template: HeaderTemplate,
    /// At the beginning of its clock.
    time_stamp: u32,
    numbers: Numbers,
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
    /// A source with this number, whose time stamp is this one at the beginning of 1970.
    pub(crate) fn new(ssrc: u32, time_stamp: u32) -> Source {
        Source { ssrc, template: HeaderTemplate::mp2t(ssrc), time_stamp, begins: true }
    }

    /// The source's own number.
    pub(crate) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Its time stamp at a time of day, in nanoseconds since 1970.
    fn stamp_at(&self, unix_ns: u64) -> u32 {
        self.time_stamp.wrapping_add(stamp_ticks(unix_ns) as u32)
    }

    /// The headers of what it sends next, from symbol `first` of this clock on, which is at its
    /// beginning at a time of day.
    pub(crate) fn numbering(
        &mut self,
        clock: Clock,
        first: u64,
        numbers: Numbers,
        unix_ns: u64,
    ) -> Numbering {
        let first = std::mem::replace(&mut self.begins, false).then_some(first);
        let (template, time_stamp) = (self.template.clone(), self.stamp_at(unix_ns));
        Numbering { template, time_stamp, numbers, clock, first }
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
        self.time_stamp.wrapping_add(self.clock.ticks(symbol) as u32)
    }

    /// The headers of some packets, one behind the other.
    pub(crate) fn media_headers(&self, symbols: Range<u64>) -> Arc<[u8]> {
        let mut headers = vec![0; (symbols.end - symbols.start) as usize * HEADER_BYTES];
        let (each, _) = headers.as_chunks_mut::<HEADER_BYTES>();
        for (symbol, header) in symbols.zip(each) {
            let marker = self.first == Some(symbol);
            self.template.write(self.number(symbol), self.stamp(symbol), marker, header);
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
            let sequence = self.numbers.fec.wrapping_add(column as u16);
            let sent_stamp = self.stamp(sent_with(geometry, column));
            FecHeader { base, geometry, recovery }.write(sequence, sent_stamp, header);
        }
        Arc::from(headers)
    }

    fn number(&self, symbol: u64) -> u16 {
        self.numbers.media.wrapping_add(symbol as u16)
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
    use reel_play::limits::PUSH_LEAD_NS;
    use reel_rtp::Packet;
    use reel_rtp::fec::{Decoder, FecPacket};

    const SSRC: u32 = 0x0102_0304;
    const NUMBERS: Numbers = Numbers { media: 0xfffe, fec: 0xffff };
    const DAY_NS: u64 = 1_900_000_000_123_456_789;

    fn source() -> Source {
        // Shortly before its time stamps begin again.
        Source::new(SSRC, 0xffff_fff0_u32.wrapping_sub(stamp_ticks(DAY_NS) as u32))
    }

    fn times(passes: u64) -> PushedTimes {
        let point = |packet, seconds: u64| TimePoint { packet, ticks: seconds * TICKS_PER_S, jump: false };
        let times = vec![point(0, 0), point(1000, 2)];
        let index = StreamIndex { packets: 1000, programme: 1, times, joins: Vec::new() };
        PushedTimes::new(Arc::new(index), 20, passes)
    }

    #[test]
    fn what_follows_continues_the_numbers() {
        let times = times(2);
        let mut source = source();
        let first = source.numbering(Clock::Passes(times.clone()), 0, NUMBERS, DAY_NS);
        let symbols = times.symbols();
        let numbers = NUMBERS.after(symbols, symbols / 4);
        let second = source.numbering(
            Clock::Passes(times.clone()),
            0,
            numbers,
            DAY_NS + times.until_ns() - PUSH_LEAD_NS,
        );
        let header = |numbering: &Numbering, symbol: u64| {
            let bytes = numbering.media_headers(symbol..symbol + 1);
            let packet = Packet::parse(&bytes).expect("a header");
            (packet.ssrc, packet.sequence, packet.time_stamp, packet.marker)
        };
        let (of_second, continued) = (header(&second, 0), header(&first, symbols));
        // A tick is rounded down.
        assert!(of_second.2.abs_diff(continued.2) <= 1);
        assert_eq!((of_second.0, of_second.1, of_second.3), (SSRC, continued.1, false));
        assert_eq!((header(&first, 0), header(&first, 1).3), ((SSRC, 0xfffe, 0xffff_fff0, true), false));
        assert_eq!(header(&first, 1).1, 0xffff);
    }

    /// A thread that begins again after a panic continues what the one before it has sent.
    #[test]
    fn a_source_that_is_made_again_has_the_same_numbers() {
        let clock = Clock::Passes(times(1));
        let before = source().numbering(clock.clone(), 0, NUMBERS, DAY_NS);
        let after = source().numbering(clock, 40, NUMBERS, DAY_NS);
        assert_eq!(before.media_headers(41..60), after.media_headers(41..60));
        let geometry = Geometry::new(5, 4).expect("valid");
        assert_eq!(before.fec_headers(geometry, 15..20), after.fec_headers(geometry, 15..20));
        // Its first packet says that something is missing before it.
        let marker =
            |numbering: &Numbering| Packet::parse(&numbering.media_headers(40..41)).expect("a header").marker;
        assert_eq!((marker(&before), marker(&after)), (false, true));
    }

    /// A source that begins again, here after nine seconds, has later numbers, and not many are
    /// left out.
    #[test]
    fn numbers_are_taken_from_the_time_of_day() {
        let rate = (475 * 7200, 7200 * 1_000_000_000);
        let before = Numbers::at(DAY_NS, rate, Some(4));
        let after = Numbers::at(DAY_NS + 9_000_000_000, rate, Some(4));
        let ahead = [after.media.wrapping_sub(before.media), after.fec.wrapping_sub(before.fec)];
        assert!((4275..=4276).contains(&ahead[0]) && (1068..=1069).contains(&ahead[1]), "{ahead:?}");
        let stamps = [DAY_NS, DAY_NS + 9_000_000_000].map(|unix_ns| source().stamp_at(unix_ns));
        assert_eq!(stamps[1].wrapping_sub(stamps[0]), 9 * 90_000);
        assert_eq!(Numbers::at(DAY_NS, (0, 0), None), Numbers::default());
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
        for clock in [Clock::Passes(times(1)), Clock::Slot { duration_ns: 1_700_000_000, symbols: 180 }] {
            let numbering = source().numbering(clock, 0, NUMBERS, DAY_NS);
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
