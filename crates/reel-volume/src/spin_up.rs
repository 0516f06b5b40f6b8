//! The disks of a volume that is opened spin up together, and it is said which are waited for.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use reel_disk::limits::WAKE_MAX_NS;
use reel_disk::{OpenMode, open_plain};

use crate::finding::MEMBERS_LOG;
use crate::limits::{BLOCK_BYTES, SPIN_UP_SHOWN_NS};

/// Reads a block at each of these paths, all at once, and waits for the answers for as long as
/// disks may take to spin up. Returns those that have not answered. What else is wrong with a
/// member is found when it is opened.
pub(crate) fn spin_up(paths: &[PathBuf]) -> Vec<&Path> {
    let begun = Instant::now();
    let patience = Duration::from_nanos(SPIN_UP_SHOWN_NS);
    let mut has_waited = false;
    let silent = await_all(paths, read_block, patience, |waiting| {
        has_waited = true;
        let members = listed(waiting);
        tracing::info!(
            target: MEMBERS_LOG, %members,
            "waiting for members to answer: their disks may be spinning up, which takes up to 30 s"
        );
    });
    let waited_s = begun.elapsed().as_secs();
    if !silent.is_empty() {
        let members = listed(&silent);
        tracing::warn!(target: MEMBERS_LOG, %members, waited_s, "members do not answer; opening the volume without them");
    } else if has_waited {
        tracing::info!(target: MEMBERS_LOG, waited_s, "all members answer");
    }
    silent
}

/// Calls `read` for all paths at once. `report` is called once if some have not answered after
/// `patience`, with those. Returns those that have not answered in the end.
fn await_all<'a>(
    paths: &'a [PathBuf],
    read: impl Fn(&Path) + Send + Sync + 'static,
    patience: Duration,
    report: impl FnOnce(&[&'a Path]),
) -> Vec<&'a Path> {
    let (read, (sender, answers)) = (Arc::new(read), channel());
    let mut waiting: Vec<Option<&Path>> = vec![None; paths.len()];
    for (number, path) in paths.iter().enumerate() {
        let (read, sender, own) = (Arc::clone(&read), sender.clone(), path.clone());
        let thread = std::thread::Builder::new().name("reel-spin-up".to_owned());
        // Without a thread, this member spins up when it is opened.
        let spawned = thread.spawn(move || {
            read(&own);
            let _ = sender.send(number);
        });
        if spawned.is_ok() {
            waiting[number] = Some(path.as_path());
        }
    }
    let mut report = Some(report);
    let mut until = Instant::now() + patience;
    while waiting.iter().any(Option::is_some) {
        match answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(number) => waiting[number] = None,
            Err(_) => {
                let Some(report) = report.take() else { break };
                report(&waiting.iter().flatten().copied().collect::<Vec<_>>());
                until += Duration::from_nanos(WAKE_MAX_NS);
            }
        }
    }
    waiting.into_iter().flatten().collect()
}

/// Reads the first block from the disk, whatever the page cache has.
fn read_block(path: &Path) {
    let Ok(file) = open_plain(path, OpenMode::ReadOnly) else { return };
    // Advice cannot fail in a way that matters: the file is a file.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let _ = file.read_at(&mut [0; BLOCK_BYTES], 0);
}

fn listed(paths: &[&Path]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn members_that_do_not_answer_at_once_are_named_and_waited_for() {
        let paths: Vec<PathBuf> = ["quick", "asleep"].map(PathBuf::from).to_vec();
        let (wake, sleeps) = channel::<()>();
        let sleeps = Mutex::new(sleeps);
        let read = move |path: &Path| {
            if path.ends_with("asleep") {
                let _ = sleeps.lock().expect("one thread locks it").recv();
            }
        };
        let mut named = String::new();
        let silent = await_all(&paths, read, Duration::from_millis(1), |waiting| {
            named = listed(waiting);
            drop(wake);
        });
        assert!(silent.is_empty() && named.ends_with("asleep"), "{named}");
    }

    #[test]
    fn members_that_answer_are_not_named_and_missing_ones_do_not_matter() {
        let none = [PathBuf::from("/nonexistent/member")];
        let silent = await_all(&none, read_block, Duration::from_mins(1), |_| panic!("it answers"));
        assert!(silent.is_empty());
    }
}
