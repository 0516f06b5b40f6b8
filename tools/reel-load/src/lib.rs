//! A fleet of clients against any HLS server: players, paced readers, downloads and browsers.
//!
//! A [`Plan`] says which clients come; [`run`] carries it out and returns the [`Outcome`].
//! [`Fleet`] does the same in the background. What happens to a viewer is decided by `player`,
//! which is pure; `session` drives it over sockets. `reel load` is this library as a program.
#![forbid(unsafe_code)]

mod body;
mod catalogue;
mod chance;
mod counters;
mod fleet;
mod http;
mod limits;
mod loader;
mod origin;
mod outcome;
mod paced;
mod plan;
mod player;
#[cfg(test)]
mod player_laws;
mod reader;
mod rendition;
mod request_error;
mod segment;
mod session;
mod tallies;
#[cfg(test)]
mod tests;
mod thread;
mod viewer;

pub use fleet::{Fleet, Stopper, check, run};
pub use origin::parse as own_addresses;
pub use outcome::{ClientDelay, Outcome, PacedReads, Reads, Reason, Sample, Viewers};
pub use plan::{ArrivalShape, Arrivals, Hls, Paced, Plan, Reading, Rendition, Viewing};
