//! What a member was measured to cost.

use crate::limits::CORRECTION_MAX;
use reel_qos::DiskPrice;

/// What a member was measured to cost, and how much less it may be found to cost in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredPrice {
    /// The price of the measurement.
    pub price: DiskPrice,
    /// The part of that price, in thousandths, that single requests of the measurement cost. A
    /// lower price is not believed. 1000 where single requests were not measured.
    pub floor_permille: u32,
    /// What an earlier server found it to cost, in thousandths of the price; 1000 if nothing was
    /// found. A server begins with that.
    pub learnt_permille: u32,
}

impl MeasuredPrice {
    /// The factor by which a server begins to correct the price.
    pub(crate) fn first_factor(&self) -> f64 {
        let floor_permille = self.floor_permille.min(1000);
        f64::from(self.learnt_permille.max(floor_permille)).min(CORRECTION_MAX * 1000.0) / 1000.0
    }

    /// The price that may be promised by when this one is found: `found` is an average of some
    /// time, and a slow round costs more (`margin_permille` of it). Never more than was measured,
    /// and never less than the lower limit of the measurement.
    pub fn promised(&self, found: DiskPrice, margin_permille: u32) -> DiskPrice {
        let part = |ns: u64, permille: u32| (u128::from(ns) * u128::from(permille) / 1000) as u64;
        let each = |measured_ns: u64, found_ns: u64| {
            part(found_ns, margin_permille)
                .clamp(part(measured_ns, self.floor_permille.min(1000)), measured_ns)
        };
        DiskPrice {
            read_request_ns: each(self.price.read_request_ns, found.read_request_ns),
            read_mib_ns: each(self.price.read_mib_ns, found.read_mib_ns),
            write_request_ns: each(self.price.write_request_ns, found.write_request_ns),
            write_mib_ns: each(self.price.write_mib_ns, found.write_mib_ns),
            independent_limits: self.price.independent_limits,
        }
    }
}

impl From<DiskPrice> for MeasuredPrice {
    /// A price of which nothing else is known.
    fn from(price: DiskPrice) -> Self {
        Self { price, floor_permille: 1000, learnt_permille: 1000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_between_the_measured_price_and_its_lower_limit() {
        let price = DiskPrice { read_request_ns: 1_000_000, read_mib_ns: 4_000_000, ..DiskPrice::FREE };
        let measured = MeasuredPrice { floor_permille: 100, ..MeasuredPrice::from(price) };
        let promised = |factor| measured.promised(price.times(factor), 1250).read_request_ns;
        assert_eq!(promised(2.0), 1_000_000, "a slower device is the ledger's to count with");
        assert_eq!(promised(0.9), 1_000_000, "an average that is within the margin changes nothing");
        assert_eq!(promised(0.4), 500_000);
        assert_eq!(promised(0.01), 100_000);
        assert_eq!(MeasuredPrice::from(price).promised(price.times(0.5), 1250), price, "no single requests");
    }
}
