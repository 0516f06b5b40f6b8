//! `wire`: whether the wire is what it claims to be, before anybody measures on it.

use crate::ExperimentArguments;
use crate::cpu::CpuTime;
use crate::rival::{Reading, nginx_at};
use crate::server::Server;
use crate::sheet::Sheet;
use crate::wire::{Crowd, SERVER, Seen, Want, Way, Wire, Wish};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 8080;
const FILE: &str = "wire.bin";
const FILE_BYTES: u64 = 64 << 20;

/// Runs the check.
pub(crate) fn run(arguments: &ExperimentArguments) -> Result<()> {
    Sheet::new("wire").fill(arguments, |sheet| measure(arguments, sheet))
}

fn measure(arguments: &ExperimentArguments, sheet: &mut Sheet) -> Result<()> {
    fs::create_dir_all(&arguments.dir)?;
    let dir = fs::canonicalize(&arguments.dir)?;
    let root = dir.join("wire-www");
    fs::create_dir_all(&root)?;
    make_file(&root.join(FILE))?;
    let mut wire = Wire::lay()?;
    for (name, loss) in [("kept", 0.0), ("kept, lossy", 0.01), ("counted", 0.0), ("counted, lossy", 0.01)] {
        let keep = name.starts_with("kept");
        let address = SocketAddr::from((SERVER, PORT));
        let server = wire.at_server(|| nginx_at(address, &root, &dir.join("nginx"), 3, Reading::Sendfile))?;
        let rounds = if keep { 1 } else { 20 };
        let wants = |number: u64| {
            let share = FILE_BYTES / 16;
            let range = number * share..(number + 1) * share;
            vec![Want { target: format!("/{FILE}"), range: Some(range), keep }; rounds]
        };
        let crowd = Crowd {
            wishes: (0..16).map(|number| Wish::Pieces(wants(number))).collect(),
            way: Way { round_trip_ns: 10_000_000, line_bps: None, loss },
            window_bytes: 1 << 20,
            step_bytes: 64 << 10,
            seed: 1,
            most: Duration::from_secs(60),
        };
        let seen = measured(sheet, name, &mut wire, &server, crowd)?;
        if keep {
            verify(&root.join(FILE), &seen)?;
        }
    }
    Ok(())
}

fn measured(sheet: &mut Sheet, who: &str, wire: &mut Wire, server: &Server, crowd: Crowd) -> Result<Seen> {
    let processes = server.processes()?;
    let before = CpuTime::now(&processes)?;
    let seen = wire.run(server.address, crowd, |_| true)?;
    let used = CpuTime::now(&processes)?.since(before);
    let gb = seen.body_bytes as f64 / 1e9;
    for (failure, count) in &seen.failures {
        sheet.note(format!("{who}: {count} viewers failed: {failure}"));
    }
    let values = [
        ("mb_per_s", gb * 1e3 / seen.took_s),
        ("server_cpu_s_per_gb", used.server_s / gb),
        ("system_cpu_s_per_gb", (used.system_s - used.client_s) / gb),
        ("client_cpu_s_per_gb", used.client_s / gb),
        ("bytes_per_segment", seen.payload_bytes as f64 / seen.segments as f64),
        ("packets_per_gb", seen.packets as f64 / gb),
        ("repeated", seen.repeated_bytes as f64 / seen.body_bytes as f64),
        ("overrun", seen.overrun as f64),
        ("sink_late_ms", seen.sink_late_ms),
        ("unfinished", seen.unfinished as f64),
    ];
    sheet.row("check", who, 0.0, 0, &values);
    Ok(seen)
}

/// What was kept must be the file.
fn verify(file: &Path, seen: &Seen) -> Result<()> {
    let bytes = fs::read(file)?;
    ensure!(seen.kept.len() == 16, "{} of 16 pieces came: {:?}", seen.kept.len(), seen.failures);
    for (want, body) in &seen.kept {
        let range = want.range.clone().context("a piece without its range")?;
        ensure!(bytes[range.start as usize..range.end as usize] == body[..], "other bytes than the file's at {range:?}");
    }
    Ok(())
}

fn make_file(path: &Path) -> Result<()> {
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}
