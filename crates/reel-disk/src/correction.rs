//! What requests to a member really cost, learnt while it works.

use crate::limits::{
    CORRECTION_FALL, CORRECTION_FALL_NS, CORRECTION_FORGET_DOUBLINGS_MAX, CORRECTION_FORGET_NS,
    CORRECTION_MAX, CORRECTION_MIN, CORRECTION_PART, CORRECTION_READS_PART, CORRECTION_RISE_MAX,
    CORRECTION_SHOWN, CORRECTION_WINDOW_NS, CORRECTION_WINDOW_REQUESTS,
};
use crate::measured_price::MeasuredPrice;
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
/// - idle time, time in queues, and the time in which a disk spins up;
/// - windows that are mostly writes: caches take writes at any speed for a while, and syncs at
///   none.
///
/// A correction may keep the device from ever being full again, since less is reserved at the
/// higher price. So what is above the given price is forgotten by work: each read that no other
/// request waits behind takes away a part of it, half of it in [`CORRECTION_FORGET_NS`] of them. A
/// device that is still slow is full before more is reserved than it can do, and then the
/// correction is learnt again. Each time that happens, forgetting takes twice as long from then on,
/// until a full device does what the given price says: a price that is too low for good is learnt
/// once, and not every few minutes.
///
/// A price that is much too high keeps the device from being full from the start. But whatever
/// waits, a device that was busy for less time than its reads cost by their price is priced too
/// high: with more requests at once it would have been busy for no longer. So the price falls to
/// what the busy time says, by at most a fifth in [`CORRECTION_FALL_NS`], and never below what
/// single requests took when the device was measured ([`MeasuredPrice::floor_permille`]). A
/// throttle that saves up while little is requested looks free; that limit is not.
#[derive(Clone, Debug)]
pub struct PriceCorrection {
    given: MeasuredPrice,
    factor: f64,
    shown_factor: f64,
    /// How often the time has doubled in which half of a correction is forgotten.
    forget_doublings: u32,
    /// Whether something was forgotten since the last window of a full device.
    has_forgotten: bool,
    /// How much less each request in the device is estimated to cost, since it needs no seek. A
    /// rotational disk serves them about in this order; on others it is 0.
    in_device: VecDeque<u64>,
    /// Since when the device is full and others wait, as far as it was counted.
    full_since_ns: Option<u64>,
    /// Requests that were in the device when it became full and have not been answered.
    before_full: usize,
    full: Sums,
    /// Since when requests are in the device, as far as it was counted.
    busy_since_ns: Option<u64>,
    /// Since when `work` is counted.
    work_since_ns: Option<u64>,
    /// What the device did since, whether or not requests waited.
    work: Sums,
    /// Where the last request ended.
    end: u64,
}

/// What a device did.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    busy_ns: u64,
    /// By each of the two parts of a price with independent limits: the longer one is the estimate.
    expected_ns: [u64; 2],
    writes_ns: u64,
    requests: u32,
}

impl PriceCorrection {
    /// Starts with the price that was given, corrected by what an earlier server has learnt.
    pub fn new(given: impl Into<MeasuredPrice>) -> Self {
        let given = given.into();
        let factor = given.first_factor();
        Self {
            given,
            factor,
            shown_factor: factor,
            forget_doublings: 0,
            has_forgotten: false,
            in_device: VecDeque::new(),
            full_since_ns: None,
            before_full: 0,
            full: Sums::default(),
            busy_since_ns: None,
            work_since_ns: None,
            work: Sums::default(),
            end: u64::MAX,
        }
    }

    /// Drops the correction; requests in progress stay.
    pub fn restart(&mut self, given: MeasuredPrice) {
        let (in_device, busy_since_ns) = (std::mem::take(&mut self.in_device), self.busy_since_ns);
        *self = Self { in_device, busy_since_ns, ..Self::new(given) };
    }

    /// The price that was given.
    pub fn given(&self) -> MeasuredPrice {
        self.given
    }

    /// The corrected price.
    pub fn price(&self) -> DiskPrice {
        self.given.price.times(self.shown_factor)
    }

    /// The device has got what it takes; `full` if more waits for it.
    pub fn filled(&mut self, full: bool, now_ns: u64) {
        match self.full_since_ns {
            Some(since_ns) if self.before_full == 0 => self.full.busy(now_ns.saturating_sub(since_ns)),
            Some(_) => {}
            // A rotational disk serves one request after another: what it does next begins when it
            // has finished this one.
            None if full && self.given.price.is_rotational() => {
                self.before_full = self.in_device.len().min(1)
            }
            None if full => self.before_full = self.in_device.len(),
            None => return,
        }
        self.full_since_ns = full.then_some(now_ns);
    }

    /// The device is given a request. One that needs no seek is estimated to cost its transfer
    /// alone.
    pub fn begun(&mut self, offset: u64, bytes: u64, write: bool, now_ns: u64) {
        let given = &self.given.price;
        let passed_bytes = offset.checked_sub(self.end).filter(|passed| *passed <= given.passed_bytes());
        self.end = offset.saturating_add(bytes);
        let saved_ns = match passed_bytes {
            Some(passed_bytes) if !write && given.is_rotational() => {
                given.read_request_ns.saturating_sub(given.transfer_ns(passed_bytes))
            }
            _ => 0,
        };
        self.in_device.push_back(saved_ns);
        self.busy_since_ns.get_or_insert(now_ns);
        self.work_since_ns.get_or_insert(now_ns);
    }

