//! A hard disk as a calculation: where its head is, and how long each request takes. Time comes
//! from the caller.
//!
//! A request costs a seek, the wait until its sector comes round, and its transfer. A request that
//! continues where the head is costs its transfer alone, because the drive reads ahead. The seek
//! curve is stretched over the size of the member, so that a small member seeks as far as a large
//! disk. There is no cache: every request moves the head.
//!
//! The simulator has a richer model (`reel-sim/src/device/hdd.rs`: zones, tracks and skew); this
//! one is for checks whose results must follow from a few figures.

use std::collections::VecDeque;

/// Figures of a disk with a moving head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskModel {
    /// Bytes of the disk.
    pub capacity_bytes: u64,
    /// The shortest seek. Up to the longest, seeks follow the curve of Ruemmler and Wilkes (1994):
    /// square root near, linear far.
    pub shortest_seek_ns: u64,
    /// The longest seek.
    pub longest_seek_ns: u64,
    /// One turn of the platter.
    pub revolution_ns: u64,
    /// The rate of transfers, on every track.
    pub bytes_per_s: u64,
    /// Requests among which the drive chooses (NCQ). Later ones wait in order.
    pub depth: usize,
    /// A request that has waited this many times its positioning time is served as if it were under
    /// the head. Drives age their queues like this, or sequential reads would starve all others
    /// (Worthington, Ganger, Patt 1994: aged shortest access time first).
    pub patience: u64,
}

impl DiskModel {
    /// A disk of 7200 rpm with 150 MB/s and seeks of 2 to 16 ms: some 77 random reads of 64 KiB a
    /// second.
    pub fn disk_7200(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            shortest_seek_ns: 2_000_000,
            longest_seek_ns: 16_000_000,
            revolution_ns: 8_333_333,
            bytes_per_s: 150_000_000,
            depth: 32,
            patience: 16,
        }
    }

    /// Time for the transfer alone.
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s)) as u64
    }

    fn track_bytes(&self) -> u64 {
        (u128::from(self.bytes_per_s) * u128::from(self.revolution_ns) / 1_000_000_000) as u64
    }

    /// Whether `offset` is on the same track or the next: what lies between passes under the head.
    fn passes(&self, head: u64, offset: u64) -> bool {
        (head..head.saturating_add(self.track_bytes())).contains(&offset)
    }

    /// Time until the first byte at `offset` is under the head, if the head is at `head` at
    /// `now_ns`.
    pub fn position_ns(&self, head: u64, offset: u64, now_ns: u64) -> u64 {
        if self.passes(head, offset) {
            return self.transfer_ns(offset - head);
        }
        let distance = head.abs_diff(offset) as f64 / self.capacity_bytes as f64;
        let span = (self.longest_seek_ns - self.shortest_seek_ns) as f64;
        let seek_ns = self.shortest_seek_ns + (span * (0.6 * distance.sqrt() + 0.4 * distance)) as u64;
        let sector_ns = self.transfer_ns(offset % self.track_bytes());
        let angle_ns = (now_ns + seek_ns) % self.revolution_ns;
        seek_ns + (sector_ns + self.revolution_ns - angle_ns) % self.revolution_ns
    }
}

/// A request that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The number that it was queued by.
    pub id: u64,
    /// When it is done.
    pub done_ns: u64,
}

/// A disk with its queue. It serves first what is nearest by the time until the first byte, less
/// the time waited.
#[derive(Debug)]
pub struct ModelledDisk {
    model: DiskModel,
    head: u64,
    free_ns: u64,
    queue: VecDeque<Waiting>,
    /// Nanoseconds in which it worked.
    pub busy_ns: u64,
    /// Requests that needed a seek.
    pub seeks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    offset: u64,
    bytes: u64,
    arrived_ns: u64,
}

impl ModelledDisk {
    /// An idle disk with its head at the beginning.
    pub fn new(model: DiskModel) -> Self {
        Self { model, head: 0, free_ns: 0, queue: VecDeque::new(), busy_ns: 0, seeks: 0 }
    }

    /// Queues a request. Times of arrival do not go back.
    pub fn push(&mut self, id: u64, offset: u64, bytes: u64, arrived_ns: u64) {
        self.queue.push_back(Waiting { id, offset, bytes, arrived_ns });
    }

