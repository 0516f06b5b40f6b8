//! Parity that is computed while a title is sent, beside parity that is read from a disk. Table 5.2
//! of the thesis is the encoder that a server needs without stored parity.

use crate::cpu::seconds_of;
use anyhow::{Context, Result, ensure};
use reel_code::{crc32c, xor_rows};
use reel_report::{Claim, Report};
use reel_testkit::Rng;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Rows of data for one of parity.
const DATA_ROWS: usize = 4;
/// A row of 20 symbols of 1316 bytes, and seven rows: what is read at once from a member.
const ROW_BYTES: usize = 20 * 1316;
const UNIT_ROWS: usize = 7;
/// The unit, in whole blocks as it is read.
const READ_BYTES: usize = 184_320;
/// What a direct read must be aligned to.
const BLOCK_BYTES: usize = 4096;

/// Rows in the cache of a processor, and rows that are not.
const MEMORIES: [(&str, usize); 2] = [("hot", 1 << 20), ("cold", 384 << 20)];

const CASE: &str = "parity of a GB of media";
const COMPUTED: [&str; 2] = ["computed, hot", "computed, cold"];
const STORED: &str = "read from a disk and checked";

/// Measures processor time for the parity of 10^9 bytes of media.
///
/// # Errors
/// If a file in `dir` cannot be written and read past the page cache.
pub fn measure(report: &mut Report, dir: &Path, quick: bool, runs: usize) -> Result<()> {
    report.note(format!(
        "parity: cpu_s_per_gb is processor time for the parity (1/{DATA_ROWS}) of 10^9 bytes of media; computed: the exclusive or of {DATA_ROWS} rows \
         of {ROW_BYTES} bytes by reel-code, from memory of 1 MiB (hot) or 384 MiB (cold); stored: reads of {READ_BYTES} bytes past the page cache from a plain \
         file, one at a time, and CRC-32C of their rows, as a server does; a server with io_uring pays less for a read than one call each, and \
         what a virtual disk costs the host is not seen"
    ));
    let file = File::make(dir.join("parity-rows"), if quick { 8 << 20 } else { 256 << 20 })?;
    let memory = Rng::new(5).bytes(if quick { 8 << 20 } else { MEMORIES[1].1 });
    for run in 0..runs {
        for ((_, bytes), system) in MEMORIES.into_iter().zip(COMPUTED) {
            let rows = &memory[..bytes.min(memory.len())];
            let media_bytes = if quick { 16 << 20 } else { 1 << 30 };
            let cpu_s = computed(rows, media_bytes);
            report.row(CASE, system, DATA_ROWS as f64, run, &[("cpu_s_per_gb", cpu_s)]);
        }
        let (read_s, check_s, mb_per_s) = file.read()?;
        let per_media = 1.0 / DATA_ROWS as f64;
        let values = [
            ("cpu_s_per_gb", (read_s + check_s) * per_media),
            ("read_cpu_s_per_gb", read_s * per_media),
            ("check_cpu_s_per_gb", check_s * per_media),
            ("additional_reads_per_gb", 1e9 * per_media / (UNIT_ROWS * ROW_BYTES) as f64),
            ("disk_mb_per_s", mb_per_s),
        ];
        report.row(CASE, STORED, DATA_ROWS as f64, run, &values);
    }
    let cost = |system: &str| report.median_or_nan(CASE, system, DATA_ROWS as f64, "cpu_s_per_gb");
    let claims = COMPUTED.map(|system| {
        let name = format!("processor time for parity: {STORED} / {system}");
        Claim::at_most(name, cost(STORED) / cost(system), 1.0)
    });
    claims.into_iter().for_each(|claim| report.claim(claim));
    Ok(())
}

/// Seconds for the parity of 10^9 bytes.
fn computed(memory: &[u8], media_bytes: usize) -> f64 {
    let matrices = memory.len() / (DATA_ROWS * ROW_BYTES);
    let mut parity = vec![0; ROW_BYTES];
    let mut done = 0;
    let cpu_s = seconds_of(|| {
        for matrix in (0..matrices).cycle() {
            let from = matrix * DATA_ROWS * ROW_BYTES;
            let rows: [&[u8]; DATA_ROWS] =
                std::array::from_fn(|row| &memory[from + row * ROW_BYTES..][..ROW_BYTES]);
            xor_rows(&mut parity, &rows);
            black_box(&parity);
            done += DATA_ROWS * ROW_BYTES;
            if done >= media_bytes {
                break;
            }
        }
    });
    cpu_s * 1e9 / done as f64
}

/// A file that is read as a member is. It is removed with this value.
struct File {
    path: PathBuf,
    bytes: usize,
}

impl File {
    fn make(path: PathBuf, bytes: usize) -> Result<Self> {
        let file = Self { path, bytes: bytes / READ_BYTES * READ_BYTES };
        let written = fs::write(&file.path, Rng::new(6).bytes(file.bytes));
        written.with_context(|| format!("writing {}", file.path.display()))?;
        rustix::fs::sync();
        Ok(file)
    }

    /// Seconds of this thread for 10^9 bytes read and checked, and bytes (10^6) in a second.
    fn read(&self) -> Result<(f64, f64, f64)> {
        let flags = OFlags::RDONLY | OFlags::DIRECT;
        let file = open(&self.path, flags, Mode::empty()).context("opening a file past the page cache")?;
        let mut memory = vec![0; READ_BYTES + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        let unit = &mut memory[start..start + READ_BYTES];
        let (mut read_s, mut check_s, mut wall_s) = (0.0, 0.0, 0.0);
        for offset in (0..self.bytes).step_by(READ_BYTES) {
            let (mut read, from) = (Ok(0), Instant::now());
            read_s += seconds_of(|| read = pread(&file, &mut *unit, offset as u64));
            wall_s += from.elapsed().as_secs_f64();
            let count = read.context("reading past the page cache")?;
            ensure!(count == READ_BYTES, "a read of {READ_BYTES} bytes gave {count}");
            check_s += seconds_of(|| {
                unit.chunks_exact(ROW_BYTES).for_each(|row| {
                    black_box(crc32c(row));
                });
            });
        }
        let gb = self.bytes as f64 / 1e9;
        Ok((read_s / gb, check_s / gb, gb * 1e3 / wall_s))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // It may have been removed by someone else.
        let _ = fs::remove_file(&self.path);
    }
}
