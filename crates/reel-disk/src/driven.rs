//! A member as its thread sees it.

use crate::correction::PriceCorrection;
use crate::error::DiskError;
use crate::limits::{FAILURE_LOG_INTERVAL_NS, VIEW_INTERVAL_NS};
use crate::measured_price::MeasuredPrice;
use crate::member::MemberFile;
use crate::scheduler::{Queued, Scheduler};
use crate::shared::Shared;
use reel_qos::DiskPrice;
use reel_rt::lock;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A member with its scheduler.
pub(crate) struct Driven {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) log: FailureLog,
    correction: PriceCorrection,
    kept_until_ns: Option<u64>,
    shown: Shown,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Done { bytes: usize, write: bool },
    Failed,
}

/// A dead member fails thousands of requests a second; the log gets one line a second.
#[derive(Default)]
pub(crate) struct FailureLog {
    silent_until_ns: u64,
    unsaid: u64,
}

/// When its view was last shown, and whether it has changed since.
#[derive(Default)]
struct Shown {
    at_ns: u64,
    changed: bool,
}

impl Driven {
    pub(crate) fn new(file: &MemberFile, scheduler: Box<dyn Scheduler>, price: MeasuredPrice) -> Self {
        let mut driven = Self {
            file: Arc::clone(file.ring_file()),
            path: file.path().to_owned(),
            bytes: file.bytes(),
            scheduler,
            log: FailureLog::default(),
            correction: PriceCorrection::new(price),
            kept_until_ns: None,
            shown: Shown::default(),
        };
        driven.set_price(price);
        driven
    }

    /// Another file from here on. What is known beside the price belongs to the old file and is
    /// forgotten.
    pub(crate) fn reopen(&mut self, file: &MemberFile) -> MeasuredPrice {
        (self.path, self.bytes) = (file.path().to_owned(), file.bytes());
        self.file = Arc::clone(file.ring_file());
        let given = MeasuredPrice::from(self.correction.given().price);
        self.set_price(given);
        given
    }

    /// A price from outside: what was learnt about the one before is forgotten.
    pub(crate) fn set_price(&mut self, price: MeasuredPrice) {
        self.correction.restart(price);
        self.scheduler.set_price(price.price);
        self.scheduler.correct_price(self.correction.price());
        self.shown.changed = true;
    }

    /// The device has got what the scheduler lets it have. Returns when to call again, if the
    /// scheduler keeps the device idle until then and that time is new.
    pub(crate) fn filled(&mut self, now_ns: u64) -> Option<u64> {
        let kept_ns = self.scheduler.kept_until_ns();
        self.correction.filled(!self.scheduler.is_empty() && kept_ns.is_none(), now_ns);
        let before_ns = std::mem::replace(&mut self.kept_until_ns, kept_ns);
        kept_ns.filter(|_| kept_ns != before_ns)
    }

    /// The next request for the device.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Queued> {
        let next = self.scheduler.pop(now_ns)?;
        self.correction.begun(next.offset, next.bytes as u64, next.write, now_ns);
        Some(next)
    }

    /// The device is through with a request. The price, if it was corrected.
    pub(crate) fn done(&mut self, id: u64, done: Outcome, now_ns: u64) -> Option<DiskPrice> {
        self.changed();
        self.scheduler.done(id, now_ns);
        let Outcome::Done { bytes, write } = done else {
            self.correction.failed(now_ns);
            return None;
        };
        let price = self.correction.done(bytes as u64, write, now_ns)?;
        self.scheduler.correct_price(price);
        Some(price)
    }

    /// The disk has spun up, and its first request is about to be done.
    pub(crate) fn woke(&mut self, now_ns: u64) {
        self.correction.woke(now_ns);
    }

    pub(crate) fn changed(&mut self) {
        self.shown.changed = true;
    }

    /// Publishes the view if it has changed and the last one was published a while ago. If it is
    /// too early, returns when to call again.
    pub(crate) fn show(&mut self, number: usize, shared: &Shared, now_ns: u64) -> Option<u64> {
        if !self.shown.changed {
            return None;
        }
        let next_ns = self.shown.at_ns.saturating_add(VIEW_INTERVAL_NS);
        if now_ns < next_ns {
            return Some(next_ns);
        }
        self.shown = Shown { at_ns: now_ns, changed: false };
        *lock(&shared.views[number]) = self.scheduler.view(now_ns);
        None
    }
}

impl FailureLog {
    pub(crate) fn failure(&mut self, now_ns: u64, path: &Path, error: &DiskError) {
        if now_ns < self.silent_until_ns {
            self.unsaid += 1;
            return;
        }
        tracing::warn!(path = %path.display(), %error, unsaid = self.unsaid, "a member failed a request");
        self.silent_until_ns = now_ns.saturating_add(FAILURE_LOG_INTERVAL_NS);
        self.unsaid = 0;
    }
}
