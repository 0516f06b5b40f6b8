//! A server whose kernel fails calls that should succeed: viewers play on, and the log says what
//! happened and what to do.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::cli::films::{large, short};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;
use crate::kept::made;
use reel_testkit::http::Client;

/// "Completions were dropped because there is no memory".
const EBADR: i32 = 53;
const ENOMEM: i32 = 12;

const LONG: Duration = Duration::from_secs(120);

/// The library that intercepts the kernel calls, compiled once.
fn library() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("reel-test-kernel.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reel/cli/kernel/kernel.c");
        made(&path, |making| {
            let compiled = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
                .args([making.as_os_str(), source.as_ref()])
                .arg("-ldl")
                .status()
                .expect("a C compiler; scripts/setup test installs one");
            assert!(compiled.success());
        });
        path
    };
    MADE.get_or_init(make).clone()
}

/// A volume with one film in it, and a kernel that fails on request.
struct Faulty {
    dir: TestDir,
    film: Vec<u8>,
}

impl Faulty {
    fn new(film: PathBuf) -> Self {
        let dir = TestDir::new();
        dir.create_volume(&["--size", "400M"]);
        dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", "film"]).done();
        dir.reel(&["export", "volume", "film", "film.mp4"]).done();
        fs::create_dir(dir.path("orders")).unwrap();
        let config = "arena_bytes = \"64M\"\nvolume = \"volume\"\nlisten = \"127.0.0.1:0\"\nserve_threads = 2\ndisk_threads = 2\nexperimental.driver = \"uring\"\n";
        fs::write(dir.path("reel.toml"), config).unwrap();
        let film = fs::read(dir.path("film.mp4")).unwrap();
        Self { dir, film }
    }

    fn order(&self, name: &str, text: &str) {
        // In one step: a thread may read it at any moment.
        fs::write(self.dir.path("order"), text).unwrap();
        fs::rename(self.dir.path("order"), self.dir.path("orders").join(name)).unwrap();
    }

    /// Waits until an order is carried out.
    fn await_done(&self, name: &str) {
        let done = self.dir.path("orders").join(format!("{name}.done"));
        let from = Instant::now();
        while fs::remove_file(&done).is_err() {
            assert!(from.elapsed() < LONG, "no thread carried out {name}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A command whose kernel calls are intercepted.
    fn command(&self) -> Command {
        let mut command = self.dir.command(&["serve", "--config", "reel.toml"]);
        command.env("LD_PRELOAD", library()).env("REEL_TEST_KERNEL", self.dir.path("orders"));
        command
    }

    fn start(&self) -> Running {
        Running::launch(self.command())
    }

    /// Reads the film in small steps, so that much can happen meanwhile. Every byte must be right.
    fn watch(&self, server: &Running, taken_bytes: &AtomicUsize, step: Duration) {
        let mut client = Client::connect(server.address()).unwrap();
        client.stream().set_read_timeout(Some(LONG)).unwrap();
        client.request("GET /files/film.mp4 HTTP/1.1", "Host: reel\r\nConnection: close\r\n").unwrap();
        let head = client.head().unwrap();
        assert_eq!(head.status, 200, "{}", head.text);
        let (mut at, mut piece) = (0, vec![0; 256 << 10]);
        loop {
            let bytes = client.read(&mut piece).expect("a viewer notices nothing");
            assert!(self.film[at..].starts_with(&piece[..bytes]), "wrong bytes at {at}");
            at += bytes;
            taken_bytes.fetch_add(bytes, Ordering::Relaxed);
            if bytes == 0 {
                break;
            }
            std::thread::sleep(step);
        }
        assert_eq!(at, self.film.len(), "cut short");
    }
}

#[test]
fn broken_rings_are_replaced_without_an_effect_on_viewers() {
    let faulty = Faulty::new(large());
    let mut server = faulty.start();
    let taken_bytes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| faulty.watch(&server, &taken_bytes, Duration::from_millis(20)));
        }
        while taken_bytes.load(Ordering::Relaxed) < 1 << 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        for thread in ["reel-serve-0", "reel-serve-1", "reel-disk-0", "reel-disk-1", "reel-serve-0"] {
            faulty.order("enter", &format!("{thread} {EBADR} once"));
            faulty.await_done("enter");
            assert_eq!(server.get("/healthz").head.status, 200, "new clients are served too");
        }
    });
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
    let said = server.said();
    for thread in ["reel-serve-0", "reel-serve-1", "reel-disk-0", "reel-disk-1"] {
        let lines = said.lines().find(|line| line.contains(&format!("{thread}: its io_uring broke")));
        let lines = lines.unwrap_or_else(|| panic!("{thread} said nothing: {said}"));
        assert!(
            lines.contains("os error 53") && lines.contains("restart the server if this repeats"),
            "{lines}"
        );
    }
    faulty.dir.reel(&["volume", "check", "volume"]).done();
}

