//! `path --tls`: processor time for each GB over HTTPS, Reel beside nginx with the same cipher (TLS 1.3, AES-128-GCM), certificate and
//! bytes.
//!
//! nginx runs with each of the settings an expert would try; the one that takes the least time is the rival. Cold: nobody has anything in
//! memory. Hot: right after the same bytes were fetched once.

use crate::client::{fetch, length, resolve};
use crate::cpu::CpuTime;
use crate::machine::Machine;
use crate::path::{drop_caches, text};
use crate::report::{Claim, Report, Row, spread};
use crate::rival::{Reading, nginx_with};
use crate::secured::Way;
use crate::server::{Server, free_address};
use crate::{PathArguments, film, reel};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TITLE: &str = "bench-film";
/// Of the processor time of nginx at its best, Reel may take this share.
const CPU_BAR: f64 = 0.8;

/// Runs the experiment and publishes its report.
pub(crate) fn run(arguments: &PathArguments) -> Result<()> {
    fs::create_dir_all(&arguments.dir)?;
    let reel = reel::binary(arguments.reel.as_deref())?;
    let film = film::make(&arguments.dir, arguments.film_mib)?;
    let mut bench = Bench { arguments, reel, bytes: 0, rows: Vec::new(), claims: Vec::new() };
    bench.prepare(&film)?;
    for connections in arguments.connections.clone() {
        for hot in [false, true] {
            bench.compare(connections, hot)?;
        }
    }
    let report =
        Report { bench: "path-tls", machine: Machine::here(), rows: bench.rows, claims: bench.claims };
    report.publish(&arguments.dir, arguments.json)
}

struct Bench<'a> {
    arguments: &'a PathArguments,
    reel: PathBuf,
    bytes: u64,
    rows: Vec<Row>,
    claims: Vec<Claim>,
}

/// A running server and what is fetched from it.
struct Running {
    server: Server,
    way: Way,
    path: String,
}

/// Processor seconds per GB of one server, run by run.
#[derive(Default)]
struct Taken {
    system: Vec<f64>,
    server: Vec<f64>,
}

impl Taken {
    fn system(&mut self) -> f64 {
        spread(&mut self.system).1
    }

    fn server(&mut self) -> f64 {
        spread(&mut self.server).1
    }
}

