//! The end of a server that must not wait any longer.
//!
//! The kernel keeps a process as long as one of its threads is in a write that hangs, and with it
//! all open files. So sockets are shut down one by one: a new server can listen at once.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use reel_volume::{Health, Volume};
use rustix::net::Shutdown;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::logging;

/// Time from the first signal to the end: all is over within 15 s. It is a little longer than an
/// orderly shutdown may take, which ends uploads after ten seconds, and shorter than the 90 s of a
/// service manager.
const END_TIME: Duration = Duration::from_millis(14_500);

/// How often the outstanding writes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is left to say about a volume when its server ends. It does not keep the volume open.
pub(crate) struct Ending {
    health: Health,
    paths: Vec<PathBuf>,
}

impl Ending {
    pub(crate) fn of(volume: &Volume) -> Ending {
        let paths = volume.status().members.into_iter().map(|member| member.path).collect();
        Ending { health: volume.health().clone(), paths }
    }

    /// Ends the process after [`END_TIME`], unless it has ended by then.
    pub(crate) fn begin(self: &Arc<Self>) -> io::Result<()> {
        let own = Arc::clone(self);
        let end = move || {
            thread::sleep(END_TIME);
            own.end();
        };
        thread::Builder::new().name("reel-ending".to_owned()).spawn(end).map(drop)
    }

    /// Waits for writes that work left behind when it was not waited for any longer. To be called
    /// after [`Ending::begin`], which bounds it.
    pub(crate) fn await_writes(&self) {
        while (0..self.paths.len()).any(|member| self.health.unanswered_writes(member) > 0) {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn end(&self) -> ! {
        shut_down_sockets();
        for (member, path) in self.paths.iter().enumerate() {
            match self.health.unanswered_writes(member) {
                0 => {}
                writes => tracing::error!(
                    member,
                    path = %path.display(),
                    writes,
                    "a member has not answered writes. The kernel may keep this process, and the volume locked, until it \
                     does. See why its disk hangs, or thaw its file system"
                ),
            }
        }
        tracing::error!("not everything ended in time: ending at once. Whatever was published is kept");
        logging::flush();
        std::process::exit(1);
    }
}

/// Ends the process after [`END_TIME`] though its volume is not open yet, unless it has ended by
/// then.
pub(crate) fn end_unopened() -> io::Result<()> {
    let end = || {
        thread::sleep(END_TIME);
        tracing::error!(
            "a member does not answer while the volume is opened: ending at once. Nothing was written but owner records. \
             See why its disk hangs, or thaw its file system"
        );
        logging::flush();
        std::process::exit(1);
    };
    thread::Builder::new().name("reel-ending".to_owned()).spawn(end).map(drop)
}

/// Shuts down all sockets of this process, except the standard streams.
pub(crate) fn shut_down_sockets() {
    if let Err(error) = try_shut_down_sockets() {
        tracing::warn!(%error, "cannot shut down the sockets: a new server must wait until this process is gone");
    }
}

fn try_shut_down_sockets() -> io::Result<()> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number > 2) else { continue };
        let is_socket =
            fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        if is_socket {
            // It may have been closed meanwhile, and one that is not connected cannot be shut down.
            let duplicate: io::Result<OwnedFd> =
                pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).map_err(io::Error::from);
            let _ = duplicate.map(|socket| rustix::net::shutdown(&socket, Shutdown::Both));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    /// In a process of its own, because it shuts down every socket.
    #[test]
    fn a_port_is_free_again_although_its_sockets_stay_open() {
        const CHILD: &str = "REEL_TEST_SHUTS_DOWN";
        if std::env::var_os(CHILD).is_none() {
            let own = std::env::current_exe().unwrap();
            let name = "ending::tests::a_port_is_free_again_although_its_sockets_stay_open";
            let child =
                std::process::Command::new(own).args([name, "--exact"]).env(CHILD, "1").output().unwrap();
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(TcpListener::bind(address).is_err());
        shut_down_sockets();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop(TcpListener::bind(address).unwrap());
        drop((listener, server));
    }
}
