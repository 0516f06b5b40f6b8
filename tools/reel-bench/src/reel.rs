//! The server under test, on a set of disks.

use crate::api;
use crate::disk_set::{DiskSet, Kind};
use crate::server::{Server, free_address};
use anyhow::{Context, Result, bail, ensure};
use reel_report::{output, output_json};
use serde_json::Value;
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Memory that each server may use for media: Reel's arena, nginx with its page cache.
pub(crate) const MEMORY_BYTES: u64 = 3 << 30;

/// How a server is set up, beyond its defaults: lines of `reel.toml` by table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Whether streams must be admitted.
    pub(crate) admission: bool,
    /// Lines for the table `[classes]`.
    pub(crate) classes: Vec<String>,
    /// The arena, if it is not [`MEMORY_BYTES`]; then there is memory for one ingest only.
    pub(crate) memory_bytes: Option<u64>,
    /// Where NFS listens, if it does.
    pub(crate) nfs: Option<SocketAddr>,
    /// Where sessions may be played into files, if they may.
    pub(crate) join_directory: Option<PathBuf>,
    /// Where programs of this machine connect, if they do.
    pub(crate) programs_socket: Option<PathBuf>,
    /// The network's rate that admission counts with; clients of this machine are then behind it,
    /// as those of another one are. That of the interface if it is not set.
    pub(crate) network_bps: Option<u64>,
}

impl Settings {
    /// Without admission, to see what the disks can carry.
    pub(crate) fn without_admission() -> Self {
        Self::default()
    }

    /// The three classes every server has with these shares in thousandths: periodic, interactive,
    /// aperiodic.
    pub(crate) fn shared(self, shares: [u32; 3]) -> Self {
        Self { classes: classes(shares), ..self }
    }

    /// As delivered.
    pub(crate) fn with_admission() -> Self {
        Self { admission: true, ..Self::default() }
    }

    /// With so much memory and two threads: what is not for viewers grows with both.
    pub(crate) fn in_memory(self, bytes: u64) -> Self {
        Self { memory_bytes: Some(bytes), ..self }
    }

    fn text(&self) -> String {
        let memory = self.memory_bytes.unwrap_or(MEMORY_BYTES);
        let mut text = format!("arena_bytes = {memory}\n");
        if let Some(socket) = &self.programs_socket {
            text.push_str(&format!("programs_socket = {:?}\n", socket.display().to_string()));
        }
        if self.network_bps.is_some() {
            text.push_str("gateways = [\"127.0.0.1\"]\n");
        }
        if self.memory_bytes.is_some() {
            text.push_str("serve_threads = 2\n[upload]\ningests_max = 1\n");
        }
        text.push_str(&format!("[promise]\nadmission = {}\n", self.admission));
        if let Some(bps) = self.network_bps {
            text.push_str(&format!("network_bps = {bps}\n"));
        }
        if let Some(nfs) = self.nfs {
            text.push_str(&format!("[nfs]\nlisten = \"{nfs}\"\n"));
        }
        if let Some(directory) = &self.join_directory {
            text.push_str(&format!("[join]\ndirectory = {:?}\n", directory.display().to_string()));
        }
        if !self.classes.is_empty() {
            text.push_str("[classes]\n");
            self.classes.iter().for_each(|line| text.extend([line, "\n"]));
        }
        text
    }
}

/// Lines of the table `[classes]`: the three classes every server has with these shares in
/// thousandths, periodic, interactive, aperiodic.
pub(crate) fn classes(shares: [u32; 3]) -> Vec<String> {
    let names = ["periodic", "interactive", "aperiodic"];
    let line = |(name, share)| format!("{name} = {{ kind = \"{name}\", share_permille = {share} }}");
    names.into_iter().zip(shares).map(line).collect()
}

/// A volume on these disks.
pub(crate) struct Volume {
    reel: PathBuf,
    dir: PathBuf,
}

impl Volume {
    /// Makes a volume of all disks of the set, puts `films` on it and measures the disks, as an
    /// operator would.
    pub(crate) fn make(reel: &Path, disk_set: &DiskSet, films: &[PathBuf]) -> Result<Self> {
        let volume = Self { reel: reel.to_owned(), dir: disk_set.dir().join("volume") };
        disk_set.load()?;
        let mut create = volume.command(&["volume", "create"]);
        if disk_set.kind == Kind::Plain {
            // Files are made as large as is asked, whatever they were.
            let bytes = disk_set.disk_bytes * disk_set.devices.len() as u64;
            create.args(["--size", &bytes.to_string()]);
        }
        create.args(["--force", "--overwrite-volume", "--members"]).args(&disk_set.devices);
        output(&mut create)?;
        let mut ingest = volume.command(&["ingest"]);
        output(ingest.args(films))?;
        disk_set.measure()?;
        Ok(volume)
    }

