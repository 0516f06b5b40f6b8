//! Members that do not answer writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use reel_disk::{Fault, Faults};
use reel_qos::Class;
use reel_volume::{
    MemberState, MemberUse, OpenOptions, RepairOptions, Replacement, Role, Volume, VolumeError, WriteObserver,
};

use crate::volumes::devices::{LoopDevice, may_make_devices, run};
use crate::volumes::{Scratch, assert_all_right, bytes_of, open_options, publish, title_of, try_title_of};

/// Far longer than an answer takes, and shorter than a hanging write lasts in these tests.
const ANSWER_TIME: Duration = Duration::from_secs(20);

fn open_with_faults(scratch: &Scratch, change: impl FnOnce(&mut OpenOptions)) -> (Volume, Faults) {
    let mut options = open_options();
    let faults = Faults::default();
    options.disks.faults = Some(faults.clone());
    change(&mut options);
    (Volume::open(scratch.path(), options).unwrap(), faults)
}

/// Runs `work` on a thread of its own. `None` if it has not returned in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(ANSWER_TIME).ok()
}

#[test]
fn no_status_call_waits_for_a_commit_that_hangs() {
    let scratch = Scratch::new(4);
    let (volume, faults) = open_with_faults(&scratch, |_| {});
    publish(&volume, "before", &[300_000]);
    let title = title_of(&volume, "film", &[100_000]);
    let before = volume.status();
    faults.inject(2, Fault::HangWrites);
    let own = volume.clone();
    let publishing = std::thread::spawn(move || own.publish(title));
    while volume.disks().stats().iter().all(|member| member.in_device == 0) {
        std::thread::yield_now();
    }
    let own = volume.clone();
    let status = in_time(move || {
        own.look_for_members();
        own.ensure_free(1).unwrap();
        drop(own.writer(Class::APERIODIC).unwrap());
        assert_eq!((own.titles().len(), own.rebuilding().len()), (1, 0));
        assert!(own.title("film").is_none() && own.counters().commits.get() > 0);
        own.status()
    });
    faults.clear(2);
    publishing.join().unwrap().unwrap();
    let status = status.unwrap();
    assert_eq!((status.commit, status.read_only), (before.commit, None), "the one in force");
    assert!(status.members.iter().all(|member| member.state.in_use()));
    assert_eq!(volume.status().commit.generation, before.commit.generation + 1);
    assert_all_right(&volume);
}

/// A volume whose members may leave writes unanswered for a second.
fn impatient(scratch: &Scratch) -> (Volume, Faults) {
    open_with_faults(scratch, |options| options.write_patience_ns = Some(1_000_000_000))
}

#[test]
fn a_member_that_does_not_answer_a_commit_is_dropped_and_the_commit_continues() {
    let scratch = Scratch::new(4);
    let (volume, faults) = impatient(&scratch);
    publish(&volume, "before", &[300_000]);
    let title = title_of(&volume, "film", &[100_000]);
    let epoch = volume.status().commit.epoch;
    faults.inject(2, Fault::HangWrites);
    volume.publish(title).unwrap();
    let status = volume.status();
    assert_eq!((status.commit.epoch, status.read_only), (epoch + 1, None));
    let finding = status.members[2].clone();
    assert_eq!(finding.state, MemberState::Failed);
    assert!(finding.text.contains("did not answer a write for 1 s"), "{finding}");
    assert_eq!(volume.counters().members_dropped.get(), 1);
    assert_all_right(&volume);
    // Its writes may still be carried out, and would overwrite what a rebuild writes.
    assert!(volume.health().unanswered_writes(2) > 0);
    let rebuild = |volume: &Volume| volume.rebuild(2, RepairOptions::default(), &mut |_| true);
    let text = rebuild(&volume).unwrap_err().to_string();
    assert!(text.contains("has not answered") && text.contains("could still overwrite"), "{text}");
    assert_eq!(volume.health().member(2), MemberUse::Out);
    faults.clear(2);
    assert!(rebuild(&volume).unwrap().complete);
    assert!(volume.check(&mut |_| true).is_clean());
    drop(volume);
    let volume = scratch.open();
    assert!(volume.findings().iter().all(|finding| finding.state == MemberState::Present));
    assert_all_right(&volume);
}

