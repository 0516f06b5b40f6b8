//! Films that arrive while others are watched, at the rate of a line. Reel takes them by upload
//! through the server; a rival takes them as files that grow in its directories.

use crate::api;
use anyhow::{Context, Result, ensure};
use reel_testkit::http::Client;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Films that arrive until they are stopped.
pub(crate) struct Arriving<'a> {
    /// The film that arrives repeatedly.
    pub(crate) film: &'a [u8],
    pub(crate) rate_bps: u64,
    pub(crate) stop: &'a AtomicBool,
    /// What has arrived until now.
    pub(crate) bytes: &'a AtomicU64,
}

impl Arriving<'_> {
    /// Lets them arrive at Reel, and takes away afterwards what has become of them.
    pub(crate) fn upload(&self, server: SocketAddr) -> Result<()> {
        let mut titles = Vec::new();
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let mut client = Client::connect(server)?;
            let line = format!("POST /api/v1/titles?filename=arriving-{number}.mp4&wait=true HTTP/1.0");
            let fields = format!(
                "Host: {server}\r\nContent-Type: video/mp4\r\nContent-Length: {}\r\nConnection: close\r\n",
                self.film.len()
            );
            client.request(&line, &fields)?;
            if !self.write_at_rate(client.stream())? {
                break;
            }
            let head = client.head()?;
            let body = client.body(&head)?;
            ensure!(head.status == 201, "an upload was answered {}", head.status);
            let title: Value = serde_json::from_slice(&body)?;
            titles.push(title["id"].as_str().context("a title without an id")?.to_owned());
        }
        titles.iter().try_for_each(|title| api::delete(server, &format!("/api/v1/titles/{title}")))
    }

    /// Lets them arrive in these directories in turn, and takes them away afterwards.
    pub(crate) fn copy(&self, dirs: &[PathBuf]) -> Result<()> {
        let mut paths = Vec::new();
        for (number, dir) in dirs.iter().cycle().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let path = dir.join(format!("arriving-{number}.mp4"));
            let mut file = File::create(&path)?;
            paths.push(path);
            self.write_at_rate(&mut file)?;
        }
        paths.into_iter().try_for_each(|path| Ok(fs::remove_file(path)?))
    }

    /// A film at its rate; whether all of it went there.
    fn write_at_rate(&self, to: &mut impl Write) -> Result<bool> {
        let started = Instant::now();
        let mut written_bytes = 0;
        for piece in self.film.chunks(PIECE_BYTES) {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            to.write_all(piece).context("a film that arrives")?;
            written_bytes += piece.len() as u64;
            self.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
            let due = Duration::from_nanos(written_bytes * 8_000_000_000 / self.rate_bps.max(1));
            sleep(due.saturating_sub(started.elapsed()));
        }
        Ok(true)
    }
}
