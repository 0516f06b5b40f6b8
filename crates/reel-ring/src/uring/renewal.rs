//! Replaces a ring that broke by a new one, and continues its operations.
//!
//! Rings do not break in correct kernels. But completions are lost when memory runs out (`EBADR`),
//! descriptors are closed by mistake, and policies change while a process runs. The thread that
//! owns the ring serves hundreds of clients, who need not notice. Waiting operations continue to
//! wait, and file transfers are started again. Only those operations end whose progress is unknown.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;
use std::time::Instant;

use super::entry::{AfterBreak, Next};
use super::{Request, UringDriver, new_ring, setup};
use crate::error::RingError;
use crate::limits::{RENEWALS_MAX, RENEWED_FOR};
use crate::slab::Key;

impl UringDriver {
    /// Replaces the ring, which failed with `source`.
    ///
    /// # Errors
    /// If no new ring can be made, or rings broke too often.
    pub(super) fn renew(&mut self, source: io::Error) -> Result<(), RingError> {
        self.waker.check_calls();
        // Answers from before the failure are in shared memory.
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
                tracing::error!("{}: its io_uring broke, and no new one can be made: {error}", name());
                return Err(RingError::Wait { source });
            }
        };
        self.forget_taken();
        let untouched: Vec<Key> = self.offered.drain(..).collect();
        self.renewals += 1;
        self.renewed = Some(Instant::now());
        self.sends_zero_copy = setup::sends_zero_copy(&ring);
        // The old ring is closed here, so the kernel ends its operations.
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
        // Entries that the kernel never took go first, in their old order.
        for key in untouched.iter().rev() {
            if let Some(entry) = self.slab.get_mut(*key) {
                entry.restart();
                self.queue.push_front(Request::Start(*key));
            }
        }
        // Reads that waited for memory are among those in flight: in both lists, they would be
        // started twice.
        self.without_memory.clear();
        let was_under_way = |key: &Key| self.slab.get(*key).is_some_and(|entry| entry.is_in_kernel());
        let keys: Vec<Key> = self.slab.keys().into_iter().filter(was_under_way).collect();
        let (mut again, mut ended, mut lost_bytes) = (untouched.len(), 0, 0);
        for key in keys {
            let (continued, lost) = self.after_break(key);
            lost_bytes += lost;
            *(if continued { &mut again } else { &mut ended }) += 1;
        }
        tracing::error!(
            "{}: its io_uring broke ({source}) and was replaced; {again} operations continue, {ended} end with an error, {lost_bytes} \
             bytes of media memory are never used again; look for the reason in the kernel's log, and restart the server if this repeats",
            name()
        );
        Ok(())
    }

    /// This ring is new, and takes the place of one that was dropped.
    pub(crate) fn follows_another(&mut self) {
        self.renewed = Some(Instant::now());
    }

    /// Whether operations of a ring that was replaced may still be in the kernel.
    pub(super) fn was_renewed_just_now(&self) -> bool {
        self.renewed.is_some_and(|renewed| renewed.elapsed() < RENEWED_FOR)
    }

    /// Retries the reads that wait for memory.
    pub(super) fn retry_reads(&mut self) {
        for key in mem::take(&mut self.without_memory) {
            self.after_break(key);
        }
    }

    /// The ring ends. A ring that broke may still write into the memory of reads that wait for
    /// other memory, and no answer of it comes: that memory is never used again.
    pub(super) fn abandon_reads(&mut self) {
        let mut lost_bytes = 0;
        for key in mem::take(&mut self.without_memory) {
            if let Some((_, entry)) = self.slab.remove(key) {
                lost_bytes += entry.abandon();
            }
        }
        if lost_bytes > 0 {
            tracing::error!(
                "{}: {lost_bytes} bytes of media memory are never used again, because an io_uring that broke may still write there",
                name()
            );
        }
    }

    /// Whether the operation continues, and how many bytes of the arena it cost.
    fn after_break(&mut self, key: Key) -> (bool, usize) {
        let Some(entry) = self.slab.get_mut(key) else { return (false, 0) };
        let AfterBreak { next, lost_bytes } = entry.after_break();
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

    /// Whether the ring's descriptor number still belongs to the ring. If it was closed, the number
    /// is taken again, unless another file has it. In that case the ring cannot be ended, and would
    /// continue to accept connections that nothing serves.
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
    thread::current().name().unwrap_or("an unnamed thread").to_owned()
}

#[cfg(test)]
#[path = "renewal_laws.rs"]
mod laws;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Done, Op};
    use crate::waker::Waker;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::time::Duration;

    fn driver() -> Option<UringDriver> {
        reel_testkit::ring_or_skip(UringDriver::new(8, Waker::new().expect("an eventfd")))
    }

    /// Accepts once, and lets the kernel begin.
    fn begin_to_accept(driver: &mut UringDriver, listener: &Arc<OwnedFd>) {
        driver.push(1, Op::Accept { listener: Arc::clone(listener) });
        assert!(ends(driver, Duration::from_millis(5)).is_empty());
    }

    /// What ends first within this time.
    fn ends(driver: &mut UringDriver, within: Duration) -> Vec<Done> {
        let (begun, mut done) = (Instant::now(), Vec::new());
        while done.is_empty() && begun.elapsed() < within {
            driver.wait(Some(Duration::from_millis(1)), &mut done).expect("a sound ring");
        }
        done
    }

    /// A ring that no thread enters stands for the one that was replaced and that the kernel has
    /// not closed yet: it is told of the connection first, and does not take it.
    #[test]
    fn a_connection_is_accepted_while_the_kernel_still_closes_the_old_ring() {
        let (Some(mut closing), Some(mut driver)) = (driver(), driver()) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let listener: Arc<OwnedFd> = Arc::new(listener.into());
        begin_to_accept(&mut closing, &listener);
        begin_to_accept(&mut driver, &listener);
        driver.renew(io::Error::from_raw_os_error(libc::EBADR)).expect("another ring");
        for token in 1..=3 {
            assert!(ends(&mut driver, Duration::from_millis(5)).is_empty());
            let _client = TcpStream::connect(address).expect("a connection");
            let done = ends(&mut driver, Duration::from_secs(120));
            assert!(done.iter().all(|done| done.token == token && done.accepted.is_some()), "{done:?}");
            assert_eq!(done.len(), 1, "the connection is not left waiting");
            driver.push(token + 1, Op::Accept { listener: Arc::clone(&listener) });
        }
    }
}
