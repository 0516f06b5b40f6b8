//! The server of the experiment: plain files, a film to read and films to view.

use super::run::{Place, Used};
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::reel::{self, Settings};
use crate::testbed::{Films, Playing, Testbed};
use anyhow::{Context, Result};
use reel_report::CommonOptions;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A server, and where its programs find it.
pub(super) struct Site {
    pub(super) place: Place,
    pub(super) films: Films,
    pub(super) playing: Playing,
    // After the server: it goes first.
    _testbed: Testbed,
}

/// Disks of the server.
const DISKS: usize = 5;
const MEMORY_BYTES: u64 = 1 << 30;
/// What viewers see.
pub(super) const RATE_BPS: u64 = 5_000_000;
/// Titles of viewers.
const TITLES: usize = 8;
/// The network that is admitted for: so small that the fleet of this machine fills it.
pub(super) const NETWORK_BPS: u64 = 200_000_000;
const IDLE: Duration = Duration::from_millis(500);

impl Site {
    pub(super) fn make(common: &CommonOptions, iceoryx2: Option<&Path>) -> Result<Site> {
        let reel = reel::binary(common.reel.as_deref())?;
        let dir = common.make_dir()?;
        let (film_s, tapped_mib) = if common.quick { (10, 8) } else { (60, 128) };
        let film = film::constant(&dir, film_s, RATE_BPS)?;
        let tapped = film::make(&dir, tapped_mib)?;
        let bytes = fs::metadata(&film)?.len() * TITLES as u64 + fs::metadata(&tapped)?.len();
        let disk_set = DiskSet::make(&dir, Kind::Plain, DISKS, Films::disk_bytes(bytes, DISKS))?;
        let films = Films::make(&disk_set.dir().join("films"), (&film, TITLES), (&tapped, 1))?;
        let testbed = Testbed::reel(&reel, disk_set, &films)?;
        testbed.probe(if common.quick { 1 } else { 5 })?;
        let ways = testbed.disk_set.dir().join("ways");
        let socket = testbed.disk_set.dir().join("reel.sock");
        let settings = Settings {
            programs_socket: Some(socket.clone()),
            network_bps: Some(NETWORK_BPS),
            ..Settings::with_admission().in_memory(MEMORY_BYTES)
        };
        let playing = testbed.start_reel(&settings)?;
        let server = *playing.server.processes()?.first().context("a server without a process")?;
        let iceoryx2 = match iceoryx2 {
            Some(named) => named.to_owned(),
            None => std::env::current_exe()?.with_file_name("reel-rival-iceoryx2"),
        };
        let (film, name) = ("bulk-000".to_owned(), "r".to_owned());
        let place = Place { dir: ways, socket, server, iceoryx2, film, name, run: 0 };
        Ok(Site { place, films, playing, _testbed: testbed })
    }

    /// Processor time of the server while it has nothing to do.
    pub(super) fn idle_ms_per_s(&self) -> Result<f64> {
        let (before, begun) = (Used::of(self.place.server)?, Instant::now());
        sleep(IDLE);
        let used = Used::of(self.place.server)?.since(&before);
        Ok(used.cpu_ns as f64 / 1e6 / begun.elapsed().as_secs_f64())
    }
}
