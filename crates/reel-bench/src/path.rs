//! `path`: disk to network (MARS table 1, Halvorsen 5.4-5.7), first version.
//!
//! One title, cold, to loopback clients: Reel beside nginx on the same file system, in turn. Both servers are started anew and
//! the page cache is emptied before every run, so nobody has anything in memory. The nginx reading mode that is faster here
//! is the rival. Then ingest beside a plain
//! write of the same number of bytes to as many files, both from memory.

use crate::client::{fetch, length, resolve};
use crate::cpu::CpuTime;
use crate::machine::Machine;
use crate::report::{Claim, Report, Row, spread};
use crate::rival::{Reading, nginx, nginx_at};
use crate::server::{Server, free_address};
use crate::wire::{Crowd, Want, Way, Wire, Wish};
use crate::{PathArguments, film, reel, write};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

const MEMBERS: usize = 5;
const TITLE: &str = "bench-film";
/// Reel must reach this share of nginx's throughput for now, and ingest this share of a plain write.
const SERVE_BAR: f64 = 0.8;
const INGEST_BAR: f64 = 0.5;

/// On the wire: a viewer in the same country, with a window that does not keep a server waiting, and what is sampled in each run.
const ROUND_TRIP_NS: u64 = 10_000_000;
const WINDOW_BYTES: u32 = 4 << 20;
const SAMPLE_BYTES: u64 = 4 << 20;

/// Runs the experiment and publishes its report.
pub(crate) fn run(arguments: &PathArguments) -> Result<()> {
    fs::create_dir_all(&arguments.dir)?;
    let reel = reel::binary(arguments.reel.as_deref())?;
    let wire = if arguments.wire { Some(Wire::lay()?) } else { None };
    let mut bench = Bench { arguments, reel, wire, rows: Vec::new(), claims: Vec::new() };
    let film = film::make(&arguments.dir, arguments.film_mib)?;
    bench.ingest(&film)?;
    bench.serve()?;
    let report = Report { bench: "path", machine: Machine::here(), rows: bench.rows, claims: bench.claims };
    report.publish(&arguments.dir, arguments.json)
}

struct Bench<'a> {
    arguments: &'a PathArguments,
    reel: PathBuf,
    wire: Option<Wire>,
    rows: Vec<Row>,
    claims: Vec<Claim>,
}

