//! Sessions: what each one plays, its schedule, and what is reserved for it in the ledger.
#![forbid(unsafe_code)]

mod address_range;
mod admission;
mod allowance;
mod choices;
mod client;
mod demand;
mod fetched;
mod former;
mod kept;
pub mod limits;
mod played;
mod pushed;
mod reservations;
mod schedule;
mod session;
mod sessions;
mod shares;
mod steady;
mod table;

pub use address_range::{AddressRange, NoAddressRange};
pub use admission::{Admission, Sharing};
pub use choices::Choices;
pub use client::{Client, SessionClient, client_network};
pub use demand::{Loss, Stretch, demand, shared_demand};
pub use former::FormerSession;
pub use kept::{KeptSession, PlayingAt};
pub use played::PlayedBy;
pub use schedule::TrackSpan;
pub use session::{ReservationState, Session, SessionSummary};
pub use sessions::{OpenRefused, Permit, Sessions, SessionsConfig};
pub use steady::steady_demand;
