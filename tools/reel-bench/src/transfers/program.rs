//! A program that wants all the processor time it can get, beside downloads and joins on every kind
//! of member: what it keeps, and what they get (dsplice, note 2, tables 2 to 5).

use super::effort::{Effort, watch};
use super::receiver::receive;
use super::{AHEAD, DISKS, Set, paths};
use crate::api;
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::reel::Settings;
use crate::server::Server;
use crate::testbed::{Films, Playing, ReadWriteLoop, Testbed};
use anyhow::{Context, Result, ensure};
use reel_report::{Claim, CommonOptions, Report};
use serde_json::json;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
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
/// Memory for media: a fraction of a film, so that disks are read.
const MEMORY_BYTES: u64 = 512 << 20;
/// A film, and a film of a smoke run.
const FILM_MIB: u64 = 2048;
const SHORT_FILM_MIB: u64 = 64;
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
    effort: Effort,
}

/// Measures all of it on both kinds of disks.
pub(super) fn measure(arguments: &CommonOptions, set: &Set, report: &mut Report) -> Result<()> {
    report.note(format!(
        "a program beside transfers: it makes calls of the system as fast as it can, on one thread; solid-state disks are {}; a film has {} MiB, Reel {} MiB of memory \
         for media, and the loop has the kernel forget what it has read; joins and the loop write into files of the file system that the bench runs on; {} s of each are \
         counted, after {} s",
        SOLID.words(),
        film_mib(set),
        MEMORY_BYTES >> 20,
        set.seconds,
        (AHEAD + SETTLES).as_secs()
    ));
    for kind in [Kind::Modelled, SOLID] {
        on(arguments, set, kind, report)?;
        claim(kind, report);
    }
    Ok(())
}

fn film_mib(set: &Set) -> u64 {
    if set.quick { SHORT_FILM_MIB } else { FILM_MIB }
}

