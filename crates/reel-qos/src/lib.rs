//! Traffic classes and the admission ledger, pure.
#![forbid(unsafe_code)]

mod claim;
mod class;
mod client_share;
mod demand;
mod fit;
mod how_many;
mod ledger;
pub mod limits;
mod price;
mod refusal;
mod report;
mod resource;
mod retry;
mod sender;
mod shared;
mod timeline;
mod transaction;
mod worth;

pub use claim::DemandStart;
pub use class::{Class, ClassSpec, ClassTable, ClassTableError, DEADLINE_NONE_NS, Kind};
pub use client_share::{ClientShare, MeanCosts, ShareClaim, ShareRefusal};
pub use demand::{Demand, DiskDemand};
pub use how_many::{Answer, Starts};
pub use ledger::{Ledger, ReservationId};
pub use price::DiskPrice;
pub use refusal::{AdmitError, Refusal};
pub use report::ReservationView;
pub use resource::{Capacities, MemberCapacity, Overcommitment, Resource, ResourceUsage, UNLIMITED};
pub use sender::Sender;
pub use shared::{Ahead, Meeting, SharedReservations};
pub use transaction::Transaction;