#[test]
fn a_writer_continues_without_a_member_that_does_not_answer() {
    let scratch = Scratch::new(4);
    let (volume, faults) = impatient(&scratch);
    let free = volume.free_bytes();
    faults.inject(1, Fault::HangWrites);
    publish(&volume, "film", &[900_000, 100]);
    assert_eq!(volume.health().member(1), MemberUse::Out);
    assert_all_right(&volume);
    // One that is given up drops the next member before its slots are free: that is one too many
    // to lose, so nothing more is written, and reads continue.
    volume.remove("film").unwrap();
    assert_eq!(volume.free_bytes(), free);
    let mut writer = volume.writer(Class::APERIODIC).unwrap();
    faults.inject(2, Fault::HangWrites);
    writer.write(&[7; 200_000]).unwrap();
    drop(writer);
    assert!(volume.status().read_only.unwrap().contains("member 2 did not answer a write"));
    faults.clear(1);
    faults.clear(2);
}

#[test]
fn members_that_cannot_be_spared_are_still_read_while_their_writes_hang() {
    let scratch = Scratch::new(4);
    let (volume, faults) = impatient(&scratch);
    publish(&volume, "before", &[700_000]);
    let title = title_of(&volume, "film", &[100_000]);
    (0..4).for_each(|member| faults.inject(member, Fault::HangWrites));
    assert!(matches!(volume.publish(title), Err(VolumeError::ReadOnly { .. })));
    let reason = volume.status().read_only.unwrap();
    assert!(
        reason.contains("did not answer a write") && reason.contains("open the volume again"),
        "{reason}"
    );
    assert_eq!(volume.health().lost(), 1);
    assert_all_right(&volume);
    assert!(matches!(try_title_of(&volume, "later", &[900_000]), Err(VolumeError::ReadOnly { .. })));
    (0..4).for_each(|member| faults.clear(member));
    drop(volume);
    let volume = scratch.open();
    assert_eq!(volume.titles().len(), 1);
    assert_all_right(&volume);
}

#[test]
fn a_member_whose_writes_hang_is_noticed_while_nothing_is_written() {
    let scratch = Scratch::new(4);
    let (volume, faults) = impatient(&scratch);
    faults.inject(3, Fault::HangWrites);
    let own = volume.clone();
    let noticed = in_time(move || {
        while own.health().writable(3) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    faults.clear(3);
    noticed.unwrap();
    publish(&volume, "film", &[100_000]);
    assert_all_right(&volume);
}

/// A mounted file system that is frozen: its reads are answered, and its writes hang in the kernel.
struct Frozen {
    place: PathBuf,
    _device: LoopDevice,
}

impl Frozen {
    /// With an empty file, and one as large as a member.
    fn new(directory: &Path) -> Frozen {
        let device = LoopDevice::over(&directory.join("image"), 64 << 20);
        let place = directory.join("mounted");
        std::fs::create_dir(&place).unwrap();
        run("mkfs.ext4", &["-q"], device.path());
        run("mount", &[device.path().to_str().unwrap()], &place);
        let frozen = Frozen { place, _device: device };
        std::fs::File::create(frozen.path("empty")).unwrap();
        std::fs::File::create(frozen.path("disk")).unwrap().set_len(16 << 20).unwrap();
        frozen
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // One that is thawed already is not an error.
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(&self.place).output();
        for _ in 0..100 {
            let unmounted = Command::new("umount").arg(&self.place).output();
            if unmounted.is_ok_and(|output| output.status.success()) {
                return;
            }
            // A thread that was given up may still have a file open.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A file without space, whose first write reserves it, and a device, whose first sync writes.
#[test]
fn a_replacement_on_a_disk_that_hangs_ends_and_the_volume_is_as_it_was() {
    if !may_make_devices() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let frozen = Frozen::new(directory.path());
    let over_frozen = LoopDevice::over(&frozen.path("disk"), 0);
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "film", &[700_000]);
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, _) = impatient(&scratch);
    let before = volume.status();
    run("fsfreeze", &["--freeze"], &frozen.place);
    let ended = [frozen.path("empty"), over_frozen.path().to_owned()].map(|path| {
        let own = volume.clone();
        in_time(move || own.replace(&Replacement::new(2, path)).map_err(|error| error.to_string()))
    });
    let status = volume.status();
    assert_all_right(&volume);
    let good = Replacement::new(2, scratch.path().join("new"));
    let replaced = volume.replace(&good).map(|finding| finding.state);
    run("fsfreeze", &["--unfreeze"], &frozen.place);
    for ended in ended {
        let text = ended.expect("it waits for ever").unwrap_err();
        assert!(text.contains("has not answered for") && text.contains("the volume is as it was"), "{text}");
    }
    assert_eq!((status.commit, status.read_only), (before.commit, None));
    assert_eq!(status.members[2], before.members[2]);
    assert_eq!(replaced.unwrap(), MemberState::Rebuilding);
    assert!(volume.rebuild(2, RepairOptions::default(), &mut |_| true).unwrap().complete);
    drop(volume);
    assert!(scratch.open().check(&mut |_| true).is_clean());
    drop(over_frozen);
}

#[test]
fn a_rebuild_whose_writes_hang_ends_with_its_reason() {
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "film", &[700_000]);
    std::fs::remove_file(scratch.member(2)).unwrap();
    let (volume, faults) = impatient(&scratch);
    volume.replace(&Replacement::new(2, scratch.path().join("new"))).unwrap();
    faults.inject(2, Fault::HangWrites);
    let own = volume.clone();
    let rebuilt = in_time(move || own.rebuild(2, RepairOptions::default(), &mut |_| true));
    let status = volume.status();
    assert_all_right(&volume);
    faults.clear(2);
    let text = rebuilt.expect("it waits for ever").unwrap_err().to_string();
    assert!(text.contains("did not answer a write for"), "{text}");
    assert_eq!((status.read_only, status.members[2].state), (None, MemberState::Failed));
    assert!(volume.rebuild(2, RepairOptions::default(), &mut |_| true).unwrap().complete);
    assert!(volume.check(&mut |_| true).is_clean());
}

/// A member stops answering in the middle of a transfer, and one answers late. Neither a transfer
/// nor what a person waits for waits for them.
#[test]
fn reads_of_the_library_do_not_wait_for_a_member_that_is_silent_or_slow() {
    let late = || Fault::Delay { delay_ns: 3_600_000_000_000 };
    for (fault, class) in
        [(Fault::Stall, Class::APERIODIC), (Fault::Stall, Class::INTERACTIVE), (late(), Class::INTERACTIVE)]
    {
        let scratch = Scratch::new(4);
        let (volume, faults) = open_with_faults(&scratch, |_| {});
        publish(&volume, "film", &[3_000_000]);
        faults.inject(1, fault.clone());
        let own = volume.clone();
        let read = in_time(move || {
            let map = own.map(own.title("film").unwrap().object(Role::Track, 0).unwrap()).unwrap();
            let mut bytes = Vec::new();
            own.reader(map, 0..u64::MAX, class).read_to_end(&mut bytes).map(|_| bytes)
        });
        faults.clear(1);
        let read = read.expect("it does not wait").unwrap();
        assert!(read == bytes_of("film", 0, 3_000_000), "{fault:?} {class:?}");
        assert!(volume.status().members.iter().all(|member| member.state.in_use()));
    }
}

/// Holds the writes of members while a volume is opened, as a frozen file system does.
#[derive(Default)]
struct Holding {
    held: Mutex<Vec<usize>>,
    released: Condvar,
}

impl WriteObserver for Holding {
    fn write(&self, member: usize, _offset: u64, _bytes: &[u8]) -> u64 {
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, |held| held.contains(&member)).unwrap());
        0
    }

    fn sync(&self, _member: usize) -> u64 {
        0
    }

    fn done(&self, _name: u64, _succeeded: bool) {}
}

