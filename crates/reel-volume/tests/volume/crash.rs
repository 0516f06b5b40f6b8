//! Crashes between any two writes. Writes that were not synced are lost in part, in any order, torn
//! at sectors. Any remaining image opens, and holds either the old or the new titles, complete.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reel_disk::{Fault, Faults};
use reel_qos::Class;
use reel_volume::limits::WATCH_NS;
use reel_volume::{MemberState, OpenOptions, RepairOptions, Replacement, Volume, WriteObserver};

use crate::volumes::{Scratch, assert_all_right, bytes_of, open_options, publish, title_of};

const SECTOR: usize = 512;

type Titles = BTreeSet<String>;

/// Every write, sync and answer of the members, in order.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<Event>>,
    directory: PathBuf,
    /// The member that has been replaced. Writes to it go to the disk after the last member.
    replaced: Mutex<Option<usize>>,
    members: usize,
}

enum Event {
    Write {
        member: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Sync {
        member: usize,
    },
    Done {
        name: u64,
    },
    /// From now on, `volume.toml` has this content.
    Manifest(String),
    /// From now on, the titles may be these.
    Begun(Titles),
    /// From now on, they are.
    Acknowledged(Titles),
}

impl WriteObserver for Recorder {
    fn write(&self, member: usize, offset: u64, bytes: &[u8]) -> u64 {
        self.push(Event::Write { member: self.disk_of(member), offset, bytes: bytes.to_vec() })
    }

    fn sync(&self, member: usize) -> u64 {
        self.push(Event::Sync { member: self.disk_of(member) })
    }

    fn replaced(&self, member: usize) {
        *self.replaced.lock().unwrap() = Some(member);
    }

    fn manifest(&self) {
        self.push(Event::Manifest(std::fs::read_to_string(self.directory.join("volume.toml")).unwrap()));
    }

    fn done(&self, name: u64, succeeded: bool) {
        if succeeded {
            self.push(Event::Done { name });
        }
    }
}

impl Recorder {
    fn disk_of(&self, member: usize) -> usize {
        if *self.replaced.lock().unwrap() == Some(member) { self.members } else { member }
    }

    fn push(&self, event: Event) -> u64 {
        let mut events = self.events.lock().unwrap();
        events.push(event);
        events.len() as u64 - 1
    }

    fn titles(&self, event: impl Fn(Titles) -> Event, titles: &[&str]) {
        self.push(event(titles.iter().map(|title| (*title).to_owned()).collect()));
    }
}

/// A small random number generator, so that a failing case can be identified by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }
}

/// A volume before a session, and the events of the session.
struct Session {
    directory: PathBuf,
    manifest: String,
    /// The members, and the file that replaces one of them.
    before: Vec<Option<Vec<u8>>>,
    events: Vec<Event>,
    titles_before: Titles,
}

fn small(members: usize) -> Scratch {
    Scratch::with(members, |options| {
        options.catalogue_bytes = Some(64 << 10);
        options.size_bytes = members as u64 * ((1 << 20) + (400 << 10));
    })
}

fn record(
    scratch: &Scratch,
    members: usize,
    change: impl FnOnce(&mut OpenOptions),
    work: impl FnOnce(&Volume, &Recorder),
) -> Session {
    let mut before: Vec<_> = (0..members).map(|index| std::fs::read(scratch.member(index)).ok()).collect();
    let bytes = before.iter().flatten().map(Vec::len).max().unwrap_or(0);
    before.push(Some(vec![0; bytes]));
    let manifest = std::fs::read_to_string(scratch.path().join("volume.toml")).unwrap();
    let directory = scratch.path().to_owned();
    let recorder = Arc::new(Recorder { directory: directory.clone(), members, ..Recorder::default() });
    let mut options = OpenOptions { observer: Some(recorder.clone()), ..open_options() };
    change(&mut options);
    let volume = Volume::open(scratch.path(), options).unwrap();
    let titles_before = volume.titles().iter().map(|title| title.id.clone()).collect();
    work(&volume, &recorder);
    drop(volume);
    let events = std::mem::take(&mut *recorder.events.lock().unwrap());
    Session { directory, manifest, before, events, titles_before }
}

