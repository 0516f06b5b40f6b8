//! Continuity counters (ISO 13818-1 section 2.4.3.3): which packets are copies, and where packets
//! are missing.

use super::packet::Packet;

/// Equal counters in a row, each with another payload, after which the counter is taken to stand
/// still: copies can then not be told from payload.
const STANDING: u8 = 2;

/// How a packet follows the one before it of the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It has no payload, or repeats the packet before.
    Nothing,
    /// Its payload continues.
    Next,
    /// Its payload counts, but packets before it are missing.
    AfterLoss,
}

/// The counter of one PID.
#[derive(Debug, Default)]
pub(crate) struct Continuity {
    last: Option<Packet>,
    /// A packet without payload has announced that the counter may jump.
    announced: bool,
    /// Equal counters in a row, each with another payload.
    standing: u8,
    /// The counter was equal, as after a loss of 15 packets: a loss if the counter runs on.
    suspected: bool,
    /// Times that the counter did not advance by one.
    pub(crate) breaks: u64,
}

impl Continuity {
    /// Takes the next packet. `joined`: another recording may begin with it, so that its counter
    /// says nothing.
    pub(crate) fn check(&mut self, packet: &Packet, joined: bool) -> Follows {
        if packet.payload().is_empty() {
            self.announced |= packet.discontinuity;
            return Follows::Nothing;
        }
        let announced = std::mem::take(&mut self.announced) || packet.discontinuity || joined;
        let Some(before) = self.last.replace(packet.clone()) else { return Follows::Next };
        let goes_on = (before.counter + 1) & 0xf == packet.counter;
        self.breaks += u64::from(!goes_on);
        if before.counter == packet.counter {
            if self.standing < STANDING && before.equals_but_for_clock(packet) {
                return Follows::Nothing;
            }
            // Encoders with a constant counter, and joined recordings.
            self.standing = (self.standing + 1).min(STANDING);
            self.suspected = self.standing == 1 && !announced && !packet.start;
            return Follows::Next;
        }
        self.standing = 0;
        let lost_before = std::mem::take(&mut self.suspected);
        if lost_before || !(goes_on || announced) { Follows::AfterLoss } else { Follows::Next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ts::packet::PACKET_BYTES;

    fn packet(counter: u8, fill: u8) -> Packet {
        let mut bytes = [fill; PACKET_BYTES];
        bytes[..4].copy_from_slice(&[0x47, 1, 0, 0x10 | counter]);
        Packet::parse(bytes).unwrap()
    }

    /// With an adaptation field: flags, and a clock if they say so.
    fn adapted(control: u8, flags: u8, clock: u8, fill: u8) -> Packet {
        let mut bytes = [fill; PACKET_BYTES];
        bytes[..6].copy_from_slice(&[0x47, 1, 0, control, 7, flags]);
        bytes[6..12].fill(clock);
        Packet::parse(bytes).unwrap()
    }

    fn follow(packets: &[Packet]) -> Vec<Follows> {
        let mut continuity = Continuity::default();
        packets.iter().map(|packet| continuity.check(packet, false)).collect()
    }

    #[test]
    fn copies_and_losses() {
        use Follows::{AfterLoss, Next, Nothing};
        let in_order = [packet(14, 1), packet(15, 2), packet(15, 2), packet(0, 3), packet(2, 4)];
        assert_eq!(follow(&in_order), [Next, Next, Nothing, Next, AfterLoss]);
        let fifteen_lost = [packet(4, 1), packet(4, 2), packet(5, 3), packet(6, 4)];
        assert_eq!(follow(&fifteen_lost), [Next, Next, AfterLoss, Next]);
        let standing = [packet(0, 1), packet(0, 2), packet(0, 3), packet(0, 3), packet(0, 3)];
        assert_eq!(follow(&standing), [Next; 5], "equal payload counts if the counter stands still");
    }

    #[test]
    fn clocks_of_copies_and_announced_jumps() {
        use Follows::{AfterLoss, Next, Nothing};
        let clocks = [adapted(0x31, 0x10, 1, 9), adapted(0x31, 0x10, 2, 9), adapted(0x31, 0, 3, 9)];
        assert_eq!(follow(&clocks), [Next, Nothing, Next]);
        let announced = [packet(3, 1), adapted(0x23, 0x80, 0, 9), packet(9, 2), packet(11, 3)];
        assert_eq!(follow(&announced), [Next, Nothing, Next, AfterLoss]);
        let mut joined = Continuity::default();
        assert_eq!(joined.check(&packet(3, 1), false), Next);
        assert_eq!(joined.check(&packet(9, 2), true), Next);
    }
}
