//! Models of devices: when they finish what they are given.

mod hdd;
mod sleeper;
mod ssd;
mod tail;
mod throttled;

pub use hdd::{Hdd, HddSpec};
pub use sleeper::{SleepSpec, Sleeper};
pub use ssd::{Ssd, SsdSpec};
pub use tail::Tail;
pub use throttled::{Throttled, ThrottledSpec};

use reel_testkit::Rng;

/// A device. Its driver pushes requests as they come, takes what has ended at [`Device::next_ns`],
/// and never lets time run past that.
pub trait Device: Send {
    /// One more request in the device's own queue.
    fn push(&mut self, id: u32, transfer: Transfer, now_ns: u64);

    /// When the next request ends.
    fn next_ns(&self) -> Option<u64>;

    /// A request that has ended by now.
    fn pop(&mut self, now_ns: u64) -> Option<u32>;

    /// What begins from here on takes so many thousandths of its time.
    fn set_slowness(&mut self, permille: u64);
}

/// What a device is to move, in real bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Where on the device.
    pub offset: u64,
    /// How much.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

/// A device to be made: one for each member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceSpec {
    /// A hard disk.
    Hdd(HddSpec),
    /// A solid state disk.
    Ssd(SsdSpec),
    /// Any fast disk behind a throttle of the kernel.
    Throttled(ThrottledSpec),
}

impl DeviceSpec {
    /// One device like this; `rng` makes it differ from its siblings.
    pub fn make(&self, rng: Rng) -> Box<dyn Device> {
        match self {
            DeviceSpec::Hdd(spec) => Box::new(Hdd::new(*spec, rng)),
            DeviceSpec::Ssd(spec) => Box::new(Ssd::new(*spec, rng)),
            DeviceSpec::Throttled(spec) => Box::new(Throttled::new(*spec)),
        }
    }

    /// The same device with none of the reads that take far longer: a measurement leaves those out,
    /// so that its price knows nothing of them.
    pub fn without_tail(self) -> Self {
        match self {
            DeviceSpec::Hdd(spec) => DeviceSpec::Hdd(HddSpec { tail: None, ..spec }),
            DeviceSpec::Ssd(spec) => DeviceSpec::Ssd(SsdSpec { tail: None, ..spec }),
            DeviceSpec::Throttled(_) => self,
        }
    }

    /// Bytes of the device.
    pub fn bytes(&self) -> u64 {
        match self {
            DeviceSpec::Hdd(spec) => spec.bytes,
            DeviceSpec::Ssd(spec) => spec.bytes,
            DeviceSpec::Throttled(spec) => spec.bytes,
        }
    }

    /// What it is, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            DeviceSpec::Hdd(_) => "hdd",
            DeviceSpec::Ssd(_) => "ssd",
            DeviceSpec::Throttled(_) => "throttled",
        }
    }
}

/// Nanoseconds that `bytes` take at a rate.
fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1))) as u64
}

/// A time stretched by a slowness.
fn stretched(ns: u64, permille: u64) -> u64 {
    ns.saturating_mul(permille) / 1000
}
