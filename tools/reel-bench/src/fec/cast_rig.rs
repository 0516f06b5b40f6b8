//! A server in a network name space, with one title of the form `ts` that it casts.

use crate::api;
use crate::disk_set::{DiskSet, Kind};
use crate::server::{Server, free_address};
use anyhow::{Context, Result, bail, ensure};
use reel_report::output;
use reel_wire::space::{Space, ip};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Members of the volume: four rows of data and one of parity in each matrix.
const MEMBERS: usize = 5;

/// Memory for media.
const MEMORY_BYTES: u64 = 192 << 20;

/// Where the title is sent: media, and FEC two ports above.
pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 1, 1);
pub(super) const PORT: u16 = 5000;

/// The running server. It goes with this value, as do its disks and its network.
pub(super) struct CastRig {
    /// The running server, unless it could not be started again.
    server: Option<Server>,
    space: Space,
    reel: PathBuf,
    volume: PathBuf,
    // Removed after the server has ended.
    _disk_set: DiskSet,
}

/// What a server has read from its members, by its own count.
#[derive(Clone, Copy)]
pub(super) struct DiskUse {
    pub(super) bytes: f64,
    pub(super) reads: f64,
}

impl CastRig {
    /// Stores `stream` on a volume of five members with matrices that ST 2022-1 allows, and serves
    /// it in a name space whose devices `set_up` makes.
    pub(super) fn make(
        reel: &Path,
        dir: &Path,
        stream: &Path,
        set_up: impl FnOnce() -> Result<()> + Send,
    ) -> Result<Self> {
        let stream_bytes = fs::metadata(stream)?.len();
        let disk_set = DiskSet::make(dir, Kind::Plain, MEMBERS, stream_bytes / 3 + (128 << 20))?;
        let volume = disk_set.dir().join("volume");
        store(reel, &disk_set, &volume, stream)?;
        let space = Space::make()?;
        space.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            set_up()
        })?;
        let config = volume.with_extension("toml");
        fs::write(
            &config,
            format!("arena_bytes = {MEMORY_BYTES}\nserve_threads = 1\n[promise]\nadmission = false\n"),
        )?;
        let reel = reel.to_owned();
        let mut rig = Self { server: None, space, reel, volume, _disk_set: disk_set };
        rig.restart()?;
        Ok(rig)
    }

    /// Starts the server again, so that it has nothing in memory.
    pub(super) fn restart(&mut self) -> Result<()> {
        // Two servers cannot have one volume.
        self.server = None;
        self.server = Some(self.space.inside(|| serve(&self.reel, &self.volume))?);
        Ok(())
    }

    fn server(&self) -> Result<&Server> {
        self.server.as_ref().context("the server was not started again")
    }

    /// The processes of the server.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        self.server()?.processes()
    }

    /// Has the title sent once; it begins two seconds later.
    pub(super) fn begin(&self, name: &str, with_fec: bool) -> Result<()> {
        let wanted = json!({
            "title": "stream", "group": format!("{GROUP}:{PORT}"), "name": name, "announce": false,
            "fec": if with_fec { "strict" } else { "off" },
        });
        let address = self.server()?.address;
        self.space.inside(|| api::post(address, "/api/v1/casts", &wanted).map(drop))
    }

    /// What receivers are told of a cast (SDP).
    pub(super) fn description(&self, name: &str) -> Result<String> {
        let address = self.server()?.address;
        self.space.inside(|| api::text(address, &format!("/casts/{name}.sdp")))
    }

    /// Waits for the end of a cast; what the server says of it then.
    pub(super) fn until_end(&self, name: &str, longest: Duration) -> Result<Value> {
        let address = self.server()?.address;
        self.space.inside(|| {
            let from = Instant::now();
            while from.elapsed() < longest {
                sleep(Duration::from_millis(250));
                let cast = api::get(address, &format!("/api/v1/casts/{name}"))?;
                if cast["state"] == "ended" {
                    ensure!(cast["packets"].as_u64() > Some(0), "nothing was sent: {cast}");
                    return Ok(cast);
                }
            }
            bail!("the cast did not end within {longest:?}")
        })
    }

    /// The sum of a metric of the server over all its labels.
    pub(super) fn metric(&self, name: &str) -> Result<f64> {
        let address = self.server()?.address;
        let page = self.space.inside(|| api::text(address, "/metrics"))?;
        let value = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix(name)?;
            let is_it = rest.starts_with([' ', '{']);
            is_it.then(|| rest.rsplit(' ').next()?.parse().ok()).flatten()
        };
        let values: Vec<f64> = page.lines().filter_map(value).collect();
        ensure!(!values.is_empty(), "the server tells no {name}");
        Ok(values.into_iter().sum())
    }

    /// What was read from the members until now.
    pub(super) fn disk_use(&self) -> Result<DiskUse> {
        Ok(DiskUse {
            bytes: self.metric("reel_member_read_bytes_total")?,
            reads: self.metric("reel_member_reads_total")?,
        })
    }
}

fn store(reel: &Path, disk_set: &DiskSet, volume: &Path, stream: &Path) -> Result<()> {
    let size = (disk_set.disk_bytes * MEMBERS as u64).to_string();
    let mut create = command(reel, &["volume", "create"], volume);
    create
        .args(["--geometry", "ts", "--size", &size, "--force", "--overwrite-volume", "--members"])
        .args(&disk_set.devices);
    output(&mut create)?;
    output(command(reel, &["ingest"], volume).arg(stream).args(["--form", "ts"]))?;
    Ok(())
}

fn serve(reel: &Path, volume: &Path) -> Result<Server> {
    let address = free_address()?;
    let log = volume.with_extension("log");
    let mut serving = command(reel, &["serve"], volume);
    serving.args(["--listen", &address.to_string(), "--config"]).arg(volume.with_extension("toml"));
    serving.stderr(Stdio::from(File::create(&log)?));
    let server = Server::start(serving, address);
    let server = server.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
    crate::reel::settle(&server)?;
    Ok(server)
}

fn command(reel: &Path, words: &[&str], volume: &Path) -> Command {
    let mut command = Command::new(reel);
    command.arg("--quiet").args(words).arg(volume).stdin(Stdio::null());
    command
}

/// A transport stream of so many seconds at exactly this rate: null packets fill it. Made once.
pub(super) fn stream(dir: &Path, seconds: u64, rate_mbps: u64) -> Result<PathBuf> {
    let made = dir.join(format!("fec-{seconds}s-{rate_mbps}m"));
    let stream = made.join("stream.ts");
    if stream.exists() {
        return Ok(stream);
    }
    fs::create_dir_all(&made)?;
    let making = made.join("making.ts");
    let pictures = format!("testsrc2=s=1280x720:r=25:d={seconds},noise=alls=30:allf=t:all_seed=1");
    let rate = format!("{rate_mbps}M");
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &pictures]);
    ffmpeg.args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "25"]);
    ffmpeg.args(["-b:v", "8M", "-maxrate", "8M", "-bufsize", "2M"]);
    ffmpeg.args(["-muxrate", &rate, "-pat_period", "0.08", "-f", "mpegts"]).arg(&making);
    output(&mut ffmpeg).context("is ffmpeg installed? (apt install ffmpeg)")?;
    fs::rename(&making, &stream)?;
    Ok(stream)
}
