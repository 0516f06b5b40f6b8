//! Ingest beside a plain write of the same number of bytes to as many files, both from memory.

use super::drop_caches;
use super::file::FileTitle;
use super::plain_write::plain_write;
use anyhow::Result;
use reel_report::{Claim, Report, spread};
use std::fs::{self, File};
use std::io;
use std::time::Instant;

/// Members of the volume, and files of the plain write.
const MEMBERS: usize = 5;

/// Ingest must reach this share of a plain write.
const BAR: f64 = 0.5;

/// Measures both in turn.
pub(super) fn measure(title: &FileTitle, report: &mut Report) -> Result<()> {
    let film_bytes = fs::metadata(&title.film)?.len();
    let mut ratios = Vec::new();
    for run in 0..title.runs {
        title.empty_volume()?;
        drop_caches(title.quick)?;
        // A plain write has its bytes in memory. So must the ingest, or reading the film would be
        // measured.
        io::copy(&mut File::open(&title.film)?, &mut io::sink())?;
        let started = Instant::now();
        title.ingest()?;
        let ingest_s = started.elapsed().as_secs_f64();
        drop_caches(title.quick)?;
        let plain_s = plain_write(&title.dir, MEMBERS, film_bytes)?;
        ratios.push(plain_s / ingest_s);
        for (system, took_s) in [("reel", ingest_s), ("plain write", plain_s)] {
            report.row("ingest", system, 0.0, run, &[("mb_per_s", film_bytes as f64 / 1e6 / took_s)]);
        }
    }
    let claim = "ingest / plain write of the same bytes, throughput".to_owned();
    report.claim(Claim::at_least(claim, spread(&mut ratios).1, BAR));
    Ok(())
}
