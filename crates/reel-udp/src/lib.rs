//! Packets at a steady rate over UDP: the sender for front ends that push (casts, RTSP).
//!
//! A front end writes headers and hands over [`Packets`] for each of its flows. A [`UdpSender`]
//! cuts them into trains, asks the [`Pacer`] of each flow when the next may go, and returns the op
//! to push to the ring. It uses no clock and makes no system call. A [`MulticastSocket`] is the
//! socket to send by.

#![forbid(unsafe_code)]

mod destination;
mod fault;
mod flow;
mod interface;
mod lending;
pub mod limits;
mod pacer;
#[cfg(test)]
mod pacer_laws;
mod packets;
mod sender;
#[cfg(test)]
mod sender_laws;
#[cfg(test)]
mod sender_tests;
mod socket;

pub use destination::{DestinationError, Family};
pub use fault::SendFault;
pub use flow::FlowCounts;
pub use pacer::{Pacer, PacerCounts};
pub use packets::Packets;
pub use sender::{FlowId, FlowState, TooManyFlows, UdpSender, UdpStep};
pub use socket::{MulticastOptions, MulticastSocket, OpenError};
