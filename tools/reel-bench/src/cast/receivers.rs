//! One, ten and a hundred receivers of one cast: what the server sends, reads and holds.

use super::Size;
use super::site::{GROUP, PORT, Setup, Site, title_of};
use super::stream;
use anyhow::{Context, Result, ensure};
use reel_report::{Claim, Report};
use serde_json::json;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CASE: &str = "real receivers";
const RATE_BPS: u64 = 5_000_000;
const RECEIVERS: [usize; 3] = [1, 10, 100];
/// What differs from one number of receivers to another, as a share.
const EQUAL: f64 = 0.02;
const END_MAX: Duration = Duration::from_secs(60);

/// Runs it: each number of receivers joins before the cast begins, and stays until its end.
pub(super) fn run(size: &Size, report: &mut Report) -> Result<()> {
    let seconds = if size.quick { 10 } else { 20 };
    let stream = stream::make(&size.dir, seconds, RATE_BPS)?;
    let site = Site::with_receivers(size, "receivers", std::slice::from_ref(&stream))?;
    let numbers = if size.quick { &RECEIVERS[..2] } else { &RECEIVERS[..] };
    report.note(format!(
        "{CASE}: so many `reel receive` at the other end of a veth join a cast of {seconds} s of 5 Mb/s with FEC, and stay to its end; \
         memory is what the server has resident then"
    ));
    for run in 0..size.runs {
        for &receivers in numbers {
            one(&site, &title_of(&stream), (receivers, run), report)?;
        }
    }
    for value in ["packets", "read_mb", "memory_mb"] {
        let of = |receivers: usize| report.median_or_nan(CASE, "reel", receivers as f64, value);
        let (first, last) = (of(numbers[0]), of(numbers[numbers.len() - 1]));
        let claim = format!("{CASE}: {value} with {} / with 1", numbers[numbers.len() - 1]);
        report.claim(Claim::within(claim, last / first, 1.0, EQUAL));
    }
    let missed: f64 = report.rows.iter().filter_map(|row| row.values.get("incomplete")).sum();
    report.claim(Claim::at_most(format!("{CASE}: those that did not get all of the title"), missed, 0.0));
    Ok(())
}

fn one(site: &Site, title: &str, (count, run): (usize, usize), report: &mut Report) -> Result<()> {
    let casting = site.serve(&Setup::default())?;
    let before = read_bytes(&casting.metrics()?)?;
    let address = format!("rtp://{GROUP}:{PORT}");
    let mut receivers = Vec::new();
    for number in 0..count {
        receivers.push(Receiving::start(site, &address, number)?);
    }
    // Time to join: a cast begins a second after it is added.
    sleep(Duration::from_secs(2));
    let more = json!({ "loop": false });
    casting.add(title, &format!("{GROUP}:{PORT}"), &more)?;
    casting.await_end()?;
    let cast = casting.casts()?.pop().context("no cast")?;
    let process = casting.server.processes()?[0];
    let memory = resident_bytes(process)?;
    let read = read_bytes(&casting.metrics()?)? - before;
    let sent = cast["packets"].as_f64().context("no packets in the answer")?;
    let fec = cast["fec_packets"].as_f64().unwrap_or(0.0);
    let mut incomplete = 0;
    for receiver in receivers {
        incomplete += usize::from(receiver.until_its_end()? < sent as u64 * 1316);
    }
    let values = [
        ("packets", sent + fec),
        ("read_mb", read / 1e6),
        ("memory_mb", memory / 1e6),
        ("late_packets", cast["late_packets"].as_f64().unwrap_or(f64::NAN)),
        ("lost_packets", cast["lost_packets"].as_f64().unwrap_or(f64::NAN)),
        ("incomplete", incomplete as f64),
    ];
    report.row(CASE, "reel", count as f64, run, &values);
    Ok(())
}

/// A `reel receive`. It is ended with this value.
struct Receiving {
    child: Child,
    file: std::path::PathBuf,
}

impl Receiving {
    fn start(site: &Site, address: &str, number: usize) -> Result<Receiving> {
        let file = site.file(&format!("received-{number}"));
        let mut command = Command::new(site.reel());
        command.args(["--quiet", "receive", address, "--timeout", "60s", "--force", "-o"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = site.far()?.inside(|| Ok(command.spawn()?))?;
        Ok(Receiving { child, file })
    }

    /// Waits until the cast has said goodbye; the bytes that it wrote.
    fn until_its_end(mut self) -> Result<u64> {
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < END_MAX, "a receiver does not end");
            sleep(Duration::from_millis(20));
        }
        Ok(fs::metadata(&self.file)?.len())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.file);
    }
}

/// Bytes that were read from all members.
fn read_bytes(metrics: &str) -> Result<f64> {
    let lines = metrics.lines().filter(|line| line.starts_with("reel_member_read_bytes_total"));
    let values: Option<Vec<f64>> = lines.map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    values.map(|values| values.iter().sum()).context("no bytes read on the metrics page")
}

fn resident_bytes(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<f64>()? * 1024.0)
}
