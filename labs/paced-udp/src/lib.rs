//! Packets at a steady rate: the sender for front ends that push (RTSP, casts).
//!
//! A front end writes headers and hands over [`Packets`]. A [`UdpSender`] cuts them into trains,
//! asks its [`Pacer`] when each may go, and returns the op to push to the ring. It uses no clock
//! and no socket itself.

#![forbid(unsafe_code)]

mod lending;
pub mod limits;
mod pacer;
#[cfg(test)]
mod pacer_laws;
mod packets;
mod sender;

pub use pacer::{Pacer, PacerCounts};
pub use packets::Packets;
pub use sender::{UdpCounts, UdpSender, UdpStep};
