//! Sends without a copy on a core: which bytes are sent so, what the kernel reports, and when the
//! memory is returned.

use super::{HttpThread, Then, Turn};
use crate::connection::Connection;
use crate::zero_copy::SendMethod;
use reel_ring::{Chunk, Op, segment_bytes};
use reel_serve::Serve;
use rustix::io::Errno;
use std::io;
use std::sync::atomic::Ordering;

impl Turn<'_, '_> {
    /// Sends `chunks`, or the first of them.
    pub(super) fn send(&mut self, mut chunks: Vec<Chunk>, may_lend: bool) -> Then {
        let Connection { socket, zero_copy, .. } = &mut *self.connection;
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
        let may_lend = may_lend && zero_copy.is_cut_well(|| segment_bytes(socket));
        match zero_copy.choose(bytes, chunks.len(), may_lend, self.serve.now_ns()) {
            SendMethod::Copied => self.push(|socket| Op::Send { socket, chunks }),
            SendMethod::ZeroCopy { bytes_max } => {
                cut(&mut chunks, bytes_max);
                self.push(|socket| Op::SendZeroCopy { socket, chunks })
            }
        }
    }

    /// The first part of a zero-copy send ended, or all of it if the kernel kept no memory.
    pub(super) fn sent_zero_copy(&mut self, chunks: Vec<Chunk>, result: io::Result<usize>) -> Then {
        let bytes = *result.as_ref().unwrap_or(&0) as u64;
        let is_lent = chunks.is_empty();
        drop(chunks);
        if is_lent {
            self.connection.zero_copy.lent(bytes);
        } else {
            self.connection.zero_copy.refused(self.serve.now_ns());
            self.own.shared.http.counters.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        match result {
            // Zero-copy is impossible for this socket, or at the moment: the kernel has no memory
            // for it, or this process may not lock so much. Nothing was sent.
            Err(error) if is_about_zero_copy(&error) => {
                if is_lent {
                    // The second part of the send is still to come, and reports nothing new.
                    self.connection.zero_copy.failed(self.serve.now_ns());
                }
                self.own.shared.http.counters.zero_copy_refused.fetch_add(1, Ordering::Relaxed);
                self.wake()
            }
            // The operation may have memory of its own under way, so the ring does not restart it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.sent(Err(io::ErrorKind::WouldBlock.into()))
            }
            result => self.sent(result),
        }
    }
}

impl HttpThread {
    /// The memory of a zero-copy send was returned. `bytes`: how many of its bytes the socket had
    /// accepted.
    pub(super) fn returned(&mut self, serve: &mut Serve<'_>, token: u64, bytes: usize, copied: bool) {
        let counters = &self.own.shared.http.counters;
        let counter = if copied { &counters.copied_late_bytes } else { &counters.zero_copy_bytes };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(turn) = self.turn(serve, token) {
            turn.connection.zero_copy.returned(bytes as u64, copied, turn.serve.now_ns());
        }
    }
}

/// Keeps the first `bytes_max` bytes.
fn cut(chunks: &mut Vec<Chunk>, bytes_max: usize) {
    let mut left = bytes_max;
    chunks.retain_mut(|chunk| {
        let keep = chunk.len().min(left);
        left -= keep;
        if keep < chunk.len() {
            match chunk {
                Chunk::Lease(lease) => *lease = lease.slice(0..keep),
                Chunk::Bytes(_, range) => range.end = range.start + keep,
            }
        }
        keep > 0
    });
}

/// Errors that a plain send does not have.
fn is_about_zero_copy(error: &io::Error) -> bool {
    let errors = [Errno::NOMEM, Errno::NOBUFS, Errno::OPNOTSUPP, Errno::INVAL, Errno::FAULT];
    errors.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_are_kept() {
        let chunks: Vec<Chunk> = vec![vec![1; 10].into(), vec![2; 20].into(), vec![3; 30].into()];
        for (bytes_max, wanted) in
            [(0, vec![]), (5, vec![5]), (10, vec![10]), (29, vec![10, 19]), (99, vec![10, 20, 30])]
        {
            let mut chunks = chunks.clone();
            cut(&mut chunks, bytes_max);
            assert_eq!(chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), wanted);
        }
    }
}
