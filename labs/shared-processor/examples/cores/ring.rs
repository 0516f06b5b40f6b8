//! A minimal message queue: one producer, one consumer, two counters, no system call.

use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::OpenOptions;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

const MESSAGES: u64 = 64;

/// Messages of one byte (as in Govindan's table 7.2).
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct MessageRing {
    written: Counter,
    read: Counter,
    bytes: [Cell; MESSAGES as usize / 8],
}

/// Written by one side.
#[repr(C, align(64))]
#[derive(Default)]
struct Counter {
    count: AtomicU64,
    /// The other side's counter at the last check. A side that checks only when this is used up
    /// does not fetch the other processor's cache line for every message.
    others: AtomicU64,
}

#[derive(Default)]
struct Cell([AtomicU8; 8]);

impl MessageRing {
    /// False if it is full.
    pub(crate) fn push(&self, byte: u8) -> bool {
        let written = self.written.count.load(Ordering::Relaxed);
        if written - self.written.others.load(Ordering::Relaxed) == MESSAGES {
            let read = self.read.count.load(Ordering::Acquire);
            self.written.others.store(read, Ordering::Relaxed);
            if written - read == MESSAGES {
                return false;
            }
        }
        self.cell(written).store(byte, Ordering::Relaxed);
        // Sequentially consistent: the producer then checks whether the consumer waits.
        self.written.count.store(written + 1, Ordering::SeqCst);
        true
    }

    pub(crate) fn pop(&self) -> Option<u8> {
        let read = self.read.count.load(Ordering::Relaxed);
        if self.read.others.load(Ordering::Relaxed) == read {
            let written = self.written.count.load(Ordering::SeqCst);
            self.read.others.store(written, Ordering::Relaxed);
            if written == read {
                return None;
            }
        }
        let byte = self.cell(read).load(Ordering::Relaxed);
        self.read.count.store(read + 1, Ordering::Release);
        Some(byte)
    }

    /// How many messages are in the queue; for the reading side.
    pub(crate) fn waiting(&self) -> u64 {
        self.written.count.load(Ordering::SeqCst) - self.read.count.load(Ordering::Relaxed)
    }

    /// Two words behind the rings, for futexes.
    pub(crate) fn words(rings: &'static [MessageRing; 2]) -> &'static [AtomicU32; 2] {
        // SAFETY: the rings were made by `pair`, whose mapping continues for a whole page behind
        // them; zeros are valid atomics.
        unsafe { &*std::ptr::from_ref(rings).add(1).cast() }
    }

    fn cell(&self, at: u64) -> &AtomicU8 {
        let at = (at % MESSAGES) as usize;
        &self.bytes[at / 8].0[at % 8]
    }

    /// Two rings in a file that another process maps too; never unmapped.
    pub(crate) fn pair(path: &str) -> Result<&'static [MessageRing; 2], String> {
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        file.set_len(4096).map_err(failed)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh shared mapping at an address that the kernel chooses.
        let address = unsafe { mmap(null_mut(), 4096, prot, MapFlags::SHARED, &file, 0) };
        let address = address.map_err(|error| failed(error.into()))?;
        // SAFETY: never unmapped, aligned to a page, longer than two rings, which consist of
        // atomics only; zeros are empty rings.
        Ok(unsafe { &*address.cast::<[MessageRing; 2]>() })
    }
}
