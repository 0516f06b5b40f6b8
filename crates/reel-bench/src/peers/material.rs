//! What is played: titles on a volume of Reel's, and the very same bytes as files for the others.

use super::stand::{Who, serve};
use crate::film;
use crate::load::Url;
use crate::server::free_address;
use crate::wire::{Crowd, Pace, Way, Wish, sockets};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Rate of the films: 4K for living rooms is twice, a telephone a quarter of it.
const RATE_BPS: u64 = 8_000_000;
const MEMBERS: u64 = 5;

/// Titles, made once for a directory.
pub(crate) struct Material {
    pub(crate) reel: PathBuf,
    pub(crate) volume: PathBuf,
    /// A directory for each title, with its playlists and segments.
    pub(crate) www: PathBuf,
    /// For files of servers.
    pub(crate) dir: PathBuf,
}

impl Material {
    pub(crate) fn make(dir: &Path, reel: &Path, title_mib: u64, titles: usize) -> Result<Self> {
        let dir = dir.join(format!("peers-{titles}x{title_mib}"));
        let material = Self {
            reel: reel.to_owned(),
            volume: dir.join("volume"),
            www: dir.join("www"),
            dir: dir.clone(),
        };
        let done = dir.join("complete");
        if done.exists() {
            return Ok(material);
        }
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        let seconds = (title_mib << 20) * 8 / RATE_BPS;
        let film = film::varying(&dir, seconds, RATE_BPS)?;
        let films = film::titles(&dir.join("films"), &film, "film", titles)?;
        // Parity is a fifth, and a volume wants some room.
        let bytes = fs::metadata(&film)?.len() * titles as u64 * MEMBERS / (MEMBERS - 1) * 5 / 4 + (1 << 30);
        let size = format!("{}M", bytes >> 20);
        material.reel_does(&["volume", "create"], &[Path::new("--size"), Path::new(&size)])?;
        material.reel_does(&["ingest"], &films.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        for title in 0..titles {
            material.export(title)?;
        }
        fs::remove_dir_all(dir.join("films"))?;
        fs::remove_file(film)?;
        fs::write(done, "")?;
        Ok(material)
    }

    /// The path of a title's first playlist.
    pub(crate) fn playlist(&self, who: Who, title: usize) -> String {
        let name = name(title);
        if who == Who::Reel { format!("/watch/{name}/master.m3u8") } else { format!("/{name}/master.m3u8") }
    }

    /// Fetches a title from Reel as a player would, and keeps it as files.
    fn export(&self, title: usize) -> Result<()> {
        let server = serve(self, free_address()?, 256 << 20)?;
        let playlist = Url::parse(&format!("http://{}{}", server.address, self.playlist(Who::Reel, title)))?;
        let pace = Pace::Playing { startup_ns: u64::MAX, buffer_ns: u64::MAX };
        let crowd = Crowd {
            wishes: vec![Wish::Film { playlist, pace, begins_ns: 0, keep: true }],
            way: Way { round_trip_ns: 0, line_bps: None, loss: 0.0 },
            window_bytes: 0,
            step_bytes: 0,
            seed: 0,
            most: Duration::from_secs(120),
        };
        let seen = sockets::run(server.address, crowd, |_| true)?;
        ensure!(seen.unfinished == 0, "a title could not be fetched: {:?}", seen.failures);
        for (want, body) in seen.kept {
            // `/s/KEY/...`: what comes behind the key is the same for every session.
            let Some(path) = want.target.strip_prefix("/s/").and_then(|rest| rest.split_once('/')) else {
                continue;
            };
            let file = self.www.join(name(title)).join(path.1);
            fs::create_dir_all(file.parent().context("a file without a directory")?)?;
            fs::write(&file, body).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(())
    }

    fn reel_does(&self, words: &[&str], more: &[&Path]) -> Result<()> {
        let mut command = Command::new(&self.reel);
        command.arg("--quiet").args(words).arg(&self.volume).args(more).stdin(Stdio::null());
        let output = command.output().context("starting reel")?;
        if !output.status.success() {
            bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

fn name(title: usize) -> String {
    format!("film-{title:03}")
}
