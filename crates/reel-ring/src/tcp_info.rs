use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Offsets in `struct tcp_info` (linux/tcp.h), which grows only at its end.
const SEND_MSS_AT: usize = 16;
const UNACKNOWLEDGED_SEGMENTS_AT: usize = 24;
const ROUND_TRIP_US_AT: usize = 68;
const PACING_BPS_AT: usize = 104;
const ACKNOWLEDGED_BYTES_AT: usize = 120;
const UNSENT_BYTES_AT: usize = 144;
const ROUND_TRIP_MIN_US_AT: usize = 148;
const WINDOW_LIMITED_US_AT: usize = 176;
const RESENT_BYTES_AT: usize = 208;
const INFO_BYTES: usize = 216;

/// The most bytes that TCP gives a device at once while the device's own bounds are the usual ones.
const SUPER_SEGMENT_BYTES_MAX: u64 = 65_536;

/// What the kernel reports of a TCP connection. The peer can influence every figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStatus {
    /// Bytes that the peer has acknowledged since the connection began.
    pub acknowledged_bytes: u64,
    /// Bytes that were sent more than once since then.
    pub resent_bytes: u64,
    /// Bytes that the socket holds: not sent yet, or not acknowledged.
    pub queued_bytes: u64,
    /// The smoothed round trip.
    pub round_trip_us: u32,
    /// The shortest round trip of the last minutes.
    pub round_trip_min_us: u32,
    /// For how long the window of the peer has kept the socket from sending.
    pub window_limited_us: u64,
}

/// The state of a TCP connection. `None` if the socket is not TCP, or the kernel does not report it
/// (before Linux 4.19).
pub fn tcp_status(socket: impl AsFd) -> Option<TcpStatus> {
    let info = TcpInfo::of(socket.as_fd())?;
    let unacknowledged = u64::from(info.u32(UNACKNOWLEDGED_SEGMENTS_AT)) * u64::from(info.u32(SEND_MSS_AT));
    Some(TcpStatus {
        acknowledged_bytes: info.u64(ACKNOWLEDGED_BYTES_AT),
        resent_bytes: info.u64(RESENT_BYTES_AT),
        queued_bytes: unacknowledged + u64::from(info.u32(UNSENT_BYTES_AT)),
        round_trip_us: info.u32(ROUND_TRIP_US_AT),
        round_trip_min_us: info.u32(ROUND_TRIP_MIN_US_AT),
        window_limited_us: info.u64(WINDOW_LIMITED_US_AT),
    })
}

/// How many bytes TCP gives the network device at once on this socket at its present rate. These
/// are whole segments: about what the connection's pacing sends in a millisecond, more for a near
/// peer (the kernel's tcp_tso_autosize). `None` as for [`tcp_status`].
pub fn segment_bytes(socket: impl AsFd) -> Option<usize> {
    let info = TcpInfo::of(socket.as_fd())?;
    at_once(info.u64(PACING_BPS_AT), info.u32(ROUND_TRIP_MIN_US_AT), info.u32(SEND_MSS_AT))
}

/// The kernel's answer, as bytes.
struct TcpInfo([u8; INFO_BYTES]);

impl TcpInfo {
    fn of(socket: BorrowedFd<'_>) -> Option<Self> {
        let mut info = [0u8; INFO_BYTES];
        let mut bytes = INFO_BYTES as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into `info`, which outlives the call.
        let got = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        (got == 0 && bytes as usize >= INFO_BYTES).then_some(Self(info))
    }

    /// The number at an offset of this module.
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    /// The same of 64 bits.
    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}

/// The same, from bytes a second, microseconds and bytes.
fn at_once(pacing_bps: u64, round_trip_min_us: u32, mss: u32) -> Option<usize> {
    // The shifts are the kernel's defaults (sk_pacing_shift, tcp_tso_rtt_log). A socket that is not
    // paced reports all ones.
    let near_bytes = SUPER_SEGMENT_BYTES_MAX.checked_shr(round_trip_min_us >> 9).unwrap_or(0);
    let bytes = (pacing_bps >> 10).saturating_add(near_bytes).min(SUPER_SEGMENT_BYTES_MAX);
    let mss = u64::from(mss);
    // At most 64 KiB, so it fits.
    bytes.checked_div(mss).map(|segments| (segments.max(2) * mss) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_size_is_a_millisecond_of_whole_segments() {
        assert_eq!(at_once(52_428_800, 20_000, 1448), Some(35 * 1448));
        assert_eq!(at_once(1_000_000, 20_000, 1448), Some(2 * 1448), "two at least");
        assert_eq!(at_once(u64::MAX, 20_000, 1448), Some(45 * 1448), "not paced");
        assert_eq!(at_once(1_000_000, 100, 1448), Some(45 * 1448), "a near peer");
        assert_eq!(at_once(1_000_000, 20_000, 0), None);
    }

    /// A peer can influence all three figures.
    #[test]
    fn impossible_socket_figures_give_whole_segments_or_none() {
        let edges = [0, 1, 2, 536, 1448, 65_535, 65_536, 1 << 20, u32::MAX - 1, u32::MAX];
        for rate in edges.map(u64::from).into_iter().chain([u64::MAX - 1, u64::MAX]) {
            for round_trip in edges {
                for mss in edges {
                    let Some(bytes) = at_once(rate, round_trip, mss) else {
                        assert_eq!(mss, 0);
                        continue;
                    };
                    let mss = mss as usize;
                    assert!(bytes.is_multiple_of(mss) && bytes >= 2 * mss && bytes <= 65_536.max(2 * mss));
                }
            }
        }
    }

    #[test]
    fn a_tcp_socket_has_a_size_and_a_socket_pair_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let bytes = segment_bytes(&peer).expect("this kernel reports it");
        assert!(bytes > 0 && bytes <= 2 * 65_536, "{bytes}");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!((segment_bytes(&ours), tcp_status(&ours)), (None, None));
    }

    #[test]
    fn bytes_are_queued_until_the_peer_acknowledges_them() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let (mut receiver, _) = listener.accept().expect("the connection");
        sender.set_nonblocking(true).expect("a flag");
        let mut written = 0;
        // The peer reads nothing, so its window closes.
        while let Ok(bytes) = sender.write(&[7; 65_536]) {
            written += bytes;
        }
        // The time in which the window holds bytes back is counted from when it is closed.
        let limited = || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            tcp_status(&sender).filter(|status| status.window_limited_us > 0)
        };
        let before =
            std::iter::repeat_with(limited).take(10_000).flatten().next().expect("the window closes");
        assert!(before.queued_bytes > 0 && before.acknowledged_bytes < written as u64, "{before:?}");
        receiver.read_exact(&mut vec![0; written]).expect("all of it");
        let empty = || tcp_status(&sender).filter(|status| status.queued_bytes == 0);
        let after = std::iter::repeat_with(empty).flatten().next().expect("it repeats");
        // The first byte of the sequence numbers is the handshake's.
        assert!(after.acknowledged_bytes.abs_diff(written as u64) <= 1, "{after:?}, {written} written");
        assert!(after.window_limited_us > 0 && after.round_trip_us > 0, "{after:?}");
    }
}