    /// A request has failed: that was no work, but its time counts.
    pub fn failed(&mut self, now_ns: u64) {
        self.left(now_ns);
        self.before_full = self.before_full.saturating_sub(1);
    }

    /// The device is about to answer the first request after its disk has spun up. The time until
    /// now was none of work.
    pub fn woke(&mut self, now_ns: u64) {
        (self.full, self.work) = (Sums::default(), Sums::default());
        self.work_since_ns = Some(now_ns);
        self.busy_since_ns = self.busy_since_ns.map(|_| now_ns);
        if self.full_since_ns.is_some() {
            self.full_since_ns = Some(now_ns);
            self.before_full = 1;
        }
    }

    /// The device has done a request. The new price, if it has moved.
    pub fn done(&mut self, bytes: u64, write: bool, now_ns: u64) -> Option<DiskPrice> {
        let saved_ns = self.left(now_ns);
        let given = &self.given.price;
        let parts_ns = if write { [given.write_ns(bytes); 2] } else { given.read_parts_ns(bytes) };
        let expected_ns = parts_ns.map(|ns| ns.saturating_sub(saved_ns));
        self.work.done(expected_ns, write);
        let before = self.factor;
        self.learn(expected_ns, write, now_ns);
        self.fall(now_ns);
        if self.factor == before { None } else { self.shown() }
    }

    /// A request has left the device. What it was estimated to cost less.
    fn left(&mut self, now_ns: u64) -> u64 {
        let saved_ns = self.in_device.pop_front().unwrap_or(0);
        if let Some(since_ns) = self.busy_since_ns {
            self.work.busy(now_ns.saturating_sub(since_ns));
            self.busy_since_ns = (!self.in_device.is_empty()).then_some(now_ns);
        }
        saved_ns
    }

    /// What is learnt while requests wait behind a full device, and forgotten while none do.
    fn learn(&mut self, expected_ns: [u64; 2], write: bool, now_ns: u64) {
        if self.full_since_ns.is_some() {
            self.filled(true, now_ns);
            if self.before_full > 0 {
                self.before_full -= 1;
                return;
            }
            self.full.done(expected_ns, write);
            if !self.full.is_window(CORRECTION_WINDOW_NS) {
                return;
            }
            let Some(ratio) = self.full.take_ratio() else { return };
            // One window does not decide, however long the device stood still in it.
            let most = CORRECTION_MAX.min(self.factor * CORRECTION_RISE_MAX);
            let seen = ratio.clamp(self.floor().min(CORRECTION_MIN), most);
            self.remember(seen);
            self.factor += (seen - self.factor) * CORRECTION_PART;
        } else if !write && self.factor > 1.0 {
            let half_ns = CORRECTION_FORGET_NS << self.forget_doublings;
            let parts = expected_ns[0].max(expected_ns[1]) as f64 / half_ns as f64;
            self.factor = 1.0 + (self.factor - 1.0) * (-parts).exp2();
            self.has_forgotten = true;
        }
    }

    /// How long what is learnt now is remembered: longer if it was forgotten before.
    fn remember(&mut self, seen: f64) {
        if seen <= 1.0 {
            self.forget_doublings = 0;
        } else if self.has_forgotten && seen > self.factor {
            self.forget_doublings = (self.forget_doublings + 1).min(CORRECTION_FORGET_DOUBLINGS_MAX);
        }
        self.has_forgotten = false;
    }

    /// Lowers a price by which the device was to be busy for longer than it was.
    fn fall(&mut self, now_ns: u64) {
        let since_ns = self.work_since_ns.unwrap_or(now_ns);
        if now_ns.saturating_sub(since_ns) < CORRECTION_FALL_NS || !self.work.is_window(0) {
            return;
        }
        self.work_since_ns = Some(now_ns);
        let Some(ratio) = self.work.take_ratio() else { return };
        // What was learnt above the given price is forgotten by work.
        if self.factor > 1.0 {
            return;
        }
        let seen = ratio.max(self.factor * CORRECTION_FALL).max(self.floor());
        self.factor = self.factor.min(seen);
    }

    /// The lowest factor that is believed while no request waits.
    fn floor(&self) -> f64 {
        f64::from(self.given.floor_permille) / 1000.0
    }

    /// The price, if it has moved by enough to be reported.
    fn shown(&mut self) -> Option<DiskPrice> {
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

    /// Whether enough was done to say something, in so much time.
    fn is_window(&self, busy_ns: u64) -> bool {
        self.requests >= CORRECTION_WINDOW_REQUESTS && self.busy_ns >= busy_ns
    }

    /// The ratio of the time that requests took to their estimate; a new window begins. `None` if
    /// they were mostly writes.
    fn take_ratio(&mut self) -> Option<f64> {
        let Sums { busy_ns, expected_ns, writes_ns, .. } = std::mem::take(self);
        let expected_ns = expected_ns[0].max(expected_ns[1]);
        if (expected_ns.saturating_sub(writes_ns) as f64) < expected_ns as f64 * CORRECTION_READS_PART {
            return None;
        }
        Some(busy_ns as f64 / expected_ns.max(1) as f64)
    }
}

#[cfg(test)]
mod tests;
