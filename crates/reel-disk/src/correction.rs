//! What requests to a member really cost, learnt while it works.

use crate::limits::{
    CORRECTION_MAX, CORRECTION_MIN, CORRECTION_PART, CORRECTION_READS_PART, CORRECTION_SHOWN,
    CORRECTION_WINDOW_NS, CORRECTION_WINDOW_REQUESTS,
};
use reel_qos::DiskPrice;

/// Corrects a price by what the device does.
///
/// Over windows, the time that the device was busy is held against the sum of what its requests were expected to cost; the ratio, within
/// bounds and smoothed, multiplies the price that was given. Only time counts in which requests waited behind a full device: a price is what
/// a request costs with the queue as deep as it may be, and a lone request on an idle device, which waits for the whole way
/// there and back, says nothing about it. Idle time and time in queues never count. Nor do windows that are mostly writes: caches
/// below take writes at any speed for a while, and syncs at none.
#[derive(Clone, Debug)]
pub struct PriceCorrection {
    given: DiskPrice,
    factor: f64,
    shown_factor: f64,
    /// Since when the device is full and others wait.
    full_since_ns: Option<u64>,
    busy_ns: u64,
    expected_ns: u64,
    expected_of_reads_ns: u64,
    requests: u32,
    /// Where the last request ended, and what those that went on from there were expected to cost less.
    end: u64,
    saved_ns: u64,
}

impl PriceCorrection {
    /// Starts with the price that was given, uncorrected.
    pub fn new(given: DiskPrice) -> Self {
        Self {
            given,
            factor: 1.0,
            shown_factor: 1.0,
            full_since_ns: None,
            busy_ns: 0,
            expected_ns: 0,
            expected_of_reads_ns: 0,
            requests: 0,
            end: u64::MAX,
            saved_ns: 0,
        }
    }

    /// The price that was given.
    pub fn given(&self) -> DiskPrice {
        self.given
    }

    /// The corrected price.
    pub fn price(&self) -> DiskPrice {
        let times = |ns: u64| (ns as f64 * self.shown_factor) as u64;
        DiskPrice {
            read_request_ns: times(self.given.read_request_ns),
            read_mib_ns: times(self.given.read_mib_ns),
            write_request_ns: times(self.given.write_request_ns),
            write_mib_ns: times(self.given.write_mib_ns),
        }
    }

    /// The device has got what it takes; `full` if more waits for it.
    pub fn filled(&mut self, full: bool, now_ns: u64) {
        match self.full_since_ns {
            Some(since_ns) => self.busy_ns = self.busy_ns.saturating_add(now_ns.saturating_sub(since_ns)),
            // Requests that went in before belong to a time that was not counted; windows are long enough for that.
            None if !full => return,
            None => {}
        }
        self.full_since_ns = full.then_some(now_ns);
    }

    /// The device is given a request. One that goes on where an arm stands is expected to cost its transfer alone.
    pub fn begun(&mut self, offset: u64, bytes: u64, write: bool) {
        let passed_bytes = offset.checked_sub(self.end).filter(|passed| *passed <= self.given.passed_bytes());
        self.end = offset.saturating_add(bytes);
        if let Some(passed_bytes) = passed_bytes
            && self.full_since_ns.is_some()
            && !write
            && self.given.has_arm()
        {
            let way_ns = self.given.read_request_ns.saturating_sub(self.given.transfer_ns(passed_bytes));
            self.saved_ns = self.saved_ns.saturating_add(way_ns);
        }
    }

