//! What a request costs a member.

use crate::DiskDemand;
use crate::limits::{PASSED_BYTES_MAX, ROTATIONAL_REQUEST_NS, RUN_BYTES_MAX, RUN_SEEKS};

/// The time a member needs for requests, at the quantile that admission uses: a fixed part per
/// request, for the seek, and a part per byte. Both are what the device needs with its queue as
/// deep as the scheduler lets it be. So the costs of requests that overlap in the device add up to
/// its busy time.
///
/// A disk does one part after the other, and they add up. A throttle has [independent
/// limits](Self::independent_limits) of requests and bytes, each with a budget of its own, and
/// takes the longer of two sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPrice {
    /// For each read.
    pub read_request_ns: u64,
    /// For each MiB that is read.
    pub read_mib_ns: u64,
    /// For each write.
    pub write_request_ns: u64,
    /// For each MiB that is written.
    pub write_mib_ns: u64,
    /// Whether requests and bytes of reads have independent limits: any number of reads takes as
    /// long as all their requests, or as all their bytes, whichever is longer. (Writes always cost
    /// the sum. That is at most twice as much, and their budgets are not measured.)
    pub independent_limits: bool,
}

impl DiskPrice {
    /// Nothing costs anything.
    pub const FREE: DiskPrice = DiskPrice {
        read_request_ns: 0,
        read_mib_ns: 0,
        write_request_ns: 0,
        write_mib_ns: 0,
        independent_limits: false,
    };

    /// Nanoseconds of a read. With independent limits, the sum of several of these is at least as
    /// much as they take together.
    pub const fn read_ns(&self, bytes: u64) -> u64 {
        let [one, other] = self.read_parts_ns(bytes);
        if one > other { one } else { other }
    }

    /// What a read takes of each of two budgets; the one that is used more decides. Twice the same
    /// where the parts add up.
    pub const fn read_parts_ns(&self, bytes: u64) -> [u64; 2] {
        self.parts_ns(self.read_request_ns, part(bytes, self.read_mib_ns))
    }

    /// Nanoseconds of a read that continues where the last one ended: its transfer alone.
    pub const fn transfer_ns(&self, bytes: u64) -> u64 {
        part(bytes, self.read_mib_ns)
    }

    /// Whether the member is rotational, by the cost of a read: then the seek is most of that, and
    /// reads behind one another need one seek. A member with independent limits is not rotational.
    pub const fn is_rotational(&self) -> bool {
        self.read_request_ns >= ROTATIONAL_REQUEST_NS && !self.independent_limits
    }

    /// What the head passes over rather than seek: as much as it transfers in half the time of a
    /// seek.
    pub const fn passed_bytes(&self) -> u64 {
        let bytes = ((self.read_request_ns / 2) as u128) << 20;
        let mib_ns = if self.read_mib_ns == 0 { 1 } else { self.read_mib_ns };
        let bytes = bytes / mib_ns as u128;
        if bytes > PASSED_BYTES_MAX as u128 { PASSED_BYTES_MAX } else { bytes as u64 }
    }

    /// What has to be read in one run for a seek to be worth it: its transfer takes [`RUN_SEEKS`]
    /// times as long as the seek. 0 for members that are not rotational.
    pub const fn run_bytes(&self) -> u64 {
        if !self.is_rotational() {
            return 0;
        }
        let bytes = ((self.read_request_ns as u128) * (RUN_SEEKS as u128)) << 20;
        let mib_ns = if self.read_mib_ns == 0 { 1 } else { self.read_mib_ns };
        let bytes = bytes / mib_ns as u128;
        if bytes > RUN_BYTES_MAX as u128 { RUN_BYTES_MAX } else { bytes as u64 }
    }

    /// What a stream's reads of a round take of each of two budgets: as
    /// [`read_parts_ns`](Self::read_parts_ns).
    pub const fn demand_parts_ns(&self, demand: &DiskDemand) -> [u64; 2] {
        let requests = if self.is_rotational() { demand.seeks } else { demand.reads };
        let requests_ns = self.read_request_ns.saturating_mul(requests as u64);
        self.parts_ns(requests_ns, part(demand.bytes, self.read_mib_ns))
    }

    const fn parts_ns(&self, requests_ns: u64, bytes_ns: u64) -> [u64; 2] {
        if self.independent_limits {
            [requests_ns, bytes_ns]
        } else {
            [requests_ns.saturating_add(bytes_ns); 2]
        }
    }

    /// The price of reads in words: `0.10 ms and 0.42 ms/MiB`, or where the limits are independent
    /// `10.00 ms or 52.43 ms/MiB, the longer of both`.
    pub fn read_text(&self) -> String {
        let ms = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
        let (request, mib) = (ms(self.read_request_ns), ms(self.read_mib_ns));
        if self.independent_limits {
            format!("{request} or {mib}/MiB, the longer of both")
        } else {
            format!("{request} and {mib}/MiB")
        }
    }

    /// This price multiplied by a factor.
    pub fn times(self, factor: f64) -> DiskPrice {
        let times = |ns: u64| (ns as f64 * factor) as u64;
        DiskPrice {
            read_request_ns: times(self.read_request_ns),
            read_mib_ns: times(self.read_mib_ns),
            write_request_ns: times(self.write_request_ns),
            write_mib_ns: times(self.write_mib_ns),
            independent_limits: self.independent_limits,
        }
    }

