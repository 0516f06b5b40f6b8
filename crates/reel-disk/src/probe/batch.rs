//! Requests handed to a device at a given depth, and how long each took.

use super::Probe;
use super::error::ProbeError;
use super::mixture::Mixture;
use super::scratch::Scratch;
use crate::limits::{
    BLOCK_BYTES, DEVICE_BYTES_MAX, DEVICE_REQUESTS_MAX, PROBE_SCRATCH_BYTES, PROBE_SIZES, PROBE_STALL_NS,
};
use reel_arena::{Arena, ArenaConfig, Buffer, Lease, PageKind};
use reel_ring::{Done, Op, Ring, RingConfig};
use reel_rt::now_ns;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A ring and its memory, for one member.
pub(super) struct Bench {
    ring: Ring,
    arena: Arena,
    /// What is written.
    noise: Lease,
    path: PathBuf,
    done: Vec<Done>,
    next_token: u64,
}

/// What to give to the device.
pub(super) struct Batch<'a> {
    pub(super) file: &'a Arc<OwnedFd>,
    /// Of each request, or of the largest of a mixture.
    pub(super) bytes: usize,
    pub(super) mixture: Option<Mixture>,
    pub(super) depth: usize,
    /// This many are submitted whatever the time.
    pub(super) least: usize,
    /// Beyond those, none is submitted after this time.
    pub(super) until_ns: u64,
    /// From then on the device counts as in step: its work until the last submission is measured
    /// separately.
    pub(super) warm_at_ns: u64,
    /// None is submitted after this is set.
    pub(super) stop: &'a AtomicBool,
    /// Writes go here, one at any time, until all other requests are done.
    pub(super) beside: Option<&'a mut Scratch>,
    /// Writes in place of reads, made durable at the end.
    pub(super) write: bool,
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct BatchResult {
    /// Time of each request in the device.
    pub(super) service_ns: Vec<u64>,
    /// From the first submission to the last answer, including the sync after writes.
    pub(super) elapsed_ns: u64,
    last_ns: u64,
    /// Writes that were done at the same time as the reads.
    pub(super) writes: u32,
    /// While the device had as much as it may have.
    pub(super) in_step: InStep,
}

/// The work of a device between two answers, with its queue full all the time. Without the first
/// requests, for which it was idle or busy with others, and without the last ones, which had it to
/// themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InStep {
    from_ns: Option<u64>,
    line: Line,
    pub(super) requests: usize,
    pub(super) writes: u32,
}

/// Answers by their number and time, and the straight line through them. The time from the first to
/// the last would be too short where they come in bursts, as those of a throttle do: one burst
/// would be counted without the time that it took.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    count: f64,
    times: f64,
    squares: f64,
    products: f64,
}

/// A request in the device.
struct Begun {
    token: u64,
    offset: u64,
    bytes: usize,
    begun_ns: u64,
    purpose: Purpose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Measured,
    Beside,
    Sync,
}

/// Bytes of one write when a scratch file is filled.
const FILL_BYTES: usize = 1 << 20;

/// Longest single wait, to notice that nothing is answered.
const WAIT: Duration = Duration::from_millis(500);

