//! curl: ranges, conditions and methods, against exported bytes.

use crate::foreign::films::FILMS;
use crate::foreign::rig::{cache_dir, outcome, reel, run, shared, start, volume};
use std::fs;
use std::process::Command;

fn curl(arguments: &[&str]) -> Vec<u8> {
    let output =
        outcome(Command::new("curl").args(["--silent", "--show-error", "--max-time", "60"]).args(arguments));
    assert!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The body at a URL, redirects followed; fails on an error status.
pub(crate) fn get(url: &str) -> String {
    String::from_utf8(curl(&["--location", "--fail", url])).unwrap()
}

/// The URL after all redirects.
pub(crate) fn effective_url(url: &str) -> String {
    String::from_utf8(curl(&[
        "--location",
        "--fail",
        "--output",
        "/dev/null",
        "--write-out",
        "%{url_effective}",
        url,
    ]))
    .unwrap()
}

fn status(arguments: &[&str]) -> String {
    let mut all = vec!["--output", "/dev/null", "--write-out", "%{http_code}"];
    all.extend(arguments);
    String::from_utf8(curl(&all)).unwrap()
}

#[test]
fn ranges_are_the_ranges_of_the_exported_file() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let film = FILMS.iter().find(|film| film.file == "longer.mp4").unwrap();
    let volume = volume(dir.path(), &[film.path()]);
    let export = dir.path().join("export.mp4");
    run(reel().arg("export").arg(&volume).arg(film.id()).arg(&export));
    let whole = fs::read(&export).unwrap();
    let server = start(&volume, &[]);
    let session = effective_url(&format!("{}/watch/{1}/{1}.mp4", server.url, film.id()));
    let download = format!("{}/files/{}.mp4", server.url, film.id());
    let last = whole.len() - 1;
    let stripe = 1_081_344;
    for url in [&session, &download] {
        assert_eq!(curl(&[url]), whole, "the whole file");
        for (from, to) in [
            (0, 0),
            (0, last),
            (last, last),
            (1, 45_056),
            (stripe - 1, stripe),
            (stripe - 7, 3 * stripe + 5),
            (12_345, 23_456),
        ] {
            assert_eq!(curl(&["--range", &format!("{from}-{to}"), url]), whole[from..=to], "{from}-{to}");
        }
        assert_eq!(curl(&["--range", "-1000", url]), whole[whole.len() - 1000..]);
        let beyond = format!("{}-", whole.len());
        assert_eq!(status(&["--range", &beyond, url]), "416");
        let head = String::from_utf8(curl(&["--head", url])).unwrap().to_ascii_lowercase();
        assert!(head.contains(&format!("content-length: {}", whole.len())), "{head}");
        assert!(
            head.contains("accept-ranges: bytes") && head.contains("access-control-allow-origin: *"),
            "{head}"
        );
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim().to_owned();
        assert_eq!(status(&["--header", &format!("If-None-Match: {etag}"), url]), "304");
        assert_eq!(status(&["--header", "If-None-Match: \"other\"", url]), "200");
        assert_eq!(status(&["--range", "0-1", "--header", &format!("If-Range: {etag}"), url]), "206");
        assert_eq!(status(&["--range", "0-1", "--header", "If-Range: \"other\"", url]), "200");
        assert_eq!(status(&["--request", "OPTIONS", url]), "204");
        assert_eq!(status(&["--request", "PUT", url]), "405");
        assert_eq!(status(&["--data", "x", url]), "400");
    }
    let head = String::from_utf8(curl(&["--head", &download])).unwrap();
    assert!(head.contains("Content-Disposition: attachment; filename=\""), "{head}");
    assert!(head.contains("; filename*=UTF-8''"), "{head}");
}

#[test]
fn one_connection_carries_many_requests() {
    let server = shared();
    let url = effective_url(&format!("{}/watch/b-frames/master.m3u8", server.url));
    let base = url.rsplit_once('/').unwrap().0;
    let many: Vec<String> = (1..=2)
        .map(|number| format!("{base}/0/{number}.m4s"))
        .chain([format!("{base}/0/init.mp4"), url.clone()])
        .collect();
    let mut arguments = vec!["--fail", "--write-out", "%{num_connects} "];
    for url in &many {
        arguments.extend(["--output", "/dev/null", url]);
    }
    assert_eq!(String::from_utf8(curl(&arguments)).unwrap().trim(), "1 0 0 0");
}

#[test]
fn missing_resources_give_404() {
    let server = shared();
    let key = "00112233445566778899aabbccddeeff";
    for (path, expected) in [
        ("/watch/no-such-title/master.m3u8".to_owned(), "404"),
        ("/files/no-such-title.mp4".to_owned(), "404"),
        ("/watch/b-frames/other.m3u8".to_owned(), "404"),
        (format!("/s/{key}/master.m3u8"), "410"),
        ("/s/short/master.m3u8".to_owned(), "404"),
    ] {
        assert_eq!(status(&[&format!("{}{path}", server.url)]), expected, "{path}");
        let body = String::from_utf8(curl(&[&format!("{}{path}", server.url)])).unwrap();
        assert!(body.contains("\"detail\""), "{path}: {body}");
    }
    let url = effective_url(&format!("{}/watch/b-frames/master.m3u8", server.url));
    let base = url.rsplit_once('/').unwrap().0;
    for path in ["0/0.m4s", "0/9999.m4s", "7/init.mp4", "0/text.vtt"] {
        assert_eq!(status(&[&format!("{base}/{path}")]), "404", "{path}");
    }
}
