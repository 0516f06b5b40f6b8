//! A program that wants all the processor time it can get, beside downloads and joins on every kind
//! of member: what it keeps, and what they get (dsplice, note 2, tables 2 to 5).

use super::receiver::receive;
use super::{AHEAD, DISKS, Set, paths};
use crate::api;
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::reel::Settings;
use crate::server::Server;
use crate::testbed::{Films, Playing, ReadWriteLoop, Testbed};
use anyhow::{Context, Result};
use reel_report::{Claim, CommonOptions, Report};
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Transfers at once, as in dsplice's tables.
const TRANSFERS: std::ops::RangeInclusive<usize> = 1..=4;
/// A solid-state disk: nothing of it is slower than the processors are.
const SOLID: Kind = Kind::Throttled { read_bps: 2_000_000_000, read_iops: 200_000 };
/// How long the program runs alone.
const ALONE: Duration = Duration::from_secs(2);
/// Transfers settle: the schedule follows within some seconds.
const SETTLES: Duration = Duration::from_secs(6);
/// Bytes that the loop reads and writes at once: what `cat` takes.
const PIECE_BYTES: usize = 128 << 10;
/// How often it is looked how far joins are.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Downloads,
    Joins,
}

impl Beside {
    fn case(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Beside::Downloads, Kind::Modelled) => "a program beside downloads, hard disks",
            (Beside::Downloads, _) => "a program beside downloads, solid-state disks",
            (Beside::Joins, Kind::Modelled) => "a program beside joins, hard disks",
            (Beside::Joins, _) => "a program beside joins, solid-state disks",
        }
    }
}

/// What came of both in the window of time.
struct Got {
    bytes: u64,
    took_s: f64,
    calls: u64,
}

/// Measures all of it on both kinds of disks.
pub(super) fn measure(arguments: &CommonOptions, set: &Set, report: &mut Report) -> Result<()> {
    report.note(format!(
        "a program beside transfers: it makes calls of the system as fast as it can, on one thread; solid-state disks are {}; joins and the loop write into files \
         of the file system that the bench runs on; {} s of each are counted, after {} s",
        SOLID.words(),
        set.seconds,
        SETTLES.as_secs()
    ));
    for kind in [Kind::Modelled, SOLID] {
        let mib_per_s = if kind == Kind::Modelled { 64 } else { 128 };
        on(arguments, set, (kind, mib_per_s), report)?;
        claim(kind, report);
    }
    Ok(())
}

