use std::mem;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::limits::{SEND_CHUNKS_MAX, TRAIN_BYTES_MAX, TRAIN_LENT_PAGES_MAX, TRAIN_PACKETS_MAX};
use crate::op::Chunk;

/// A train: many datagrams that are sent with one call. Only the device, or the kernel just before
/// it, cuts them apart (generic segmentation offload, `UDP_SEGMENT` of udp(7)).
///
/// The chunks are laid end to end and cut every `packet_bytes`; the last packet may be shorter. So
/// a packet can be part of one long chunk, or two chunks: its header, and its payload where it lies
/// in memory. If all chunks lie in one registered piece of the arena, the kernel takes them without
/// looking up any page.
#[derive(Clone, Debug)]
pub struct Train {
    /// A UDP socket: connected, or not if `to` names the destination.
    pub socket: Arc<OwnedFd>,
    /// Where the packets go, on a socket that is not connected. Its family is that of the socket:
    /// with another, the train fails with EAFNOSUPPORT, or with ENETUNREACH if the socket is for
    /// IPv6 only. `None`: the address that the socket is connected to.
    pub to: Option<SocketAddr>,
    /// The bytes of all packets, end to end.
    pub chunks: Vec<Chunk>,
    /// Bytes of every packet except the last: header and payload, as the receiver gets them.
    pub packet_bytes: u16,
    /// Lends the bytes to the device instead of copying them. The memory returns by
    /// [`Op::Lent`](crate::Op::Lent), like that of [`Op::SendZeroCopy`](crate::Op::SendZeroCopy).
    /// Where that is impossible, they are copied.
    pub zero_copy: bool,
}

/// What the kernel reads while it sends a train: the message, its destination, its pieces, and
/// where to cut.
pub(crate) struct TrainMessage {
    header: libc::msghdr,
    to: Option<KernelAddress>,
    pieces: Vec<libc::iovec>,
    cut: SegmentControl,
}

/// A destination as the kernel reads it.
enum KernelAddress {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

/// The control message `UDP_SEGMENT` (udp(7)), as `CMSG_SPACE` would lay it out.
#[repr(C)]
struct SegmentControl {
    header: libc::cmsghdr,
    packet_bytes: u16,
    _fill: [u16; 3],
}

impl Train {
    /// Bytes of all packets.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Whether this many pieces can be lent. A packet of the kernel lists the pages of its data,
    /// and has room for 17 of them on every kernel. Chunks that share no page are counted one by
    /// one, however short.
    pub fn can_be_lent(&self) -> bool {
        self.chunks.iter().map(|chunk| pages_touched(chunk)).sum::<usize>() <= TRAIN_LENT_PAGES_MAX
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if !self.chunks.iter().all(Chunk::is_within) {
            return Err("a chunk's range is not within its bytes");
        }
        let bytes = self.bytes();
        if self.packet_bytes == 0 || bytes == 0 {
            return Err("a train needs packets with bytes in them");
        }
        if bytes > TRAIN_BYTES_MAX {
            return Err("a train has more bytes than the largest datagram");
        }
        if bytes.div_ceil(usize::from(self.packet_bytes)) > TRAIN_PACKETS_MAX {
            return Err("a train has more packets than the kernel takes");
        }
        if self.chunks.len() > SEND_CHUNKS_MAX {
            return Err("a train has more pieces than the kernel takes");
        }
        Ok(())
    }
}

impl TrainMessage {
    pub(crate) fn new(train: &Train) -> Box<TrainMessage> {
        let pieces: Vec<libc::iovec> = train
            .chunks
            .iter()
            .map(|chunk| libc::iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() })
            .collect();
        // SAFETY: a msghdr and a cmsghdr of zeros are valid, without name, pieces and control data.
        let (header, mut cut): (libc::msghdr, libc::cmsghdr) = unsafe { (mem::zeroed(), mem::zeroed()) };
        cut.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
        cut.cmsg_level = libc::SOL_UDP;
        cut.cmsg_type = libc::UDP_SEGMENT;
        let cut = SegmentControl { header: cut, packet_bytes: train.packet_bytes, _fill: [0; 3] };
        let to = train.to.map(KernelAddress::from);
        let mut message = Box::new(TrainMessage { header, to, pieces, cut });
        // Only now, because the name lies in the box.
        if let Some((name, bytes)) = message.to.as_mut().map(KernelAddress::name) {
            message.header.msg_name = name;
            message.header.msg_namelen = bytes;
        }
        message.header.msg_iov = message.pieces.as_mut_ptr();
        message.header.msg_iovlen = message.pieces.len() as _;
        // A single packet needs no cutting, and so no device that can cut.
        if train.bytes() > usize::from(train.packet_bytes) {
            message.header.msg_control = (&raw mut message.cut).cast();
            message.header.msg_controllen = size_of::<SegmentControl>() as _;
        }
        message
    }

