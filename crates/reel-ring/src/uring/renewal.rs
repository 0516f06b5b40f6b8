//! A ring that broke is replaced by a new one, and what it had goes on.
//!
//! Rings do not break in sound kernels; but completions are lost when memory runs out (`EBADR`), descriptors are closed by mistake, and policies
//! change under a running process. The thread that owns the ring has hundreds of viewers, who need not hear of it: who waits goes on
//! waiting, transfers of files are asked for again, and only those end of which nobody can know how far they came.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;
use std::time::Instant;

use super::entry::{Next, Outlived};
use super::{Request, UringDriver, new_ring, setup};
use crate::error::RingError;
use crate::limits::RENEWALS_MAX;
use crate::slab::Key;

impl UringDriver {
    /// Takes another ring, because `source` is why nothing more can be done with this one.
    pub(super) fn renew(&mut self, source: io::Error) -> Result<(), RingError> {
        self.waker.look();
        // What was answered before it broke lies in shared memory.
        loop {
            let Some(cqe) = self.ring.completion().next() else { break };
            self.complete(&cqe);
        }
        self.has_descriptor = self.has_its_descriptor(&source);
        if self.renewals == RENEWALS_MAX || !self.has_descriptor {
            return Err(RingError::Wait { source });
        }
        let ring = match new_ring(self.entries) {
            Ok(ring) => ring,
            Err(error) => {
                tracing::error!("{}: its io_uring broke, and there is no other: {error}", name());
                return Err(RingError::Wait { source });
            }
        };
        self.forget_taken();
        let untouched: Vec<Key> = self.offered.drain(..).collect();
        self.renewals += 1;
        self.renewed = Some(Instant::now());
        self.sends_zero_copy = setup::sends_zero_copy(&ring);
        // The old one is closed here, which has the kernel end what it still had.
        drop(ManuallyDrop::into_inner(mem::replace(&mut self.ring, ManuallyDrop::new(ring))));
        self.map = self.map.take().and_then(|map| match map.register_with(&self.ring) {
            Ok(map) => Some(map),
            Err(error) => {
                tracing::warn!("media memory cannot be registered with the new ring ({error}); reads cost more from here on");
                None
            }
        });
        self.forget_wake();
        (self.in_kernel, self.lent) = (0, 0);
        // What the kernel never took goes down first, in its old order.
        for key in untouched.iter().rev() {
            if let Some(entry) = self.slab.get_mut(*key) {
                entry.start_anew();
                self.queue.push_front(Request::Start(*key));
            }
        }
        // Reads that waited for memory are among those that were under way: in both lists, they would be started twice.
        self.without_memory.clear();
        let was_under_way = |key: &Key| self.slab.get(*key).is_some_and(|entry| entry.is_in_kernel());
        let keys: Vec<Key> = self.slab.keys().into_iter().filter(was_under_way).collect();
        let (mut again, mut ended, mut lost_bytes) = (untouched.len(), 0, 0);
        for key in keys {
            let (went_on, lost) = self.outlive(key);
            lost_bytes += lost;
            *(if went_on { &mut again } else { &mut ended }) += 1;
        }
        tracing::error!(
            "{}: its io_uring broke ({source}) and was replaced by a new one; {again} operations go on, {ended} end with an error, {lost_bytes} \
             bytes of media memory are never used again; look for the reason in the kernel's log, and restart the server if this repeats",
            name()
        );
        Ok(())
    }

    /// Reads that wait for memory are tried again.
    pub(super) fn read_on(&mut self) {
        for key in mem::take(&mut self.without_memory) {
            self.outlive(key);
        }
    }

    /// Whether the operation goes on, and how many bytes of the arena were lost for that.
    fn outlive(&mut self, key: Key) -> (bool, usize) {
        let Some(entry) = self.slab.get_mut(key) else { return (false, 0) };
        let Outlived { next, lost_bytes } = entry.outlive();
        match next {
            Next::Again => self.queue.push_back(Request::Start(key)),
            Next::AwaitMemory => self.without_memory.push(key),
            Next::Ends(result) => {
                self.end(key, result);
                return (false, lost_bytes);
            }
        }
        (true, lost_bytes)
    }

    /// Whether the number of the ring's descriptor is ours to close. If somebody has closed it, it is taken again, unless it has gone to
    /// somebody else: then the ring cannot be ended, and would go on accepting connections for nobody.
    fn has_its_descriptor(&self, source: &io::Error) -> bool {
        match source.raw_os_error() {
            Some(libc::EOPNOTSUPP) => false,
            Some(libc::EBADF) => {
                let number = self.ring.as_raw_fd();
                let taken = rustix::io::fcntl_dupfd_cloexec(self.waker.fd(), number);
                // The old ring owns the number again.
                taken.is_ok_and(|fd| fd.as_raw_fd() == number && fd.into_raw_fd() == number)
            }
            _ => true,
        }
    }

    /// The old ring may still write a count there.
    fn forget_wake(&mut self) {
        if mem::take(&mut self.wake_armed) {
            mem::forget(mem::take(&mut self.wake_count));
        }
    }
}

fn name() -> String {
    thread::current().name().unwrap_or("a thread without a name").to_owned()
}
