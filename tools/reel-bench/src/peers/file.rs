//! One title as one file (MARS table 1, Halvorsen 5.4-5.7): throughput in the clear, processor time
//! over HTTPS.
//!
//! Servers take turns. Each is restarted and the page cache is emptied before every run, so no
//! server has anything in memory; a hot run fetches the same bytes once before it is measured. Of a
//! rival's setups the best one counts.

use super::{Titles, drop_caches};
use crate::client::{fetch, length, resolve};
use crate::film;
use crate::rival::{Rival, Rivals, Setup, Site};
use crate::secured::Endpoint;
use crate::server::{Server, free_address};
use anyhow::{Context, Result, ensure};
use reel_report::{Claim, CommonOptions, Report, output, spread};
use reel_wire::{CostMeter, Crowd, Link, Request, Visit, Wire};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const TITLE: &str = "bench-film";

/// Reel must reach this share of the best rival's throughput.
const THROUGHPUT_BAR: f64 = 0.8;

/// Of the best rival's processor time over HTTPS, Reel may take this share.
const TLS_CPU_BAR: f64 = 0.8;

/// On the wire: a viewer in the same country, with a window that does not keep a server waiting.
const LINK: Link = Link { round_trip_ns: 10_000_000, line_bps: None, loss: 0.0 };
const WINDOW_BYTES: u32 = 4 << 20;

/// What is compared with the file in each run on the wire.
const SAMPLE_BYTES: u64 = 4 << 20;

/// The options of the parts that serve one file.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FileOptions {
    /// Size of the film that is served as one file, in MiB (made with ffmpeg).
    #[arg(long, default_value_t = 2048)]
    film_mib: u64,
    /// Numbers of connections; each connection fetches its share of the film.
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    connections: Vec<usize>,
}

/// The title, on a volume of Reel's and as a file for the rivals.
pub(super) struct FileTitle {
    reel: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) film: PathBuf,
    pub(super) runs: usize,
    pub(super) quick: bool,
    connections: Vec<usize>,
}

/// What one run of one server cost.
#[derive(Clone, Copy, Debug)]
struct Measured {
    mb_per_s: f64,
    /// The server's own processes.
    server_s_per_gb: f64,
    /// The whole system without the client; on the wire, what sending cost.
    system_s_per_gb: f64,
}

/// A server that runs, and the path of the title on it.
struct Running {
    server: Server,
    endpoint: Endpoint,
    path: String,
}

/// One figure of a run.
type Figure = fn(&Measured) -> f64;

/// How it is served: `None` is Reel.
type Which = Option<Setup>;

/// One number of connections, in one heat, over one network.
struct Case<'a> {
    name: String,
    connections: usize,
    titles: Titles,
    secured: bool,
    wire: Option<&'a mut Wire>,
}

impl FileTitle {
    /// Makes the film.
    pub(super) fn make(
        dir: &Path,
        reel: PathBuf,
        options: &FileOptions,
        common: &CommonOptions,
    ) -> Result<Self> {
        let quick = common.quick;
        let (film_mib, runs, connections) =
            if quick { (48, 1, vec![1, 8]) } else { (options.film_mib, 5, options.connections.clone()) };
        let runs = common.runs.unwrap_or(runs);
        let film = film::make(dir, film_mib)?;
        Ok(Self { reel, dir: dir.to_owned(), film, runs, quick, connections })
    }

    /// A new volume with room for the film.
    pub(super) fn empty_volume(&self) -> Result<()> {
        let volume = self.volume();
        if volume.exists() {
            fs::remove_dir_all(&volume)?;
        }
        let size = format!("{}M", (fs::metadata(&self.film)?.len() >> 20) * 3 / 2 + 1024);
        self.reel(&["volume".as_ref(), "create".as_ref(), volume.as_ref(), "--size".as_ref(), size.as_ref()])
    }

    /// Ingests the film.
    pub(super) fn ingest(&self) -> Result<()> {
        let (volume, film) = (self.volume(), self.film.as_os_str());
        self.reel(&["ingest".as_ref(), volume.as_ref(), film, "--name".as_ref(), TITLE.as_ref()])
    }

    /// Ingests the film, unless that was done, and exports it: rivals serve the very bytes that
    /// Reel serves.
    pub(super) fn put_in_place(&self, is_ingested: bool) -> Result<()> {
        if !is_ingested {
            self.empty_volume()?;
            self.ingest()?;
        }
        fs::create_dir_all(self.dir.join("www"))?;
        let (volume, file) = (self.volume(), self.file());
        let words: [&OsStr; 5] =
            ["export".as_ref(), volume.as_ref(), TITLE.as_ref(), file.as_ref(), "--force".as_ref()];
        self.reel(&words)
    }

    fn reel(&self, words: &[&OsStr]) -> Result<()> {
        output(Command::new(&self.reel).args(words)).map(drop)
    }

    fn volume(&self) -> PathBuf {
        self.dir.join("volume")
    }

    fn file(&self) -> PathBuf {
        self.dir.join("www/film.mp4")
    }

