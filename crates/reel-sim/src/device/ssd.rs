//! A solid state disk: channels side by side behind one link.
//!
//! Pages lie over the channels in turn, so a large request keeps many of them busy and small ones
//! side by side share them. Programming a page takes ten times as long as reading one (Agrawal and
//! others, "Design tradeoffs for SSD performance", USENIX ATC 2008, table 3). What was written must
//! be cleaned up: now and then a channel copies and erases, and reads of it wait.

use super::{Device, Tail, Transfer, stretched, transfer_ns};
use reel_testkit::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The make of a solid state disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdSpec {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Channels.
    pub channels: usize,
    /// What lies together on one channel.
    pub stripe_bytes: u64,
    /// From the command to the first byte of a read.
    pub read_ns: u64,
    /// A channel's rate when reading.
    pub read_bytes_per_s: u64,
    /// A write, beyond its transfer.
    pub write_ns: u64,
    /// A channel's rate when writing.
    pub write_bytes_per_s: u64,
    /// The link to the machine.
    pub link_bytes_per_s: u64,
    /// The mean of bytes written between two cleanings.
    pub clean_every_bytes: u64,
    /// How long a cleaning takes its channel, at most; half of it at least.
    pub clean_ns: u64,
    /// Reads that take far longer, on one channel. `None` for a disk that has none.
    pub tail: Option<Tail>,
}

/// A solid state disk.
#[derive(Debug)]
pub struct Ssd {
    spec: SsdSpec,
    /// When each channel is free.
    channels: Vec<u64>,
    link_free_ns: u64,
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    until_clean_bytes: u64,
    rng: Rng,
    slowness_permille: u64,
}

impl Default for SsdSpec {
    /// A disk for SATA (550 MB/s) with 8 channels; a cleaning of 2 to 4 ms every 32 MiB written.
    fn default() -> Self {
        SsdSpec {
            bytes: 2_000_000_000_000,
            channels: 8,
            stripe_bytes: 32 << 10,
            read_ns: 70_000,
            read_bytes_per_s: 160_000_000,
            write_ns: 500_000,
            write_bytes_per_s: 70_000_000,
            link_bytes_per_s: 550_000_000,
            clean_every_bytes: 32 << 20,
            clean_ns: 4_000_000,
            tail: None,
        }
    }
}

impl Ssd {
    /// A disk at rest.
    pub fn new(spec: SsdSpec, mut rng: Rng) -> Ssd {
        let until_clean_bytes = rng.range(1, spec.clean_every_bytes * 2);
        Ssd {
            spec,
            channels: vec![0; spec.channels],
            link_free_ns: 0,
            ends: BinaryHeap::new(),
            until_clean_bytes,
            rng,
            slowness_permille: 1000,
        }
    }

    /// What the channel of the first page has to do first, if this read is one of the slow ones.
    fn delay(&mut self, transfer: Transfer, now_ns: u64) {
        let Some(tail) = self.spec.tail.filter(|_| !transfer.write) else { return };
        let channel = (transfer.offset / self.spec.stripe_bytes % self.channels.len() as u64) as usize;
        let more_ns = tail.draw_ns(&mut self.rng);
        self.channels[channel] = self.channels[channel].max(now_ns).saturating_add(more_ns);
    }

    /// The channels' part of a transfer: when the last of its pages is done.
    fn pages(&mut self, transfer: Transfer, now_ns: u64) -> u64 {
        let SsdSpec { stripe_bytes, read_ns, read_bytes_per_s, write_ns, write_bytes_per_s, .. } = self.spec;
        let (each_ns, rate) =
            if transfer.write { (write_ns, write_bytes_per_s) } else { (read_ns, read_bytes_per_s) };
        let mut end_ns = now_ns;
        let mut at = transfer.offset;
        let end = transfer.offset + transfer.bytes;
        while at < end {
            let next = ((at / stripe_bytes + 1) * stripe_bytes).min(end);
            let channel = (at / stripe_bytes % self.channels.len() as u64) as usize;
            let ns = stretched(each_ns + transfer_ns(next - at, rate), self.slowness_permille);
            let free_ns = self.channels[channel].max(now_ns) + ns;
            self.channels[channel] = free_ns;
            end_ns = end_ns.max(free_ns);
            at = next;
        }
        end_ns
    }

    fn clean(&mut self, written_bytes: u64, now_ns: u64) {
        if written_bytes < self.until_clean_bytes {
            self.until_clean_bytes -= written_bytes;
            return;
        }
        self.until_clean_bytes = self.rng.range(1, self.spec.clean_every_bytes * 2);
        let channel = self.rng.below(self.channels.len() as u64) as usize;
        let ns = self.rng.range(self.spec.clean_ns / 2, self.spec.clean_ns);
        self.channels[channel] = self.channels[channel].max(now_ns) + ns;
    }
}

impl Device for Ssd {
    fn push(&mut self, id: u32, transfer: Transfer, now_ns: u64) {
        self.delay(transfer, now_ns);
        let pages_ns = self.pages(transfer, now_ns);
        if transfer.write {
            self.clean(transfer.bytes, now_ns);
        }
        let link_ns =
            stretched(transfer_ns(transfer.bytes, self.spec.link_bytes_per_s), self.slowness_permille);
        // The link carries pages as they come, so a transfer takes it for its own bytes only.
        let first_ns = if transfer.write { 0 } else { self.spec.read_ns };
        self.link_free_ns = self.link_free_ns.max(now_ns + first_ns) + link_ns;
        self.ends.push(Reverse((pages_ns.max(self.link_free_ns), id)));
    }

    fn next_ns(&self) -> Option<u64> {
        self.ends.peek().map(|Reverse((end_ns, _))| *end_ns)
    }

    fn pop(&mut self, now_ns: u64) -> Option<u32> {
        self.next_ns().filter(|end_ns| *end_ns <= now_ns)?;
        self.ends.pop().map(|Reverse((_, id))| id)
    }

    fn set_slowness(&mut self, permille: u64) {
        self.slowness_permille = permille;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps `depth` requests of `bytes` in the disk; bytes a second.
    fn rate(depth: u32, bytes: u64, write: bool) -> u64 {
        let mut disk = Ssd::new(SsdSpec::default(), Rng::new(1));
        let mut rng = Rng::new(2);
        let mut place = move || Transfer { offset: rng.below(1 << 27) * 4096, bytes, write };
        for id in 0..depth {
            disk.push(id, place(), 0);
        }
        let mut now_ns = 0;
        for _ in 0..4000 {
            now_ns = disk.next_ns().unwrap();
            let id = disk.pop(now_ns).unwrap();
            disk.push(id, place(), now_ns);
        }
        4000 * bytes * 1_000_000_000 / now_ns
    }

    #[test]
    fn depth_helps_until_the_link_is_full() {
        let (alone, many) = (rate(1, 270_336, false), rate(8, 270_336, false));
        assert!(alone < many && (500_000_000..550_000_000).contains(&many), "{alone} {many}");
        assert!(rate(8, 4096, false) > 3 * rate(1, 4096, false));
    }

    #[test]
    fn writing_is_slower_than_reading() {
        assert!(rate(8, 270_336, true) * 2 < rate(8, 270_336, false));
    }
}
