//! Sending by plain system calls.

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::PACKET_BYTES;

/// Sends packets that lie in a row, and returns how many.
pub(crate) type Call = fn(&UdpSocket, &[u8]) -> io::Result<usize>;

/// One call for one train: the kernel copies it whole and cuts it as late as it can.
pub(crate) fn sendmsg(socket: &UdpSocket, train: &[u8]) -> io::Result<usize> {
    #[repr(C)]
    struct SegmentControl {
        header: libc::cmsghdr,
        packet_bytes: u16,
        _fill: [u16; 3],
    }
    // SAFETY: all three are valid as zeros.
    let (mut message, mut header): (libc::msghdr, libc::cmsghdr) = unsafe { (mem::zeroed(), mem::zeroed()) };
    header.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<u16>();
    header.cmsg_level = libc::SOL_UDP;
    header.cmsg_type = libc::UDP_SEGMENT;
    let mut cut = SegmentControl { header, packet_bytes: PACKET_BYTES as u16, _fill: [0; 3] };
    let mut piece = piece(train);
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut cut).cast();
    message.msg_controllen = size_of::<SegmentControl>();
    // SAFETY: the message, its piece, its control data and the bytes outlive the call, which only
    // reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok((sent as usize).div_ceil(PACKET_BYTES)) }
}

/// One call for many packets, each of which passes the network stack by itself.
pub(crate) fn sendmmsg(socket: &UdpSocket, train: &[u8]) -> io::Result<usize> {
    let mut pieces: Vec<libc::iovec> = train.chunks(PACKET_BYTES).map(piece).collect();
    let mut messages: Vec<libc::mmsghdr> = pieces
        .iter_mut()
        .map(|piece| {
            // SAFETY: an mmsghdr of zeros is a valid one without name, pieces and control data.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_iov = ptr::from_mut(piece);
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    let count = messages.len() as u32;
    // SAFETY: the messages, their pieces and their bytes outlive the call, which writes only the
    // messages' lengths.
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_NOSIGNAL as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A call for each packet.
pub(crate) fn sendto(socket: &UdpSocket, train: &[u8]) -> io::Result<usize> {
    train.chunks(PACKET_BYTES).map(|packet| socket.send(packet).map(|_| 1)).sum()
}

/// Enlarges the send buffer for lent memory: the kernel charges a piece of a huge page together
/// with everything before it in the page.
pub(crate) fn widen(socket: RawFd) -> io::Result<()> {
    let bytes: libc::c_int = 512 << 20;
    // SAFETY: the option's value is an int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Processor time of all threads of this process, including the kernel's work for it.
pub(crate) fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which exists. It cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn piece(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}
