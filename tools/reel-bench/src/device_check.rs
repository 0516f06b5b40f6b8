//! `devices`: whether the modelled disks behave as modelled, measured by fio, directly and through
//! a loop device.

use crate::device::{Change, DeviceOwner, DeviceRequest, DiskCounts};
use crate::disk_set::{Kind, modelled};
use anyhow::{Context, Result};
use reel_report::{Claim, CommonOptions, Report, output_json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Size of the disks.
const DISK_BYTES: u64 = 4 << 30;
const MIB: f64 = 1048576.0;

/// Runs the check.
pub(crate) fn run(arguments: &CommonOptions) -> Result<()> {
    Report::new("devices").fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    if modelled(arguments, report)? != Kind::Modelled {
        report.note("skipped: there is nothing to check");
        return Ok(());
    }
    let owner = DeviceOwner::start()?;
    report.note(format!(
        "the model: 7200 rpm, seeks of 2 to 16 ms over {} GiB, 150 MB/s, nearest first among 32",
        DISK_BYTES >> 30
    ));
    let dir = arguments.make_dir()?.join(format!("devices-{}", std::process::id()));
    let disks: Vec<PathBuf> = owner.request(&DeviceRequest::Disks { dir, count: 1, bytes: DISK_BYTES })?;
    let loops = owner.loops(&disks)?;
    owner.queues(&loops, Some("none"), None)?;
    owner.change_all(1, Change::Modelled)?;
    let seconds = arguments.seconds.unwrap_or(if arguments.quick { 2 } else { 10 });
    for (system, device) in [("file", &disks[0]), ("loop device", &loops[0])] {
        for (case, pattern, bytes, depth) in [
            ("reads in order", "read", "1m", 4),
            ("scattered reads", "randread", "64k", 1),
            ("scattered reads", "randread", "64k", 32),
        ] {
            let (iops, bytes_per_s) = fio(device, pattern, bytes, depth, seconds)?;
            let values = [("iops", iops), ("mib_per_s", bytes_per_s / MIB)];
            report.row(case, system, f64::from(depth), 0, &values);
            if system == "loop device" {
                report.claim(match (pattern, depth) {
                    ("read", _) => {
                        Claim::at_least("150 MB/s in order: MiB/s".into(), bytes_per_s / MIB, 125.0)
                    }
                    (_, 1) => Claim::within(
                        "scattered reads of 64 KiB, one at a time, a second".into(),
                        iops,
                        77.0,
                        0.1,
                    ),
                    _ => Claim::at_least(
                        "scattered reads of 64 KiB, 32 at a time, a second".into(),
                        iops,
                        110.0,
                    ),
                });
            }
        }
    }
    let counts: Vec<DiskCounts> = owner.request(&DeviceRequest::Counts)?;
    report.note(format!("what the disk counted: {:?}", counts[0]));
    Ok(())
}

/// Requests and bytes a second that fio reads.
fn fio(device: &Path, pattern: &str, bytes: &str, depth: u32, seconds: u64) -> Result<(f64, f64)> {
    let mut command = Command::new("fio");
    command
        .args(["--name=check", "--ioengine=libaio", "--direct=1", "--time_based", "--output-format=json"])
        .arg(format!("--filename={}", device.display()))
        .arg(format!("--rw={pattern}"))
        .arg(format!("--bs={bytes}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--size={DISK_BYTES}"));
    let result = output_json(&mut command).context("is fio installed? (apt install fio)")?;
    let read = &result["jobs"][0]["read"];
    let number = |name: &str| read[name].as_f64().with_context(|| format!("fio tells no {name}"));
    Ok((number("iops")?, number("bw_bytes")?))
}
