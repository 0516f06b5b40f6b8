//! The disk scheduler and the drivers under it.
//!
//! One [`Scheduler`] per member decides which request the device gets next. It never lets more into
//! the device's own queue than its bound. The threads of [`start_disks`] only carry requests
//! between callers, schedulers and rings.
#![forbid(unsafe_code)]

mod activity;
mod backend;
mod config;
mod correction;
mod disks;
mod driven;
mod error;
#[cfg(feature = "faults")]
mod faults;
#[cfg(feature = "faults")]
mod faulty_thread;
mod job;
pub mod limits;
mod measured_price;
mod member;
mod probe;
mod profile;
mod request;
mod scheduler;
mod shared;
mod stats;
mod thread;

pub use activity::{ActivityTracker, MemberActivity};
pub use backend::{DiskBackend, Disks};
pub use config::DisksConfig;
pub use correction::PriceCorrection;
pub use disks::start_disks;
pub use error::DiskError;
#[cfg(feature = "faults")]
pub use faults::{Fault, Faults};
pub use measured_price::MeasuredPrice;
pub use member::{MemberFile, OpenMode, open_plain};
pub use probe::{Probe, ProbeError, identity, probe, written_bytes};
pub use profile::{
    Cell, DeviceIdentity, DeviceKind, Disturbances, Locality, Profile, ProfileError, Window, WindowKind,
};
pub use request::{DiskDone, DiskRequest, DiskWork, Reply, RequestId, Requester};
pub use scheduler::{
    ClassView, DepthBound, Drr, LastLate, Ordered, OrderedBy, Policy, Queued, Rounds, Scheduler,
    SchedulerView, UnknownPolicy,
};
pub use stats::{ClassStats, MemberStats};
