//! Addresses for servers whose tests have to know them before they listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports that Linux, as it comes, gives to no connection, and to no server that listens on port 0.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

/// An address on loopback where nothing listens, and which no other test takes before the server of
/// a test listens there, or while that server is restarted.
///
/// # Panics
/// All ports are in use.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test processes that run at once begin at different places.
    let begin = std::process::id().wrapping_mul(97);
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    let next = || {
        let port = FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        // Fits: below 30,000.
        SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16))
    };
    std::iter::repeat_with(next).take(COUNT as usize).find(is_free).expect("a free port")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_are_free_and_different() {
        let addresses: BTreeSet<SocketAddr> = std::iter::repeat_with(free_address).take(100).collect();
        assert_eq!(addresses.len(), 100);
        addresses.iter().for_each(|address| drop(TcpListener::bind(address).expect("nothing listens there")));
    }
}