impl Bench {
    /// Must be made on the thread that uses it.
    pub(super) fn new(probe: &Probe, path: &Path) -> Result<Bench, ProbeError> {
        let setup = |reason: &dyn std::fmt::Display| ProbeError::Setup {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let unit_bytes = probe.unit_bytes.next_multiple_of(BLOCK_BYTES as usize);
        let largest = unit_bytes.max(PROBE_SIZES[PROBE_SIZES.len() - 1]);
        // Three units of 264 KiB fit into a buffer of 1 MiB: a full queue of any size, and the
        // noise.
        let config = ArenaConfig {
            buffer_bytes: largest,
            buffer_count: (DEVICE_BYTES_MAX / largest).max(DEVICE_REQUESTS_MAX) + 1,
            cells_per_buffer: 3,
            huge_pages: probe.huge_pages,
        };
        let arena = Arena::new(config).map_err(|error| setup(&error))?;
        let mut noise = arena.take(largest).ok_or_else(|| setup(&"its memory is used up"))?;
        let mut random = super::block_ranges::Random::new(now_ns());
        // Some disks compress data or leave out zeros. They must get neither.
        for word in noise.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let config = RingConfig { entries: 4 * DEVICE_REQUESTS_MAX as u32, driver: probe.driver };
        let ring = Ring::new(config, Some(&arena)).map_err(|error| setup(&error))?;
        Ok(Bench {
            ring,
            noise: noise.freeze(),
            arena,
            path: path.to_owned(),
            done: Vec::new(),
            next_token: 0,
        })
    }

    /// Whether reads land in huge pages.
    pub(super) fn has_huge_pages(&self) -> bool {
        self.arena.region().pages != PageKind::Normal
    }

    /// Submits requests at these places, in their order, as deep as allowed.
    pub(super) fn run(
        &mut self,
        mut batch: Batch<'_>,
        offsets: &mut dyn Iterator<Item = u64>,
    ) -> Result<BatchResult, ProbeError> {
        let begun_ns = now_ns();
        let mut ran = BatchResult { last_ns: begun_ns, ..BatchResult::default() };
        let mut begun: Vec<Begun> = Vec::new();
        let mut handed_over = 0;
        loop {
            let mut measured = begun.iter().filter(|one| one.purpose == Purpose::Measured).count();
            while batch.takes(measured) && (handed_over < batch.least || batch.has_time()) {
                let Some(offset) = offsets.next() else { break };
                let bytes = batch.mixture.as_mut().map_or(batch.bytes, Mixture::next_bytes);
                let op = match batch.write {
                    true => self.write(batch.file, offset, bytes),
                    false => self.read(batch.file, offset, bytes)?,
                };
                self.push(&mut begun, op, offset, bytes, Purpose::Measured);
                (measured, handed_over) = (measured + 1, handed_over + 1);
            }
            if let Some(scratch) = &mut batch.beside
                && measured > 0
                && begun.len() == measured
            {
                let (offset, bytes) = scratch.next();
                let op = self.write(scratch.file(), offset, bytes);
                self.push(&mut begun, op, offset, bytes, Purpose::Beside);
            }
            if begun.is_empty() {
                break;
            }
            let is_full = batch.has_time();
            let before = (ran.service_ns.len(), ran.writes);
            self.wait(&mut begun, &mut ran)?;
            if is_full && ran.last_ns >= batch.warm_at_ns && ran.service_ns.len() > before.0 {
                ran.count_in_step(before);
            }
        }
        if batch.write {
            let op = Op::Sync { file: Arc::clone(batch.file) };
            self.push(&mut begun, op, 0, 0, Purpose::Sync);
            while !begun.is_empty() {
                self.wait(&mut begun, &mut ran)?;
            }
        }
        ran.elapsed_ns = (ran.last_ns - begun_ns).max(1);
        Ok(ran)
    }

    fn push(&mut self, begun: &mut Vec<Begun>, op: Op, offset: u64, bytes: usize, purpose: Purpose) {
        self.next_token += 1;
        begun.push(Begun { token: self.next_token, offset, bytes, begun_ns: now_ns(), purpose });
        self.ring.push(self.next_token, op);
    }

    /// Waits for answers and takes their requests out of `begun`.
    fn wait(&mut self, begun: &mut Vec<Begun>, ran: &mut BatchResult) -> Result<(), ProbeError> {
        let waiting_since_ns = now_ns();
        while self.done.is_empty() {
            if now_ns() - waiting_since_ns > PROBE_STALL_NS {
                let seconds = PROBE_STALL_NS / 1_000_000_000;
                return Err(ProbeError::Stalled { path: self.path.clone(), seconds });
            }
            self.ring
                .wait(Some(WAIT), &mut self.done)
                .map_err(|error| ProbeError::Setup { path: self.path.clone(), reason: error.to_string() })?;
        }
        let now = now_ns();
        for done in self.done.drain(..) {
            let Some(at) = begun.iter().position(|one| one.token == done.token) else { continue };
            let one = begun.swap_remove(at);
            let failed = |source| ProbeError::Failed { path: self.path.clone(), offset: one.offset, source };
            match done.result {
                Ok(bytes) if bytes == one.bytes => {}
                Ok(_) => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
                Err(source) => return Err(failed(source)),
            }
            match one.purpose {
                Purpose::Measured => ran.service_ns.push((now - one.begun_ns).max(1)),
                Purpose::Sync => {}
                Purpose::Beside => {
                    ran.writes += 1;
                    continue;
                }
            }
            ran.last_ns = now;
        }
        Ok(())
    }

    fn read(&self, file: &Arc<OwnedFd>, offset: u64, bytes: usize) -> Result<Op, ProbeError> {
        let buffer: Buffer = self.arena.take(bytes).ok_or_else(|| ProbeError::Setup {
            path: self.path.clone(),
            reason: "its memory is used up".to_owned(),
        })?;
        Ok(Op::Read { file: Arc::clone(file), offset, buffer, start: 0, bytes })
    }

    /// Writes all of a scratch file once: space that was only allocated is written at another speed
    /// than space that is written again.
    pub(super) fn fill(&mut self, scratch: &Scratch) -> Result<(), ProbeError> {
        let file = scratch.file();
        let batch = Batch {
            file,
            bytes: FILL_BYTES,
            mixture: None,
            depth: DEVICE_REQUESTS_MAX,
            least: usize::MAX,
            until_ns: 0,
            warm_at_ns: 0,
            stop: &AtomicBool::new(false),
            beside: None,
            write: true,
        };
        self.run(batch, &mut (0..PROBE_SCRATCH_BYTES).step_by(FILL_BYTES)).map(|_| ())
    }

    fn write(&self, file: &Arc<OwnedFd>, offset: u64, bytes: usize) -> Op {
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES as usize));
        Op::Write { file: Arc::clone(file), offset, lease: self.noise.slice(0..bytes) }
    }
}

