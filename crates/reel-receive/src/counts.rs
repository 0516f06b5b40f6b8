//! What a receiver counts.

/// What has happened since the start.
///
/// Every packet that was passed is delivered or unrepaired: the payloads given out are
/// `received - (packets still held) + repaired`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Media packets that arrived in time, duplicates not included. A packet that is overtaken by
    /// its FEC packet is one of them, if it arrives within [`crate::limits::REORDER_NS`].
    pub received: u64,
    /// Packets that did not arrive before they were needed: the repaired and the unrepaired ones.
    pub lost: u64,
    /// Lost packets that FEC gave back.
    pub repaired: u64,
    /// Lost packets that were given up.
    pub unrepaired: u64,
    /// Media packets that arrived after they were given up, long after they were repaired, or far
    /// from all others.
    pub late: u64,
    /// Media packets that were there already.
    pub duplicates: u64,
    /// Packets of another sender than the one that is followed.
    pub foreign: u64,
    /// Packets of sources that the description does not name.
    pub undescribed: u64,
    /// Datagrams that are no packets of this cast.
    pub malformed: u64,
    /// Sources and jumps of sequence numbers that were followed, after the first source.
    pub restarts: u64,
    /// FEC packets.
    pub fec: u64,
    /// FEC packets that contradict the media or each other.
    pub fec_rejected: u64,
    /// Payloads that the caller did not take in time.
    pub overrun: u64,
    /// Payloads given out.
    pub delivered: u64,
    /// Bytes of them.
    pub delivered_bytes: u64,
    /// The sum of their delays.
    pub delay_sum_ns: u64,
    /// The longest delay: the time from the arrival of a packet to its output. That of a repaired
    /// packet begins when the packet after it arrived.
    pub delay_max_ns: u64,
}

impl Counts {
    /// What two receivers have counted together.
    #[must_use]
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            received: self.received + other.received,
            lost: self.lost + other.lost,
            repaired: self.repaired + other.repaired,
            unrepaired: self.unrepaired + other.unrepaired,
            late: self.late + other.late,
            duplicates: self.duplicates + other.duplicates,
            foreign: self.foreign + other.foreign,
            undescribed: self.undescribed + other.undescribed,
            malformed: self.malformed + other.malformed,
            restarts: self.restarts + other.restarts,
            fec: self.fec + other.fec,
            fec_rejected: self.fec_rejected + other.fec_rejected,
            overrun: self.overrun + other.overrun,
            delivered: self.delivered + other.delivered,
            delivered_bytes: self.delivered_bytes + other.delivered_bytes,
            delay_sum_ns: self.delay_sum_ns.saturating_add(other.delay_sum_ns),
            delay_max_ns: self.delay_max_ns.max(other.delay_max_ns),
        }
    }

    /// The mean delay, in nanoseconds.
    #[must_use]
    pub fn delay_mean_ns(&self) -> u64 {
        self.delay_sum_ns.checked_div(self.delivered).unwrap_or(0)
    }
}
