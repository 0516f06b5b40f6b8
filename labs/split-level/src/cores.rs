//! The measured programs of `labs/shared-processor`, one process for each measurement.

use anyhow::{Context, Result};
use reel_report::{example, output_json};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The example `cores` of `labs/shared-processor`. It is a program of its own, so that experiments
/// need no crate of the server.
pub(crate) struct Cores {
    program: PathBuf,
    /// The processor that is measured, and another one.
    pub(crate) cpu: usize,
    pub(crate) other_cpu: usize,
}

/// A process that only works; ends with the value.
pub(crate) struct Hog(Child);

impl Cores {
    /// Finds it where `cargo build --example` puts it.
    pub(crate) fn find() -> Result<Self> {
        let program = example("lab-shared-processor", "cores")?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // The first one serves more interrupts than others.
        let (cpu, other_cpu) = if processors > 2 { (1, 2) } else { (0, processors - 1) };
        Ok(Self { program, cpu, other_cpu })
    }

    /// One measurement.
    pub(crate) fn measure(&self, part: &str, arguments: &[String]) -> Result<Value> {
        let processors = [format!("cpu={}", self.cpu), format!("device={}", self.other_cpu)];
        output_json(Command::new(&self.program).arg(part).args(processors).args(arguments))
    }

    /// Whether this user may use SCHED_FIFO.
    pub(crate) fn fifo_permitted(&self) -> bool {
        let path = ["system=split", "path=transfer", "count=1", "fifo=1"].map(str::to_owned);
        self.measure("path", &path).is_ok()
    }

    /// Starts a process that keeps a processor busy.
    pub(crate) fn hog(&self) -> Result<Hog> {
        let child = Command::new(&self.program).arg("hog").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Hog(child.with_context(|| format!("starting {}", self.program.display()))?))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It ends by nothing else, and has nothing to lose.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