    /// What Reel made for itself serves rivals too.
    fn certificate(&self) -> (PathBuf, PathBuf) {
        let tls = self.volume().join("tls");
        (tls.join("certificate.pem"), tls.join("key.pem"))
    }

    fn start(&self, which: Which, case: &Case<'_>) -> Result<Running> {
        let (certificate, key) = self.certificate();
        let connect = |server: Server, path: &str| -> Result<Running> {
            let endpoint = match case.secured {
                true => Endpoint::secured(server.address, &certificate)?,
                false => server.address.into(),
            };
            Ok(Running { server, endpoint, path: path.to_owned() })
        };
        if let Some(setup) = which {
            let (root, run) = (self.dir.join("www"), self.dir.join(setup.rival().name()));
            let mut site = Site::new(&root, &run);
            site.tls = case.secured.then_some((&*certificate, &*key));
            let server = match &case.wire {
                None => site.start(setup)?,
                Some(wire) => {
                    // The last processor is the sink's.
                    site.workers = (site.workers - 1).max(1);
                    wire.at_server(|| site.start_at(wire.address(), setup))?
                }
            };
            return connect(server, "/film.mp4");
        }
        let mut running = match &case.wire {
            None => connect(self.serve(free_address()?, case.secured)?, "")?,
            Some(wire) => connect(wire.at_server(|| self.serve(wire.address(), false))?, "")?,
        };
        let watch = format!("/watch/{TITLE}/{TITLE}.mp4");
        running.path = match &case.wire {
            None => resolve(running.endpoint.clone(), &watch)?,
            Some(wire) => wire.far_away(|| resolve(running.endpoint.clone(), &watch))?,
        };
        Ok(running)
    }

    fn serve(&self, address: std::net::SocketAddr, secured: bool) -> Result<Server> {
        let mut command = Command::new(&self.reel);
        command.arg("serve").arg(self.volume()).stderr(Stdio::null());
        if secured {
            let plain = free_address()?;
            command.args(["--listen", &plain.to_string(), "--https", &address.to_string()]);
        } else {
            command.args(["--listen", &address.to_string()]);
        }
        Server::start(command, address)
    }

    /// All servers must send the same bytes, or nothing else counts.
    fn same_bytes(&self, setups: &[Setup], secured: bool) -> Result<()> {
        let bytes = fs::metadata(self.file())?.len();
        let case = Case { name: String::new(), connections: 4, titles: Titles::Cold, secured, wire: None };
        let ours = self.start(None, &case)?;
        let length = length(ours.endpoint.clone(), &ours.path)?;
        ensure!(length == bytes, "the export and the served film differ in length");
        let sum = fetch(ours.endpoint, &ours.path, bytes, 4, true)?.sum;
        drop(ours.server);
        for &setup in setups {
            let theirs = self.start(Some(setup), &case)?;
            let their_sum = fetch(theirs.endpoint, &theirs.path, bytes, 4, true)?.sum;
            ensure!(sum == their_sum, "reel and {} send different bytes", setup.label());
        }
        Ok(())
    }

    fn one(&self, which: Which, case: &mut Case<'_>, run: usize) -> Result<Measured> {
        drop_caches(self.quick)?;
        let bytes = fs::metadata(self.file())?.len();
        let running = self.start(which, case)?;
        if case.wire.is_some() {
            return self.on_wire(&running, case, (run, bytes));
        }
        let get = || fetch(running.endpoint.clone(), &running.path, bytes, case.connections, false);
        if case.titles == Titles::Hot {
            get()?;
        }
        let meter = CostMeter::of_processes(running.server.processes()?);
        let before = meter.read()?;
        let fetched = get()?;
        let used = meter.read()?.since(&before);
        Ok(Measured::new(fetched.bytes, fetched.took_s, used.server_s, used.system_s()))
    }

    /// The same over connections of simulated viewers. One piece is kept and compared with the
    /// file.
    fn on_wire(
        &self,
        running: &Running,
        case: &mut Case<'_>,
        (run, bytes): (usize, u64),
    ) -> Result<Measured> {
        let wire = case.wire.as_deref_mut().context("no wire")?;
        let share = bytes.div_ceil(case.connections as u64);
        let piece = |from: u64, to: u64, keep| {
            let target = running.path.clone();
            Visit::Pieces(vec![Request { target, range: Some(from..to.min(bytes)), keep }])
        };
        let shares =
            (0..case.connections as u64).map(|number| piece(number * share, (number + 1) * share, false));
        let sampled = bytes / 2..(bytes / 2 + SAMPLE_BYTES).min(bytes);
        let crowd = Crowd {
            visits: shares.chain([piece(sampled.start, sampled.end, true)]).collect(),
            link: LINK,
            window_bytes: WINDOW_BYTES,
            step_bytes: 64 << 10,
            seed: run as u64,
            most: Duration::from_secs(600),
        };
        let meter = wire.meter(running.server.processes()?);
        let before = meter.read()?;
        let outcome = wire.run(running.server.address, crowd, |_| true)?;
        let used = meter.read()?.since(&before);
        let failures = &outcome.failures;
        ensure!(failures.is_empty() && outcome.unfinished == 0, "viewers failed: {failures:?}");
        let mut file = vec![0; (sampled.end - sampled.start) as usize];
        File::open(self.file())?.read_exact_at(&mut file, sampled.start)?;
        let (_, body) = outcome.kept.first().context("the sampled piece did not arrive")?;
        ensure!(*body == file, "the server sent other bytes than the file's");
        Ok(Measured::new(outcome.body_bytes, outcome.took_s, used.server_s, used.sender_s()))
    }

