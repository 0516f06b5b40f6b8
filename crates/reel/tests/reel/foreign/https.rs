//! HTTPS: curl, ffmpeg, openssl and Chromium against a server with a certificate of its own.

use crate::foreign::films::FILMS;
use crate::foreign::rig::{cache_dir, outcome, reel, run, start, volume};
use reel_compare::Server;
use reel_testkit::free_address;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A server with TLS that the tests here share, and one film.
struct Secured {
    server: Server,
    /// The address for TLS, by the name in the certificate.
    host: String,
    volume: PathBuf,
    film: &'static str,
    whole: Vec<u8>,
}

impl Secured {
    fn shared() -> &'static Secured {
        static SHARED: OnceLock<Secured> = OnceLock::new();
        SHARED.get_or_init(|| {
            let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("secured-volume");
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).unwrap();
            Secured::new(dir, &[])
        })
    }

    /// A server that offers HTTP/2 as well.
    fn with_http2(dir: PathBuf) -> Secured {
        let config = dir.join("reel.toml");
        fs::write(&config, "[tls]\nhttp2 = true\n").unwrap();
        Secured::new(dir, &["--config", &config.to_string_lossy()])
    }

    fn new(dir: PathBuf, more: &[&str]) -> Secured {
        let film = FILMS.iter().find(|film| film.file == "longer.mp4").unwrap();
        let volume = volume(&dir, &[film.path()]);
        let export = dir.join("export.mp4");
        run(reel().arg("export").arg(&volume).arg(film.id()).arg(&export));
        let port = free_address().port();
        let https = format!("127.0.0.1:{port}");
        let server = start(&volume, &[&["--https", &https], more].concat());
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(120), "the server does not listen for TLS");
            std::thread::sleep(Duration::from_millis(20));
        }
        let whole = fs::read(export).unwrap();
        Secured { server, host: format!("localhost:{port}"), volume, film: film.id(), whole }
    }

    fn certificate(&self) -> String {
        self.volume.join("tls/certificate.pem").to_string_lossy().into_owned()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.host)
    }

    fn download(&self) -> String {
        self.url(&format!("/files/{}.mp4", self.film))
    }

    fn curl(&self, arguments: &[&str]) -> Output {
        let certificate = self.certificate();
        let always = ["--silent", "--show-error", "--max-time", "120", "--cacert", &certificate];
        outcome(Command::new("curl").args(always).args(arguments))
    }

    fn curled(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.curl(arguments);
        assert!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Runs `openssl s_client` and says each line of `conversation` when the answer to the one
    /// before has come; closes its input after the last answer. Returns its output.
    fn openssl(&self, arguments: &[&str], conversation: &[(&str, &str)]) -> String {
        let (mut output, writer) = std::io::pipe().unwrap();
        let mut child = Command::new("timeout")
            .args(["120", "openssl", "s_client", "-connect", &self.host.replace("localhost", "127.0.0.1")])
            .args(["-CAfile", &self.certificate(), "-verify_return_error", "-verify_hostname", "localhost"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut text = Vec::new();
        for (line, answer) in conversation {
            // It may have ended.
            let _ = input.write_all(line.as_bytes());
            let before = text.len();
            let mut bytes = [0; 4096];
            while !String::from_utf8_lossy(&text[before..]).contains(answer) {
                match output.read(&mut bytes).unwrap() {
                    0 => break,
                    read => text.extend_from_slice(&bytes[..read]),
                }
            }
        }
        drop(input);
        output.read_to_end(&mut text).unwrap();
        child.wait().unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Ends `openssl s_client`, which reads it after the handshake.
const QUIT: (&str, &str) = ("Q\n", "");

#[test]
fn curl_gets_ranges_and_resumes_with_both_versions() {
    let secured = Secured::shared();
    let url = secured.download();
    for version in [["--tlsv1.3", "--tls-max", "1.3"], ["--tlsv1.2", "--tls-max", "1.2"]] {
        let get = |more: &[&str]| secured.curled(&[&version, more].concat());
        assert!(get(&["--http1.1", &url]) == secured.whole);
        assert!(get(&["--http1.1", "--range", "45055-1081345", &url]) == secured.whole[45_055..=1_081_345]);
        let dir = tempfile::tempdir_in(cache_dir()).unwrap();
        let part = dir.path().join("part.mp4");
        fs::write(&part, &secured.whole[..700_001]).unwrap();
        get(&["--http1.1", "--continue-at", "-", "--output", &part.to_string_lossy(), &url]);
        assert!(fs::read(&part).unwrap() == secured.whole);
    }
}

#[test]
fn http1_is_all_that_is_offered_by_default() {
    let secured = Secured::shared();
    let text = secured.openssl(&["-alpn", "h2,http/1.1"], &[QUIT]);
    assert!(text.contains("ALPN protocol: http/1.1"), "{text}");
    let written = ["--http2", "--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"];
    for url in [secured.url("/healthz"), secured.download()] {
        let text = String::from_utf8(secured.curled(&[&written[..], &[&url]].concat())).unwrap();
        assert_eq!(text, "1.1 200", "{url}");
    }
}

#[test]
fn pages_and_api_come_with_http2_and_media_asks_for_http1() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let secured = Secured::with_http2(dir.path().to_owned());
    let version = |path: &str| {
        let url = secured.url(path);
        let output = secured.curled(&[
            "--http2",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_version} %{http_code}",
            &url,
        ]);
        String::from_utf8(output).unwrap()
    };
    assert_eq!(version("/healthz"), "2 200");
    assert_eq!(version("/api/v1/titles"), "2 200");
    // curl is redirected to HTTP/1.1 and follows.
    assert_eq!(version(&format!("/files/{}.mp4", secured.film)), "1.1 200");
    assert!(secured.curled(&["--http2", &secured.download()]) == secured.whole);
    // Many requests at once over one connection.
    let urls: Vec<String> = (0..20).map(|_| secured.url("/api/v1/titles")).collect();
    let mut all = vec!["--http2", "--parallel", "--fail", "--write-out", "%{http_version} %{num_connects}\n"];
    all.extend(urls.iter().map(String::as_str));
    let text = String::from_utf8(secured.curled(&all)).unwrap();
    assert!(text.matches(secured.film).count() >= 20, "{text}");
    let large = "x".repeat(3 << 20);
    let upload = secured.volume.join("upload");
    fs::write(&upload, large).unwrap();
    let refused = secured.curled(&[
        "--http2",
        "--data-binary",
        &format!("@{}", upload.display()),
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_version} %{http_code}",
        &secured.url("/api/v1/titles?name=nonsense.mp4"),
    ]);
    let refused = String::from_utf8(refused).unwrap();
    assert!(refused.starts_with("2 ") && !refused.ends_with("000"), "an upload is answered: {refused}");
}

#[test]
fn ffmpeg_plays_hls_and_files() {
    let secured = Secured::shared();
    for path in [format!("/watch/{}/master.m3u8", secured.film), format!("/files/{}.mp4", secured.film)] {
        let mut ffprobe = Command::new("ffprobe");
        ffprobe.args(["-v", "error", "-tls_verify", "1", "-ca_file", &secured.certificate()]);
        ffprobe.args(["-count_packets", "-select_streams", "v:0", "-show_entries", "stream=nb_read_packets"]);
        let packets = run(ffprobe.args(["-of", "csv=p=0"]).arg(secured.url(&path)));
        let count: u64 =
            packets.trim().trim_end_matches(',').lines().next().unwrap().trim_matches(',').parse().unwrap();
        assert!(count > 20, "{path}: {packets}");
    }
}

#[test]
fn openssl_accepts_the_certificate_and_unsafe_options_are_refused() {
    let secured = Secured::shared();
    let request = ("GET /healthz HTTP/1.1\r\nHost: reel\r\n\r\n", "HTTP/1.1 200");
    for (version, name) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        let text = secured.openssl(&[version, "-quiet", "-no_ign_eof"], &[request]);
        assert!(text.contains("HTTP/1.1 200"), "{name}: {text}");
        let text = secured.openssl(&[version], &[QUIT]);
        assert!(text.contains("Verify return code: 0 (ok)") && text.contains(name), "{text}");
    }
    for old in ["-tls1", "-tls1_1"] {
        let text = secured.openssl(&[old, "-cipher", "ALL:@SECLEVEL=0"], &[QUIT]);
        assert!(!text.contains("Verify return code: 0 (ok)\n---\nread"), "{text}");
        assert!(text.contains("alert") || text.contains("error"), "{text}");
    }
    // R requests a new handshake on the connection; k and K request new keys, which TLS 1.3 has
    // instead.
    let text = secured.openssl(&["-tls1_2", "-legacy_renegotiation"], &[("R\n", "no renegotiation")]);
    assert!(
        text.contains("RENEGOTIATING") && (text.contains("no renegotiation") || text.contains("error")),
        "{text}"
    );
    let text = secured.openssl(&["-tls1_3"], &[("k\n", "KEYUPDATE"), ("K\n", "KEYUPDATE"), request]);
    assert!(text.contains("KEYUPDATE") && text.contains("HTTP/1.1 200"), "{text}");
}

