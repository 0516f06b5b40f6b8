use std::io;
use std::marker::PhantomData;
use std::sync::Once;
use std::time::Duration;

use reel_arena::Arena;

use crate::error::RingError;
use crate::limits::{DONE_PER_WAIT_MAX, ENTRIES_MAX};
use crate::op::{Done, Op};
use crate::portable::PortableDriver;
use crate::uring::UringDriver;
use crate::waker::Waker;

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring; or the portable driver, with a warning, where io_uring is not available.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// The portable driver.
    Portable,
}

/// The driver in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring.
    Uring {
        /// Disk transfers use the registered arena.
        registered: bool,
    },
    /// epoll and file threads.
    Portable,
}

/// The configuration of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Submission entries, 1 to 32768. This is the size of a batch; more operations can be in
    /// flight.
    pub entries: u32,
    /// Which driver.
    pub driver: DriverChoice,
}

/// A queue of operations, owned by the thread that made it.
///
/// Dropping it cancels the operations in flight and waits until the kernel has released their
/// memory.
pub struct Ring {
    backend: Backend,
    waker: Waker,
    refused: Vec<Done>,
    queued_send_bytes: usize,
    /// A single-issuer io_uring belongs to the thread that made it.
    _not_send: PhantomData<*const ()>,
}

enum Backend {
    Uring(Box<UringDriver>),
    Portable(Box<PortableDriver>),
}

static WARN_PORTABLE: Once = Once::new();
static WARN_UNREGISTERED: Once = Once::new();

impl Default for RingConfig {
    fn default() -> RingConfig {
        RingConfig { entries: 256, driver: DriverChoice::Auto }
    }
}

impl Ring {
    /// Makes a ring for the calling thread. With an arena, disk transfers use its registration
    /// where possible.
    ///
    /// # Errors
    /// If the number of entries is out of bounds, io_uring was required and is not available, or a
    /// system call that every driver needs fails.
    pub fn new(config: RingConfig, arena: Option<&Arena>) -> Result<Ring, RingError> {
        Ring::woken_by(Waker::new()?, config, arena)
    }

    /// Makes a ring that takes the place of one that was dropped on this thread. The waker of that
    /// one wakes it. As after a renewal, the kernel may still end operations of the old ring.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn in_place_of(waker: Waker, config: RingConfig, arena: Option<&Arena>) -> Result<Ring, RingError> {
        let mut ring = Ring::woken_by(waker, config, arena)?;
        if let Backend::Uring(driver) = &mut ring.backend {
            driver.follows_another();
        }
        Ok(ring)
    }

    fn woken_by(waker: Waker, config: RingConfig, arena: Option<&Arena>) -> Result<Ring, RingError> {
        if config.entries == 0 || config.entries > ENTRIES_MAX {
            return Err(RingError::Config { entries: config.entries });
        }
        let backend = match config.driver {
            DriverChoice::Portable => Backend::Portable(Box::new(PortableDriver::new(waker.clone())?)),
            DriverChoice::Uring => Backend::Uring(Box::new(UringDriver::new(config.entries, waker.clone())?)),
            DriverChoice::Auto => match UringDriver::new(config.entries, waker.clone()) {
                Ok(driver) => Backend::Uring(Box::new(driver)),
                Err(error) => {
                    WARN_PORTABLE.call_once(|| {
                        tracing::warn!("{error}; using the slower portable driver (epoll and threads)");
                    });
                    Backend::Portable(Box::new(PortableDriver::new(waker.clone())?))
                }
            },
        };
        let mut ring =
            Ring { backend, waker, refused: Vec::new(), queued_send_bytes: 0, _not_send: PhantomData };
        if let (Backend::Uring(driver), Some(arena)) = (&mut ring.backend, arena)
            && let Err(error) = driver.register(arena)
        {
            warn_unregistered(arena, &error);
        }
        Ok(ring)
    }

    /// Queues an operation, which starts at the next `wait`. The queue has no bound: callers limit
    /// what they push. Tokens should be unique among the operations in flight, because `cancel`
    /// reaches only the newest.
    pub fn push(&mut self, token: u64, op: Op) {
        if let Err(reason) = op.check() {
            let result = Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            self.refused.push(Done { token, result, op, accepted: None });
            return;
        }
        if let Op::Send { chunks, .. } | Op::SendZeroCopy { chunks, .. } = &op {
            self.queued_send_bytes += chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
        }
        match &mut self.backend {
            Backend::Uring(driver) => driver.push(token, op),
            Backend::Portable(driver) => driver.push(token, op),
        }
    }

    /// Asks for an early end of an operation. It completes with `ECANCELED`, or with its result if
    /// that came first. A transfer that the disk has begun is never interrupted. An unknown token
    /// is ignored.
    pub fn cancel(&mut self, token: u64) {
        match &mut self.backend {
            Backend::Uring(driver) => driver.cancel(token),
            Backend::Portable(driver) => driver.cancel(token),
        }
    }

    /// Starts what was pushed, then appends completions to `done`. If there are none, waits for
    /// one, for a wake-up, or for the timeout (`None`: no limit). May return without any. At most
    /// 4096 are appended; the others follow with the next call.
    ///
    /// # Errors
    /// If the ring broke and cannot be replaced; the thread that owns it must stop.
    pub fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), RingError> {
        let room = DONE_PER_WAIT_MAX.min(self.refused.len());
        done.extend(self.refused.drain(..room));
        let timeout = if room > 0 { Some(Duration::ZERO) } else { timeout };
        self.queued_send_bytes = 0;
        match &mut self.backend {
            Backend::Uring(driver) => driver.wait(timeout, done),
            Backend::Portable(driver) => driver.wait(timeout, done),
        }
    }

    /// A handle by which other threads end this ring's `wait`.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The driver in use.
    pub fn driver(&self) -> Driver {
        match &self.backend {
            Backend::Uring(driver) => Driver::Uring { registered: driver.is_registered() },
            Backend::Portable(_) => Driver::Portable,
        }
    }

    /// Whether [`Op::SendZeroCopy`] differs from [`Op::Send`] on this ring.
    pub fn sends_zero_copy(&self) -> bool {
        match &self.backend {
            Backend::Uring(driver) => driver.sends_zero_copy(),
            Backend::Portable(_) => false,
        }
    }

    /// Bytes of the sends that were pushed since the last `wait`. The next `wait` copies them or
    /// passes them to devices.
    pub fn queued_send_bytes(&self) -> usize {
        self.queued_send_bytes
    }

    /// Operations that were pushed and have not ended, including those of which only the memory is
    /// outstanding.
    pub fn in_flight(&self) -> usize {
        self.refused.len()
            + match &self.backend {
                Backend::Uring(driver) => driver.in_flight(),
                Backend::Portable(driver) => driver.in_flight(),
            }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("driver", &self.driver()).field("in_flight", &self.in_flight()).finish()
    }
}

fn warn_unregistered(arena: &Arena, error: &io::Error) {
    let bytes = arena.region().bytes;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit = limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
    WARN_UNREGISTERED.call_once(|| {
        tracing::warn!(
            "the kernel refused to register the {bytes} bytes of media memory with io_uring ({error}; the locked-memory \
             limit is {limit}); using unregistered buffers, which cost more CPU per read; set \
             LimitMEMLOCK=infinity in the service (ulimit -l unlimited, docker --ulimit memlock=-1) or make the arena smaller"
        );
    });
}
