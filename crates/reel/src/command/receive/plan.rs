//! What to receive: from a description in a file or on a server, or from an address.

use std::io::Read;
use std::path::Path;

use reel_receive::{Broadcast, Plan};
use reel_rt::open_input;
use reel_rtp::limits::SDP_BYTES_MAX;
use reel_rtp::sdp::Session;

use super::announced;
use crate::args::ReceiveArguments;
use crate::failure::{Exit, Failure};
use crate::remote::Remote;

/// What to receive, and what to say about it.
pub(super) struct Wanted {
    pub(super) plan: Plan,
    /// Instead, the plans of all channels of a broadcast.
    pub(super) broadcast: Option<(Broadcast, Vec<Plan>)>,
    pub(super) notes: Vec<String>,
}

/// Reads what was named on the command line.
pub(super) fn read(cast: &str, arguments: &ReceiveArguments) -> Result<Wanted, Failure> {
    if cast.starts_with("rtp://") {
        let plan = Plan::from_url(cast).map_err(|error| Failure::advised(Exit::Usage, &error.to_string()))?;
        let notes = vec![
            "note: an address says nothing of FEC; with the SDP of the cast, lost packets are repaired"
                .to_owned(),
        ];
        return Ok(Wanted { plan, broadcast: None, notes });
    }
    if let Some(name) = cast.strip_prefix("sap://") {
        return wanted(&announced::find(name, arguments)?);
    }
    let text = if cast.starts_with("http://") || cast.starts_with("https://") {
        Remote::new(cast)?.text("")?
    } else if cast.contains("://") {
        return Err(Failure::usage(format!("{cast} is no address of a cast"))
            .help("name a file, or an address that begins with http://, rtp:// or sap://"));
    } else {
        read_file(Path::new(cast))?
    };
    let session =
        Session::parse(&text).map_err(|error| Failure::advised(Exit::Failed, &error.to_string()))?;
    wanted(&session)
}

/// Whether a description is read where the present one is found, so that it is worth to be read
/// again.
pub(super) fn is_current(cast: &str) -> bool {
    ["http://", "https://", "sap://"].iter().any(|scheme| cast.starts_with(scheme))
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(SDP_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::path("read", path, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn wanted(session: &Session) -> Result<Wanted, Failure> {
    // A description has at least one.
    let Some(channel) = session.channels.first() else {
        return Err(Failure::failed("the description has no transport stream"));
    };
    let plan = Plan::of(channel);
    if let Some(told) = &session.schedule {
        let broadcast = Broadcast::new(told.clone(), session.channels.len())
            .map_err(|error| Failure::advised(Exit::Failed, &error.to_string()))?;
        let plans = session.channels.iter().map(Plan::of).collect();
        return Ok(Wanted { plan, broadcast: Some((broadcast, plans)), notes: Vec::new() });
    }
    let fec = match plan.fec {
        Some(fec) => format!("FEC {} x {}", fec.geometry.columns(), fec.geometry.rows()),
        None => "no FEC".to_owned(),
    };
    let mut notes = vec![format!("receiving {} from {}, {fec}", session.name, plan.media)];
    if let Some(fault) = channel.fec_fault {
        notes.push(format!("note: the FEC of the description is not used: {fault}"));
    }
    if session.channels.len() > 1 {
        let count = session.channels.len();
        notes.push(format!("note: the description has {count} transport streams; the first one is received"));
    }
    Ok(Wanted { plan, broadcast: None, notes })
}