#[test]
fn another_certificate_is_taken_over_on_sighup_without_a_drop() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let secured = Secured::new(dir.path().to_owned(), &[]);
    // None while the server shows another certificate than the one in the file: openssl verifies.
    let fingerprint = || {
        let shown = secured.openssl(&["-tls1_3"], &[QUIT]);
        let start = shown.find("-----BEGIN CERTIFICATE")?;
        let end = shown.find("-----END CERTIFICATE")?;
        Some(shown[start..end].to_owned())
    };
    let before = fingerprint().expect("a certificate");
    let mut slow = Command::new("curl")
        .args(["--silent", "--http1.1", "--limit-rate", "2M", "--cacert", &secured.certificate()])
        .arg(secured.download())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = [0];
    slow.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    let made =
        reel_tls::generate(&["localhost".into(), "127.0.0.1".into()], std::time::SystemTime::now()).unwrap();
    fs::write(secured.certificate(), made.certificate).unwrap();
    fs::write(secured.volume.join("tls/key.pem"), made.key).unwrap();
    run(Command::new("kill").args(["-HUP", &secured.server.pid().to_string()]));
    let started = Instant::now();
    while fingerprint().is_none_or(|shown| shown == before) {
        assert!(started.elapsed() < Duration::from_secs(120), "the old certificate is still shown");
    }
    let output = slow.wait_with_output().unwrap();
    assert!(
        output.status.success() && [&begun, &*output.stdout].concat() == secured.whole,
        "the download was not dropped"
    );
}

