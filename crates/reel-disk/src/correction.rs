//! What requests to a member really cost, learnt while it works.

use crate::limits::{
    CORRECTION_FORGET_NS, CORRECTION_MAX, CORRECTION_MIN, CORRECTION_PART, CORRECTION_READS_PART,
    CORRECTION_SHOWN, CORRECTION_WINDOW_NS, CORRECTION_WINDOW_REQUESTS,
};
use reel_qos::DiskPrice;
use std::collections::VecDeque;

/// Corrects a price by what the device does.
///
/// Over windows, the time that the device was busy is compared with the sum of the estimated costs
/// of its requests. The ratio, smoothed and within bounds, multiplies the given price. Not counted
/// are:
/// - time in which no request waits behind a full device. A price is the cost of a request with the
///   queue as deep as allowed; a single request on an idle device waits for the whole way there and
///   back, and says nothing about it;
/// - requests that were in the device when it became full: their time began before;
/// - idle time and time in queues;
/// - windows that are mostly writes: caches take writes at any speed for a while, and syncs at
///   none.
///
/// A correction may keep the device from ever being full again, since less is reserved at the
/// higher price. So what is above the given price is forgotten by work: each read that no other
/// request waits behind takes away a part of it, half of it in [`CORRECTION_FORGET_NS`] of them. A
/// device that is still slow is full before more is reserved than it can do, and then the
/// correction is learnt again.
#[derive(Clone, Debug)]
pub struct PriceCorrection {
    given: DiskPrice,
    factor: f64,
    shown_factor: f64,
    /// How much less each request in the device is estimated to cost, since it needs no seek. A
    /// rotational disk serves them about in this order; on others it is 0.
    in_device: VecDeque<u64>,
    /// Since when the device is full and others wait, as far as it was counted.
    full_since_ns: Option<u64>,
    /// Requests that were in the device when it became full and have not been answered.
    before_full: usize,
    full: Sums,
    /// Where the last request ended.
    end: u64,
}

/// What a full device did.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    busy_ns: u64,
    /// By each of the two parts of a price with independent limits: the longer one is the estimate.
    expected_ns: [u64; 2],
    writes_ns: u64,
    requests: u32,
}

impl PriceCorrection {
    /// Starts with the price that was given, uncorrected.
    pub fn new(given: DiskPrice) -> Self {
        Self {
            given,
            factor: 1.0,
            shown_factor: 1.0,
            in_device: VecDeque::new(),
            full_since_ns: None,
            before_full: 0,
            full: Sums::default(),
            end: u64::MAX,
        }
    }

    /// Drops the correction; requests in progress stay.
    pub fn restart(&mut self, given: DiskPrice) {
        *self = Self { in_device: std::mem::take(&mut self.in_device), ..Self::new(given) };
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
            independent_limits: self.given.independent_limits,
        }
    }

    /// The device has got what it takes; `full` if more waits for it.
    pub fn filled(&mut self, full: bool, now_ns: u64) {
        match self.full_since_ns {
            Some(since_ns) if self.before_full == 0 => self.full.busy(now_ns.saturating_sub(since_ns)),
            Some(_) => {}
            // A rotational disk serves one request after another: what it does next begins when it
            // has finished this one.
            None if full && self.given.is_rotational() => self.before_full = self.in_device.len().min(1),
            None if full => self.before_full = self.in_device.len(),
            None => return,
        }
        self.full_since_ns = full.then_some(now_ns);
    }

    /// The device is given a request. One that needs no seek is estimated to cost its transfer
    /// alone.
    pub fn begun(&mut self, offset: u64, bytes: u64, write: bool) {
        let passed_bytes = offset.checked_sub(self.end).filter(|passed| *passed <= self.given.passed_bytes());
        self.end = offset.saturating_add(bytes);
        let saved_ns = match passed_bytes {
            Some(passed_bytes) if !write && self.given.is_rotational() => {
                self.given.read_request_ns.saturating_sub(self.given.transfer_ns(passed_bytes))
            }
            _ => 0,
        };
        self.in_device.push_back(saved_ns);
    }

    /// The device has done a request. The new price, if it has moved.
    pub fn done(&mut self, bytes: u64, write: bool, now_ns: u64) -> Option<DiskPrice> {
        let saved_ns = self.in_device.pop_front().unwrap_or(0);
        let parts_ns = if write { [self.given.write_ns(bytes); 2] } else { self.given.read_parts_ns(bytes) };
        let expected_ns = parts_ns.map(|ns| ns.saturating_sub(saved_ns));
        if self.full_since_ns.is_some() {
            self.filled(true, now_ns);
            if self.before_full > 0 {
                self.before_full -= 1;
                return None;
            }
            self.full.done(expected_ns, write);
            let ratio = self.full.window()?;
            let seen = ratio.clamp(CORRECTION_MIN, CORRECTION_MAX);
            return self.moved_to(self.factor + (seen - self.factor) * CORRECTION_PART);
        }
        if write || self.factor <= 1.0 {
            return None;
        }
        let parts = expected_ns[0].max(expected_ns[1]) as f64 / CORRECTION_FORGET_NS as f64;
        self.moved_to(1.0 + (self.factor - 1.0) * (-parts).exp2())
    }

    fn moved_to(&mut self, factor: f64) -> Option<DiskPrice> {
        self.factor = factor;
        if (self.factor / self.shown_factor - 1.0).abs() < CORRECTION_SHOWN {
            return None;
        }
        self.shown_factor = self.factor;
        Some(self.price())
    }
}

