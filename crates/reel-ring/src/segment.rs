use std::os::fd::{AsRawFd, OwnedFd};

/// Offsets in `struct tcp_info` (linux/tcp.h), which grows only at its end: the segment size, the
/// pacing rate, the shortest round trip, and the end of the last of them.
const SEND_MSS_AT: usize = 16;
const PACING_BPS_AT: usize = 104;
const ROUND_TRIP_MIN_US_AT: usize = 148;
const INFO_BYTES: usize = 152;

/// The most bytes that TCP gives a device at once while the device's own bounds are the usual ones.
const SUPER_SEGMENT_BYTES_MAX: u64 = 65_536;

/// How many bytes TCP gives the network device at once on this socket at its present rate. These
/// are whole segments: about what the connection's pacing sends in a millisecond, more for a near
/// peer (the kernel's tcp_tso_autosize). `None` if the socket is not TCP, or the kernel does not
/// report it.
pub fn segment_bytes(socket: &OwnedFd) -> Option<usize> {
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
    if got != 0 || (bytes as usize) < INFO_BYTES {
        return None;
    }
    let pacing_bps = u64::from_ne_bytes(info[PACING_BPS_AT..PACING_BPS_AT + 8].try_into().ok()?);
    let number = |at: usize| info[at..at + 4].try_into().ok().map(u32::from_ne_bytes);
    at_once(pacing_bps, number(ROUND_TRIP_MIN_US_AT)?, number(SEND_MSS_AT)?)
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
        let bytes = segment_bytes(&peer.into()).expect("this kernel reports it");
        assert!(bytes > 0 && bytes <= 2 * 65_536, "{bytes}");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(segment_bytes(&ours.into()), None);
    }
}
