//! A fast disk behind the kernel's block throttle (`blkio.throttle.*`), as the benchmarks on real
//! kernels use it.
//!
//! As block/blk-throttle.c does it: in slices of 100 ms, a request may go when the bytes and the
//! requests of the current slice, rounded up to its end, leave room for it; otherwise it waits
//! until they do. So a slice's worth may go at once.

use super::{Device, Transfer, stretched, transfer_ns};
use std::collections::VecDeque;

/// The make of a throttled disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottledSpec {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Most bytes a second.
    pub bytes_per_s: u64,
    /// Most requests a second.
    pub requests_per_s: u64,
    /// The disk behind: each request.
    pub request_ns: u64,
    /// The disk behind: its rate.
    pub disk_bytes_per_s: u64,
}

/// A throttled disk; first come, first served.
#[derive(Debug)]
pub struct Throttled {
    spec: ThrottledSpec,
    ends: VecDeque<(u64, u32)>,
    /// When the last request was let through; later ones not before.
    last_pass_ns: u64,
    disk_free_ns: u64,
    slice_start_ns: u64,
    slice_bytes: u64,
    slice_requests: u64,
    slowness_permille: u64,
}

const SLICE_NS: u64 = 100_000_000;

impl Default for ThrottledSpec {
    /// 100 MB/s and 1000 requests a second in front of a disk of 1 GB/s.
    fn default() -> Self {
        ThrottledSpec {
            bytes: 500_000_000_000,
            bytes_per_s: 100_000_000,
            requests_per_s: 1000,
            request_ns: 100_000,
            disk_bytes_per_s: 1_000_000_000,
        }
    }
}

impl Throttled {
    /// A disk at rest.
    pub fn new(spec: ThrottledSpec) -> Throttled {
        Throttled {
            spec,
            ends: VecDeque::new(),
            last_pass_ns: 0,
            disk_free_ns: 0,
            slice_start_ns: 0,
            slice_bytes: 0,
            slice_requests: 0,
            slowness_permille: 1000,
        }
    }

    /// When the throttle lets a request of so many bytes through that came now.
    fn pass_ns(&mut self, bytes: u64, now_ns: u64) -> u64 {
        let at_ns = now_ns.max(self.last_pass_ns);
        let need_ns = |slice_bytes: u64, slice_requests: u64, spec: &ThrottledSpec| {
            transfer_ns(slice_bytes, spec.bytes_per_s).max(transfer_ns(slice_requests, spec.requests_per_s))
        };
        let used_ns = need_ns(self.slice_bytes, self.slice_requests, &self.spec);
        let slices = |ns: u64| ns.div_ceil(SLICE_NS) * SLICE_NS;
        if at_ns >= self.slice_start_ns + slices(used_ns.max(1)) {
            // The slice is over and all of it was used up or lost: a new one begins.
            (self.slice_start_ns, self.slice_bytes, self.slice_requests) = (at_ns, 0, 0);
        }
        self.slice_bytes += bytes;
        self.slice_requests += 1;
        let need_ns = need_ns(self.slice_bytes, self.slice_requests, &self.spec);
        let elapsed_ns = slices((at_ns - self.slice_start_ns).max(1));
        self.last_pass_ns =
            if need_ns <= elapsed_ns { at_ns } else { at_ns.max(self.slice_start_ns + need_ns) };
        self.last_pass_ns
    }
}

impl Device for Throttled {
    fn push(&mut self, id: u32, transfer: Transfer, now_ns: u64) {
        let pass_ns = self.pass_ns(transfer.bytes, now_ns);
        let ns = self.spec.request_ns + transfer_ns(transfer.bytes, self.spec.disk_bytes_per_s);
        self.disk_free_ns = self.disk_free_ns.max(pass_ns) + stretched(ns, self.slowness_permille);
        self.ends.push_back((self.disk_free_ns, id));
    }

    fn next_ns(&self) -> Option<u64> {
        self.ends.front().map(|(end_ns, _)| *end_ns)
    }

    fn pop(&mut self, now_ns: u64) -> Option<u32> {
        self.next_ns().filter(|end_ns| *end_ns <= now_ns)?;
        self.ends.pop_front().map(|(_, id)| id)
    }

    fn set_slowness(&mut self, permille: u64) {
        self.slowness_permille = permille;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps eight requests in the disk for a while; requests a second.
    fn requests_per_s(bytes: u64) -> u64 {
        let mut disk = Throttled::new(ThrottledSpec::default());
        let transfer = Transfer { offset: 0, bytes, write: false };
        (0..8).for_each(|id| disk.push(id, transfer, 0));
        let mut now_ns = 0;
        for _ in 0..5000 {
            now_ns = disk.next_ns().unwrap();
            let id = disk.pop(now_ns).unwrap();
            disk.push(id, transfer, now_ns);
        }
        5000 * 1_000_000_000 / now_ns
    }

    #[test]
    fn neither_bytes_nor_requests_go_beyond_their_rate() {
        let small = requests_per_s(4096);
        assert!((960..=1020).contains(&small), "{small}");
        let large = requests_per_s(1_000_000);
        assert!((97..=101).contains(&large), "{large}");
    }

    #[test]
    fn a_slice_may_go_at_once_after_a_rest() {
        let mut disk = Throttled::new(ThrottledSpec::default());
        for id in 0..200 {
            disk.push(id, Transfer { offset: 0, bytes: 4096, write: false }, 1_000_000_000);
        }
        let ends: Vec<u64> = (0..200).map(|_| disk.pop(u64::MAX).map(|_| 0).unwrap_or(1)).collect();
        assert!(ends.iter().all(|end| *end == 0));
        let mut disk = Throttled::new(ThrottledSpec::default());
        disk.push(0, Transfer { offset: 0, bytes: 4096, write: false }, 1_000_000_000);
        assert!(disk.next_ns().unwrap() < 1_000_200_000);
    }
}
