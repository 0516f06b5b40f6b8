//! A folder over HTTP, for players that take nothing else. One request for each connection; byte
//! ranges.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Component, Path};
use std::thread;

/// Serves `folder` until the process ends; returns the base URL.
pub(crate) fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || answer(stream, &folder));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let request = lines.next()?.ok()?;
    let mut range = None;
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            let (first, last) = value.split_once('-')?;
            range = Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()));
        }
    }
    let mut words = request.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let path = Path::new(path.split('?').next()?.trim_start_matches('/')).to_owned();
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    let (status, extra, body) = match std::fs::read(folder.join(&path)).ok().filter(|_| inside) {
        None => ("404 Not Found", String::new(), Vec::new()),
        Some(bytes) => match range {
            Some((first, last)) if first < bytes.len() => {
                let end = last.map_or(bytes.len(), |last| (last + 1).min(bytes.len()));
                let extra = format!("Content-Range: bytes {first}-{}/{}\r\n", end - 1, bytes.len());
                ("206 Partial Content", extra, bytes[first..end].to_vec())
            }
            _ => ("200 OK", String::new(), bytes),
        },
    };
    let kind = kind_of(&path);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{extra}Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        stream.write_all(&body).ok()?;
    }
    Some(())
}

fn kind_of(path: &Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("m3u8") => "application/vnd.apple.mpegurl",
        Some("mpd") => "application/dash+xml",
        Some("vtt") => "text/vtt",
        _ => "video/mp4",
    }
}