    /// Begins the next request at the time when the disk was free and the request had come. This
    /// may be before now, so a caller that wakes late does not make the disk slower. `None` if no
    /// request waits.
    pub fn begin(&mut self) -> Option<Begun> {
        let start_ns = self.free_ns.max(self.queue.front()?.arrived_ns);
        let seen =
            self.queue.iter().take(self.model.depth).take_while(|request| request.arrived_ns <= start_ns);
        let (place, _) = seen.enumerate().min_by_key(|(_, request)| {
            let position_ns = self.model.position_ns(self.head, request.offset, start_ns);
            let waited_ns = start_ns - request.arrived_ns;
            i128::from(position_ns * self.model.patience) - i128::from(waited_ns)
        })?;
        let next = self.queue.remove(place)?;
        let took_ns =
            self.model.position_ns(self.head, next.offset, start_ns) + self.model.transfer_ns(next.bytes);
        self.seeks += u64::from(!self.model.passes(self.head, next.offset));
        self.head = next.offset + next.bytes;
        self.free_ns = start_ns + took_ns;
        self.busy_ns += took_ns;
        Some(Begun { id: next.id, done_ns: self.free_ns })
    }

    /// Serves nothing until `until_ns`, as a drive that stalls.
    pub fn hold(&mut self, until_ns: u64) {
        self.free_ns = self.free_ns.max(until_ns);
    }

    /// Drops all requests that wait.
    pub fn clear(&mut self) {
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    const CAPACITY: u64 = 4 << 30;
    const SECOND_NS: u64 = 1_000_000_000;

    /// Reads of `bytes` at the given offsets, `depth` at a time; requests a second.
    fn rate(depth: u64, bytes: u64, mut offset: impl FnMut(u64) -> u64) -> f64 {
        let mut disk = ModelledDisk::new(DiskModel::disk_7200(CAPACITY));
        let count = 2000;
        (0..depth).for_each(|id| disk.push(id, offset(id), bytes, 0));
        let mut now_ns = 0;
        for pushed in depth..depth + count {
            let done = disk.begin().expect("a request waits");
            assert!(done.done_ns > now_ns, "time passes");
            now_ns = done.done_ns;
            disk.push(pushed, offset(pushed), bytes, now_ns);
        }
        count as f64 * SECOND_NS as f64 / now_ns as f64
    }

    /// Places of the disk, in no order.
    fn scattered(number: u64) -> u64 {
        Rng::new(number).below(CAPACITY / 65536 - 1) * 65536
    }

    #[test]
    fn reads_in_order_cost_their_transfer() {
        let mib_per_s = rate(1, 1 << 20, |number| number << 20);
        assert!((142.0..=143.1).contains(&mib_per_s), "150 MB/s are 143 MiB/s, not {mib_per_s}");
    }

    #[test]
    fn scattered_reads_cost_what_such_a_disk_takes() {
        let alone = rate(1, 65536, scattered);
        assert!((70.0..=85.0).contains(&alone), "{alone} reads a second");
        let queued = rate(32, 65536, scattered);
        assert!(queued > 1.5 * alone, "a queue lets it choose: {queued} against {alone}");
        assert!(queued < 4.0 * alone, "but it stays a disk: {queued} against {alone}");
    }

    #[test]
    fn what_waits_beside_a_stream_of_near_reads_is_served_in_time() {
        let model = DiskModel::disk_7200(CAPACITY);
        let mut disk = ModelledDisk::new(model);
        disk.push(0, 0, 65536, 0);
        let first = disk.begin().expect("one waits");
        disk.push(1, CAPACITY - 65536, 65536, 1);
        let (mut id, mut now_ns) = (2, first.done_ns);
        disk.push(id, 65536, 65536, 2);
        let mut last_ns = 0;
        while let Some(done) = disk.begin() {
            now_ns = done.done_ns.max(now_ns);
            if done.id == 1 {
                last_ns = done.done_ns;
                break;
            }
            id += 1;
            disk.push(id, (id - 1) * 65536, 65536, now_ns - 1);
        }
        assert!(last_ns > 50_000_000, "the near ones went first: {last_ns}");
        assert!(last_ns < model.patience * 30_000_000, "then the far one did: {last_ns}");
    }

    #[test]
    fn nothing_is_served_before_it_came_or_during_a_stall() {
        let mut disk = ModelledDisk::new(DiskModel::disk_7200(CAPACITY));
        disk.push(7, 0, 4096, 5 * SECOND_NS);
        disk.hold(8 * SECOND_NS);
        let done = disk.begin().expect("one waits");
        assert_eq!(done.id, 7);
        assert!(done.done_ns >= 8 * SECOND_NS);
        assert_eq!(disk.begin(), None);
    }

    #[test]
    fn beyond_its_depth_the_drive_does_not_look() {
        let mut disk = ModelledDisk::new(DiskModel { depth: 2, ..DiskModel::disk_7200(CAPACITY) });
        disk.push(0, CAPACITY / 2, 4096, 0);
        disk.push(1, CAPACITY / 3, 4096, 0);
        disk.push(2, 0, 4096, 0);
        assert_ne!(disk.begin().expect("three wait").id, 2, "the nearest is the third");
    }
}
