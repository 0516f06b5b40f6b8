//! A server over a small volume with one title, and a client that exposes every byte.

use crate::kept::kept;
use reel::server::{JoinConfig, PromiseConfig, ServeConfig, Server};
use reel_api::{ControlConfig, OwnNames};
use reel_disk::{DisksConfig, Faults};
use reel_fixture::{five_members, open_volume};
use reel_library::{IngestOptions, Input, Library};
use reel_play::UplinkRate;
use reel_ring::DriverChoice;
use reel_serve::limits::DRAIN_TIME_MAX_NS;
use reel_serve::{BasePath, ClassRights, PlaceShares, Proxies};
use reel_testkit::Url;
use reel_volume::{ArenaBudget, GeometryPreset, OpenOptions, Volume, VolumeOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// io_uring, where it is available, and the portable driver.
pub(crate) const DRIVERS: [DriverChoice; 2] = [DriverChoice::Auto, DriverChoice::Portable];

/// A running server, its volume and the expected bytes of its title.
pub(crate) struct Rig {
    pub(crate) server: Option<Server>,
    pub(crate) library: Arc<Library>,
    pub(crate) faults: Faults,
    /// The whole title as one MP4 file.
    pub(crate) film: Vec<u8>,
    address: SocketAddr,
    config: ServeConfig,
    dir: tempfile::TempDir,
}

/// A connection to the server. It reads no byte that a test has not asked for, which the client of
/// reel-testkit does.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    /// What was asked for last.
    asked: String,
}

/// The connection of a client: a socket, or TLS on a socket.
pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A response: its head and its body.
pub(crate) struct Answer {
    /// What was asked for.
    asked: String,
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Rig {
    /// A server with the given changes to a plain configuration.
    pub(crate) fn new(change: impl FnOnce(&mut ServeConfig)) -> Rig {
        Rig::with_memory(64 << 20, change)
    }

    /// The same with this much media memory, or the least that a volume accepts.
    pub(crate) fn with_memory(arena_bytes: usize, change: impl FnOnce(&mut ServeConfig)) -> Rig {
        Rig::with_geometry(GeometryPreset::Cmaf, arena_bytes, change)
    }

    /// The same over a volume of this geometry.
    pub(crate) fn with_geometry(
        preset: GeometryPreset,
        arena_bytes: usize,
        change: impl FnOnce(&mut ServeConfig),
    ) -> Rig {
        Rig::with_volume(preset, 64 << 20, arena_bytes, change)
    }

    /// The same over a volume of this geometry and size.
    pub(crate) fn with_volume(
        preset: GeometryPreset,
        size_bytes: u64,
        arena_bytes: usize,
        change: impl FnOnce(&mut ServeConfig),
    ) -> Rig {
        Rig::over(VolumeOptions { preset, ..five_members(size_bytes) }, arena_bytes, change)
    }

    /// The same over such a volume.
    pub(crate) fn over(
        options: VolumeOptions,
        arena_bytes: usize,
        change: impl FnOnce(&mut ServeConfig),
    ) -> Rig {
        let dir = tempfile::tempdir().expect("tempdir");
        let volume_dir = dir.path().join("volume");
        Volume::create(&volume_dir, options).expect("created");
        let faults = Faults::default();
        let library = Arc::new(Library::new(Arc::new(open(&volume_dir, arena_bytes, &faults))));
        ingest_film(&library);
        let mut film = Vec::new();
        library.export("film", &mut film, &mut |_, _| {}).expect("exported");
        let control = ControlConfig {
            spool_dir: dir.path().join("spool"),
            upload_bytes_max: 1 << 30,
            ingests_max: 1,
            names: OwnNames::default(),
            proxies: Proxies::default(),
            base_path: BasePath::default(),
            shares: PlaceShares::default(),
        };
        let mut config = ServeConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            serve_threads: 2,
            pin_threads: false,
            real_time_priority: 0,
            driver: DriverChoice::Auto,
            cast_train_packets: None,
            zero_copy: true,
            connections_max: 1000,
            sessions_max: 100,
            gateways: Vec::new(),
            sessions_file: Some(dir.path().join("sessions")),
            class_rights: ClassRights::default(),
            binds_sessions: false,
            session_idle: Duration::from_secs(300),
            access_log: true,
            congestion_control: None,
            // Most tests are not about what can be reserved of an unmeasured disk.
            promise: PromiseConfig { admission: false, ..PromiseConfig::default() },
            watch: None,
            programs: Some(dir.path().join("reel.sock")),
            nfs: None,
            join: JoinConfig::default(),
            casts: Vec::new(),
            drain_time: Duration::from_nanos(DRAIN_TIME_MAX_NS),
            housekeeping_clock: reel_rt::now_ns,
            control,
        };
        change(&mut config);
        let address = config.listen;
        let mut rig = Rig { address, server: None, config, library, faults, film, dir };
        rig.start();
        rig
    }

