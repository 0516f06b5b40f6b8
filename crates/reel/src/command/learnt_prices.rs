//! What a server has learnt about the cost of its members, over restarts.
//!
//! A file beside a profile says how much the member was found to cost, as a part of the price of
//! that profile. It is written every minute if that has changed by 5 %, and when the server ends. A
//! new profile makes it invalid. It saves minutes of learning, so nothing fails for lack of it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reel_disk::Disks;
use reel_disk::limits::PROFILE_BYTES_MAX;
use reel_qos::DiskPrice;
use reel_rt::open_regular;
use serde::{Deserialize, Serialize};

use crate::new_file::NewFile;

/// How often what was learnt is compared with the files.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// How long the end of the server waits for the last write.
const END_TIME: Duration = Duration::from_secs(1);

/// A change that is worth writing, in percent.
const CHANGE_PERCENT: u32 = 5;

/// The profile that a member's price is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsedProfile {
    pub(super) member: usize,
    /// When it was measured, which tells it from another.
    pub(super) measured_unix_s: u64,
}

/// The thread that writes the files.
pub(super) struct LearntPrices {
    /// The thread writes once more and ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// A file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    measured_unix_s: u64,
    /// What was found, in thousandths of the price of the profile.
    permille: u32,
}

impl LearntPrices {
    /// Starts the thread.
    pub(super) fn start(dir: &Path, disks: Disks, used: Vec<UsedProfile>) -> io::Result<LearntPrices> {
        let (stop, stopped) = channel::<()>();
        let mut files: Vec<LearntFile> = used.into_iter().map(|used| LearntFile::new(dir, used)).collect();
        let mut keep = move || files.iter_mut().for_each(|file| file.keep(&disks));
        let run = move || {
            while stopped.recv_timeout(KEEP_EVERY) == Err(RecvTimeoutError::Timeout) {
                keep();
            }
            keep();
        };
        let thread = thread::Builder::new().name("reel-prices".to_owned()).spawn(run)?;
        Ok(LearntPrices { stop, thread })
    }

    /// Writes once more and ends the thread, but does not wait for a file system that does not
    /// answer.
    pub(super) fn stop(self) {
        drop(self.stop);
        let until = Instant::now() + END_TIME;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What was learnt of the member with this profile, in thousandths of its price; 1000 if nothing
/// was.
pub(super) fn load(dir: &Path, used: &UsedProfile) -> u32 {
    match read(&path_of(dir, used.member)) {
        Ok(record) if record.measured_unix_s == used.measured_unix_s => record.permille,
        Ok(_) => 1000,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 1000,
        Err(error) => {
            tracing::warn!("what was learnt about the price of member {} is not used: {error}", used.member);
            1000
        }
    }
}

/// The file of one member.
struct LearntFile {
    path: PathBuf,
    used: UsedProfile,
    /// As the file says, or would say.
    permille: u32,
    has_failed: bool,
}

impl LearntFile {
    fn new(dir: &Path, used: UsedProfile) -> LearntFile {
        let permille = load(dir, &used);
        LearntFile { path: path_of(dir, used.member), used, permille, has_failed: false }
    }

    /// Writes the file if enough has changed.
    fn keep(&mut self, disks: &Disks) {
        let member = self.used.member;
        let permille = permille(disks.price(member), disks.measured_price(member).price);
        if permille.abs_diff(self.permille) * 100 <= self.permille.max(permille) * CHANGE_PERCENT {
            return;
        }
        let record = Record { measured_unix_s: self.used.measured_unix_s, permille };
        match write(&self.path, &record) {
            Ok(()) => (self.permille, self.has_failed) = (permille, false),
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                tracing::warn!("what was learnt about the price of member {member} is not kept: {error}");
            }
            Err(_) => {}
        }
    }
}

fn path_of(dir: &Path, member: usize) -> PathBuf {
    dir.join(format!("profile-{member}.learnt.toml"))
}

/// A price in thousandths of another. Both parts of a price are corrected by one factor.
fn permille(found: DiskPrice, measured: DiskPrice) -> u32 {
    let (found_ns, measured_ns) = (found.read_ns(1 << 20), measured.read_ns(1 << 20));
    let permille = u128::from(found_ns) * 1000 / u128::from(measured_ns.max(1));
    // A factor is 8 at most.
    u32::try_from(permille).unwrap_or(u32::MAX).min(100_000)
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    let fields = toml::to_string(record).map_err(io::Error::other)?;
    let mut file = NewFile::create(path, true)?;
    write!(
        file,
        "# What a running server found reads of this member to cost, in thousandths of the price of its profile.\n{fields}"
    )?;
    file.publish()
}

fn read(path: &Path) -> io::Result<Record> {
    let mut text = String::new();
    open_regular(path)?.take(PROFILE_BYTES_MAX as u64).read_to_string(&mut text)?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        io::Error::new(io::ErrorKind::InvalidData, error.message().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: UsedProfile = UsedProfile { member: 2, measured_unix_s: 1_700_000_000 };

    #[test]
    fn what_was_learnt_belongs_to_one_profile() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(load(dir.path(), &USED), 1000, "nothing was learnt");
        let record = Record { measured_unix_s: USED.measured_unix_s, permille: 350 };
        write(&path_of(dir.path(), 2), &record).expect("it is written");
        assert_eq!(load(dir.path(), &USED), 350);
        assert_eq!(load(dir.path(), &UsedProfile { measured_unix_s: 1_700_000_001, ..USED }), 1000);
        assert_eq!(load(dir.path(), &UsedProfile { member: 1, ..USED }), 1000);
    }

    #[test]
    fn a_damaged_file_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        for text in [
            "",
            "permille = -1",
            "permille = 1\nmeasured_unix_s = 1\nmore = 1",
            "\u{fffd}",
            "permille = 5000000000",
        ] {
            std::fs::write(path_of(dir.path(), 2), text).expect("it is written");
            assert_eq!(load(dir.path(), &USED), 1000, "{text:?}");
        }
    }

    #[test]
    fn a_price_is_a_part_of_another() {
        let price = DiskPrice { read_request_ns: 20_000_000, read_mib_ns: 4_000_000, ..DiskPrice::FREE };
        assert_eq!(permille(price.times(0.25), price), 250);
        assert_eq!(permille(price, DiskPrice::FREE), 100_000, "bounded");
    }
}
