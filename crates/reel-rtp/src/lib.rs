//! The packets of a cast, pure: RTP, RTCP, column FEC of SMPTE ST 2022-1, SDP and SAP.
//!
//! A cast sends a stored transport stream (form `ts`) to a group: media on one UDP port, RTCP on
//! the next one, and FEC on the port after that. This crate writes the headers of these packets
//! and the description that receivers get, and reads what receivers get from the network. The
//! sender of casts (`reel cast`) and the receiver of casts (`reel receive`) use it.
//!
//! Nothing here has a socket or a clock, and payload is never copied to be sent: headers are
//! written into memory of the caller, and the parity of a FEC packet is the symbol that lies on
//! the disk. The decoder alone keeps payload, in a window of fixed size.
#![forbid(unsafe_code)]

mod error;
pub mod fec;
pub mod limits;
mod ntp;
pub mod rtcp;
mod rtp;
pub mod sap;
pub mod sdp;

pub use error::PacketError;
pub use ntp::NtpTime;
pub use rtp::{CLOCK_HZ, HEADER_BYTES, HeaderTemplate, MP2T, Packet};