impl Bench<'_> {
    fn prepare(&mut self, film: &Path) -> Result<()> {
        let volume = self.volume();
        if volume.exists() {
            fs::remove_dir_all(&volume)?;
        }
        let size = format!("{}M", (fs::metadata(film)?.len() >> 20) * 3 / 2 + 1024);
        self.reel(&["volume", "create", &text(&volume), "--size", &size])?;
        self.reel(&["ingest", &text(&volume), &text(film), "--name", TITLE])?;
        let root = self.arguments.dir.join("www");
        fs::create_dir_all(&root)?;
        let file = root.join("film.mp4");
        self.reel(&["export", &text(&volume), TITLE, &text(&file), "--force"])?;
        self.bytes = fs::metadata(&file)?.len();
        let ours = self.start_reel()?;
        ensure!(
            length(ours.way.clone(), &ours.path)? == self.bytes,
            "the export and the served film differ in length"
        );
        let our_sum = fetch(ours.way, &ours.path, self.bytes, 4, true)?.sum;
        drop(ours.server);
        let theirs = self.start_nginx(Reading::Sendfile)?;
        let their_sum = fetch(theirs.way, &theirs.path, self.bytes, 4, true)?.sum;
        ensure!(our_sum == their_sum, "the two servers send different bytes");
        Ok(())
    }

    /// All servers in turn, as often as asked for; one claim.
    fn compare(&mut self, connections: usize, hot: bool) -> Result<()> {
        let heat = if hot { "hot" } else { "cold" };
        let case = format!("https {heat}, {connections} conn.");
        let mut ours = Taken::default();
        let mut theirs: [Taken; Reading::EXPERT_TLS.len()] = Default::default();
        for run in 0..self.arguments.runs {
            drop_caches(self.arguments.smoke)?;
            let server = self.start_reel()?;
            self.measure((&case, "reel", run), &server, connections, hot, &mut ours)?;
            drop(server);
            for (reading, taken) in Reading::EXPERT_TLS.into_iter().zip(&mut theirs) {
                drop_caches(self.arguments.smoke)?;
                let server = self.start_nginx(reading)?;
                self.measure((&case, &format!("nginx {reading}"), run), &server, connections, hot, taken)?;
            }
        }
        // System-wide is what counts; it needs a machine that does nothing else. The servers' own is told beside it.
        for (what, of) in [("system", Taken::system as fn(&mut Taken) -> f64), ("server", Taken::server)] {
            let best = theirs.iter_mut().map(of).fold(f64::MAX, f64::min);
            let claim = format!("reel / best nginx, {what} CPU per GB, https {heat}, {connections} conn.");
            self.claims.push(Claim::at_most(claim, of(&mut ours) / best, CPU_BAR));
        }
        Ok(())
    }

    fn measure(
        &mut self,
        (case, who, run): (&str, &str, usize),
        running: &Running,
        connections: usize,
        hot: bool,
        taken: &mut Taken,
    ) -> Result<()> {
        let Running { server, way, path } = running;
        if hot {
            fetch(way.clone(), path, self.bytes, connections, false)?;
        }
        let processes = server.processes()?;
        let before = CpuTime::now(&processes)?;
        let fetched = fetch(way.clone(), path, self.bytes, connections, false)?;
        let used = CpuTime::now(&processes)?.since(before);
        let gb = fetched.bytes as f64 / 1e9;
        let system_cpu_s_per_gb = (used.system_s - used.client_s) / gb;
        self.rows.push(Row {
            case: case.to_owned(),
            who: who.to_owned(),
            run,
            mb_per_s: gb * 1e3 / fetched.took_s,
            server_cpu_s_per_gb: Some(used.server_s / gb),
            system_cpu_s_per_gb: Some(system_cpu_s_per_gb),
        });
        taken.system.push(system_cpu_s_per_gb);
        taken.server.push(used.server_s / gb);
        Ok(())
    }

    fn start_reel(&self) -> Result<Running> {
        let (address, plain) = (free_address()?, free_address()?);
        let mut command = Command::new(&self.reel);
        command
            .args([
                "serve",
                &text(&self.volume()),
                "--listen",
                &plain.to_string(),
                "--https",
                &address.to_string(),
            ])
            .stderr(Stdio::null());
        let server = Server::start(command, address)?;
        let way = Way::secured(address, &self.certificate().0)?;
        let path = resolve(way.clone(), &format!("/watch/{TITLE}/{TITLE}.mp4"))?;
        Ok(Running { server, way, path })
    }

    fn start_nginx(&self, reading: Reading) -> Result<Running> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let (certificate, key) = self.certificate();
        let tls = Some((&*certificate, &*key));
        let (root, run) = (self.arguments.dir.join("www"), self.arguments.dir.join("nginx"));
        let server = nginx_with(free_address()?, &root, &run, workers, reading, tls)?;
        let way = Way::secured(server.address, &certificate)?;
        Ok(Running { server, way, path: "/film.mp4".to_owned() })
    }

    /// What Reel made for itself serves both.
    fn certificate(&self) -> (PathBuf, PathBuf) {
        let tls = self.volume().join("tls");
        (tls.join("certificate.pem"), tls.join("key.pem"))
    }

    fn reel(&self, arguments: &[&str]) -> Result<()> {
        reel::run(Command::new(&self.reel).args(arguments).stdin(Stdio::null()))
    }

    fn volume(&self) -> PathBuf {
        self.arguments.dir.join("volume")
    }
}
