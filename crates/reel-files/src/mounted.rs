//! A tree that is mounted.

use crate::asking::Asking;
use crate::file_system::FileSystem;
use crate::limits::{ANSWER_TIME, ASKING_THREADS, UNMOUNT_TIME};
use crate::media::Media;
use crate::place::{MountPoint, unmount_command};
use crate::server::Server;
use crate::streaming::Streaming;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The device by which a program answers for files.
const DEVICE: &str = "/dev/fuse";
/// How often it is looked whether the kernel has unmounted.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Where the files come from, as `mount` and `df` show it.
    pub source: String,
    /// Whether users other than the one who mounts may look.
    pub allow_other: bool,
    /// The longest time from a question of the kernel to its answer, in which the server is asked.
    pub answer_time: Duration,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions { source: "reel".to_owned(), allow_other: false, answer_time: ANSWER_TIME }
    }
}

/// A mounted tree, which is unmounted when this is dropped.
pub struct Mounted {
    /// `None` once it is unmounted.
    session: Option<BackgroundSession>,
    /// Ends the streams.
    streams: OnDrop,
    at: PathBuf,
}

/// Work that is done once, and at the latest when this is dropped.
struct OnDrop(Option<Box<dyn FnOnce() + Send>>);

impl OnDrop {
    fn run(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.run();
    }
}

/// Why a tree is not mounted, or not unmounted, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel or the container has no FUSE.
    #[error(
        "{DEVICE} does not exist, so nothing can be mounted; load it (modprobe fuse), or give the container the device (--device {DEVICE})"
    )]
    NoDevice,
    /// The user may not use it.
    #[error(
        "this user may not open {DEVICE}; give it its usual mode (chmod 0666 {DEVICE}), or mount as root"
    )]
    DeviceDenied,
    /// Only root can mount by itself.
    #[error(
        "fusermount3, by which users other than root mount, is not installed; install the package fuse3, or mount as root"
    )]
    NoHelper,
    /// The system does not let users show their mounts to others.
    #[error(
        "this user may not mount for others; add the line user_allow_other to /etc/fuse.conf, or leave out --allow-other"
    )]
    OthersDenied,
    /// The kernel refuses.
    #[error("cannot mount on {0}: {1}; in a container, mounting needs the capability SYS_ADMIN")]
    Refused(String, String),
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// It is mounted still.
    #[error("{0} could not be unmounted; do it by hand: {unmount}", unmount = unmount_command(.0))]
    StillMounted(String),
}

impl Mounted {
    /// Mounts the tree of a server.
    ///
    /// # Errors
    /// See [`MountError`].
    pub fn mount(
        server: impl Server + Media,
        at: &MountPoint,
        options: &MountOptions,
    ) -> Result<Mounted, MountError> {
        check_device()?;
        let server = Arc::new(server);
        let asking = Asking::start("reel-ask", ASKING_THREADS, options.answer_time);
        let asking = asking.map_err(MountError::Thread)?;
        let streaming = Streaming::start(Arc::clone(&server)).map_err(MountError::Thread)?;
        let of_streams = Arc::clone(&streaming);
        let streams = OnDrop(Some(Box::new(move || of_streams.end())));
        let system = FileSystem::new(server, streaming, asking, options.allow_other);
        let session =
            Session::new(system, at.path(), &config(options)).map_err(|error| of_mount(error, at))?;
        let session = session.spawn().map_err(MountError::Thread)?;
        Ok(Mounted { session: Some(session), streams, at: at.path().to_owned() })
    }

    /// Whether it was unmounted by another program.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts. Processes that still have files open, or are in a directory, get errors from then
    /// on.
    ///
    /// # Errors
    /// It is mounted still.
    pub fn unmount(mut self) -> Result<(), MountError> {
        self.detach();
        match MountPoint::check(&self.at) {
            Err(crate::PlaceError::Mounted(at) | crate::PlaceError::Dead(at)) => {
                Err(MountError::StillMounted(at))
            }
            _ => Ok(()),
        }
    }

    fn detach(&mut self) {
        self.streams.run();
        let Some(session) = self.session.take() else { return };
        if session.guard.is_finished() {
            return;
        }
        // Root can do it even if the mount is busy. For others, fusermount3 does that at the end of
        // the session.
        if rustix::mount::unmount(&self.at, UnmountFlags::DETACH).is_ok() {
            let begun = Instant::now();
            while !session.guard.is_finished() && begun.elapsed() < UNMOUNT_TIME {
                thread::sleep(LOOK_EVERY);
            }
        }
        drop(session);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.detach();
    }
}

fn check_device() -> Result<(), MountError> {
    match rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => Err(MountError::DeviceDenied),
        Err(_) => Err(MountError::NoDevice),
    }
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        // A comma would end the option.
        MountOption::FSName(options.source.replace(',', "_")),
        MountOption::Subtype("reel".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoExec,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config
}

fn of_mount(error: io::Error, at: &MountPoint) -> MountError {
    match error.kind() {
        // The directory and the device are there.
        ErrorKind::NotFound => MountError::NoHelper,
        ErrorKind::PermissionDenied if error.to_string().contains("user_allow_other") => {
            MountError::OthersDenied
        }
        _ => MountError::Refused(at.path().display().to_string(), error.to_string().trim().to_owned()),
    }
}