impl Sums {
    fn busy(&mut self, ns: u64) {
        self.busy_ns = self.busy_ns.saturating_add(ns);
    }

    fn done(&mut self, expected_ns: [u64; 2], write: bool) {
        for (sum, ns) in self.expected_ns.iter_mut().zip(expected_ns) {
            *sum = sum.saturating_add(ns);
        }
        if write {
            self.writes_ns = self.writes_ns.saturating_add(expected_ns[0]);
        }
        self.requests += 1;
    }

    /// When a window is complete, the ratio of the time that its requests took to their estimate; a
    /// new window begins. `None` if they were mostly writes.
    fn window(&mut self) -> Option<f64> {
        if self.requests < CORRECTION_WINDOW_REQUESTS || self.busy_ns < CORRECTION_WINDOW_NS {
            return None;
        }
        let Sums { busy_ns, expected_ns, writes_ns, .. } = std::mem::take(self);
        let expected_ns = expected_ns[0].max(expected_ns[1]);
        if (expected_ns.saturating_sub(writes_ns) as f64) < expected_ns as f64 * CORRECTION_READS_PART {
            return None;
        }
        Some(busy_ns as f64 / expected_ns.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const GIVEN: DiskPrice = DiskPrice {
        read_request_ns: 8 * MS,
        read_mib_ns: 0,
        write_request_ns: 8 * MS,
        write_mib_ns: 0,
        independent_limits: false,
    };

    /// The price after `requests` requests that take `took_ns` each on a device that is always
    /// full, or never.
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
        assert_eq!(shown, correction.price(), "every change is reported");
        shown.read_request_ns
    }

    #[test]
    fn neighbours_on_a_rotational_disk_do_not_make_it_cheap() {
        let given = DiskPrice { read_mib_ns: 4 * MS, ..GIVEN };
        let factor = |offset: fn(u64) -> u64| {
            let mut correction = PriceCorrection::new(given);
            correction.filled(true, 0);
            for number in 0..1000 {
                correction.begun(offset(number), 1 << 18, false);
                // Ten reads of 1 ms for every seek of 8 ms.
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
    fn time_without_waiting_requests_corrects_nothing() {
        assert_eq!(after(10_000, 80 * MS, false, false), 8 * MS);
        assert_eq!(after(10_000, 80 * MS, true, true), 8 * MS, "nor do writes");
    }

    #[test]
    fn reads_of_a_throttle_are_compared_with_the_longer_of_two_sums() {
        // 10 ms a request, 50 ms a MiB: a block and a quarter of a MiB alternately take 10 ms each,
        // not 10 and 12.5.
        let given =
            DiskPrice { read_request_ns: 10 * MS, read_mib_ns: 50 * MS, independent_limits: true, ..GIVEN };
        for (each_ns, factor) in [(10 * MS, 0.98..1.02), (20 * MS, 1.9..2.1)] {
            let mut correction = PriceCorrection::new(given);
            correction.filled(true, 0);
            for number in 0..4_000 {
                let bytes = if number % 2 == 0 { 4096 } else { 1 << 18 };
                correction.begun(number << 30, bytes, false);
                correction.done(bytes, false, (number + 1) * each_ns);
            }
            let price = correction.price();
            assert!(
                price.independent_limits
                    && factor.contains(&(price.read_request_ns as f64 / given.read_request_ns as f64))
            );
            assert!(factor.contains(&(price.read_mib_ns as f64 / given.read_mib_ns as f64)));
        }
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

    /// A device that does one request after another.
    struct Disk {
        correction: PriceCorrection,
        now_ns: u64,
        place: u64,
    }

    impl Disk {
        fn new() -> Disk {
            Disk { correction: PriceCorrection::new(GIVEN), now_ns: 0, place: 0 }
        }

        /// `count` reads that take `took_ms` each, with others waiting behind them or a pause after
        /// each.
        fn reads(&mut self, count: u64, took_ms: u64, full: bool) -> f64 {
            for _ in 0..count {
                self.place += 1 << 30;
                self.correction.begun(self.place, 4096, false);
                self.correction.filled(full, self.now_ns);
                self.now_ns += took_ms * MS;
                self.correction.done(4096, false, self.now_ns);
            }
            self.correction.filled(false, self.now_ns);
            self.now_ns += 1000 * MS;
            self.factor()
        }

        fn factor(&self) -> f64 {
            self.correction.price().read_request_ns as f64 / GIVEN.read_request_ns as f64
        }
    }

    /// Reads of the price that was given in which half of what was learnt is forgotten.
    const HALF: u64 = CORRECTION_FORGET_NS / (8 * MS);

    #[test]
    fn a_slow_minute_is_forgotten_though_the_device_is_never_full_again() {
        // However long single requests take: on flash longer than among others, behind a throttle
        // no time at all.
        for lone_ms in [1, 8, 30] {
            let mut disk = Disk::new();
            let learnt = disk.reads(2_000, 24, true);
            assert!((2.8..=3.0).contains(&learnt), "{learnt}");
            let half = disk.reads(HALF, lone_ms, false);
            assert!((1.9..=2.05).contains(&half), "{half}");
            let rest = disk.reads(4 * HALF, lone_ms, false);
            assert!((1.0..1.1).contains(&rest), "{rest}");
        }
    }

    #[test]
    fn nothing_is_forgotten_while_nothing_is_read() {
        let mut disk = Disk::new();
        let learnt = disk.reads(2_000, 24, true);
        disk.now_ns += 3_600_000 * MS;
        assert!(disk.reads(1, 8, false) > learnt - 0.1);
    }

    #[test]
    fn what_was_forgotten_is_learnt_again_within_eight_windows() {
        let mut disk = Disk::new();
        disk.reads(2_000, 24, true);
        assert!(disk.reads(20 * HALF, 24, false) < 1.1);
        let windows = 8 * u64::from(CORRECTION_WINDOW_REQUESTS);
        let again = disk.reads(windows + 1, 24, true);
        assert!(again > 2.7, "nine tenths of it: {again}");
    }

    #[test]
    fn a_device_that_is_full_now_and_then_does_not_become_cheap() {
        // Each second eight reads, four of them with none waiting behind: a reservation of seven
        // tenths at the corrected price can still be kept.
        let mut disk = Disk::new();
        disk.reads(2_000, 24, true);
        for _ in 0..5_000 {
            disk.reads(5, 24, true);
            let factor = disk.reads(4, 24, false);
            assert!(factor > 0.7 * 3.0, "{factor}");
        }
    }

    #[test]
    fn short_runs_do_not_make_a_rotational_disk_expensive() {
        // Three neighbours at a time, of which the last waits: what goes into a full device is
        // answered when it is no longer full.
        let mut correction = PriceCorrection::new(GIVEN);
        let transfer_ns = GIVEN.transfer_ns(1 << 18);
        for run in 0..5_000_u64 {
            let (place, now_ns) = ((run * 7_919 % 1_000) << 30, run * 100 * MS);
            correction.begun(place, 1 << 18, false);
            correction.begun(place + (1 << 18), 1 << 18, false);
            correction.filled(true, now_ns);
            let first_ns = now_ns + GIVEN.read_ns(1 << 18);
            assert_eq!(correction.done(1 << 18, false, first_ns), None);
            correction.begun(place + (2 << 18), 1 << 18, false);
            correction.filled(run % 2 == 0, first_ns);
            assert_eq!(correction.done(1 << 18, false, first_ns + transfer_ns), None);
            correction.filled(false, first_ns + transfer_ns);
            assert_eq!(correction.done(1 << 18, false, first_ns + 2 * transfer_ns), None);
        }
    }

    #[test]
    fn short_bursts_do_not_make_a_parallel_device_expensive() {
        // Eight at a time, each in eight times its share: nine come at once, and the last waits
        // until the first is done.
        let given = DiskPrice { read_request_ns: MS / 4, ..GIVEN };
        let mut correction = PriceCorrection::new(given);
        for rush in 0..5_000_u64 {
            let now_ns = rush * 20 * MS;
            (0..8).for_each(|number| correction.begun((rush * 10 + number) << 30, 4096, false));
            correction.filled(true, now_ns);
            assert_eq!(correction.done(4096, false, now_ns + 2 * MS), None);
            correction.begun((rush * 10 + 9) << 30, 4096, false);
            correction.filled(false, now_ns + 2 * MS);
            for number in 0..8 {
                assert_eq!(correction.done(4096, false, now_ns + (2 + number / 7 * 2) * MS), None);
            }
        }
    }

    proptest! {
        #[test]
        fn no_device_that_takes_what_its_price_says_becomes_cheaper(
            rushes in proptest::collection::vec((1_u64..200, 8_u64..60, any::<bool>()), 1..60),
        ) {
            let mut disk = Disk::new();
            for (count, took_ms, full) in rushes {
                let before = disk.factor();
                let factor = disk.reads(count, took_ms, full);
                prop_assert!((1.0..=CORRECTION_MAX).contains(&factor), "{factor}");
                prop_assert!(full || factor <= before, "{before} to {factor} with no request waiting");
            }
        }
    }
}