impl Session {
    /// An image that a crash before event `at` may leave.
    fn image(&self, at: usize, random: &mut Random) -> Vec<Option<Vec<u8>>> {
        let mut image = self.before.clone();
        // When each write and sync was answered, and until when the writes of each member are
        // durable: those that were answered before an answered sync was submitted.
        let mut answered = vec![usize::MAX; self.events.len()];
        let mut synced = vec![0; image.len()];
        for (moment, event) in self.events[..at].iter().enumerate() {
            let Event::Done { name } = event else { continue };
            answered[*name as usize] = moment;
            if let Event::Sync { member } = &self.events[*name as usize] {
                synced[*member] = synced[*member].max(*name as usize);
            }
        }
        let mut pending = Vec::new();
        for (name, event) in self.events[..at].iter().enumerate() {
            let Event::Write { member, offset, bytes } = event else { continue };
            if answered[name] < synced[*member] {
                if let Some(image) = &mut image[*member] {
                    image[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
                }
            } else {
                pending.push((*member, *offset as usize, bytes));
            }
        }
        // The other writes arrived in any order, completely, in part or not at all.
        while !pending.is_empty() {
            let (member, offset, bytes) = pending.swap_remove(random.below(pending.len()));
            let Some(image) = &mut image[member] else { continue };
            let kept: Box<dyn FnMut(usize) -> bool> = match random.below(4) {
                0 => Box::new(|_| false),
                1 => {
                    let end = random.below(bytes.len() / SECTOR + 1);
                    Box::new(move |sector| sector < end)
                }
                2 => {
                    let mut random = Random(random.0 | 1);
                    Box::new(move |_| random.below(2) == 0)
                }
                _ => Box::new(|_| true),
            };
            let mut kept = kept;
            for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
                if kept(sector) {
                    let from = offset + sector * SECTOR;
                    image[from..from + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        image
    }

    /// Whether nothing was written but the owner record, in the third block of members.
    fn is_without_changes(&self) -> bool {
        self.events.iter().all(|event| match event {
            Event::Write { offset, bytes, .. } => (*offset, bytes.len()) == (8192, 4096),
            Event::Done { .. } => true,
            _ => false,
        })
    }

    /// The sets of titles that are right after a crash before event `at`.
    fn allowed(&self, at: usize) -> Vec<Titles> {
        let mut allowed = vec![self.titles_before.clone()];
        for event in &self.events[..at] {
            match event {
                Event::Begun(titles) => allowed.push(titles.clone()),
                Event::Acknowledged(titles) => allowed = vec![titles.clone()],
                _ => {}
            }
        }
        allowed
    }

    /// The content of `volume.toml` before event `at`.
    fn manifest(&self, at: usize) -> &str {
        let said = self.events[..at].iter().rev().find_map(|event| match event {
            Event::Manifest(text) => Some(text.as_str()),
            _ => None,
        });
        said.unwrap_or(&self.manifest)
    }

    /// Writes an image to a directory.
    fn lay_out(&self, at: usize, image: &[Option<Vec<u8>>], place: &Path) {
        for (index, bytes) in image.iter().enumerate() {
            let path = place.join(format!("member-{index}.reel"));
            match bytes {
                Some(bytes) => std::fs::write(path, bytes).unwrap(),
                None => {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
        let here = |path: &Path| path.to_str().unwrap().to_owned();
        let manifest = self.manifest(at).replace(&here(&self.directory), &here(place));
        std::fs::write(place.join("volume.toml"), manifest).unwrap();
    }

    /// Crashes before every `step`th event, and `more` times anywhere.
    fn try_crashes(&self, step: usize, more: usize, seed: u64, lose_one: bool) {
        self.try_crashes_and(step, more, seed, lose_one, |_, _| {});
    }

    /// As [`Session::try_crashes`], and calls `then` for each image.
    fn try_crashes_and(
        &self,
        step: usize,
        more: usize,
        seed: u64,
        lose_one: bool,
        then: impl Fn(&Path, &str),
    ) {
        let place = in_memory();
        let mut random = Random(seed);
        let moments: Vec<usize> = (0..=self.events.len()).step_by(step).collect();
        for case in 0..moments.len() + more {
            let at = moments.get(case).copied().unwrap_or_else(|| random.below(self.events.len() + 1));
            let case_seed = random.0;
            let mut image = self.image(at, &mut random);
            let members = image.len() - 1;
            let missing: Vec<usize> = (0..members).filter(|index| image[*index].is_none()).collect();
            if lose_one && missing.is_empty() && random.below(2) == 0 {
                let lost = random.below(members);
                image[lost] = None;
            }
            self.lay_out(at, &image, place.path());
            let context = format!("crash before event {at} of {}, seed {case_seed:#x}", self.events.len());
            let titles = opened(place.path(), &context, self.allowed(at));
            // Opened again, in the state that the first opening left.
            opened(place.path(), &context, vec![titles]);
            then(place.path(), &context);
        }
    }
}

/// Hundreds of images are written and opened. In a file system in memory none of that waits for a
/// disk.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Opens, checks everything, and returns the titles.
fn opened(place: &Path, context: &str, allowed: Vec<Titles>) -> Titles {
    let volume = Volume::open(place, open_options()).unwrap_or_else(|error| panic!("{context}: {error}"));
    let titles: Titles = volume.titles().iter().map(|title| title.id.clone()).collect();
    assert!(allowed.contains(&titles), "{context}: {titles:?} is none of {allowed:?}");
    assert_all_right(&volume);
    let status = volume.status();
    let slots: u64 =
        volume.titles().iter().flat_map(|title| title.extents().collect::<Vec<_>>()).map(|e| e.slots).sum();
    let used = slots * volume.geometry().stripe_bytes() as u64;
    assert_eq!(status.free_bytes + used, status.capacity_bytes, "{context}: space is missing");
    titles
}

#[derive(Clone, Copy)]
enum Step {
    Publish,
    PublishOver,
    Rename,
    /// One of its objects is replaced, and one is added.
    ReplaceObjects,
    Remove,
}

/// Publishes, replaces, removes, reuses the space, abandons a writer.
fn busy(volume: &Volume, recorder: &Recorder) {
    let steps: [(&str, Step, &[&str]); 8] = [
        ("b", Step::Publish, &["a", "b"]),
        ("a", Step::Remove, &["b"]),
        ("c", Step::Publish, &["b", "c"]),
        ("c", Step::PublishOver, &["b", "c"]),
        ("c", Step::Rename, &["b", "c"]),
        ("c", Step::ReplaceObjects, &["b", "c"]),
        ("b", Step::Remove, &["c"]),
        ("d", Step::Publish, &["c", "d"]),
    ];
    for (number, (id, step, after)) in steps.into_iter().enumerate() {
        let title = || title_of(volume, id, &[60_000 + 30_000 * number, 10]);
        let title = matches!(step, Step::Publish | Step::PublishOver).then(title);
        recorder.titles(Event::Begun, after);
        match (step, title) {
            (Step::Publish, Some(title)) => volume.publish(title),
            (Step::PublishOver, Some(title)) => volume.publish_over(title),
            (Step::ReplaceObjects, _) => {
                let mut new = title_of(volume, id, &[10, 50_000, 40_000]).objects;
                new.remove(0);
                volume.replace_objects(&volume.title(id).unwrap(), new)
            }
            (Step::Rename, _) => volume.rename(id, "another name"),
            _ => volume.remove(id),
        }
        .unwrap();
        recorder.titles(Event::Acknowledged, after);
        let mut abandoned = volume.writer(Class::APERIODIC).unwrap();
        abandoned.write(&bytes_of("abandoned", number, 30_000)).unwrap();
    }
}

fn with_title_a(members: usize) -> Scratch {
    let scratch = small(members);
    publish(&scratch.open(), "a", &[90_000, 20]);
    scratch
}

#[test]
fn any_crash_leaves_the_old_or_the_new() {
    let scratch = with_title_a(3);
    let session = record(&scratch, 3, |_| {}, busy);
    assert!(session.events.len() > 150, "{}", session.events.len());
    session.try_crashes(1, 40, 0x5eed_0001, false);
}

#[test]
fn any_crash_and_the_loss_of_any_member_leaves_the_old_or_the_new() {
    let scratch = with_title_a(4);
    let session = record(&scratch, 4, |_| {}, busy);
    session.try_crashes(3, 40, 0x5eed_0002, true);
}

#[test]
fn any_crash_while_a_member_is_missing_leaves_the_old_or_the_new() {
    let scratch = with_title_a(3);
    std::fs::remove_file(scratch.member(1)).unwrap();
    let session = record(&scratch, 3, |_| {}, busy);
    session.try_crashes(3, 40, 0x5eed_0003, false);
}

#[test]
fn any_crash_while_a_member_fails_leaves_the_old_or_the_new() {
    let scratch = with_title_a(4);
    let session = record(&scratch, 4, |_| {}, |_, _| {});
    assert!(session.is_without_changes(), "only the owner record is written when a settled volume is opened");
    let mut options = open_options();
    let faults = Faults::default();
    options.disks.faults = Some(faults.clone());
    let session = record(
        &scratch,
        4,
        |taken| taken.disks = std::mem::take(&mut options.disks),
        |volume, recorder| {
            let title = title_of(volume, "b", &[60_000]);
            faults.inject(2, Fault::FailWrites);
            recorder.titles(Event::Begun, &["a", "b"]);
            volume.publish(title).unwrap();
            recorder.titles(Event::Acknowledged, &["a", "b"]);
            assert_eq!(volume.counters().members_dropped.get(), 1);
            let title = title_of(volume, "c", &[60_000]);
            recorder.titles(Event::Begun, &["a", "b", "c"]);
            volume.publish(title).unwrap();
            recorder.titles(Event::Acknowledged, &["a", "b", "c"]);
        },
    );
    session.try_crashes(1, 20, 0x5eed_0004, false);
}

/// Turns the owner records of an image into those of another machine. Those of some members are
/// damaged. Returns whether one is left of a session of which none says that it is over.
fn of_another_host(image: &mut [Option<Vec<u8>>], is_damaged: impl Fn(usize) -> bool) -> bool {
    let (mut begun, mut over) = (BTreeSet::new(), BTreeSet::new());
    for (member, bytes) in image.iter_mut().enumerate() {
        let Some(record) = bytes.as_mut().and_then(|bytes| bytes.get_mut(8192..8192 + 4096)) else {
            continue;
        };
        if !record.starts_with(b"REELOWN\n") {
            continue;
        }
        if is_damaged(member) {
            record[256..512].fill(0x5a);
            continue;
        }
        let sessions = if record[14] & 1 == 0 { &mut begun } else { &mut over };
        sessions.insert(record[32..48].to_vec());
        // The machine, its start, and its name space of process numbers.
        record[64..96].iter_mut().for_each(|byte| *byte = !*byte);
        record[8..12].fill(0);
        let sum = reel_code::crc32c(record);
        record[8..12].copy_from_slice(&sum.to_le_bytes());
    }
    !begun.is_subset(&over)
}

/// The machine crashed, and another one opens the volume: it cannot know that the first one is
/// gone, so it watches the records first. The images wait side by side.
#[test]
fn another_host_waits_after_a_crash_and_then_finds_the_old_or_the_new() {
    let scratch = with_title_a(4);
    let session = record(&scratch, 4, |_| {}, busy);
    let begun = session.events.iter().position(|event| matches!(event, Event::Begun(_))).unwrap();
    let mut random = Random(0x5eed_000a);
    let waited = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for case in 0..24 {
            let at = begun + random.below(session.events.len() - begun);
            let context = format!("crash before event {at}, seed {:#x}", random.0);
            let mut image = session.image(at, &mut random);
            let is_open = of_another_host(&mut image, |member| case % 2 == 1 && member % 2 == 0);
            let (session, waited) = (&session, &waited);
            scope.spawn(move || {
                let place = in_memory();
                session.lay_out(at, &image, place.path());
                let now = std::time::Instant::now();
                let titles = opened(place.path(), &context, session.allowed(at));
                let ns = now.elapsed().as_nanos() as u64;
                assert!(!is_open || ns > WATCH_NS, "{context}: it took the volume over at once");
                waited.fetch_add(usize::from(is_open), std::sync::atomic::Ordering::Relaxed);
                // The volume is this machine's now.
                opened(place.path(), &context, vec![titles]);
            });
        }
    });
    assert!(waited.into_inner() >= 12);
}

#[test]
fn a_crash_during_crash_recovery_leaves_the_same() {
    let scratch = with_title_a(3);
    let session = record(&scratch, 3, |_| {}, busy);
    let mut random = Random(0x5eed_0005);
    let mut cleaned = 0;
    while cleaned < 4 {
        let at = random.below(session.events.len());
        let image = session.image(at, &mut random);
        let place = Scratch { directory: in_memory() };
        session.lay_out(at, &image, place.path());
        let second = record(&place, 3, |_| {}, |_, _| {});
        if second.is_without_changes() {
            continue;
        }
        cleaned += 1;
        assert!(session.allowed(at).contains(&second.titles_before));
        // Recovery has to decide when some members have the old copy and others the new one.
        second.try_crashes(2, 0, random.0, false);
    }
}

/// Replaces member 1 and fills its replacement, with titles published and removed before, between
/// and after.
fn replace_and_rebuild(volume: &Volume, recorder: &Recorder, replace_healthy: bool) {
    let steps = |id: &str, after: &[&str]| {
        let title = title_of(volume, id, &[70_000, 30]);
        recorder.titles(Event::Begun, after);
        volume.publish(title).unwrap();
        recorder.titles(Event::Acknowledged, after);
    };
    let path = recorder.directory.join(format!("member-{}.reel", recorder.members));
    volume.replace(&Replacement { replace_healthy, ..Replacement::new(1, path) }).unwrap();
    steps("b", &["a", "b"]);
    let mut calls = 0;
    let stopped = volume.rebuild(1, RepairOptions::default(), &mut |_| {
        calls += 1;
        calls < 2
    });
    assert!(!stopped.unwrap().complete);
    recorder.titles(Event::Begun, &["b"]);
    volume.remove("a").unwrap();
    recorder.titles(Event::Acknowledged, &["b"]);
    steps("c", &["b", "c"]);
    assert!(volume.rebuild(1, RepairOptions::default(), &mut |_| true).unwrap().complete);
    steps("d", &["b", "c", "d"]);
}

/// Completes what the crash interrupted: a member that was being rebuilt is rebuilt, one that was
/// not replaced yet is replaced, and then nothing is wrong.
fn made_whole(place: &Path, context: &str, members: usize) {
    let volume = Volume::open(place, open_options()).unwrap();
    let state = volume.findings()[1].state;
    match state {
        MemberState::Rebuilding | MemberState::Stale => {
            volume
                .rebuild(1, RepairOptions::default(), &mut |_| true)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        // Foreign: it is listed in `volume.toml`, but not expected by the catalogue yet.
        MemberState::Missing | MemberState::Foreign => {
            // The new file may be partly formatted by now; `force` must not be needed.
            let path = place.join(format!("member-{members}.reel"));
            volume.replace(&Replacement::new(1, path)).unwrap_or_else(|error| panic!("{context}: {error}"));
            volume.rebuild(1, RepairOptions::default(), &mut |_| true).unwrap();
        }
        _ => assert!(state.in_use(), "{context}: {state}"),
    }
    let report = volume.check(&mut |_| true);
    assert!(report.is_clean(), "{context}: {report:?}");
    drop(volume);
    let volume = Volume::open(place, open_options()).unwrap();
    let states: Vec<_> = volume.findings().iter().map(|finding| finding.state).collect();
    assert!(states.iter().all(|state| state.in_use()), "{context}: {states:?}");
    drop(volume);
    // Any one member may be lost again.
    std::fs::remove_file(place.join("member-2.reel")).unwrap();
    assert_all_right(&Volume::open(place, open_options()).unwrap());
}

#[test]
fn any_crash_while_a_member_in_use_is_replaced_and_rebuilt_leaves_one_of_the_two() {
    let scratch = with_title_a(3);
    let session = record(&scratch, 3, |_| {}, |volume, recorder| replace_and_rebuild(volume, recorder, true));
    assert!(session.events.len() > 100, "{}", session.events.len());
    session.try_crashes_and(1, 30, 0x5eed_0006, false, |place, context| made_whole(place, context, 3));
}

#[test]
fn any_crash_while_a_late_member_is_brought_back_can_be_continued() {
    let scratch = with_title_a(4);
    let aside = scratch.path().join("aside");
    std::fs::rename(scratch.member(1), &aside).unwrap();
    let volume = scratch.open();
    volume.remove("a").unwrap();
    publish(&volume, "b", &[70_000, 30]);
    publish(&volume, "a", &[90_000, 20]);
    drop(volume);
    std::fs::rename(&aside, scratch.member(1)).unwrap();
    let work = |volume: &Volume, recorder: &Recorder| {
        let publish = |id: &str, after: &[&str]| {
            let title = title_of(volume, id, &[70_000, 30]);
            recorder.titles(Event::Begun, after);
            volume.publish(title).unwrap();
            recorder.titles(Event::Acknowledged, after);
        };
        publish("c", &["a", "b", "c"]);
        let stopped = volume.catch_up(1, RepairOptions::default(), &mut |_| false);
        assert!(!stopped.unwrap().complete);
        publish("d", &["a", "b", "c", "d"]);
        assert!(volume.catch_up(1, RepairOptions::default(), &mut |_| true).unwrap().complete);
    };
    let session = record(&scratch, 4, |_| {}, work);
    session.try_crashes_and(4, 10, 0x5eed_0009, false, |place, context| {
        let volume = Volume::open(place, open_options()).unwrap();
        for member in volume.late() {
            volume.catch_up(member, RepairOptions::default(), &mut |_| true).unwrap();
        }
        drop(volume);
        made_whole(place, context, 4);
    });
}

#[test]
fn any_crash_while_a_lost_member_is_replaced_and_rebuilt_can_be_continued() {
    let scratch = with_title_a(4);
    std::fs::remove_file(scratch.member(1)).unwrap();
    let session =
        record(&scratch, 4, |_| {}, |volume, recorder| replace_and_rebuild(volume, recorder, false));
    session.try_crashes_and(1, 30, 0x5eed_0007, false, |place, context| made_whole(place, context, 4));
}
