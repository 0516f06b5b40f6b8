//! Players, people and readers at once.

use super::client::BLOCK_BYTES;
use super::file_name;
use super::files::{Files, Who};
use super::trace::Trace;
use crate::testbed::Films;
use anyhow::{Context, Result};
use reel_testkit::Rng;
use reel_wire::family;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Between two requests of a client for which a person waits, on average (Prism, section 5).
pub(super) const PAUSE: Duration = Duration::from_millis(70);
/// What a player has before it begins.
const BUFFER_S: f64 = 2.5;
/// Readers run so long before players begin.
const AHEAD: Duration = Duration::from_secs(2);

/// What reads at once.
pub(super) struct Load<'a> {
    pub(super) players: usize,
    /// Clients for which a person waits.
    pub(super) people: usize,
    /// Clients without a deadline.
    pub(super) readers: usize,
    pub(super) lasts: Duration,
    pub(super) films: &'a Films,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    blocks: u64,
    late: u64,
    late_ms_max: f64,
    interactive_ms: Vec<f64>,
    readers_ms: Vec<f64>,
    bytes: u64,
    read_bytes: u64,
    took_s: f64,
    cpu_s: f64,
}

/// Connects a client.
type Connect<'a> = &'a (dyn Fn(Who) -> Result<Box<dyn Files>> + Sync);