impl Holding {
    fn hold(&self, members: &[usize]) {
        *self.held.lock().unwrap() = members.to_vec();
        self.released.notify_all();
    }
}

#[test]
fn a_volume_is_opened_without_a_member_that_does_not_take_the_owner_record() {
    let scratch = Scratch::new(4);
    publish(&scratch.open(), "before", &[300_000]);
    let holding = Arc::new(Holding::default());
    let (path, observer) = (scratch.path().to_owned(), holding.clone());
    let open = move || {
        let mut options = open_options();
        options.observer = Some(observer.clone());
        options.write_patience_ns = Some(2_000_000_000);
        Volume::open(&path, options)
    };
    holding.hold(&[2]);
    let volume = open().unwrap();
    let finding = volume.findings()[2].clone();
    assert_eq!(finding.state, MemberState::Failed);
    assert!(finding.text.contains("did not answer a request for 2 s: its disk hangs"), "{finding}");
    assert_eq!(volume.health().member(2), MemberUse::Out);
    publish(&volume, "film", &[300_000]);
    assert_all_right(&volume);
    drop(volume);
    // Until the kernel lets the request go, the member stays locked.
    let until_unlocked = |open: &dyn Fn() -> Result<Volume, VolumeError>| loop {
        match open() {
            Err(VolumeError::Locked { .. }) => std::thread::yield_now(),
            opened => break opened,
        }
    };
    assert!(matches!(open(), Err(VolumeError::Locked { .. })));
    // Two cannot be spared.
    holding.hold(&[0, 1]);
    let error = until_unlocked(&open).map(drop).unwrap_err();
    assert!(matches!(error, VolumeError::MembersFailed { failed: 2, .. }), "{error}");
    holding.hold(&[]);
    let volume = until_unlocked(&open).unwrap();
    assert_eq!(volume.findings()[2].state, MemberState::Stale, "it lacks what was published meanwhile");
    assert_all_right(&volume);
}
