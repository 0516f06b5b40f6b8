//! How the disk threads are set up.

#[cfg(feature = "faults")]
use crate::faults::Faults;
use crate::measured_price::MeasuredPrice;
use crate::scheduler::{DepthBound, Policy, Scheduler};
use reel_qos::{ClassTable, DiskPrice};
use reel_ring::DriverChoice;

/// How the disk threads are set up.
#[derive(Clone, Debug)]
pub struct DisksConfig {
    /// Threads; 0 means one for every four members.
    pub threads: usize,
    /// Processors for the threads, in turn; empty means that they run anywhere.
    pub cpus: Vec<usize>,
    /// What may be in the queue of one device.
    pub depth: DepthBound,
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
    /// Faults that are injected into members.
    #[cfg(feature = "faults")]
    pub faults: Option<Faults>,
    /// The policy that decides what a device gets next.
    pub policy: Policy,
    /// The classes and their shares.
    pub classes: ClassTable,
    /// What requests to each member cost. Members beyond the end have
    /// [`PRICE_UNKNOWN`](crate::limits::PRICE_UNKNOWN).
    pub prices: Vec<MeasuredPrice>,
}

impl Default for DisksConfig {
    /// For a command that has the disks to itself. No stream has a reservation, so a sweep is a
    /// sufficient order. The costs of requests are not measured, so they do not bound the device's
    /// queue.
    fn default() -> Self {
        Self {
            threads: 0,
            cpus: Vec::new(),
            depth: DepthBound { device_ns: u64::MAX, ..DepthBound::default() },
            driver: DriverChoice::Auto,
            #[cfg(feature = "faults")]
            faults: None,
            policy: Policy::CScan,
            classes: ClassTable::default(),
            prices: Vec::new(),
        }
    }
}

impl DisksConfig {
    pub(crate) fn scheduler(&self, price: DiskPrice) -> Box<dyn Scheduler> {
        self.policy.scheduler(&self.classes, price, self.depth)
    }
}
