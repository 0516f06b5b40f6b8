//! Reads a file from front to back through the disk threads and prints the rate: a first look at a
//! disk and at the cost of the data path.
//!
//! `cargo run --release -p reel-disk --example sequential -- FILE [KiB] [depth]
//! [auto|uring|portable] [huge]`

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use reel_arena::{Arena, ArenaConfig};
use reel_disk::{
    DepthBound, DiskDone, DiskRequest, DiskWork, DisksConfig, MemberFile, OpenMode, Reply, RequestId,
    Requester, start_disks,
};
use reel_qos::{Class, DEADLINE_NONE_NS};
use reel_ring::DriverChoice;
use rustix::time::{ClockId, clock_gettime};

struct Answers(Sender<DiskDone>);

impl Reply for Answers {
    fn deliver(&self, done: DiskDone) {
        // The receiver is gone only when the run was given up.
        let _ = self.0.send(done);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: sequential FILE [KiB] [depth] [auto|uring|portable] [huge]")?;
    let bytes = args.next().map_or(Ok(264), |n| n.parse::<usize>())? * 1024;
    let depth = args.next().map_or(Ok(8), |n| n.parse::<usize>())?;
    let driver = match args.next().as_deref() {
        Some("portable") => DriverChoice::Portable,
        Some("uring") => DriverChoice::Uring,
        _ => DriverChoice::Auto,
    };
    let huge_pages = args.next().is_some();
    let config =
        ArenaConfig { buffer_bytes: bytes, buffer_count: 4 * depth, cells_per_buffer: 1, huge_pages };
    let arena = Arena::new(config)?;
    let file = MemberFile::open(Path::new(&path), OpenMode::ReadOnly)?;
    let (count, direct) = (file.bytes() / bytes as u64, file.direct());
    let depth_bound = DepthBound { requests: depth, bytes: usize::MAX, device_ns: u64::MAX };
    let config = DisksConfig { depth: depth_bound, driver, ..DisksConfig::default() };
    let disks = start_disks(vec![Some(file)], &arena, config)?;
    let (sender, answers) = channel();
    let reply: Arc<dyn Reply> = Arc::new(Answers(sender));
    let submit = |token: u64, buffer| {
        disks.submit(DiskRequest {
            id: RequestId::new(),
            member: 0,
            class: Class::APERIODIC,
            requester: Requester::default(),
            deadline_ns: DEADLINE_NONE_NS,
            work: DiskWork::Read { offset: token * bytes as u64, bytes, buffer },
            token,
            reply: Arc::clone(&reply),
        });
    };
    let started = Instant::now();
    let cpu_before = cpu_s();
    let mut next = 0;
    while next < count.min(2 * depth as u64) {
        submit(next, arena.take(bytes).ok_or("the arena is too small")?);
        next += 1;
    }
    for _ in 0..count {
        let done = answers.recv()?;
        done.result?;
        if next < count {
            submit(next, done.buffer.ok_or("a read without its buffer")?);
            next += 1;
        }
    }
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), cpu_s() - cpu_before);
    let gigabytes = (count * bytes as u64) as f64 / 1e9;
    let stats = &disks.stats()[0];
    println!(
        "{:?} pages, direct {direct}, {driver:?}, depth {depth}, {} KiB: {:.2} GB/s, {:.3} CPU s per GB, mean service {:.0} us",
        arena.region().pages,
        bytes / 1024,
        gigabytes / wall_s,
        cpu_s / gigabytes,
        stats.service_ns as f64 / stats.reads as f64 / 1000.0,
    );
    disks.stop()?;
    Ok(())
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
