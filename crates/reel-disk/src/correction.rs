//! What requests to a member really cost, learnt while it works.

use crate::limits::{
    CORRECTION_BELIEVED, CORRECTION_LIGHT_PART, CORRECTION_MAX, CORRECTION_MIN, CORRECTION_PART,
    CORRECTION_READS_PART, CORRECTION_SHOWN, CORRECTION_USUAL, CORRECTION_WINDOW_NS,
    CORRECTION_WINDOW_REQUESTS,
};
use reel_qos::DiskPrice;

/// Corrects a price by what the device does.
///
/// Over windows, the time that the device was busy is held against the sum of what its requests were expected to cost; the ratio, within
/// bounds and smoothed, multiplies the price that was given. Only time counts in which requests waited behind a full device: a price is what
/// a request costs with the queue as deep as it may be, and a lone request on an idle device, which waits for the whole way
/// there and back, says nothing about it. Idle time and time in queues never count. Nor do windows that are mostly writes: caches
/// below take writes at any speed for a while, and syncs at none.
///
/// A price that has been learnt may keep the device from ever being full again, since so little is promised then. So requests that nobody waited
/// behind are looked at, too, in windows of their own: what they took is the most that requests can cost. That lowers a
/// price that is above what was given, slowly, and never further than to that. It is believed only where such requests took about what the price said while
/// that was the one given, or take what the learnt one says: on a device that takes them quickly while it can do little (a throttle, a cache) they say nothing.
#[derive(Clone, Debug)]
pub struct PriceCorrection {
    given: DiskPrice,
    factor: f64,
    shown_factor: f64,
    in_device: u32,
    /// Since when the device is full and others wait.
    full_since_ns: Option<u64>,
    full: Sums,
    /// Since the device was last idle, unless others have waited meanwhile.
    alone: Option<Alone>,
    light: Sums,
    /// The largest ratio of a window of requests that nobody waited behind, since the price rose last.
    light_most: f64,
    /// The ratio of such windows, smoothed, while the price was about the one that was given.
    light_usual: Option<f64>,
    /// Where the last request ended.
    end: u64,
}

/// What a device did.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    busy_ns: u64,
    expected_ns: u64,
    expected_of_reads_ns: u64,
    /// What requests that went on where an arm stood were expected to cost less.
    saved_ns: u64,
    requests: u32,
}

/// The device works, and nobody waits for it.
#[derive(Clone, Copy, Debug)]
struct Alone {
    since_ns: u64,
    sums: Sums,
}

impl PriceCorrection {
    /// Starts with the price that was given, uncorrected.
    pub fn new(given: DiskPrice) -> Self {
        Self {
            given,
            factor: 1.0,
            shown_factor: 1.0,
            in_device: 0,
            full_since_ns: None,
            full: Sums::default(),
            alone: None,
            light: Sums::default(),
            light_most: 0.0,
            light_usual: None,
            end: u64::MAX,
        }
    }

    /// Forgets what was learnt; requests under way stay so.
    pub fn restart(&mut self, given: DiskPrice) {
        *self = Self { in_device: self.in_device, ..Self::new(given) };
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
        if full {
            self.alone = None;
        }
        match self.full_since_ns {
            Some(since_ns) => self.full.busy(now_ns.saturating_sub(since_ns)),
            // Requests that went in before belong to a time that was not counted; windows are long enough for that.
            None if !full => return,
            None => {}
        }
        self.full_since_ns = full.then_some(now_ns);
    }

    /// The device is given a request. One that goes on where an arm stands is expected to cost its transfer alone.
    pub fn begun(&mut self, offset: u64, bytes: u64, write: bool, now_ns: u64) {
        if self.in_device == 0 && self.full_since_ns.is_none() {
            self.alone = Some(Alone { since_ns: now_ns, sums: Sums::default() });
        }
        self.in_device = self.in_device.saturating_add(1);
        let passed_bytes = offset.checked_sub(self.end).filter(|passed| *passed <= self.given.passed_bytes());
        self.end = offset.saturating_add(bytes);
        if let Some(passed_bytes) = passed_bytes
            && !write
            && self.given.has_arm()
        {
            let way_ns = self.given.read_request_ns.saturating_sub(self.given.transfer_ns(passed_bytes));
            match (&mut self.alone, self.full_since_ns) {
                (_, Some(_)) => self.full.saved_ns = self.full.saved_ns.saturating_add(way_ns),
                (Some(alone), _) => alone.sums.saved_ns = alone.sums.saved_ns.saturating_add(way_ns),
                (None, None) => {}
            }
        }
    }

    /// The device has done a request. The new price, if it has moved.
    pub fn done(&mut self, bytes: u64, write: bool, now_ns: u64) -> Option<DiskPrice> {
        self.in_device = self.in_device.saturating_sub(1);
        let expected_ns = if write { self.given.write_ns(bytes) } else { self.given.read_ns(bytes) };
        if self.full_since_ns.is_some() {
            self.filled(true, now_ns);
            self.full.done(expected_ns, write);
            let ratio = self.full.window()?;
            return self.saw(ratio);
        }
        let alone = self.alone.as_mut()?;
        alone.sums.done(expected_ns, write);
        if self.in_device > 0 {
            return None;
        }
        let Alone { since_ns, mut sums } = self.alone.take()?;
        sums.busy(now_ns.saturating_sub(since_ns));
        self.light.add(&sums);
        let ratio = self.light.window()?;
        self.saw_light(ratio)
    }