fn on(arguments: &CommonOptions, set: &Set, kind: Kind, report: &mut Report) -> Result<()> {
    let dir = arguments.make_dir()?;
    let most = *TRANSFERS.end();
    let taken = film::make(&dir, film_mib(set))?;
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
    let settings = settings.in_memory(MEMORY_BYTES);
    for run in 0..set.runs {
        for (beside, transfers) in all() {
            written.clear()?;
            let playing = testbed.start_reel(&settings)?;
            let got = beside_reel(set, beside, (&playing, &films), (transfers, &written))?;
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
    let mb = (got.bytes as f64 / 1e6).max(1e-9);
    let values = [
        ("mb_per_s", mb / got.took_s),
        ("kept", per_s / alone.max(1.0)),
        ("calls_per_s", per_s),
        ("user_ms_per_mb", got.effort.user_s * 1e3 / mb),
        ("system_ms_per_mb", got.effort.system_s * 1e3 / mb),
        ("voluntary_per_mb", got.effort.voluntary as f64 / mb),
        ("involuntary_per_mb", got.effort.involuntary as f64 / mb),
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
    (transfers, written): (usize, &Written),
) -> Result<(Got, f64)> {
    let alone = alone();
    let got = match beside {
        Beside::Downloads => downloads(set, playing, films, transfers)?,
        Beside::Joins => {
            let titles = playing.sessions(films, 0..transfers, "aperiodic")?;
            let server = playing.server.address;
            let join = |number: usize, over: &AtomicBool, count: &AtomicU64| {
                join(server, &titles[number], (number, written), count, over)
            };
            counted(set, playing, transfers, (join, |count: &AtomicU64| Ok(count.load(Ordering::Relaxed))))?
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
    let way = ReadWriteLoop { read_ahead_kib: 4096, in_order: true, piece_bytes: None };
    if beside == Beside::Downloads {
        let playing = testbed.start_forgetful_loop("mq-deadline", way)?;
        let alone = alone();
        return Ok((downloads(set, &playing, films, transfers)?, alone));
    }
    let playing = testbed.start_copies("mq-deadline", way, &written.0)?;
    let alone = alone();
    let paths = paths(&playing, films, transfers, 1);
    let (server, process) = (playing.server.address, playing.server.first_process());
    let copy = |number: usize, over: &AtomicBool, _: &AtomicU64| copy(server, &paths[number][0], over);
    let got = counted(set, &playing, transfers, (copy, |_: &AtomicU64| written_bytes(process)))?;
    Ok((got, alone))
}

/// Downloads, one film each, beside the program.
fn downloads(set: &Set, playing: &Playing, films: &Films, transfers: usize) -> Result<Got> {
    let window = Duration::from_secs(set.seconds);
    let paths = paths(playing, films, transfers, 1);
    let (over, calls, before) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let process = playing.server.first_process();
    scope(|scope| {
        scope.spawn(|| program(&calls, &over));
        let watched = scope.spawn(|| {
            sleep(AHEAD + SETTLES);
            before.store(calls.load(Ordering::Relaxed), Ordering::Relaxed);
            watch(process, &over)
        });
        let received = receive(playing.server.address, &paths, AHEAD + SETTLES, window);
        let after = calls.load(Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        let received = received?;
        let (bytes, took_s) = (received.bytes.iter().sum(), received.took_s);
        let effort = watched.join().expect("the watch panicked")?;
        Ok(Got { bytes, took_s, calls: after - before.load(Ordering::Relaxed), effort })
    })
}

/// So many transfers, each asked for by a thread, beside the program. `bytes` says how many all of
/// them have carried until now.
fn counted(
    set: &Set,
    playing: &Playing,
    transfers: usize,
    (transfer, bytes): (
        impl Fn(usize, &AtomicBool, &AtomicU64) -> Result<()> + Sync,
        impl Fn(&AtomicU64) -> Result<u64>,
    ),
) -> Result<Got> {
    let process = playing.server.first_process();
    let (over, calls, count) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (over, calls, count, transfer) = (&over, &calls, &count, &transfer);
    scope(|scope| {
        scope.spawn(move || program(calls, over));
        let threads: Vec<_> =
            (0..transfers).map(|number| scope.spawn(move || transfer(number, over, count))).collect();
        sleep(AHEAD + SETTLES);
        let look = || bytes(count).map(|bytes| (calls.load(Ordering::Relaxed), bytes));
        let watched = scope.spawn(move || watch(process, over));
        let (begun, before) = (Instant::now(), look());
        sleep(Duration::from_secs(set.seconds));
        let (took_s, after) = (begun.elapsed().as_secs_f64(), look());
        over.store(true, Ordering::Relaxed);
        let effort = watched.join().expect("the watch panicked")?;
        threads.into_iter().try_for_each(|thread| thread.join().expect("a transfer panicked"))?;
        let (before, after) = (before?, after?);
        Ok(Got { bytes: after.1 - before.1, took_s, calls: after.0 - before.0, effort })
    })
}

/// Bytes that a process has written.
fn written_bytes(process: u32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{process}/io"))?;
    let written = io.lines().find_map(|line| line.strip_prefix("wchar:")).context("no count of bytes")?;
    Ok(written.trim().parse()?)
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

/// Has the loop copy a film, over and over, until it is over.
fn copy(server: SocketAddr, path: &str, over: &AtomicBool) -> Result<()> {
    let mut answer = [0; 64];
    while !over.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n")?;
        while !over.load(Ordering::Relaxed) {
            match stream.read(&mut answer) {
                Ok(count) => {
                    ensure!(count == 0 || answer.starts_with(b"HTTP/1.1 204"), "a copy failed");
                    break;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Has the server play the session of this address into one file after the other, until it is over.
fn join(
    server: SocketAddr,
    url: &str,
    (number, written): (usize, &Written),
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
        fs::remove_file(written.0.join(format!("copy-{number}-{turn}")))?;
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

    /// Nothing of it is needed any more, and the disk has nothing to write when a row begins.
    fn clear(&self) -> Result<()> {
        for entry in fs::read_dir(&self.0)? {
            fs::remove_file(entry?.path())?;
        }
        rustix::fs::sync();
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