    /// The slower of two prices in every part, which add up if they do in either.
    pub fn slower(self, other: DiskPrice) -> DiskPrice {
        DiskPrice {
            read_request_ns: self.read_request_ns.max(other.read_request_ns),
            read_mib_ns: self.read_mib_ns.max(other.read_mib_ns),
            write_request_ns: self.write_request_ns.max(other.write_request_ns),
            write_mib_ns: self.write_mib_ns.max(other.write_mib_ns),
            independent_limits: self.independent_limits && other.independent_limits,
        }
    }

    /// Nanoseconds of a write.
    pub const fn write_ns(&self, bytes: u64) -> u64 {
        self.write_request_ns.saturating_add(part(bytes, self.write_mib_ns))
    }
}

const fn part(bytes: u64, mib_ns: u64) -> u64 {
    // The usual case: two numbers of 32 bits make a product that fits. It matters, because a ledger
    // prices whole titles at a time.
    if (bytes | mib_ns) >> 32 == 0 {
        return (bytes * mib_ns + ((1 << 20) - 1)) >> 20;
    }
    let ns = (bytes as u128 * mib_ns as u128).div_ceil(1 << 20);
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_in_words_is_in_milliseconds() {
        let price = DiskPrice { read_request_ns: 100_000, read_mib_ns: 1_234_567, ..DiskPrice::FREE };
        assert_eq!(price.read_text(), "0.10 ms and 1.23 ms/MiB");
        let apart = DiskPrice { independent_limits: true, ..price };
        assert_eq!(apart.read_text(), "0.10 ms or 1.23 ms/MiB, the longer of both");
    }

    #[test]
    fn prices_are_rounded_up_and_agree_around_the_limit_of_the_fast_path() {
        for bytes in [1, (1 << 32) - 1, 1 << 32, (1 << 32) + 1] {
            for mib_ns in [0, 1, (1 << 32) - 1, 1 << 32] {
                let exact = (u128::from(bytes) * u128::from(mib_ns)).div_ceil(1 << 20);
                assert_eq!(u128::from(part(bytes, mib_ns)), exact, "{bytes} {mib_ns}");
            }
        }
    }

    #[test]
    fn a_price_has_a_part_per_request_and_a_part_per_byte() {
        let price = DiskPrice {
            read_request_ns: 100,
            read_mib_ns: 1 << 20,
            write_request_ns: 7,
            write_mib_ns: u64::MAX,
            independent_limits: false,
        };
        assert_eq!(price.read_ns(4096), 4196);
        let demand = DiskDemand { reads: 3, seeks: 1, bytes: 4096 };
        assert_eq!(price.demand_parts_ns(&demand), [4396; 2]);
        let arm = DiskPrice { read_request_ns: ROTATIONAL_REQUEST_NS, ..price };
        assert_eq!(arm.demand_parts_ns(&demand), [ROTATIONAL_REQUEST_NS + 4096; 2]);
        assert_eq!(arm.passed_bytes(), ROTATIONAL_REQUEST_NS / 2);
        assert_eq!(DiskPrice { read_mib_ns: 0, ..arm }.passed_bytes(), PASSED_BYTES_MAX);
        assert_eq!(price.run_bytes(), 0, "not rotational: no seek to make up for");
        assert_eq!(arm.run_bytes(), RUN_SEEKS * ROTATIONAL_REQUEST_NS);
        assert_eq!(DiskPrice { read_mib_ns: 0, ..arm }.run_bytes(), RUN_BYTES_MAX);
        assert_eq!(price.transfer_ns(4096), 4096);
        assert_eq!(price.write_ns(0), 7);
        assert_eq!(price.write_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn independent_limits_are_charged_separately_and_the_longer_decides() {
        let throttle = DiskPrice {
            read_request_ns: 10 * ROTATIONAL_REQUEST_NS,
            read_mib_ns: 50 << 20,
            write_request_ns: 7,
            write_mib_ns: 1 << 20,
            independent_limits: true,
        };
        assert_eq!(throttle.read_parts_ns(1 << 18), [10 * ROTATIONAL_REQUEST_NS, 50 << 18]);
        assert_eq!(
            [4096, 1 << 18].map(|bytes| throttle.read_ns(bytes)),
            [10 * ROTATIONAL_REQUEST_NS, 50 << 18]
        );
        let demand = DiskDemand { reads: 3, seeks: 1, bytes: 1 << 18 };
        assert_eq!(
            throttle.demand_parts_ns(&demand),
            [30 * ROTATIONAL_REQUEST_NS, 50 << 18],
            "not rotational: seeks do not count"
        );
        assert_eq!(
            (throttle.is_rotational(), throttle.run_bytes(), throttle.write_ns(1 << 20)),
            (false, 0, 7 + (1 << 20))
        );
        let summed = DiskPrice { independent_limits: false, read_request_ns: 1, ..throttle };
        let both = throttle.slower(summed);
        assert_eq!((both.independent_limits, both.read_request_ns), (false, 10 * ROTATIONAL_REQUEST_NS));
        assert!(throttle.slower(throttle).independent_limits);
    }
}
