//! Measuring members: the time of single requests, and of a round's worth of them.
//!
//! All members are measured at the same time. So members that share a disk, a controller or a bus
//! are measured as they will be used: each gets its part, and its price says so.

mod agreement;
mod batch;
mod block_ranges;
mod device;
mod error;
pub(crate) mod mixture;
mod plan;
mod repeats;
mod rounds;
mod scratch;
mod series;
mod work;

use crate::error::DiskError;
use crate::limits::PROBE_DATA_BYTES_MIN;
use crate::member::{MemberFile, OpenMode, open_plain};
use crate::profile::Profile;
use reel_ring::DriverChoice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

pub use device::identity;
pub use error::ProbeError;

use block_ranges::BlockRanges;
use plan::Plan;
use rounds::Rounds;
use scratch::Scratch;
use work::Subject;

/// What is measured, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Time for all members together. It takes longer if some size would not have its window
    /// otherwise.
    pub time_ns: u64,
    /// Only what the price needs.
    pub quick: bool,
    /// Whether to measure writes, too: into a file without a name beside each member, never into
    /// the member.
    pub writes: bool,
    /// Bytes of the largest read and of every write to these members: a unit of their volume.
    pub unit_bytes: usize,
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
    /// Whether reads go into huge pages, if this machine gives any: as in media memory that other
    /// processes do not read. A device takes one segment for each run of pages, so the cost of a
    /// read depends on them.
    pub huge_pages: bool,
}

/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Measures these members, all at the same time. Members are opened for reading only. Windows that
/// do not agree are measured again, so it may take several times as long as it should.
///
/// `progress` gets the nanoseconds since the start and, roughly, those that the measurement will
/// take. It says whether to continue. One result for each path, in their order. Waits until all is
/// done.
pub fn probe(
    members: &[PathBuf],
    probe: &Probe,
    now_unix_s: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Vec<Result<Profile, ProbeError>> {
    // Opened here, so that members that cannot be measured are not counted as measured at the same
    // time.
    let subjects: Vec<Result<Subject, ProbeError>> =
        members.iter().map(|path| open(path, probe, members.len())).collect();
    let count = subjects.iter().filter(|subject| subject.is_ok()).count();
    let stop = AtomicBool::new(false);
    let start = Barrier::new(count);
    let rounds = Rounds::new(count);
    let plan = Plan::new(probe);
    std::thread::scope(|scope| {
        let threads: Vec<_> = subjects
            .into_iter()
            .map(|subject| {
                subject.map(|mut subject| {
                    let (stop, start, plan) = (&stop, &start, &plan);
                    let participant = rounds.participant();
                    scope.spawn(move || {
                        let bench = subject.prepare(probe);
                        // Also the failed ones: the others wait for them.
                        start.wait();
                        subject.measure(bench?, plan, now_unix_s, (count as u32, participant), stop)
                    })
                })
            })
            .collect();
        let begun_ns = reel_rt::now_ns();
        while threads.iter().flatten().any(|thread| !thread.is_finished()) {
            let repeated_ns = u64::from(rounds.begun() - 1) * plan.windows_ns;
            if !progress(reel_rt::now_ns() - begun_ns, plan.time_ns + repeated_ns) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(PROGRESS_EVERY);
        }
        let joined = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or(Err(ProbeError::Thread)),
            Err(error) => Err(error),
        });
        joined.collect()
    })
}

fn open(path: &Path, probe: &Probe, company: usize) -> Result<Subject, ProbeError> {
    let member = MemberFile::open(path, OpenMode::ReadOnly)?;
    let device = identity(path)?;
    if !member.direct() {
        return Err(ProbeError::NotDirect { path: path.to_owned() });
    }
    let block_ranges = BlockRanges::of_file(member.file(), path)?;
    if block_ranges.bytes() < PROBE_DATA_BYTES_MIN {
        return Err(ProbeError::TooLittleData {
            path: path.to_owned(),
            data_bytes: block_ranges.bytes(),
            least_bytes: PROBE_DATA_BYTES_MIN,
        });
    }
    let scratch = match probe.writes {
        true => Some(Scratch::beside(path, &device, probe.unit_bytes)?),
        false => None,
    };
    tracing::debug!(path = %path.display(), company, data_bytes = block_ranges.bytes(), "measuring a member");
    Ok(Subject { path: path.to_owned(), member, device, block_ranges, scratch })
}

/// Bytes that were written of a member: what a measurement spreads its reads over.
///
/// # Errors
/// The member cannot be opened or examined.
pub fn written_bytes(member: &Path) -> Result<u64, ProbeError> {
    let file = open_plain(member, OpenMode::ReadOnly).map_err(|source| DiskError::File {
        path: member.to_owned(),
        what: "open",
        source: Arc::new(source),
    })?;
    Ok(BlockRanges::of_file(&file, member)?.bytes())
}

#[cfg(test)]
mod disturbed_laws;
#[cfg(test)]
mod tests;
