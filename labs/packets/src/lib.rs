//! `fec` and `framing`: what is done for each packet that is sent, measured without a server.
#![forbid(unsafe_code)]

mod cpu;
mod framing;
mod link;
mod parity;
mod repair;

pub use framing::{Flow, RawSocket, framing, rejected};
pub use parity::measure as parity;
pub use repair::measure as repair;