impl BatchResult {
    /// Answers have come since there were this many requests and writes.
    fn count_in_step(&mut self, (requests, writes): (usize, u32)) {
        let step = &mut self.in_step;
        match step.from_ns {
            // These were submitted before.
            None => step.from_ns = Some(self.last_ns),
            Some(_) => {
                step.requests += self.service_ns.len() - requests;
                step.writes += self.writes - writes;
            }
        }
        let since_ns = self.last_ns - step.from_ns.unwrap_or(self.last_ns);
        (requests..self.service_ns.len()).for_each(|_| step.line.add(since_ns));
    }
}

impl InStep {
    /// The time of its requests.
    pub(super) fn elapsed_ns(&self) -> u64 {
        (self.line.each_ns() * self.requests as f64) as u64
    }
}

impl Line {
    fn add(&mut self, at_ns: u64) {
        let (number, at_ns) = (self.count, at_ns as f64);
        self.count += 1.0;
        self.times += at_ns;
        self.squares += number * number;
        self.products += number * at_ns;
    }

    /// Nanoseconds from one to the next (least squares).
    fn each_ns(&self) -> f64 {
        let numbers = self.count * (self.count - 1.0) / 2.0;
        let spread = self.count * self.squares - numbers * numbers;
        if spread > 0.0 { (self.count * self.products - numbers * self.times) / spread } else { 0.0 }
    }
}

impl Batch<'_> {
    fn has_time(&self) -> bool {
        now_ns() < self.until_ns && !self.stop.load(Ordering::Relaxed)
    }

    /// Whether the device may have one more: the scheduler's own bound.
    fn takes(&self, in_device: usize) -> bool {
        in_device == 0
            || (in_device < self.depth.min(DEVICE_REQUESTS_MAX)
                && (in_device + 1) * self.bytes <= DEVICE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn each_ms(times_ns: impl Iterator<Item = u64>) -> f64 {
        let mut line = Line::default();
        times_ns.for_each(|at_ns| line.add(at_ns));
        line.each_ns() / MS as f64
    }

    #[test]
    fn bursts_are_counted_with_their_time() {
        assert!((each_ms((0..50).map(|number| number * 7 * MS)) - 7.0).abs() < 1e-6);
        // Eight bursts of seven, one every 100 ms. From the first answer to the last they are 55 in
        // 700 ms, although the rate is 70 a second.
        let bursts = (0..56).map(|number| number / 7 * 100 * MS);
        let each = each_ms(bursts);
        assert!((each - 100.0 / 7.0).abs() < 0.02 * 100.0 / 7.0, "{each}");
        assert_eq!(each_ms([5].into_iter()), 0.0);
    }
}
