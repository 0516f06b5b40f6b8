//! Sessions: what each one plays, its schedule, and what is reserved for it in the ledger.
#![forbid(unsafe_code)]

mod allowance;
mod book;
mod demand;
pub mod limits;
mod played;
mod schedule;
mod session;
mod sessions;
mod steady;

pub use demand::{Loss, Stretch, demand, shared_demand};
pub use played::PlayedBy;
pub use schedule::Ask;
pub use session::{Session, SessionSummary, Standing};
pub use sessions::{OpenRefused, Permit, Sessions, SessionsConfig, Sharing};
pub use steady::steady_demand;
