//! What a request costs a member.

use crate::DiskDemand;
use crate::limits::{ARM_REQUEST_NS, PASSED_BYTES_MAX, RUN_BYTES_MAX, RUN_WAYS};

/// The time a member needs for requests, at the quantile that admission counts with: a fixed part per request, for getting there,
/// and a part per byte. Both are what the device needs with its queue as deep as the scheduler lets it be, so the costs of requests
/// that overlap in the device add up to the time that it is busy.
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
}

impl DiskPrice {
    /// Nanoseconds of a read.
    pub const fn read_ns(&self, bytes: u64) -> u64 {
        self.read_request_ns.saturating_add(part(bytes, self.read_mib_ns))
    }

    /// Nanoseconds of a read that goes on where the last one ended: its transfer alone.
    pub const fn transfer_ns(&self, bytes: u64) -> u64 {
        part(bytes, self.read_mib_ns)
    }

    /// Whether the member has an arm, by what a read costs it: then getting there is what a read costs, and reads that lie behind one
    /// another are one way.
    pub const fn has_arm(&self) -> bool {
        self.read_request_ns >= ARM_REQUEST_NS
    }

    /// What an arm passes over sooner than it would go there: as much as it transfers in half the time of a way.
    pub const fn passed_bytes(&self) -> u64 {
        let bytes = ((self.read_request_ns / 2) as u128) << 20;
        let mib_ns = if self.read_mib_ns == 0 { 1 } else { self.read_mib_ns };
        let bytes = bytes / mib_ns as u128;
        if bytes > PASSED_BYTES_MAX as u128 { PASSED_BYTES_MAX } else { bytes as u64 }
    }

    /// What has to be read in one go for a way to be worth it: its transfer takes [`RUN_WAYS`] times as long as the way. Nothing for members
    /// without an arm.
    pub const fn run_bytes(&self) -> u64 {
        if !self.has_arm() {
            return 0;
        }
        let bytes = ((self.read_request_ns as u128) * (RUN_WAYS as u128)) << 20;
        let mib_ns = if self.read_mib_ns == 0 { 1 } else { self.read_mib_ns };
        let bytes = bytes / mib_ns as u128;
        if bytes > RUN_BYTES_MAX as u128 { RUN_BYTES_MAX } else { bytes as u64 }
    }

    /// Nanoseconds of what a stream reads in a round.
    pub const fn demand_ns(&self, demand: &DiskDemand) -> u64 {
        let requests = if self.has_arm() { demand.ways } else { demand.reads };
        let requests_ns = self.read_request_ns.saturating_mul(requests as u64);
        requests_ns.saturating_add(part(demand.bytes, self.read_mib_ns))
    }

    /// The slower of two prices in every part.
    pub fn slower(self, other: DiskPrice) -> DiskPrice {
        DiskPrice {
            read_request_ns: self.read_request_ns.max(other.read_request_ns),
            read_mib_ns: self.read_mib_ns.max(other.read_mib_ns),
            write_request_ns: self.write_request_ns.max(other.write_request_ns),
            write_mib_ns: self.write_mib_ns.max(other.write_mib_ns),
        }
    }

    /// Nanoseconds of a write.
    pub const fn write_ns(&self, bytes: u64) -> u64 {
        self.write_request_ns.saturating_add(part(bytes, self.write_mib_ns))
    }
}

const fn part(bytes: u64, mib_ns: u64) -> u64 {
    // The usual case, for a ledger prices whole films at a time: two halves of 64 bits make a product that fits.
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
    fn prices_are_rounded_up_and_agree_around_the_border_of_the_short_way() {
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
        };
        assert_eq!(price.read_ns(4096), 4196);
        let demand = DiskDemand { reads: 3, ways: 1, bytes: 4096 };
        assert_eq!(price.demand_ns(&demand), 4396);
        let arm = DiskPrice { read_request_ns: ARM_REQUEST_NS, ..price };
        assert_eq!(arm.demand_ns(&demand), ARM_REQUEST_NS + 4096);
        assert_eq!(arm.passed_bytes(), ARM_REQUEST_NS / 2);
        assert_eq!(DiskPrice { read_mib_ns: 0, ..arm }.passed_bytes(), PASSED_BYTES_MAX);
        assert_eq!(price.run_bytes(), 0, "no arm, no way to make up for");
        assert_eq!(arm.run_bytes(), RUN_WAYS * ARM_REQUEST_NS);
        assert_eq!(DiskPrice { read_mib_ns: 0, ..arm }.run_bytes(), RUN_BYTES_MAX);
        assert_eq!(price.transfer_ns(4096), 4096);
        assert_eq!(price.write_ns(0), 7);
        assert_eq!(price.write_ns(u64::MAX), u64::MAX);
    }
}
