//! Two hosts that reach the same disks. Two loop devices over one file stand for a disk that two
//! hosts see, and a process in another name space of process numbers stands for another host: none
//! of the two knows whether the other lives.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

#[path = "volume/volumes/mod.rs"]
mod volumes;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use reel_volume::{Members, Replacement, Volume, VolumeError};
use rustix::process::{Pid, Signal, kill_process};

use volumes::devices::{LoopDevice, may_make_devices};
use volumes::{assert_all_right, open_options, options, publish, try_title_of};

const MEMBERS: usize = 3;
const DEVICE_BYTES: u64 = 8 << 20;

/// A volume that two hosts see, each by devices of its own.
struct Shared {
    directory: tempfile::TempDir,
    /// The devices of the second host.
    others: Vec<LoopDevice>,
    _own: Vec<LoopDevice>,
}

impl Shared {
    fn new() -> Shared {
        let directory = tempfile::tempdir().unwrap();
        let file = |number| directory.path().join(format!("disk-{number}"));
        let devices = || (0..MEMBERS).map(|number| LoopDevice::over(&file(number), DEVICE_BYTES)).collect();
        let (own, others): (Vec<LoopDevice>, Vec<LoopDevice>) = (devices(), devices());
        let paths = own.iter().map(|device| device.path().to_owned()).collect();
        let first = directory.path().join("first");
        Volume::create(
            &first,
            reel_volume::VolumeOptions { members: Members::Paths(paths), ..options(MEMBERS) },
        )
        .unwrap();
        let mut manifest = std::fs::read_to_string(first.join("volume.toml")).unwrap();
        for (own, other) in own.iter().zip(&others) {
            // With its quotes: /dev/loop1 is also the beginning of /dev/loop16.
            let quoted = |device: &LoopDevice| format!("{:?}", device.path());
            manifest = manifest.replace(&quoted(own), &quoted(other));
        }
        assert!(others.iter().all(|other| manifest.contains(other.path().to_str().unwrap())), "{manifest}");
        let second = directory.path().join("second");
        std::fs::create_dir(&second).unwrap();
        std::fs::write(second.join("volume.toml"), manifest).unwrap();
        Shared { directory, others, _own: own }
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The devices of the second host, as members of a new volume.
    fn members(&self) -> Members {
        Members::Paths(self.others.iter().map(|device| device.path().to_owned()).collect())
    }

    /// Writes that the devices of the second host have had.
    fn writes_of_others(&self) -> u64 {
        let writes = |device: &LoopDevice| {
            let name = device.path().file_name().unwrap().to_str().unwrap();
            let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
            stat.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
        };
        self.others.iter().map(writes).sum()
    }
}

/// The first host: publishes a title for each line of its input, and says what became of it.
#[test]
#[ignore = "child of the other tests"]
fn child() {
    let Some(place) = std::env::var_os("REEL_TEST_VOLUME") else { return };
    let volume = Volume::open(PathBuf::from(place), open_options()).unwrap();
    println!("open");
    for line in std::io::stdin().lines() {
        let id = line.unwrap();
        let published = try_title_of(&volume, &id, &[60_000]).and_then(|title| volume.publish(title));
        match published {
            Ok(()) => println!("published {id}"),
            Err(error) => println!("refused {error}"),
        }
    }
}

struct FirstHost {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl FirstHost {
    fn start(volume: &Path) -> FirstHost {
        let mut process = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env("REEL_TEST_VOLUME", volume)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut host = FirstHost { process, input, output: BufReader::new(output) };
        while !host.says().ends_with("open") {}
        host
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the first host has ended");
        line.trim().to_owned()
    }

    fn publish(&mut self, id: &str) -> String {
        writeln!(self.input, "{id}").unwrap();
        self.says()
    }