    /// For system calls. Valid as long as the message and the train's chunks live.
    pub(crate) fn header(&self) -> *const libc::msghdr {
        &raw const self.header
    }
}

impl KernelAddress {
    /// Where the address lies, and its length.
    fn name(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        match self {
            KernelAddress::V4(name) => ((&raw mut *name).cast(), size_of_val(name) as _),
            KernelAddress::V6(name) => ((&raw mut *name).cast(), size_of_val(name) as _),
        }
    }
}

impl From<SocketAddr> for KernelAddress {
    fn from(to: SocketAddr) -> KernelAddress {
        match to {
            SocketAddr::V4(to) => KernelAddress::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(to) => KernelAddress::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: to.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                sin6_scope_id: to.scope_id(),
            }),
        }
    }
}

/// Pages that some bytes lie in, counted as pages of 4 KiB; with larger pages there are fewer.
/// Bytes that are lent are counted this way, each chunk by itself.
pub fn pages_touched(bytes: &[u8]) -> usize {
    const PAGE_BYTES: usize = 4096;
    let first = bytes.as_ptr().addr();
    (first + bytes.len()).div_ceil(PAGE_BYTES) - first / PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_arena::{Arena, ArenaConfig};

    fn train(chunks: Vec<Chunk>) -> Train {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        Train { socket: Arc::new(socket.into()), to: None, chunks, packet_bytes: 1000, zero_copy: true }
    }

    #[test]
    fn pages_are_counted_where_the_bytes_lie() {
        let shape =
            ArenaConfig { buffer_bytes: 1 << 17, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let lease = Arena::new(shape).expect("128 KiB").take(1 << 17).expect("free").freeze();
        let part = |range| Chunk::Lease(lease.slice(range));
        assert!(train(vec![part(0..17 * 4096)]).can_be_lent());
        assert!(!train(vec![part(1..17 * 4096 + 1)]).can_be_lent(), "begins in one page and ends in an 18th");
        let pairs = |count: usize| (0..2 * count).map(|i| part(100 * i..100 * i + 50)).collect();
        assert!(train(pairs(8)).can_be_lent(), "eight headers, eight payloads");
        assert!(!train(pairs(9)).can_be_lent());
    }

    #[test]
    fn impossible_trains_are_recognized() {
        let bytes = |count: usize| vec![Chunk::from(vec![0; count])];
        assert!(train(bytes(64_000)).check().is_ok());
        assert!(train(bytes(64_001)).check().is_err(), "a 65th packet");
        assert!(train(Vec::new()).check().is_err());
        assert!(Train { packet_bytes: 0, ..train(bytes(1)) }.check().is_err());
        assert!(Train { packet_bytes: 1472, ..train(bytes(TRAIN_BYTES_MAX)) }.check().is_ok());
        assert!(Train { packet_bytes: 1472, ..train(bytes(TRAIN_BYTES_MAX + 1)) }.check().is_err());
        assert!(train(vec![Chunk::Bytes(Arc::from(&b"abc"[..]), 2..9)]).check().is_err());
        let pieces = |count: usize| (0..count).flat_map(|_| bytes(60)).collect();
        assert!(train(pieces(SEND_CHUNKS_MAX)).check().is_ok());
        assert!(train(pieces(SEND_CHUNKS_MAX + 1)).check().is_err(), "the kernel's UIO_MAXIOV");
    }
}