#[test]
fn a_ring_that_cannot_be_replaced_ends_the_server_with_the_reason_and_no_data_is_lost() {
    for thread in ["reel-serve-1", "reel-disk-0"] {
        let faulty = Faulty::new(short());
        let mut server = faulty.start();
        faulty.order("enter", &format!("{thread} {EBADR} always"));
        let _ = server.try_get("/files/film.mp4");
        assert_eq!(server.ended(), None, "by SIGABRT");
        let said = server.said();
        assert!(said.contains(&format!("the thread {thread} cannot continue")), "{said}");
        assert!(said.contains("error: a data-plane thread failed"), "{said}");
        fs::remove_file(faulty.dir.path("orders/enter")).unwrap();
        faulty.dir.reel(&["volume", "check", "volume"]).done();
        let server = faulty.start();
        faulty.watch(&server, &AtomicUsize::new(0), Duration::ZERO);
    }
}

/// The refused call is the first, a later one, one only, or all. Rings that are refused read
/// without registration, and every viewer gets the same bytes.
#[test]
fn a_server_works_without_registered_media_memory() {
    let faulty = Faulty::new(short());
    for (first, count) in [(0, 1000), (1, 1000), (2, 1000), (1, 7), (2, 6)] {
        faulty.order("register", &format!("{first} {count} {ENOMEM}"));
        let mut server = faulty.start();
        faulty.watch(&server, &AtomicUsize::new(0), Duration::ZERO);
        assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
        let said = server.said();
        if count == 1000 {
            let lines = said.lines().filter(|line| line.contains("refused to register")).count();
            assert_eq!(lines, 1, "from call {first} on: {said}");
            assert!(
                said.contains("locked-memory limit is") && said.contains("LimitMEMLOCK=infinity"),
                "{said}"
            );
        }
    }
}

/// Threads that get no ring use the portable driver, or the server does not start if io_uring was
/// demanded.
#[test]
fn rings_that_cannot_be_made_are_replaced_by_the_portable_driver_or_reported() {
    let faulty = Faulty::new(short());
    let demanded = fs::read_to_string(faulty.dir.path("reel.toml")).unwrap();
    for first in [0, 1, 3] {
        faulty.order("setup", &format!("{first} 1000 {ENOMEM}"));
        fs::write(faulty.dir.path("reel.toml"), demanded.replace("\"uring\"", "\"auto\"")).unwrap();
        let mut server = faulty.start();
        faulty.watch(&server, &AtomicUsize::new(0), Duration::ZERO);
        assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
        let said = server.said();
        assert!(said.contains("using the slower portable driver") && said.contains("LimitMEMLOCK"), "{said}");
        fs::write(faulty.dir.path("reel.toml"), &demanded).unwrap();
        let refused = faulty.command().output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("io_uring is not available") && said.contains("LimitMEMLOCK"), "{said}");
    }
}

/// What the kernel itself does to a user with a small limit of locked memory. Root has no limit, so
/// that capability is dropped first. Rings that fit continue without the registration. If not even
/// the rings fit, that is reported, or the portable driver is used. Whether rings fit into 64 KiB
/// depends on the machine (memory that earlier processes of the same user still have locked counts
/// too), so both outcomes are right there.
#[test]
fn a_small_memlock_costs_speed_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: no root");
    }
    let faulty = Faulty::new(short());
    let demanded = fs::read_to_string(faulty.dir.path("reel.toml")).unwrap();
    let command = |bytes: u64, driver: &str| {
        fs::write(faulty.dir.path("reel.toml"), demanded.replace("uring", driver)).unwrap();
        let mut command = Command::new("prlimit");
        command.arg(format!("--memlock={bytes}:{bytes}")).args(["--", "setpriv"]);
        command.args(["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", env!("CARGO_BIN_EXE_reel")]);
        command.args(["serve", "--config", "reel.toml"]).current_dir(faulty.dir.path("."));
        command
    };
    for (bytes, driver) in [(4 << 20, "uring"), (64 << 10, "auto")] {
        let mut server = Running::launch(command(bytes, driver));
        faulty.watch(&server, &AtomicUsize::new(0), Duration::ZERO);
        assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
        let said = server.said();
        assert!(said.contains("LimitMEMLOCK=infinity"), "{said}");
        let portable = driver == "auto" && said.contains("using the slower portable driver");
        assert!(portable || said.contains(&format!("{bytes} bytes")), "{said}");
    }
    let refused = command(64 << 10, "uring").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("io_uring is not available") && said.contains("help: set LimitMEMLOCK"), "{said}");
}

#[test]
fn a_clock_that_steps_by_years_has_no_effect_on_sessions() {
    let faulty = Faulty::new(large());
    let mut server = faulty.start();
    let location = server.location("/watch/film/master.m3u8?class=interactive");
    let taken_bytes = AtomicUsize::new(0);
    const YEARS: i64 = 20 * 365 * 86_400;
    std::thread::scope(|scope| {
        scope.spawn(|| faulty.watch(&server, &taken_bytes, Duration::from_millis(10)));
        for seconds in [YEARS, -YEARS, 3600, -3600, 0] {
            faulty.order("clock", &seconds.to_string());
            std::thread::sleep(Duration::from_millis(300));
            assert!(server.text(&location).contains("#EXTM3U"), "a session outlives {seconds} s");
            let another = server.location("/watch/film/master.m3u8?class=interactive");
            assert!(server.text(&another).contains("#EXTM3U"));
            assert_eq!(server.get("/api/v1/titles").head.status, 200);
        }
    });
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
    let said = server.said();
    assert!(!said.contains("panicked") && !said.contains(" ERROR "), "{said}");
}
