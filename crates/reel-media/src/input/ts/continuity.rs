//! Continuity counters (ISO 13818-1 section 2.4.3.3): which packets are copies, and where packets
//! are missing.

use super::packet::Packet;

/// Equal counters in a row, each with another payload, after which the counter is taken to stand
/// still: copies can then not be told from payload.
const STANDING: u8 = 2;
/// So many packets in order show that a counter is one.
const ORDER_PROOF: u8 = 2;

/// How a packet follows the one before it of the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It has no payload, or repeats the packet before.
    Nothing,
    /// Its payload continues.
    Next,
    /// Its payload counts, but packets before it are missing.
    AfterLoss,
    /// Its payload continues that of a packet which began something new after a loss.
    LostBefore,
    /// Its payload counts; the file may have been joined before it, and packets may be missing.
    AtJoint(Signs),
}

/// What the packets beside a joint say about a loss there. Neither is a proof: counters of another
/// recording may begin anywhere, and a whole PES packet may end with a full transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signs {
    /// The counter, or that of the table before, neither continues nor begins again.
    pub(crate) counter_jumps: bool,
    /// The last packet before is full of payload. The last one of a PES packet seldom is.
    pub(crate) last_is_full: bool,
}

/// What the tables say before a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joint {
    /// Another recording may begin with the packet.
    pub(crate) possible: bool,
    /// How the counter of the table has jumped.
    pub(crate) jump: Jump,
}

/// How a counter has jumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Jump {
    /// It may always do that.
    #[default]
    Anyhow,
    /// To a number with which counters of its PID begin.
    ToStart,
    /// To another number, after it had continued for some packets.
    AfterOrder,
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
    /// The packet after the suspected loss began something new.
    suspected_at_start: bool,
    /// Times that the counter did not advance by one.
    pub(crate) breaks: u64,
    /// How it jumped the latest time.
    pub(crate) jump: Jump,
    /// The first counter.
    first: Option<u8>,
    /// Packets in order, as far as they count.
    in_order: u8,
}

impl Continuity {
    /// Takes the next packet. At a `joint`, its counter alone shows no loss.
    pub(crate) fn check(&mut self, packet: &Packet, joint: Joint) -> Follows {
        if packet.payload().is_empty() {
            self.announced |= packet.discontinuity;
            return Follows::Nothing;
        }
        let announced = std::mem::take(&mut self.announced) || packet.discontinuity;
        // Multiplexers begin with 0, or each time with the same number.
        let restarts = packet.counter == 0 || self.first == Some(packet.counter);
        self.first.get_or_insert(packet.counter);
        let Some(before) = self.last.replace(packet.clone()) else { return Follows::Next };
        let goes_on = (before.counter + 1) & 0xf == packet.counter;
        self.count(goes_on, restarts);
        let begins_again = restarts && joint.jump == Jump::ToStart;
        let counter_jumps = !(goes_on || announced || begins_again) || joint.jump == Jump::AfterOrder;
        let signs = Signs { counter_jumps, last_is_full: before.is_full() };
        let next = if joint.possible { Follows::AtJoint(signs) } else { Follows::Next };
        if before.counter == packet.counter {
            if self.standing < STANDING && before.equals_but_for_clock(packet) {
                return Follows::Nothing;
            }
            // Encoders with a constant counter, and joined recordings.
            self.standing = (self.standing + 1).min(STANDING);
            self.suspected = self.standing == 1 && !(announced || joint.possible);
            self.suspected_at_start = packet.start;
            return next;
        }
        self.standing = 0;
        let lost_before = std::mem::take(&mut self.suspected);
        let lost = !(goes_on || announced || joint.possible);
        match (lost, lost_before) {
            (false, true) if self.suspected_at_start => Follows::LostBefore,
            (false, false) => next,
            _ => Follows::AfterLoss,
        }
    }