    /// What requests cost on a full device.
    fn saw(&mut self, ratio: f64) -> Option<DiskPrice> {
        let seen = ratio.clamp(CORRECTION_MIN, CORRECTION_MAX);
        if seen > self.factor {
            self.light_most = 0.0;
        }
        self.move_by(seen, CORRECTION_PART)
    }

    /// The most that requests can cost, if those that nobody waited behind are to be believed.
    fn saw_light(&mut self, ratio: f64) -> Option<DiskPrice> {
        if self.factor <= CORRECTION_USUAL {
            let usual = self.light_usual.get_or_insert(ratio);
            *usual += (ratio - *usual) * CORRECTION_LIGHT_PART;
        }
        let believed = self.light_usual.is_some_and(|usual| usual >= CORRECTION_BELIEVED)
            || self.light_most >= self.factor;
        self.light_most = self.light_most.max(ratio);
        if !believed || ratio >= self.factor || self.factor <= 1.0 {
            return None;
        }
        self.move_by(ratio.max(1.0), CORRECTION_LIGHT_PART)
    }

    fn move_by(&mut self, seen: f64, part: f64) -> Option<DiskPrice> {
        self.factor += (seen - self.factor) * part;
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

    fn done(&mut self, expected_ns: u64, write: bool) {
        self.expected_ns = self.expected_ns.saturating_add(expected_ns);
        if !write {
            self.expected_of_reads_ns = self.expected_of_reads_ns.saturating_add(expected_ns);
        }
        self.requests += 1;
    }

    fn add(&mut self, other: &Sums) {
        self.busy(other.busy_ns);
        self.expected_ns = self.expected_ns.saturating_add(other.expected_ns);
        self.expected_of_reads_ns = self.expected_of_reads_ns.saturating_add(other.expected_of_reads_ns);
        self.saved_ns = self.saved_ns.saturating_add(other.saved_ns);
        self.requests = self.requests.saturating_add(other.requests);
    }

    /// Of a window that is complete, what its requests took of what they were expected to take; it begins anew. Nothing if they were mostly writes.
    fn window(&mut self) -> Option<f64> {
        if self.requests < CORRECTION_WINDOW_REQUESTS || self.busy_ns < CORRECTION_WINDOW_NS {
            return None;
        }
        let Sums { busy_ns, expected_ns, expected_of_reads_ns, saved_ns, .. } = std::mem::take(self);
        if (expected_of_reads_ns as f64) < expected_ns as f64 * CORRECTION_READS_PART {
            return None;
        }
        Some(busy_ns as f64 / expected_ns.saturating_sub(saved_ns).max(1) as f64)
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
                correction.begun(offset(number), 1 << 18, false, number * MS + number / 10 * 8 * MS);
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

    /// A device that had a slow minute when it was full, and is never full again: the factor then. Requests that nobody waits behind take `usual_ms` before, if there are any,
    /// and after it `slow` of them `light_ms`, the others `quick_ms`.
    fn after_a_slow_minute(usual_ms: Option<u64>, slow: u64, light_ms: u64, quick_ms: u64) -> f64 {
        let mut correction = PriceCorrection::new(GIVEN);
        let mut now_ns = 0;
        for number in 0..usual_ms.map_or(0, |_| 500) {
            now_ns += 1_000 * MS;
            correction.begun((number % 2) << 40, 4096, false, now_ns);
            now_ns += usual_ms.unwrap_or_default() * MS;
            assert_eq!(correction.done(4096, false, now_ns), None);
        }
        correction.filled(true, now_ns);
        for number in 0..2_000 {
            correction.begun(number << 30, 4096, false, now_ns);
            now_ns += 24 * MS;
            correction.done(4096, false, now_ns);
            correction.filled(true, now_ns);
        }
        correction.filled(false, now_ns);
        let learnt = correction.price().read_request_ns as f64 / GIVEN.read_request_ns as f64;
        assert!((2.8..=3.0).contains(&learnt), "{learnt}");
        for number in 0..slow + 12_000 {
            now_ns += 1_000 * MS;
            correction.begun((number % 2) << 40, 4096, false, now_ns);
            correction.filled(false, now_ns);
            now_ns += if number < slow { light_ms } else { quick_ms } * MS;
            correction.done(4096, false, now_ns);
            correction.filled(false, now_ns);
        }
        correction.price().read_request_ns as f64 / GIVEN.read_request_ns as f64
    }

    #[test]
    fn a_slow_minute_is_forgotten_though_the_device_is_never_full_again() {
        for (usual_ms, slow) in [(None, 1_000), (Some(10), 0), (Some(10), 1_000)] {
            let factor = after_a_slow_minute(usual_ms, slow, 30, 10);
            assert!(
                (1.2..1.35).contains(&factor),
                "what lone requests need is the most they can cost: {factor}"
            );
            let factor = after_a_slow_minute(usual_ms, slow, 30, 2);
            assert!((1.0..1.05).contains(&factor), "never below what was given: {factor}");
        }
    }

    #[test]
    fn requests_that_nobody_waits_behind_lower_no_price_that_they_never_bore_out() {
        // A device that is still slow, and one that takes lone requests quickly however little it can do in all.
        assert!(after_a_slow_minute(Some(10), 1_000, 30, 26) > 2.8);
        assert!(after_a_slow_minute(Some(2), 1_000, 4, 2) > 2.8);
        assert!(after_a_slow_minute(None, 1_000, 4, 2) > 2.8);
        assert!(after_a_slow_minute(None, 0, 30, 10) > 2.8);
    }
}