    /// Ingests the film once more.
    pub(crate) fn ingest_again(&self) {
        ingest_film(&self.library);
    }

    pub(crate) fn start(&mut self) {
        let server = Server::start(self.config.clone(), Arc::clone(&self.library)).expect("started");
        self.address = server.address();
        self.server = Some(server);
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where programs connect.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("reel.sock")
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).expect("connected"))
    }

    /// A client at another address of this machine, whose system takes only a few packets ahead.
    pub(crate) fn connect_from(&self, number: u8) -> Client {
        Client::new(socket_from(number, self.address))
    }

    /// A client whose system takes only a few packets ahead of it.
    pub(crate) fn connect_narrow(&self) -> Client {
        Client::new(narrow(self.address))
    }

    /// Where TLS is spoken.
    pub(crate) fn tls_address(&self) -> SocketAddr {
        self.server.as_ref().and_then(Server::tls_address).expect("a server that speaks TLS")
    }

    /// A place for a file beside the volume.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Opens a session and returns the path of its files.
    pub(crate) fn session(&self) -> String {
        let answer = self.connect().ask("GET /watch/film/master.m3u8", "");
        assert_eq!(answer.status, 307, "{}", answer.head);
        let location = answer.location().expect("a place to go");
        location.strip_suffix("master.m3u8").expect("the playlist").to_owned()
    }

    /// The sum of a metric over all of its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.connect().ask("GET /metrics", "");
        assert_eq!(page.status, 200);
        let page = String::from_utf8(page.body).expect("text");
        let of_name = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
        };
        let lines: Vec<&str> = page.lines().filter(of_name).collect();
        assert!(!lines.is_empty(), "no {name} in {page}");
        lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until `wanted` accepts the value of a metric.
    pub(crate) fn await_metric(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        let from = Instant::now();
        while !wanted(self.metric(name)) {
            assert!(from.elapsed() < Duration::from_secs(120), "{name} stays at {}", self.metric(name));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn stop(&mut self) {
        self.server.take().expect("running").stop().expect("a clean end");
    }

    /// Nothing holds the volume any more: it can be opened again.
    pub(crate) fn reopen(self) {
        let Rig { library, dir, .. } = self;
        drop(library);
        drop(open(&dir.path().join("volume"), 0, &Faults::default()));
    }
}

impl Client {
    fn new(stream: TcpStream) -> Client {
        Client::on(patient(stream))
    }

    /// A client on a stream of another kind.
    pub(crate) fn on(stream: impl Stream + 'static) -> Client {
        Client { stream: Box::new(stream), asked: String::new() }
    }

    /// Sends a request and reads the answer. `fields` end with a line break each.
    pub(crate) fn ask(&mut self, request: &str, fields: &str) -> Answer {
        self.send(head(request, fields).as_bytes());
        self.answer(request.starts_with("HEAD"))
    }

    /// The same with a body.
    pub(crate) fn ask_with(&mut self, request: &str, fields: &str, body: &str) -> Answer {
        self.send(head(request, fields).as_bytes());
        self.send(body.as_bytes());
        self.answer(false)
    }

    /// The status of the answer; `None` if the server closed the connection before, which may reset
    /// it.
    pub(crate) fn try_status(&mut self, request: &str) -> Option<u16> {
        self.stream.write_all(head(request, "").as_bytes()).ok()?;
        let mut start = [0; 12];
        self.stream.read_exact(&mut start).ok()?;
        std::str::from_utf8(&start).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(target) = target_of(bytes) {
            self.asked = target;
        }
        self.stream.write_all(bytes).expect("sent");
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self, to_head: bool) -> Answer {
        let mut answer = self.answer_head();
        let bytes = if to_head { 0 } else { answer.announced_bytes() };
        answer.body = self.read(bytes);
        answer
    }

    /// Reads the head of an answer and leaves its body.
    pub(crate) fn answer_head(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            // Unlike `read`, this continues after a signal.
            self.stream.read_exact(&mut byte).expect("the connection ended early");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        Answer { asked: self.asked.clone(), status, head, body: Vec::new() }
    }

    pub(crate) fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut body = vec![0; bytes];
        self.stream.read_exact(&mut body).expect("the whole body");
        body
    }

    /// Reads until the server closes its side, or resets the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        rest
    }
}