    /// The device has done a request. The new price, if it has moved.
    pub fn done(&mut self, bytes: u64, write: bool, now_ns: u64) -> Option<DiskPrice> {
        self.full_since_ns?;
        self.filled(true, now_ns);
        let expected_ns = if write { self.given.write_ns(bytes) } else { self.given.read_ns(bytes) };
        self.expected_ns = self.expected_ns.saturating_add(expected_ns);
        if !write {
            self.expected_of_reads_ns = self.expected_of_reads_ns.saturating_add(expected_ns);
        }
        self.requests += 1;
        if self.requests < CORRECTION_WINDOW_REQUESTS || self.busy_ns < CORRECTION_WINDOW_NS {
            return None;
        }
        let reads = self.expected_of_reads_ns as f64 / self.expected_ns.max(1) as f64;
        let expected_ns = self.expected_ns.saturating_sub(self.saved_ns).max(1);
        let (busy, expected) = (self.busy_ns as f64, expected_ns as f64);
        (self.busy_ns, self.expected_ns, self.expected_of_reads_ns) = (0, 0, 0);
        (self.requests, self.saved_ns) = (0, 0);
        if reads < CORRECTION_READS_PART {
            return None;
        }
        let seen = (busy / expected).clamp(CORRECTION_MIN, CORRECTION_MAX);
        self.factor += (seen - self.factor) * CORRECTION_PART;
        if (self.factor / self.shown_factor - 1.0).abs() < CORRECTION_SHOWN {
            return None;
        }
        self.shown_factor = self.factor;
        Some(self.price())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const GIVEN: DiskPrice =
        DiskPrice { read_request_ns: 8 * MS, read_mib_ns: 0, write_request_ns: 8 * MS, write_mib_ns: 0 };

    /// So many requests that take this long each on a device that is always full, or never.
    fn after(requests: u64, took_ns: u64, full: bool, write: bool) -> u64 {
        let mut correction = PriceCorrection::new(GIVEN);
        let mut now_ns = 0;
        correction.filled(full, now_ns);
        let mut shown = GIVEN;
        for _ in 0..requests {
            now_ns += took_ns;
            if let Some(price) = correction.done(4096, write, now_ns) {
                shown = price;
            }
            correction.filled(full, now_ns);
        }
        assert_eq!(shown, correction.price(), "every move is told");
        shown.read_request_ns
    }

    #[test]
    fn neighbours_on_a_disk_with_an_arm_do_not_make_it_cheap() {
        let given = DiskPrice { read_mib_ns: 4 * MS, ..GIVEN };
        let factor = |offset: fn(u64) -> u64| {
            let mut correction = PriceCorrection::new(given);
            correction.filled(true, 0);
            for number in 0..1000 {
                correction.begun(offset(number), 1 << 18, false);
                // Ten reads of 1 ms for every way of 8 ms.
                correction.done(1 << 18, false, (number + 1) * MS + number / 10 * 8 * MS);
            }
            correction.price().read_request_ns as f64 / given.read_request_ns as f64
        };
        let runs = factor(|number| (number << 18) + ((number / 10) << 30));
        assert!((0.9..1.1).contains(&runs), "priced as what they are: {runs}");
        let scattered = factor(|number| number << 30);
        assert!(scattered < 0.6, "a disk that is faster than its price: {scattered}");
    }

    #[test]
    fn the_price_follows_the_device() {
        let near = |ns: u64, expected: u64| ns.abs_diff(expected) * 20 < expected;
        assert!(near(after(10_000, 12 * MS, true, false), 12 * MS));
        assert!(near(after(10_000, 6 * MS, true, false), 6 * MS));
        assert_eq!(after(10_000, 8 * MS, true, false), 8 * MS);
    }

    #[test]
    fn it_keeps_within_bounds_and_moves_slowly() {
        let (least, most) = (after(100_000, MS / 10, true, false), after(20_000, 900 * MS, true, false));
        assert!((4 * MS..5 * MS).contains(&least), "{least}");
        assert!((31 * MS..=32 * MS).contains(&most), "{most}");
        assert!(after(200, 16 * MS, true, false) < 14 * MS, "one window does not decide");
    }

    #[test]
    fn waiting_for_nobody_teaches_nothing() {
        assert_eq!(after(10_000, 80 * MS, false, false), 8 * MS);
        assert_eq!(after(10_000, 80 * MS, true, true), 8 * MS, "nor do writes");
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut correction = PriceCorrection::new(GIVEN);
        let mut now_ns = 0;
        for _ in 0..2_000 {
            correction.filled(true, now_ns);
            now_ns += 8 * MS;
            assert_eq!(correction.done(4096, false, now_ns), None);
            correction.filled(false, now_ns);
            now_ns += 5_000 * MS;
        }
    }
}