    /// Whether the counter of the next packet does not continue, or the packet announces that.
    pub(crate) fn breaks_at(&self, packet: &Packet) -> bool {
        let Some(last) = self.last.as_ref().filter(|_| !packet.payload().is_empty()) else {
            return packet.discontinuity;
        };
        let breaks = match packet.counter.wrapping_sub(last.counter) & 0xf {
            0 => self.standing < STANDING && !last.equals_but_for_clock(packet),
            steps => steps > 1,
        };
        breaks || packet.discontinuity
    }

    fn count(&mut self, goes_on: bool, restarts: bool) {
        if goes_on {
            self.in_order = self.in_order.saturating_add(1).min(ORDER_PROOF);
            return;
        }
        self.breaks += 1;
        let proved = std::mem::take(&mut self.in_order) == ORDER_PROOF;
        self.jump = match (restarts, proved) {
            (true, _) => Jump::ToStart,
            (false, true) => Jump::AfterOrder,
            (false, false) => Jump::Anyhow,
        };
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
        packets.iter().map(|packet| continuity.check(packet, Joint::default())).collect()
    }

    #[test]
    fn copies_and_losses() {
        use Follows::{AfterLoss, Next, Nothing};
        let in_order = [packet(14, 1), packet(15, 2), packet(15, 2), packet(0, 3), packet(2, 4)];
        assert_eq!(follow(&in_order), [Next, Next, Nothing, Next, AfterLoss]);
        let fifteen_lost = [packet(4, 1), packet(4, 2), packet(5, 3), packet(6, 4)];
        assert_eq!(follow(&fifteen_lost), [Next, Next, AfterLoss, Next]);
        let mut begun = packet(4, 2);
        begun.start = true;
        let fifteen_lost = [packet(4, 1), begun, packet(5, 3), packet(6, 4)];
        assert_eq!(follow(&fifteen_lost), [Next, Next, Follows::LostBefore, Next]);
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
    }

    #[test]
    fn jumps_of_a_table() {
        let jump = |counters: &[u8]| {
            let mut continuity = Continuity::default();
            for counter in counters {
                continuity.check(&packet(*counter, *counter), Joint::default());
            }
            (continuity.breaks, continuity.jump)
        };
        assert_eq!(jump(&[14, 15, 0, 1, 2]), (0, Jump::Anyhow));
        assert_eq!(jump(&[14, 15, 0, 1, 2, 9]), (1, Jump::AfterOrder));
        assert_eq!(jump(&[14, 15, 9]), (1, Jump::Anyhow), "too few to know");
        assert_eq!(jump(&[3, 4, 5, 6, 7, 0]), (1, Jump::ToStart));
        assert_eq!(jump(&[3, 4, 5, 6, 7, 3]), (1, Jump::ToStart));
    }

    #[test]
    fn counters_beside_joints() {
        use Jump::{AfterOrder, Anyhow, ToStart};
        let at_joint = |counters: [u8; 3], jump: Jump, full: bool| {
            let mut continuity = Continuity::default();
            let none = Joint::default();
            assert_eq!(continuity.check(&packet(counters[0], 1), none), Follows::Next);
            let before = if full { packet(counters[1], 2) } else { adapted(0x30 | counters[1], 0, 0, 9) };
            assert_eq!(continuity.check(&before, none), Follows::Next);
            match continuity.check(&packet(counters[2], 3), Joint { possible: true, jump }) {
                Follows::AtJoint(signs) => (signs.counter_jumps, signs.last_is_full),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(at_joint([3, 4, 9], Anyhow, true), (true, true));
        assert_eq!(at_joint([3, 4, 9], ToStart, false), (true, false));
        assert_eq!(at_joint([3, 4, 0], ToStart, true), (false, true), "it begins again");
        assert_eq!(at_joint([3, 4, 3], ToStart, false), (false, false), "at the first number of the PID");
        assert_eq!(at_joint([3, 4, 0], AfterOrder, false), (true, false), "the table does not begin again");
        assert_eq!(at_joint([3, 4, 5], Anyhow, false), (false, false), "it continues");
        let lost = at_joint([3, 4, 5], AfterOrder, false);
        assert_eq!(lost, (true, false), "as after a loss of sixteen packets, and of tables");
    }
}