/// A page that requests pages, then media, then pages again, and prints the results.
const PAGE: &str = r#"<body><pre id=o></pre><script>(async () => { for (const [path, range] of PATHS) {
    const text = await fetch(HOST + path, range ? { headers: { Range: range } } : {})
        .then(async (answer) => answer.status + " " + (await answer.arrayBuffer()).byteLength, String);
    o.textContent += "came " + path + " " + text + "\n"; } })()</script></body>"#;

#[test]
fn chromium_gets_media_after_pages_without_noticing_the_other_version() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let secured = Secured::with_http2(dir.path().to_owned());
    let media = format!("/files/{}.mp4", secured.film);
    let paths = format!(
        "[[\"/healthz\"], [\"/api/v1/titles\"], [\"{media}\", \"bytes=0-99999\"], [\"{media}\", \"bytes=5-9\"], [\"/healthz\"]]"
    );
    let host = format!("\"{}\"", secured.url(""));
    let page = dir.path().join("page.html");
    fs::write(&page, PAGE.replace("PATHS", &paths).replace("HOST", &host)).unwrap();
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-web-security",
        "--ignore-certificate-errors",
    ]);
    chromium.arg(format!("--user-data-dir={}", dir.path().join("profile").display()));
    chromium.args(["--virtual-time-budget=30000", "--dump-dom"]).arg(format!("file://{}", page.display()));
    let shown = run(&mut chromium);
    for (path, came) in [("/healthz", "200 3"), (&*media, "206 100000"), (&*media, "206 5")] {
        assert!(shown.contains(&format!("came {path} {came}")), "{shown}");
    }
    let metrics = String::from_utf8(secured.curled(&["--http1.1", &secured.url("/metrics")])).unwrap();
    let value = |name: &str| {
        metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok()).unwrap()
    };
    // One with HTTP/2, one with HTTP/1.1, and one of curl. Chromium may connect again, for example
    // when it was slow.
    assert!(value("reel_tls_handshakes_total ") >= 3, "{metrics}");
}