impl Bench<'_> {
    /// Ingest and plain write in turn; the volume of the last run stays for serving.
    fn ingest(&mut self, film: &Path) -> Result<()> {
        let film_bytes = fs::metadata(film)?.len();
        let mut ratios = Vec::new();
        for run in 0..self.arguments.runs {
            let volume = self.volume();
            if volume.exists() {
                fs::remove_dir_all(&volume)?;
            }
            let size = format!("{}M", (film_bytes >> 20) * 3 / 2 + 1024);
            self.reel(&["volume", "create", &text(&volume), "--size", &size])?;
            drop_caches(self.arguments.smoke)?;
            // A plain write has its bytes at hand: so has the ingest, or it would be the reading of the film that is measured.
            io::copy(&mut File::open(film)?, &mut io::sink())?;
            let started = Instant::now();
            self.reel(&["ingest", &text(&volume), &text(film), "--name", TITLE])?;
            let ingest_s = started.elapsed().as_secs_f64();
            drop_caches(self.arguments.smoke)?;
            let plain_s = write::plain(&self.arguments.dir, MEMBERS, film_bytes)?;
            ratios.push(plain_s / ingest_s);
            for (who, took_s) in [("reel", ingest_s), ("plain write", plain_s)] {
                self.rows.push(Row {
                    case: "ingest".into(),
                    who: who.into(),
                    run,
                    mb_per_s: film_bytes as f64 / 1e6 / took_s,
                    server_cpu_s_per_gb: None,
                    system_cpu_s_per_gb: None,
                });
            }
        }
        let claim = "ingest / plain write of the same bytes, throughput".to_owned();
        self.claims.push(Claim::at_least(claim, spread(&mut ratios).1, INGEST_BAR));
        Ok(())
    }

    fn serve(&mut self) -> Result<()> {
        // The rival serves the very bytes Reel serves: the exported file.
        let root = self.arguments.dir.join("www");
        fs::create_dir_all(&root)?;
        let file = root.join("film.mp4");
        self.reel(&["export", &text(&self.volume()), TITLE, &text(&file), "--force"])?;
        let bytes = fs::metadata(&file)?.len();
        self.same_bytes(bytes)?;
        for &connections in &self.arguments.connections {
            let on = if self.wire.is_some() { "wire, " } else { "" };
            let case = format!("serve, {on}{connections} conn.");
            let mut per_mode = Vec::new();
            for run in 0..self.arguments.runs {
                let ours = self.measure_reel(&case, run, bytes, connections)?;
                let rivals = [Reading::Sendfile, Reading::Threads]
                    .map(|reading| self.measure_nginx(&case, run, bytes, connections, reading));
                for (mode, rival) in rivals.into_iter().enumerate() {
                    per_mode.push((mode, ours / rival?));
                }
            }
            // The rival's better mode is the one that leaves Reel the lower median ratio.
            let ratio = (0..2)
                .map(|mode| {
                    let mut ratios: Vec<_> =
                        per_mode.iter().filter(|(of, _)| *of == mode).map(|(_, r)| *r).collect();
                    spread(&mut ratios).1
                })
                .fold(f64::MAX, f64::min);
            let claim = format!("reel / best nginx, throughput, {on}{connections} connections, cold");
            self.claims.push(Claim::at_least(claim, ratio, SERVE_BAR));
        }
        Ok(())
    }

    /// Both servers must send the same bytes, or nothing else counts.
    fn same_bytes(&self, bytes: u64) -> Result<()> {
        let (reel, path) = self.start_reel(None)?;
        ensure!(length(reel.address, &path)? == bytes, "the export and the served film differ in length");
        let ours = fetch(reel.address, &path, bytes, 4, true)?.sum;
        drop(reel);
        let nginx = self.start_nginx(Reading::Sendfile, None)?;
        let theirs = fetch(nginx.address, "/film.mp4", bytes, 4, true)?.sum;
        ensure!(ours == theirs, "the two servers send different bytes");
        Ok(())
    }

    fn measure_reel(&mut self, case: &str, run: usize, bytes: u64, connections: usize) -> Result<f64> {
        drop_caches(self.arguments.smoke)?;
        let (server, path) = self.start_reel(self.wire.as_ref())?;
        self.measure(case, "reel", run, &server, &path, bytes, connections)
    }

    fn measure_nginx(
        &mut self,
        case: &str,
        run: usize,
        bytes: u64,
        connections: usize,
        reading: Reading,
    ) -> Result<f64> {
        drop_caches(self.arguments.smoke)?;
        let server = self.start_nginx(reading, self.wire.as_ref())?;
        let who = if reading == Reading::Sendfile { "nginx sendfile" } else { "nginx threads" };
        self.measure(case, who, run, &server, "/film.mp4", bytes, connections)
    }

    #[allow(clippy::too_many_arguments, reason = "one call site per server, all plain values")]
    fn measure(
        &mut self,
        case: &str,
        who: &str,
        run: usize,
        server: &Server,
        path: &str,
        bytes: u64,
        connections: usize,
    ) -> Result<f64> {
        if self.wire.is_some() {
            return self.measure_on_wire(case, who, run, server, path, bytes, connections);
        }
        let processes = server.processes()?;
        let before = CpuTime::now(&processes)?;
        let fetched = fetch(server.address, path, bytes, connections, false)?;
        let used = CpuTime::now(&processes)?.since(before);
        let gb = fetched.bytes as f64 / 1e9;
        let mb_per_s = gb * 1e3 / fetched.took_s;
        self.rows.push(Row {
            case: case.to_owned(),
            who: who.to_owned(),
            run,
            mb_per_s,
            server_cpu_s_per_gb: Some(used.server_s / gb),
            system_cpu_s_per_gb: Some((used.system_s - used.client_s) / gb),
        });
        Ok(mb_per_s)
    }

    /// The same over connections of simulated viewers. One piece is kept and compared with the file.
    #[allow(clippy::too_many_arguments, reason = "as the other")]
    fn measure_on_wire(
        &mut self,
        case: &str,
        who: &str,
        run: usize,
        server: &Server,
        path: &str,
        bytes: u64,
        connections: usize,
    ) -> Result<f64> {
        let share = bytes.div_ceil(connections as u64);
        let piece = |from: u64, to: u64, keep| {
            Wish::Pieces(vec![Want { target: path.to_owned(), range: Some(from..to.min(bytes)), keep }])
        };
        let shares = (0..connections as u64).map(|number| piece(number * share, (number + 1) * share, false));
        let sampled = bytes / 2..(bytes / 2 + SAMPLE_BYTES).min(bytes);
        let crowd = Crowd {
            wishes: shares.chain([piece(sampled.start, sampled.end, true)]).collect(),
            way: Way { round_trip_ns: ROUND_TRIP_NS, line_bps: None, loss: 0.0 },
            window_bytes: WINDOW_BYTES,
            step_bytes: 64 << 10,
            seed: run as u64,
            most: Duration::from_secs(600),
        };
        let wire = self.wire.as_mut().context("no wire")?;
        let meter = wire.meter(server.processes()?);
        let before = meter.read()?;
        let seen = wire.run(server.address, crowd, |_| true)?;
        let used = meter.read()?.since(&before);
        ensure!(seen.failures.is_empty() && seen.unfinished == 0, "viewers failed: {:?}", seen.failures);
        let mut file = vec![0; (sampled.end - sampled.start) as usize];
        File::open(self.arguments.dir.join("www/film.mp4"))?.read_exact_at(&mut file, sampled.start)?;
        let (_, body) = seen.kept.first().context("the sampled piece did not come")?;
        ensure!(*body == file, "{who} sent other bytes than the file's");
        let gb = seen.body_bytes as f64 / 1e9;
        let mb_per_s = gb * 1e3 / seen.took_s;
        self.rows.push(Row {
            case: case.to_owned(),
            who: who.to_owned(),
            run,
            mb_per_s,
            server_cpu_s_per_gb: Some(used.server_s / gb),
            system_cpu_s_per_gb: Some(used.sender_s() / gb),
        });
        Ok(mb_per_s)
    }

    fn start_reel(&self, wire: Option<&Wire>) -> Result<(Server, String)> {
        let watch = format!("/watch/{TITLE}/{TITLE}.mp4");
        let start = |address: SocketAddr| {
            let mut command = Command::new(&self.reel);
            command
                .args(["serve", &text(&self.volume()), "--listen", &address.to_string()])
                .stderr(Stdio::null());
            Server::start(command, address)
        };
        match wire {
            None => {
                let server = start(free_address()?)?;
                let path = resolve(server.address, &watch)?;
                Ok((server, path))
            }
            Some(wire) => {
                let address = wire.address();
                let server = wire.at_server(|| start(address))?;
                let path = wire.far_away(|| resolve(address, &watch))?;
                Ok((server, path))
            }
        }
    }

    fn start_nginx(&self, reading: Reading, wire: Option<&Wire>) -> Result<Server> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let (root, run) = (self.arguments.dir.join("www"), self.arguments.dir.join("nginx"));
        match wire {
            None => nginx(&root, &run, workers, reading),
            Some(wire) => {
                let address = wire.address();
                // The last processor is the sink's.
                let workers = (workers - 1).max(1);
                wire.at_server(|| nginx_at(address, &root, &run, workers, reading))
            }
        }
    }

    fn reel(&self, arguments: &[&str]) -> Result<()> {
        reel::run(Command::new(&self.reel).args(arguments).stdin(Stdio::null()))
    }

    fn volume(&self) -> PathBuf {
        self.arguments.dir.join("volume")
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Empties the page cache, so that every run starts cold. A smoke run, whose figures mean nothing, goes on without the right to.
pub(crate) fn drop_caches(smoke: bool) -> Result<()> {
    rustix::fs::sync();
    match fs::write("/proc/sys/vm/drop_caches", "1") {
        Err(error) if smoke && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done.context("emptying the page cache needs root"),
    }
}
