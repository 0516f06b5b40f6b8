//! A socket that sends packets with the headers that it is given. It is a raw socket of IPv4, and
//! not a packet socket (AF_PACKET): what names an interface for those is unsafe in every crate of
//! this workspace. The kernel looks at the headers of IPv4, and touches no byte behind them.

use super::{BATCH, HEADERS_BYTES};
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketType, connect, ipproto, sendmmsg, socket,
};
use std::io::IoSlice;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

/// Sends packets of IPv4 to one address.
pub struct RawSocket(OwnedFd);

impl RawSocket {
    /// Opens one for packets to an address.
    ///
    /// # Errors
    /// Without root, or without a route.
    pub fn open(to: SocketAddrV4) -> Result<Self> {
        // Headers are included in what is sent by a socket of this protocol (raw(7)).
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW));
        let socket = socket.context("a raw socket needs root (CAP_NET_RAW)")?;
        let wanted = rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20);
        wanted.context("a send buffer")?;
        connect(&socket, &SocketAddrV4::new(*to.ip(), 0)).with_context(|| format!("a route to {to}"))?;
        Ok(Self(socket))
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn send(&self, packet: &[u8]) -> Result<()> {
        rustix::net::send(&self.0, packet, SendFlags::empty()).context("sending a packet")?;
        Ok(())
    }

    /// Sends up to [`BATCH`] packets with one call or more.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn send_batch(&self, packets: &[([u8; HEADERS_BYTES], &[u8])]) -> Result<()> {
        let slices: Vec<[IoSlice<'_>; 2]> =
            packets.iter().map(|(headers, payload)| [IoSlice::new(headers), IoSlice::new(payload)]).collect();
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; BATCH] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let messages = slices.iter().zip(&mut controls);
        let mut messages: Vec<MMsgHdr<'_>> =
            messages.map(|(slices, control)| MMsgHdr::new(slices, control)).collect();
        let mut sent = 0;
        while sent < messages.len() {
            match sendmmsg(&self.0, &mut messages[sent..], SendFlags::empty()) {
                Ok(count) => sent += count,
                // The queue of the device is full; it empties without us.
                Err(Errno::NOBUFS) => std::thread::yield_now(),
                Err(error) => return Err(error).context("sending packets"),
            }
        }
        Ok(())
    }
}
