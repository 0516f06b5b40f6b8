//! `reel volume status`: shows members, geometry and space.

use reel_api::LibraryService;
use reel_volume::VolumeStatus;

use crate::args::VolumeArguments;
use crate::command::{Access, open_library, profiles};
use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::size::Size;

/// `reel volume status`.
pub(super) fn run(arguments: &VolumeArguments) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Read)?;
    if arguments.json {
        // The same document as GET /api/v1/volume.
        let report = serde_json::to_string(&LibraryService::volume(&library))
            .map_err(|error| Failure::failed(format!("cannot write the status as JSON: {error}")))?;
        print(&report)?;
    } else {
        let mut lines = text(&library.volume().status());
        for finding in library.volume().findings().iter().filter(|finding| finding.state.in_use()) {
            let known = profiles::load(&arguments.volume, finding);
            let line = profiles::line(&known, &arguments.volume, profiles::now_unix_s());
            lines.push_str(&format!("\nmember {}: {line}", finding.member));
        }
        print(&lines)?;
    }
    Ok(Exit::Done)
}

fn text(status: &VolumeStatus) -> String {
    let geometry = status.geometry;
    let used = status.capacity_bytes.saturating_sub(status.free_bytes);
    let mut lines = vec![
        format!("volume {} in {}", status.volume, status.directory.display()),
        format!(
            "{} titles, {} used, {} free of {}",
            status.titles,
            Size(used),
            Size(status.free_bytes),
            Size(status.capacity_bytes)
        ),
        format!(
            "{} data rows and {} parity rows ({}) on {} members; rows of {} symbols of {} bytes, units of {}, stripes of {}",
            geometry.data_rows(),
            geometry.parity_rows(),
            status.code,
            geometry.members(),
            geometry.row_symbols(),
            geometry.symbol_bytes(),
            Size(geometry.unit_bytes() as u64),
            Size(geometry.stripe_bytes() as u64),
        ),
        format!("catalogue {} of epoch {}", status.commit.generation, status.commit.epoch),
    ];
    lines.extend(status.members.iter().map(ToString::to_string));
    lines.join("\n")
}