/// Has all of them read.
pub(super) fn read_beside(load: &Load<'_>, server: u32, connect: Connect<'_>) -> Result<Seen> {
    let (is_over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let common = (&is_over, &bytes);
    let (players, people) = (load.players, load.people);
    let (before_s, began) = (cpu_s(server)?, Instant::now());
    let mut seen = scope(|scope| -> Result<Seen> {
        let readers: Vec<_> = (0..load.readers)
            .map(|number| scope.spawn(move || without_deadline(load, number, connect, common)))
            .collect();
        sleep(AHEAD);
        let people: Vec<_> = (0..people)
            .map(|number| scope.spawn(move || interactive(load, number, connect, common)))
            .collect();
        let players: Vec<_> =
            (0..players).map(|number| scope.spawn(move || player(load, number, connect, common.1))).collect();
        let mut seen = Seen::default();
        let mut failed = Ok(());
        for player in players {
            match player.join().expect("a player does not panic") {
                Ok(played) => seen.add(&played),
                Err(error) => failed = Err(error),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for person in people {
            seen.interactive_ms.extend(person.join().expect("it does not panic")?);
        }
        for reader in readers {
            let (read_bytes, took_ms) = reader.join().expect("it does not panic")?;
            seen.read_bytes += read_bytes;
            seen.readers_ms.extend(took_ms);
        }
        failed.map(|()| seen)
    })?;
    seen.bytes = bytes.into_inner();
    (seen.took_s, seen.cpu_s) = (began.elapsed().as_secs_f64(), cpu_s(server)? - before_s);
    Ok(seen)
}

/// Reads a film by its frames, with a buffer. A block that comes late stops the picture until it is
/// there.
fn player(load: &Load<'_>, number: usize, connect: Connect<'_>, bytes: &AtomicU64) -> Result<Seen> {
    let film = &load.films.streams[number];
    let trace = Trace::of(film)?;
    let mut files = connect(Who::Player(number as u32))?;
    let file = files.open(file_name(film)?)?;
    let (mut seen, mut begun): (Seen, Option<Instant>) = (Seen::default(), None);
    for block in 0.. {
        let Some(needed_s) = trace.needed_s(block) else { break };
        if needed_s > load.lasts.as_secs_f64() {
            break;
        }
        if let Some(begun) = begun {
            let room = Duration::from_secs_f64((needed_s - BUFFER_S).max(0.0));
            sleep(room.saturating_sub(begun.elapsed()));
        }
        bytes.fetch_add(files.read(&file, block as u64 * BLOCK_BYTES, BLOCK_BYTES)?, Ordering::Relaxed);
        seen.blocks += 1;
        match &mut begun {
            None if needed_s >= BUFFER_S => begun = Some(Instant::now()),
            None => {}
            Some(begun) => {
                let late = begun.elapsed().saturating_sub(Duration::from_secs_f64(needed_s));
                if !late.is_zero() {
                    seen.late += 1;
                    seen.late_ms_max = seen.late_ms_max.max(late.as_secs_f64() * 1e3);
                    *begun += late;
                }
            }
        }
    }
    Ok(seen)
}

/// Reads small pieces at random, with pauses; how long each took, in milliseconds.
fn interactive(
    load: &Load<'_>,
    number: usize,
    connect: Connect<'_>,
    (is_over, bytes): (&AtomicBool, &AtomicU64),
) -> Result<Vec<f64>> {
    let (mut random, mut took_ms) = (Rng::new(100 + number as u64), Vec::new());
    let mut files = connect(Who::Person(number as u32))?;
    while !is_over.load(Ordering::Relaxed) {
        let film = random.below(load.films.bulk.len() as u64) as usize;
        let file = files.open(file_name(&load.films.bulk[film])?)?;
        let count = (4 + random.below(9)) << 10;
        let (offset, asked) = (random.below(file.bytes - count), Instant::now());
        bytes.fetch_add(files.read(&file, offset, count)?, Ordering::Relaxed);
        took_ms.push(asked.elapsed().as_secs_f64() * 1e3);
        sleep(PAUSE / 2 + PAUSE * random.below(1000) as u32 / 1000);
    }
    Ok(took_ms)
}

/// Reads blocks at random as fast as they come; how many bytes, and how long each took, in
/// milliseconds.
fn without_deadline(
    load: &Load<'_>,
    number: usize,
    connect: Connect<'_>,
    (is_over, bytes): (&AtomicBool, &AtomicU64),
) -> Result<(u64, Vec<f64>)> {
    let (mut random, mut read, mut took_ms) = (Rng::new(number as u64), 0, Vec::new());
    let mut files = connect(Who::Reader)?;
    let file = files.open(file_name(&load.films.bulk[number % load.films.bulk.len()])?)?;
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        read += files.read(&file, random.below(file.bytes - BLOCK_BYTES), BLOCK_BYTES)?;
        took_ms.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    bytes.fetch_add(read, Ordering::Relaxed);
    Ok((read, took_ms))
}

/// What a process and its children have used of the processors.
fn cpu_s(process: u32) -> Result<f64> {
    let mut ticks = 0;
    for process in family(process)? {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").context("a process without times")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        for at in [11, 12] {
            ticks += fields.get(at).context("a process without times")?.parse::<u64>()?;
        }
    }
    Ok(ticks as f64 / 100.0)
}

impl Seen {
    fn add(&mut self, played: &Seen) {
        self.blocks += played.blocks;
        self.late += played.late;
        self.late_ms_max = self.late_ms_max.max(played.late_ms_max);
    }

    /// As a row of the report has them.
    pub(super) fn values(&self) -> Vec<(&'static str, f64)> {
        let mut values = vec![
            ("blocks", self.blocks as f64),
            ("late", self.late as f64),
            ("late_ms_max", self.late_ms_max),
            ("readers_mb_per_s", self.read_bytes as f64 / 1e6 / self.took_s),
            ("cpu_s_per_gb", self.cpu_s / (self.bytes as f64 / 1e9)),
        ];
        let [interactive, readers] = [&self.interactive_ms, &self.readers_ms].map(|ms| {
            let mut ms = ms.clone();
            ms.sort_by(f64::total_cmp);
            move |part: f64| ms.get((ms.len() as f64 * part) as usize).copied()
        });
        for (name, value) in [
            ("interactive_median_ms", interactive(0.5)),
            ("interactive_p99_ms", interactive(0.99)),
            ("readers_median_ms", readers(0.5)),
            ("readers_p99_ms", readers(0.99)),
        ] {
            values.extend(value.map(|value| (name, value)));
        }
        values
    }
}
