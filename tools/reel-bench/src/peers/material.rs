//! What is played: titles on a volume of Reel's, and the very same bytes as files for the others.

use super::system::{ReelSetup, System, serve};
use crate::film;
use crate::segments;
use crate::server::free_address;
use anyhow::Result;
use reel_report::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MEMBERS: u64 = 5;

/// Which titles.
pub(crate) struct MaterialSpec {
    /// Of the experiment.
    pub(crate) name: &'static str,
    pub(crate) rate_bps: u64,
    /// Makes a film of so many seconds and that rate in a directory.
    pub(crate) film: fn(&Path, u64, u64) -> Result<PathBuf>,
    pub(crate) title_mib: u64,
    /// Titles to be played.
    pub(crate) titles: usize,
    /// Titles more that are only downloaded: the others have them as one file each.
    pub(crate) bulk: usize,
    /// Room for films that arrive while others are played.
    pub(crate) arriving_bytes: u64,
}

/// Titles, made once for a directory.
pub(crate) struct Material {
    pub(crate) reel: PathBuf,
    pub(crate) volume: PathBuf,
    /// A directory for each title, with its playlists and segments.
    pub(crate) www: PathBuf,
    /// For files of servers.
    pub(crate) dir: PathBuf,
    /// The film that all titles are, if it is still wanted.
    pub(crate) film: PathBuf,
    pub(crate) titles: usize,
}

impl Material {
    pub(crate) fn make(dir: &Path, reel: &Path, spec: &MaterialSpec) -> Result<Self> {
        let MaterialSpec { name, rate_bps, film, title_mib, titles, bulk, arriving_bytes } = *spec;
        let dir = dir.join(format!("{name}-{titles}x{title_mib}"));
        let material = Self {
            reel: reel.to_owned(),
            volume: dir.join("volume"),
            www: dir.join("www"),
            dir: dir.clone(),
            film: dir.join("film.mp4"),
            titles,
        };
        let done = dir.join("complete");
        if done.exists() {
            return Ok(material);
        }
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        let seconds = (title_mib << 20) * 8 / rate_bps;
        let film = film(&dir, seconds, rate_bps)?;
        let films = film::titles(&dir.join("films"), &film, "film", titles + bulk)?;
        let stored = fs::metadata(&film)?.len() * (titles + bulk) as u64;
        // Parity is a fifth, and a volume wants some room of its own.
        let bytes = (stored + arriving_bytes.max(stored / 4)) * MEMBERS / (MEMBERS - 1) + (1 << 30);
        let size = format!("{}M", bytes >> 20);
        material.reel_does(&["volume", "create"], &[Path::new("--size"), Path::new(&size)])?;
        material.reel_does(&["ingest"], &films.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        for title in 0..titles {
            material.export(title)?;
        }
        fs::remove_dir_all(dir.join("films"))?;
        for number in 0..bulk {
            fs::copy(&film, material.www.join(bulk_file(number)))?;
        }
        if bulk > 0 {
            fs::rename(film, &material.film)?;
        } else {
            fs::remove_file(film)?;
        }
        fs::write(done, "")?;
        Ok(material)
    }

    /// The path of a title's first playlist.
    pub(crate) fn playlist(&self, system: System, title: usize) -> String {
        let name = name(title);
        if system.is_reel() { format!("/watch/{name}/master.m3u8") } else { format!("/{name}/master.m3u8") }
    }

    /// The path of a title that is only downloaded, as one file.
    pub(crate) fn download(&self, system: System, number: usize) -> String {
        if system.is_reel() {
            format!("/files/{}.mp4", name(self.titles + number))
        } else {
            format!("/{}", bulk_file(number))
        }
    }

    /// Fetches a title from Reel as a player would, and keeps it as files.
    fn export(&self, title: usize) -> Result<()> {
        let setup = ReelSetup { memory_bytes: 256 << 20, admission: false, lends: true, shares: None };
        let server = serve(self, free_address()?, setup)?;
        segments::save(server.address, &self.playlist(System::REEL, title), &self.www.join(name(title)))
    }

    fn reel_does(&self, words: &[&str], more: &[&Path]) -> Result<()> {
        let mut command = Command::new(&self.reel);
        output(command.arg("--quiet").args(words).arg(&self.volume).args(more)).map(drop)
    }
}

fn bulk_file(number: usize) -> String {
    format!("bulk-{number:03}.mp4")
}

fn name(title: usize) -> String {
    format!("film-{title:03}")
}