    /// `reel probe` for so many seconds, with the disks as slow as they are for servers: the price
    /// of the members, which admission needs.
    pub(crate) fn probe(&self, disk_set: &DiskSet, seconds: u64) -> Result<()> {
        disk_set.run(self.command(&["probe"]).args(["--seconds", &seconds.to_string()]))
    }

    /// What `reel capacity` says of a rate.
    pub(crate) fn capacity(&self, settings: &Settings, rate_bps: u64) -> Result<Value> {
        let mut command = self.command(&["capacity"]);
        command.args(["--rate", &rate_bps.to_string(), "--json", "--config"]).arg(self.configure(settings)?);
        output_json(&mut command)
    }

    fn configure(&self, settings: &Settings) -> Result<PathBuf> {
        let config = self.dir.with_extension("toml");
        fs::write(&config, settings.text())?;
        Ok(config)
    }

    /// Starts a server.
    pub(crate) fn serve(&self, disk_set: &DiskSet, settings: &Settings) -> Result<Server> {
        let config = self.configure(settings)?;
        let address = free_address()?;
        let mut command = self.command(&["serve"]);
        command.args(["--listen", &address.to_string(), "--config"]).arg(&config);
        let log = fs::File::create(self.dir.with_extension("log"))?;
        command.stderr(Stdio::from(log));
        let server = Server::start(command, address)
            .with_context(|| fs::read_to_string(self.dir.with_extension("log")).unwrap_or_default())?;
        disk_set.adopt(&server, None)?;
        settle(&server)?;
        Ok(server)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.reel);
        command.arg("--quiet").args(words).arg(&self.dir).stdin(Stdio::null());
        command
    }
}

/// Waits until the server has opened what titles it opens by itself; half a minute at most.
pub(crate) fn settle(server: &Server) -> Result<()> {
    let mut before = None;
    for _ in 0..60 {
        thread::sleep(Duration::from_millis(500));
        let page = api::text(server.address, "/metrics")?;
        let open = page.lines().find_map(|line| line.strip_prefix("reel_titles_open ")).map(str::to_owned);
        if open == before {
            break;
        }
        before = open;
    }
    Ok(())
}

/// The reel binary to measure: what was named, or what lies beside this program.
pub(crate) fn binary(named: Option<&Path>) -> Result<PathBuf> {
    let reel = match named {
        Some(named) => named.to_owned(),
        None => env::current_exe()?.with_file_name("reel"),
    };
    ensure!(reel.exists(), "{} does not exist; build it with cargo build --release", reel.display());
    Ok(reel)
}

/// What a server says it can carry at `rate_bps`, and what stops the next viewer.
pub(crate) fn capacity(server: &Server, rate_bps: u64) -> Result<(u64, String)> {
    let answer = api::get(server.address, &format!("/api/v1/capacity?rate_bps={rate_bps}"))?;
    let viewers = answer["viewers"].as_u64().context("no number of viewers in the answer about capacity")?;
    let stopped_by = &answer["stopped_by"];
    let resource = stopped_by["resource"].as_str().unwrap_or("nothing");
    let member = stopped_by["member"].as_u64().map(|member| format!(" {member}"));
    Ok((viewers, format!("{resource}{}", member.unwrap_or_default())))
}

/// Device nanoseconds that each class had on all members together, by the class's name.
pub(crate) fn device_ms(server: &Server) -> Result<Vec<(String, f64)>> {
    let answer = api::get(server.address, "/api/v1/dashboard")?;
    let mut all: Vec<(String, f64)> = Vec::new();
    for member in answer["members"].as_array().context("no members in the answer of the dashboard")? {
        for class in member["classes"].as_array().into_iter().flatten() {
            let name = class["class"].as_str().context("a class without a name")?;
            let ms = class["total_ms"].as_f64().context("a class without its device time")?;
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += ms,
                None => all.push((name.to_owned(), ms)),
            }
        }
    }
    Ok(all)
}

/// Waits until the job that `started` names has ended; `seconds` at most.
pub(crate) fn job(server: &Server, started: &Value, seconds: u64) -> Result<Value> {
    let id = &started["id"];
    let id = id.as_str().map(str::to_owned).or_else(|| id.as_u64().map(|id| id.to_string()));
    let path = format!("/api/v1/jobs/{}", id.context("a job without an id")?);
    for _ in 0..seconds * 5 {
        let state = api::get(server.address, &path)?;
        match state["state"].as_str() {
            Some("done") => return Ok(state),
            Some("failed" | "cancelled") => bail!("the job failed: {state}"),
            _ => thread::sleep(Duration::from_millis(200)),
        }
    }
    bail!("the job did not end within {seconds} s")
}
