//! Servers as processes of their own, ended with the value that stands for them.

use anyhow::{Context, Result, bail};
use reel_wire::family;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts `command`, which must listen on `address`, and waits until it does.
    pub(crate) fn start(mut command: Command, address: SocketAddr) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Self { address, child: child.with_context(|| format!("starting {name}"))? };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{name} ended at once: {status}");
            }
            if started.elapsed() > Duration::from_secs(120) {
                bail!("{name} does not listen on {address} after 120 s");
            }
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The process that was started.
    pub(crate) fn first_process(&self) -> u32 {
        self.child.id()
    }

    /// Its processes, the one that was started first.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        family(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// An address on loopback that no program listens on at the moment.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