impl Answer {
    /// A field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The path that the field Location leads to, which is relative to the one that was asked for.
    pub(crate) fn location(&self) -> Option<String> {
        let location = self.field("Location")?;
        assert!(location.starts_with('.'), "{location} is not right below a path of a proxy");
        let asked = Url::parse(&format!("http://reel{}", self.asked)).expect("an address");
        Some(asked.join(location).expect("a reference").target)
    }

    /// Its body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn announced_bytes(&self) -> usize {
        self.field("Content-Length").map_or(0, |bytes| bytes.parse().expect("a number"))
    }
}

/// The configuration of a server that admits.
pub(crate) fn admitting(config: &mut ServeConfig) {
    config.promise.admission = true;
}

/// The same, whose network has room for no viewer.
pub(crate) fn full(config: &mut ServeConfig) {
    admitting(config);
    config.promise.network_bps = Some(20_000);
    config.promise.uplink = UplinkRate::Known(20_000);
}

/// A socket of whose data the system takes only a few packets ahead.
pub(crate) fn narrow(address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024).expect("set");
    connect(&socket, &address).expect("connected");
    socket.into()
}

/// The same at another address of this machine.
pub(crate) fn socket_from(number: u8, address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024).expect("set");
    bind(&socket, &SocketAddr::from(([127, 0, 0, number], 0))).expect("an address");
    connect(&socket, &address).expect("connected");
    socket.into()
}

/// A socket that fails when nothing arrives for long. What is done with the lowest priority takes
/// long beside a compiler.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
    stream.set_nodelay(true).expect("set");
    stream
}

/// The target of a request; `None` for what is no head of one.
fn target_of(bytes: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(bytes).ok()?.lines().next()?;
    let mut words = line.strip_suffix(" HTTP/1.1")?.split(' ').skip(1);
    words.next().filter(|target| target.starts_with('/')).map(str::to_owned)
}

pub(crate) fn head(request: &str, fields: &str) -> String {
    format!("{request} HTTP/1.1\r\nHost: reel\r\n{fields}\r\n")
}

fn open(volume_dir: &Path, arena_bytes: usize, faults: &Faults) -> Volume {
    let options = OpenOptions {
        arena: ArenaBudget { bytes: arena_bytes, huge_pages: false },
        readable_by_others: true,
        disks: DisksConfig { faults: Some(faults.clone()), ..DisksConfig::default() },
        ..OpenOptions::default()
    };
    open_volume(volume_dir, &options)
}

/// A film of noise, which is large and quickly made.
fn ingest_film(library: &Library) {
    let named = IngestOptions { name: Some("film".to_owned()), ..IngestOptions::default() };
    library.ingest(&[Input::new(source())], &named, &mut |_| {}).expect("taken");
}

fn source() -> PathBuf {
    kept("noise.mp4", |path| {
        let status = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i"])
            .arg("testsrc2=size=640x360:rate=25:duration=3,noise=alls=60:allf=t")
            .args(["-f", "lavfi", "-i", "sine=duration=3", "-c:v", "libx264", "-preset", "ultrafast"])
            .args(["-qp", "16", "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac"])
            .arg(path)
            .status();
        assert!(status.expect("ffmpeg is installed").success());
    })
}

/// The bytes of a body in chunks, and whether its last chunk is there.
pub(crate) fn unchunked(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        let Some(line) = body.windows(2).position(|two| two == b"\r\n") else { return (bytes, false) };
        let size = std::str::from_utf8(&body[..line]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a number");
        body = &body[line + 2..];
        if size == 0 {
            assert_eq!(body, b"\r\n");
            return (bytes, true);
        }
        bytes.extend_from_slice(&body[..size.min(body.len())]);
        let Some(rest) = body.get(size + 2..) else { return (bytes, false) };
        body = rest;
    }
}