fn on(
    arguments: &CommonOptions,
    set: &Set,
    (kind, mib_per_s): (Kind, u64),
    report: &mut Report,
) -> Result<()> {
    let dir = arguments.make_dir()?;
    let most = *TRANSFERS.end();
    let taken = film::make(&dir, mib_per_s * (set.seconds + SETTLES.as_secs()))?;
    let bytes = fs::metadata(&taken)?.len() * most as u64;
    let make = || -> Result<(DiskSet, Films)> {
        let disk_set = DiskSet::make(&dir, kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
        let films = Films::make(&disk_set.dir().join("films"), (&taken, 0), (&taken, most))?;
        Ok((disk_set, films))
    };
    let (disk_set, films) = make()?;
    let testbed = Testbed::reel(&set.reel, disk_set, &films)?;
    testbed.probe(set.probe_seconds)?;
    let written = Written::below(&dir)?;
    let settings = Settings { join_directory: Some(written.0.clone()), ..Settings::with_admission() };
    for run in 0..set.runs {
        for (beside, transfers) in all() {
            written.clear()?;
            let playing = testbed.start_reel(&settings)?;
            let got = beside_reel(set, beside, (&playing, &films), transfers)?;
            let schedule = schedule(&playing.server)?;
            row(report, beside.case(kind), "reel", (transfers, run), &got, &schedule);
        }
    }
    drop(testbed);
    let (disk_set, films) = make()?;
    let testbed = Testbed::ext4(disk_set, &films, None)?;
    for run in 0..set.runs {
        for (beside, transfers) in all() {
            written.clear()?;
            let got = beside_loop(set, beside, (&testbed, &films), (transfers, &written))?;
            row(report, beside.case(kind), "loop", (transfers, run), &got, &[]);
        }
    }
    Ok(())
}

fn all() -> impl Iterator<Item = (Beside, usize)> {
    [Beside::Downloads, Beside::Joins].into_iter().flat_map(|beside| TRANSFERS.map(move |n| (beside, n)))
}

fn row(
    report: &mut Report,
    case: &'static str,
    system: &str,
    (transfers, run): (usize, usize),
    (got, alone): &(Got, f64),
    schedule: &[(&'static str, f64)],
) {
    let per_s = got.calls as f64 / got.took_s;
    let values = [
        ("mb_per_s", got.bytes as f64 / 1e6 / got.took_s),
        ("kept", per_s / alone.max(1.0)),
        ("calls_per_s", per_s),
    ];
    report.row(case, system, transfers as f64, run, &[&values, schedule].concat());
}

/// N and d of the server now.
fn schedule(server: &Server) -> Result<Vec<(&'static str, f64)>> {
    let page = api::text(server.address, "/metrics")?;
    let value = |name: &str| -> Option<f64> {
        page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let run_bytes = value("reel_transfer_run_bytes").context("no run in the metrics")?;
    let pause_s = value("reel_transfer_pause_seconds").context("no pause in the metrics")?;
    Ok(vec![("run_kb", run_bytes / 1e3), ("pause_ms", pause_s * 1e3)])
}

fn beside_reel(
    set: &Set,
    beside: Beside,
    (playing, films): (&Playing, &Films),
    transfers: usize,
) -> Result<(Got, f64)> {
    let window = Duration::from_secs(set.seconds);
    let alone = alone();
    let got = match beside {
        Beside::Downloads => downloads(playing, films, transfers, window)?,
        Beside::Joins => {
            let titles = playing.sessions(films, 0..transfers, "aperiodic")?;
            let server = playing.server.address;
            counted(window, transfers, |number, count, over| {
                join(server, &titles[number], number, count, over)
            })?
        }
    };
    Ok((got, alone))
}

fn beside_loop(
    set: &Set,
    beside: Beside,
    (testbed, films): (&Testbed, &Films),
    (transfers, written): (usize, &Written),
) -> Result<(Got, f64)> {
    let window = Duration::from_secs(set.seconds);
    let way = ReadWriteLoop { read_ahead_kib: 4096, in_order: true, piece_bytes: None };
    if beside == Beside::Downloads {
        let playing = testbed.start_loop("mq-deadline", way)?;
        let alone = alone();
        return Ok((downloads(&playing, films, transfers, window)?, alone));
    }
    let root = testbed.cold("mq-deadline", way.read_ahead_kib)?.to_owned();
    let alone = alone();
    let file = |number: usize| -> Result<PathBuf> {
        let film = films.bulk.get(number).context("as many films as transfers")?;
        Ok(root.join((number % DISKS).to_string()).join(film.file_name().context("a name")?))
    };
    let got = counted(window, transfers, |number, count, over| {
        let (from, to) = (file(number)?, written.0.join(format!("copy-{number}")));
        while !over.load(Ordering::Relaxed) {
            copy(&from, &to, count, over)?;
        }
        Ok(fs::remove_file(&to)?)
    })?;
    Ok((got, alone))
}

/// Downloads, one film each, beside the program.
fn downloads(playing: &Playing, films: &Films, transfers: usize, window: Duration) -> Result<Got> {
    let paths = paths(playing, films, transfers, 1);
    let (over, calls, before) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    scope(|scope| {
        scope.spawn(|| program(&calls, &over));
        scope.spawn(|| {
            sleep(AHEAD + SETTLES);
            before.store(calls.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        let received = receive(playing.server.address, &paths, AHEAD + SETTLES, window);
        let after = calls.load(Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        let received = received?;
        let (bytes, took_s) = (received.bytes.iter().sum(), received.took_s);
        Ok(Got { bytes, took_s, calls: after - before.load(Ordering::Relaxed) })
    })
}

/// So many transfers, each on a thread that counts its bytes, beside the program.
fn counted(
    window: Duration,
    transfers: usize,
    transfer: impl Fn(usize, &AtomicU64, &AtomicBool) -> Result<()> + Sync,
) -> Result<Got> {
    let (over, calls, bytes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (over, calls, bytes, transfer) = (&over, &calls, &bytes, &transfer);
    scope(|scope| {
        scope.spawn(move || program(calls, over));
        let threads: Vec<_> =
            (0..transfers).map(|number| scope.spawn(move || transfer(number, bytes, over))).collect();
        sleep(AHEAD + SETTLES);
        let look = || (calls.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
        let (begun, before) = (Instant::now(), look());
        sleep(window);
        let (took_s, after) = (begun.elapsed().as_secs_f64(), look());
        over.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|thread| thread.join().expect("a transfer panicked"))?;
        Ok(Got { bytes: after.1 - before.1, took_s, calls: after.0 - before.0 })
    })
}

/// Makes calls of the system until it is over.
fn program(calls: &AtomicU64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            std::hint::black_box(rustix::process::getppid());
        }
        calls.fetch_add(1000, Ordering::Relaxed);
    }
}

/// Calls in a second of the program alone.
fn alone() -> f64 {
    let (calls, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    scope(|scope| {
        scope.spawn(|| program(&calls, &over));
        sleep(ALONE);
        over.store(true, Ordering::Relaxed);
    });
    calls.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

/// Copies a file by a read/write loop, until it is over.
fn copy(from: &Path, to: &Path, count: &AtomicU64, over: &AtomicBool) -> Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let mut piece = vec![0; PIECE_BYTES];
    while !over.load(Ordering::Relaxed) {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            bytes => {
                to.write_all(&piece[..bytes])?;
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Has the server play the session of this address into one file after the other, until it is over.
fn join(
    server: std::net::SocketAddr,
    url: &str,
    number: usize,
    count: &AtomicU64,
    over: &AtomicBool,
) -> Result<()> {
    let key = url
        .split('/')
        .skip_while(|part| *part != "s")
        .nth(1)
        .context("no key in the address of a session")?;
    let outlets = format!("/api/v1/sessions/{key}/outlets");
    for turn in 0.. {
        let to = format!("file:copy-{number}-{turn}");
        let outlet = api::post(server, &outlets, &json!({ "to": to }))?;
        let place = format!("{outlets}/{}", outlet["number"]);
        let mut before = 0;
        let is_whole = loop {
            let outlet = api::get(server, &place)?;
            let bytes = outlet["bytes"].as_u64().unwrap_or(0);
            count.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
            before = bytes.max(before);
            match outlet["state"].as_str() {
                Some("complete") => break true,
                Some("joined") if over.load(Ordering::Relaxed) => break false,
                Some("joined") => sleep(LOOK_EVERY),
                _ => anyhow::bail!("a join ended: {outlet}"),
            }
        };
        if !is_whole {
            return api::delete(server, &format!("/api/v1/sessions/{key}"));
        }
    }
    Ok(())
}

/// A directory for what is written, which goes with this value.
struct Written(PathBuf);

impl Written {
    fn below(dir: &Path) -> Result<Written> {
        let dir = fs::canonicalize(dir)?.join(format!("written-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Written(dir))
    }

    /// Nothing of it is needed any more.
    fn clear(&self) -> Result<()> {
        for entry in fs::read_dir(&self.0)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // What is left of it is the operator's to see.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn claim(kind: Kind, report: &mut Report) {
    for beside in [Beside::Downloads, Beside::Joins] {
        for transfers in [1, 4] {
            let case = beside.case(kind);
            let median = |system: &str, value: &str| report.median(case, system, transfers as f64, value);
            if let (Some(ours), Some(theirs)) = (median("reel", "kept"), median("loop", "kept")) {
                let claim = format!(
                    "{case}: calls kept beside {transfers}, reel {ours:.2} / read/write loop {theirs:.2}"
                );
                report.claim(Claim::at_least(claim, ours / theirs.max(1e-9), 1.0));
            }
        }
    }
}
