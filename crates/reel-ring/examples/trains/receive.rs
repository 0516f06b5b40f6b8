//! The receiving end: takes packets in the largest pieces that the kernel gives.

use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::Words;

pub(crate) fn run(words: &Words) -> io::Result<()> {
    let socket = UdpSocket::bind(words.get::<SocketAddr>("at")?)?;
    set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    println!("ready");
    static OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        // The end of the input, or any error of it, ends the run.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    let mut piece = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match socket.recv(&mut piece) {
            Ok(count) => bytes += count,
            Err(_) if OVER.load(Ordering::Relaxed) => break,
            Err(_) => {}
        }
    }
    println!("{{\"bytes\":{bytes}}}");
    Ok(())
}

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the options' values are ints, and this one outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
