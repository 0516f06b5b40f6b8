//! Prints how fast a volume writes, reads and checks beside a plain sequential direct write to the
//! same disk: `cargo run --release -p reel-volume --example volume-rates -- DIRECTORY [MEGABYTES]`.

use std::fs::{File, OpenOptions as FileOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use reel_arena::{Arena, ArenaConfig};
use reel_qos::Class;
use reel_volume::{ArenaBudget, OpenOptions, Volume, VolumeError, VolumeOptions};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 3;
const PLAIN_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("name a directory on the disk to measure")?;
    let megabytes: u64 = arguments.next().map_or(Ok(2048), |text| text.parse())?;
    let directory = Path::new(&directory).join("reel-rates");
    let bytes = megabytes << 20;
    let options = VolumeOptions { size_bytes: bytes * 2 + (256 << 20), ..VolumeOptions::default() };
    Volume::create(&directory, options)?;
    let open =
        OpenOptions { arena: ArenaBudget { bytes: 64 << 20, huge_pages: true }, ..OpenOptions::default() };
    let volume = Volume::open(&directory, open)?;
    for _ in 0..ROUNDS {
        plain_write(&directory.join("plain"), bytes)?;
        let object = timed("volume write", bytes, || write(&volume, bytes))?;
        let map = volume.map(&object)?;
        timed("volume read", bytes, || {
            let mut reader = volume.reader(map, 0..bytes, Class::INTERACTIVE);
            let mut target = vec![0; 1 << 20];
            while reader.read(&mut target).map_err(|e| VolumeError::FailedBefore { reason: e.to_string() })?
                > 0
            {}
            Ok(())
        })?;
    }
    let mut title = reel_volume::TitleRecord {
        id: "rates".to_owned(),
        name: String::new(),
        added_unix_s: 0,
        source: reel_volume::SourceFile::default(),
        objects: Vec::new(),
    };
    let (role, object) = (reel_volume::Role::Track, write(&volume, bytes)?);
    title.objects.push(reel_volume::ObjectEntry { role, number: 0, object });
    timed("publish (all synced)", bytes, || volume.publish(title))?;
    // Parity is read and verified too: a quarter more bytes than the object has.
    timed("check", bytes / 4 * 5, || {
        assert!(volume.check(&mut |_| true).is_clean());
        Ok(())
    })?;
    drop(volume);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

fn write(volume: &Volume, bytes: u64) -> Result<reel_volume::ObjectRecord, VolumeError> {
    let chunk: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let mut writer = volume.writer(Class::APERIODIC)?;
    for _ in 0..bytes >> 20 {
        writer.write(&chunk)?;
    }
    writer.finish()
}

/// One file, one request of 1 MiB after another, direct, on reserved space: what `dd oflag=direct`
/// does.
fn plain_write(path: &Path, bytes: u64) -> Result<(), Box<dyn std::error::Error>> {
    let file: File = FileOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    let arena = Arena::new(ArenaConfig {
        buffer_bytes: PLAIN_BYTES,
        buffer_count: 1,
        cells_per_buffer: 1,
        huge_pages: false,
    })?;
    let mut buffer = arena.take(PLAIN_BYTES).ok_or("the arena is empty")?;
    buffer.fill(0x5a);
    timed("plain direct write", bytes, || {
        for at in 0..bytes / PLAIN_BYTES as u64 {
            file.write_all_at(&buffer, at * PLAIN_BYTES as u64)
                .map_err(|e| VolumeError::FailedBefore { reason: e.to_string() })?;
        }
        Ok(())
    })?;
    std::fs::remove_file(path)?;
    Ok(())
}

fn timed<T>(name: &str, bytes: u64, work: impl FnOnce() -> Result<T, VolumeError>) -> Result<T, VolumeError> {
    let (from, processor) = (Instant::now(), processor_seconds());
    let done = work()?;
    let (seconds, processor) = (from.elapsed().as_secs_f64(), processor_seconds() - processor);
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "{name:24} {:8.0} MB/s {:8.3} s of processor per GB ({seconds:.2} s)",
        gigabytes * 1e3 / seconds,
        processor / gigabytes
    );
    Ok(done)
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
