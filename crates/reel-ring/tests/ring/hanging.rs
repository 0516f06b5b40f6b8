//! Files whose operations hang in the kernel, beside files that answer.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reel_arena::{Arena, ArenaConfig};
use reel_ring::{DriverChoice, Op, Ring, RingConfig};
use reel_testkit::ring_or_skip;

/// More than one kernel worker for each processor of a large machine.
const HANGING: usize = 64;

/// A file system in a file, mounted and frozen: writes to it hang. It is thawed and unmounted with
/// its value.
struct Frozen(PathBuf);

impl Frozen {
    /// Files in a frozen ext4; `None` if this user or kernel has none.
    fn with_files(directory: &Path) -> Option<(Frozen, Vec<Arc<OwnedFd>>)> {
        let (image, place) = (directory.join("image"), directory.join("mounted"));
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        run("mkfs.ext4", &["-q", "-F"], &[&image])?;
        run("mount", &["-o", "loop"], &[&image, &place])?;
        let frozen = Frozen(place);
        let open = |number| File::create(frozen.0.join(format!("{number}"))).unwrap();
        let files = (0..HANGING).map(|number| Arc::new(open(number).into())).collect();
        run("fsfreeze", &["--freeze"], &[&frozen.0])?;
        Some((frozen, files))
    }

    fn thaw(&self) {
        run("fsfreeze", &["--unfreeze"], &[&self.0]);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
        let begun = Instant::now();
        while run("umount", &[], &[&self.0]).is_none() && begun.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn run(command: &str, options: &[&str], paths: &[&Path]) -> Option<()> {
    let output = Command::new(command).args(options).args(paths).output().ok()?;
    output.status.success().then_some(())
}

/// The kernel runs what it cannot do at once on workers, of which a ring has few. A member whose
/// operations hang held all of them, and healthy members of the same ring waited.
#[test]
fn files_that_hang_keep_no_other_file_waiting() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some((frozen, files)) = Frozen::with_files(directory.path()) else {
        println!("skipped: no file system can be mounted and frozen here");
        return;
    };
    let shape =
        ArenaConfig { buffer_bytes: 4096, buffer_count: HANGING, cells_per_buffer: 1, huge_pages: false };
    let arena = Arena::new(shape).unwrap();
    let config = RingConfig { entries: 256, driver: DriverChoice::Uring };
    let Some(mut ring) = ring_or_skip(Ring::new(config, Some(&arena))) else { return };
    for (number, file) in files.into_iter().enumerate() {
        let lease = arena.take(4096).unwrap().freeze();
        ring.push(number as u64, Op::Write { file, offset: 0, lease });
    }
    let healthy: OwnedFd = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap().into();
    ring.push(HANGING as u64, Op::Sync { file: Arc::new(healthy) });
    let (mut done, begun) = (Vec::new(), Instant::now());
    while done.is_empty() && begun.elapsed() < Duration::from_secs(120) {
        ring.wait(Some(Duration::from_secs(1)), &mut done).unwrap();
    }
    let tokens: Vec<u64> = done.iter().map(|done| done.token).collect();
    frozen.thaw();
    drop(ring);
    assert_eq!(tokens, [HANGING as u64]);
}
