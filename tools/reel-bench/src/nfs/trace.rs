//! When the bytes of a film are shown.

use super::client::BLOCK_BYTES;
use anyhow::{Context, Result};
use reel_report::output;
use std::path::Path;
use std::process::Command;

/// The blocks of a film in order: the time of the first frame that needs each of them, in seconds.
pub(super) struct Trace(Vec<f64>);

impl Trace {
    /// Of a film, by ffprobe.
    ///
    /// # Errors
    /// Those of ffprobe.
    pub(super) fn of(film: &Path) -> Result<Trace> {
        let mut command = Command::new("ffprobe");
        command.args(["-v", "error", "-select_streams", "v", "-show_entries", "packet=dts_time,pos"]);
        let listed = String::from_utf8(output(command.args(["-of", "csv=p=0"]).arg(film))?)?;
        let mut frames: Vec<(u64, f64)> = Vec::new();
        for line in listed.lines() {
            let (time, place) = line.split_once(',').context("a packet without a place")?;
            frames.push((place.trim_end_matches(',').parse()?, time.parse()?));
        }
        frames.sort_by_key(|(place, _)| *place);
        let last = frames.last().context("a film without frames")?.0;
        let shown = |block: u64| {
            let frame = frames.partition_point(|(place, _)| *place < block * BLOCK_BYTES);
            // The frame before may need the beginning of the block.
            frames.get(frame.saturating_sub(1)).map_or(0.0, |(_, time)| time.max(0.0))
        };
        Ok(Trace((0..=last / BLOCK_BYTES).map(shown).collect()))
    }

    /// When a block is needed; `None` behind the last one.
    pub(super) fn needed_s(&self, block: usize) -> Option<f64> {
        self.0.get(block).copied()
    }
}
