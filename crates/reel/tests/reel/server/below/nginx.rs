//! The blocks of `docs/behind-a-proxy.md`, run by nginx as they stand.

use super::proxy::BELOW;
use super::{Below, Passing};
use reel_testkit::free_address;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest that nginx may take to listen, and a program to read the film.
const PATIENCE: Duration = Duration::from_secs(120);

/// nginx with one block, which is ended with this.
pub(crate) struct Nginx {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Nginx {
    /// `None` if it is not installed, and says so.
    pub(crate) fn start(block: &str, server: SocketAddr) -> Option<Nginx> {
        let dir = tempfile::tempdir().expect("a directory");
        let address = free_address();
        let config = dir.path().join("nginx.conf");
        fs::write(&config, configuration(dir.path(), address, &for_server(block, server))).expect("written");
        let paths = ["nginx", "/usr/sbin/nginx"];
        let mut started = paths.iter().filter_map(|nginx| {
            let mut nginx = Command::new(nginx);
            nginx.arg("-p").arg(dir.path()).arg("-c").arg(&config).stdin(Stdio::null());
            nginx.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        });
        let Some(child) = started.next() else {
            println!("skipped: nginx is not installed");
            return None;
        };
        let mut nginx = Nginx { child, address, _dir: dir };
        nginx.await_listening();
        Some(nginx)
    }

    fn await_listening(&mut self) {
        let from = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().expect("it can be asked");
            let log = fs::read_to_string(self._dir.path().join("log")).unwrap_or_default();
            assert!(ended.is_none() && from.elapsed() < PATIENCE, "nginx does not listen: {log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Where clients find the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{BELOW}", self.address)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The blocks of the page, and for each whether it takes the path off.
pub(crate) fn blocks() -> [(String, bool); 2] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/behind-a-proxy.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let blocks = page.split("```nginx\n").skip(1).map(|rest| rest.split("```").next().expect("an end"));
    let blocks: Vec<_> = blocks.map(|block| (block.to_owned(), block.contains(":8080/;"))).collect();
    let blocks: [_; 2] = blocks.try_into().expect("two blocks");
    assert!(blocks[0].1 && !blocks[1].1, "{blocks:?}");
    blocks
}

/// The block for a server at another address.
fn for_server(block: &str, server: SocketAddr) -> String {
    let replaced = block.replace("127.0.0.1:8080", &server.to_string());
    assert_ne!(block, replaced, "it names the server");
    replaced
}

/// One process, which ends with a signal.
fn configuration(dir: &Path, address: SocketAddr, block: &str) -> String {
    let dir = dir.display();
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places: String = places.map(|name| format!("{name}_temp_path {dir}/{name};\n")).concat();
    format!(
        "daemon off; master_process off; pid {dir}/pid; error_log {dir}/log;\nevents {{}}\n\
         http {{ access_log off;\n{places}server {{ listen {address};\n{block}}} }}\n"
    )
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// A program that has to succeed. `None` if it is not installed, and says so.
fn run(program: &str, words: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        println!("skipped: {program} is not installed");
        return None;
    };
    assert!(output.status.success(), "{program} {words:?}: {}", said(&output));
    Some(output)
}

#[test]
fn the_blocks_of_the_page_play_store_and_list() {
    for (block, strips) in blocks() {
        let mut below = Below::new(Passing { strips, adds: "" });
        let Some(nginx) = Nginx::start(&block, below.rig.address()) else { return };
        below.proxy = nginx.address;
        super::assert_sessions_stay_below(&below);
        super::assert_changes_lead_below(&below);
        super::assert_pages_find_their_files(&below);
        super::assert_json_leads_below(&below);
        assert_clients_name_no_path(&below);
        super::assert_files_are_listed_below(&below);
        assert_programs_play(&below, &nginx);
    }
}

/// What a client writes itself does not reach the server.
fn assert_clients_name_no_path(below: &Below) {
    let path = format!("{BELOW}/api/v1/titles/film");
    let fields = "X-Forwarded-Prefix: /elsewhere\r\n";
    let answer = below.connect().ask_with(&format!("GET {path}"), fields, "");
    assert_eq!((answer.status, answer.json()), (200, below.found(&path).json()));
}

/// By three protocols, redirects included.
fn assert_programs_play(below: &Below, nginx: &Nginx) {
    let url = nginx.url();
    for file in ["master.m3u8", "manifest.mpd", "film.mp4"] {
        let (at, sent) =
            (format!("{url}/watch/film/{file}"), || below.rig.metric("reel_http_media_bytes_total"));
        let before = sent();
        let words = ["-nostdin", "-v", "error", "-i", &at, "-map", "0:v:0", "-c", "copy", "-f", "null", "-"];
        if run("ffmpeg", &words).is_some() {
            let bytes = sent() - before;
            assert!(bytes > below.rig.film.len() as f64 / 2.0, "{file}: only {bytes} bytes were sent");
        }
    }
    let copy = below.rig.path("copy.mp4");
    let at = format!("{url}/watch/film/film.mp4");
    let words = ["-sSfL", "-o", copy.to_str().expect("text"), &at];
    if run("curl", &words).is_some() {
        assert!(fs::read(&copy).expect("a copy") == below.rig.film);
    }
    let dav = format!("{url}/dav/");
    let words = ["--config", "", "--retries=1", "--webdav-url", &dav, "lsf", ":webdav:copy"];
    if let Some(list) = run("rclone", &words) {
        assert!(said(&list).lines().any(|line| line == "film.mp4"), "{}", said(&list));
    }
}