    /// All servers in turn, as often as asked for: what each run of Reel measured, and of each
    /// setup.
    fn all(
        &self,
        setups: &[Setup],
        case: &mut Case<'_>,
        report: &mut Report,
    ) -> Result<(Vec<Measured>, Vec<Vec<Measured>>)> {
        let mut ours = Vec::new();
        let mut theirs = vec![Vec::new(); setups.len()];
        for run in 0..self.runs {
            let mut one = |which: Which| -> Result<Measured> {
                let system = which.map_or("reel", Setup::label);
                let measured =
                    self.one(which, case, run).with_context(|| format!("{}, {system}", case.name))?;
                report.row(&case.name, system, case.connections as f64, run, &measured.values());
                Ok(measured)
            };
            ours.push(one(None)?);
            for (&setup, all) in setups.iter().zip(&mut theirs) {
                all.push(one(Some(setup))?);
            }
        }
        Ok((ours, theirs))
    }
}

impl Measured {
    fn new(bytes: u64, took_s: f64, server_s: f64, system_s: f64) -> Self {
        let gb = bytes as f64 / 1e9;
        Self { mb_per_s: gb * 1e3 / took_s, server_s_per_gb: server_s / gb, system_s_per_gb: system_s / gb }
    }

    fn values(&self) -> [(&'static str, f64); 3] {
        [
            ("mb_per_s", self.mb_per_s),
            ("server_cpu_s_per_gb", self.server_s_per_gb),
            ("system_cpu_s_per_gb", self.system_s_per_gb),
        ]
    }
}

/// Throughput of one cold file in the clear, on loopback or on the wire.
pub(super) fn measure(
    title: &FileTitle,
    rivals: &Rivals,
    mut wire: Option<&mut Wire>,
    report: &mut Report,
) -> Result<()> {
    let setups: Vec<Setup> = rivals.iter().flat_map(Rival::expert_ranges).copied().collect();
    title.same_bytes(&setups, false)?;
    for &connections in &title.connections {
        let on = if wire.is_some() { "wire, " } else { "" };
        let name = format!("serve, {on}{connections} conn.");
        let wire = wire.as_deref_mut();
        let mut case = Case { name, connections, titles: Titles::Cold, secured: false, wire };
        let (ours, theirs) = title.all(&setups, &mut case, report)?;
        for rival in rivals.iter() {
            // The best setup is the one that leaves Reel the lowest median ratio.
            let of_rival = setups.iter().zip(&theirs).filter(|(setup, _)| setup.rival() == rival);
            let ratio = of_rival.map(|(_, all)| {
                let pairs = ours.iter().zip(all);
                spread(&mut pairs.map(|(ours, theirs)| ours.mb_per_s / theirs.mb_per_s).collect::<Vec<_>>()).1
            });
            let name = rival.name();
            let claim = format!("reel / best {name}, throughput, {on}{connections} connections, cold");
            report.claim(Claim::at_least(claim, ratio.fold(f64::MAX, f64::min), THROUGHPUT_BAR));
        }
    }
    Ok(())
}

/// Processor time per GB over HTTPS (TLS 1.3, AES-128-GCM), with the same certificate and bytes.
pub(super) fn measure_tls(title: &FileTitle, rivals: &Rivals, report: &mut Report) -> Result<()> {
    let setups: Vec<Setup> = rivals.iter().flat_map(Rival::expert_tls).copied().collect();
    title.same_bytes(&setups, true)?;
    for &connections in &title.connections {
        for titles in [Titles::Cold, Titles::Hot] {
            let heat = if titles == Titles::Hot { "hot" } else { "cold" };
            let name = format!("https {heat}, {connections} conn.");
            let mut case = Case { name, connections, titles, secured: true, wire: None };
            let (ours, theirs) = title.all(&setups, &mut case, report)?;
            // The system's time is what counts; it needs a machine that does nothing else. The
            // servers' own is reported beside it.
            let of: [(&str, Figure); 2] =
                [("system", |one| one.system_s_per_gb), ("server", |one| one.server_s_per_gb)];
            for (rival, (what, of)) in rivals.iter().flat_map(|rival| of.map(|of| (rival, of))) {
                let median = |all: &[Measured]| spread(&mut all.iter().map(of).collect::<Vec<_>>()).1;
                let of_rival = setups.iter().zip(&theirs).filter(|(setup, _)| setup.rival() == rival);
                let best = of_rival.map(|(_, all)| median(all)).fold(f64::MAX, f64::min);
                let claim = format!(
                    "reel / best {}, {what} CPU per GB, https {heat}, {connections} conn.",
                    rival.name()
                );
                report.claim(Claim::at_most(claim, median(&ours) / best, TLS_CPU_BAR));
            }
        }
    }
    Ok(())
}
