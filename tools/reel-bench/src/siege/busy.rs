//! A busy loop on each processor: what another program on the machine may do.

use anyhow::{Context, Result};
use std::process::{Child, Command, Stdio};

/// Busy processes. They end with this value.
pub(super) struct Busy(Vec<Child>);

impl Busy {
    /// One for each of `processors`.
    pub(super) fn start(processors: usize) -> Result<Self> {
        let mut busy = Self(Vec::new());
        for _ in 0..processors {
            // It ends when its input does, too: then this program has ended.
            let script = "(while :; do :; done) & read -r end; kill $!";
            let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn();
            busy.0.push(child.context("starting a busy loop")?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