    /// The process that has the volume open, which `unshare` has started.
    fn signal(&self, signal: Signal) {
        let starter = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{starter}/task/{starter}/children")).unwrap();
        let pid = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn end(mut self) {
        drop(self.input);
        self.process.wait().unwrap();
    }
}

/// Whatever the number of members: of few, each is asked at every heartbeat.
#[test]
fn an_owner_that_lives_may_write_for_as_long_as_it_likes() {
    let scratches = [2, 3, 4].map(volumes::Scratch::new);
    let open: Vec<Volume> = scratches.iter().map(volumes::Scratch::open).collect();
    std::thread::sleep(Duration::from_secs(9));
    for volume in open {
        assert_eq!(volume.status().read_only, None);
        publish(&volume, "film", &[60_000]);
    }
}

#[test]
fn the_second_host_is_refused_and_never_writes() {
    if !may_make_devices() {
        return;
    }
    let shared = Shared::new();
    let mut first = FirstHost::start(&shared.directory("first"));
    let writes_before = shared.writes_of_others();
    let error = Volume::open(shared.directory("second"), open_options()).err().expect("it is in use");
    assert!(matches!(error, VolumeError::Owned { .. }), "{error}");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(shared.writes_of_others(), writes_before);
    assert_eq!(first.publish("film"), "published film");
    // Closed in order, it says so, and the other host needs to wait only for writes under way.
    first.end();
    let volume = Volume::open(shared.directory("second"), open_options()).unwrap();
    assert_all_right(&volume);
    assert_eq!(volume.titles().len(), 1);
}

#[test]
fn a_host_that_stops_loses_the_volume_and_writes_nothing_when_it_continues() {
    if !may_make_devices() {
        return;
    }
    let shared = Shared::new();
    let mut first = FirstHost::start(&shared.directory("first"));
    assert_eq!(first.publish("film"), "published film");
    first.signal(Signal::STOP);
    let second = Volume::open(shared.directory("second"), open_options()).unwrap();
    publish(&second, "song", &[90_000]);
    first.signal(Signal::CONT);
    let refused = first.publish("late");
    assert!(refused.starts_with("refused") && refused.contains("taken over by process"), "{refused}");
    let refused = first.publish("later");
    assert!(refused.starts_with("refused") && refused.contains("taken over by process"), "{refused}");
    publish(&second, "book", &[30_000]);
    first.end();
    // Not even the end of the first session is written.
    publish(&second, "talk", &[30_000]);
    assert_all_right(&second);
    drop(second);
    let volume = Volume::open(shared.directory("first"), open_options()).unwrap();
    let titles: Vec<String> = volume.titles().iter().map(|title| title.id.clone()).collect();
    assert_eq!(titles, ["film", "song", "book", "talk"]);
    let report = volume.check(&mut |_| true);
    assert!(report.is_clean(), "{report:?}");
    assert_all_right(&volume);
}

/// By another volume's replacement, and by a new volume, with every consent: what is refused.
fn overwrite(shared: &Shared) -> [Result<(), VolumeError>; 2] {
    let other = volumes::Scratch::new(4);
    let path = shared.others[1].path().to_owned();
    let replacement = Replacement {
        force: true,
        overwrite_volume: true,
        replace_healthy: true,
        ..Replacement::new(2, path)
    };
    let replaced = other.open().replace(&replacement).map(|_| ());
    let options = reel_volume::VolumeOptions {
        members: shared.members(),
        force: true,
        overwrite_volume: true,
        ..options(MEMBERS)
    };
    [replaced, Volume::create(shared.directory("new"), options).map(|_| ())]
}

#[test]
fn the_disks_of_a_volume_that_another_host_has_open_are_overwritten_by_no_consent() {
    if !may_make_devices() {
        return;
    }
    let shared = Shared::new();
    let mut first = FirstHost::start(&shared.directory("first"));
    assert_eq!(first.publish("film"), "published film");
    let writes_before = shared.writes_of_others();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for error in overwrite(&shared).map(Result::unwrap_err) {
        assert!(matches!(error, VolumeError::Owned { .. }), "{error}");
        assert!(error.to_string().contains(&format!("on host {name}")), "{error}");
    }
    // The list of the volume itself permits to overwrite it, and not its owner.
    let options = reel_volume::VolumeOptions { members: shared.members(), force: true, ..options(MEMBERS) };
    let error = Volume::create(shared.directory("second"), options).unwrap_err();
    assert!(matches!(error, VolumeError::Owned { .. }), "{error}");
    assert_eq!(shared.writes_of_others(), writes_before);
    assert!(!shared.directory("new").exists());
    assert_eq!(first.publish("song"), "published song");
    // The owner of a host that is gone is watched, and then it is none.
    first.signal(Signal::KILL);
    first.end();
    let written = overwrite(&shared).map(|result| result.map_err(|error| error.to_string()));
    assert_eq!(written, [Ok(()), Ok(())]);
}
