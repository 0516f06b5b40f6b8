//! A title as a server without a catalogue has it: playlists and segments as files.

use anyhow::{Context, Result, ensure};
use reel_testkit::Url;
use reel_wire::{Crowd, Pace, Visit, sockets};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Fetches a title from Reel as a player would, and keeps it below `dir`.
pub(crate) fn save(server: SocketAddr, playlist: &str, dir: &Path) -> Result<()> {
    let playlist = Url::parse(&format!("http://{server}{playlist}"))?;
    let pace = Pace::Playing { startup_ns: u64::MAX, buffer_ns: u64::MAX };
    let visit = Visit::Film { playlist, pace, begins_ns: 0, keep: true };
    let crowd = Crowd::on_sockets(vec![visit], Duration::from_secs(120));
    let seen = sockets::run(server, crowd, |_| true)?;
    ensure!(seen.unfinished == 0, "a title could not be fetched: {:?}", seen.failures);
    for (want, body) in seen.kept {
        // `/s/KEY/...`: what comes behind the key is the same for every session.
        let Some(path) = want.target.strip_prefix("/s/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let file = dir.join(path.1);
        fs::create_dir_all(file.parent().context("a file without a directory")?)?;
        fs::write(&file, body).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
