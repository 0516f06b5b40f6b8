//! The casts of a running server: added, listed, described and stopped.

use crate::args::{CastAddArguments, CastListArguments, CastSdpArguments, CastStopArguments};
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::output::print;
use crate::remote::Remote;
use reel_api::wire::{Cast, CastFec, CastList, CastStage, NewCast};

/// `reel cast add`.
pub(super) fn add(arguments: &CastAddArguments, quiet: bool) -> Result<Exit, Failure> {
    let CastAddArguments {
        titles, group, name, is_looped, strict, no_fec, ttl, dscp, interface, server, ..
    } = arguments;
    let fec = match (strict, no_fec) {
        (true, _) => CastFec::Strict,
        (_, true) => CastFec::Off,
        _ => CastFec::Any,
    };
    let (title, then) = titles.split_first().expect("the arguments have at least one");
    let wanted = NewCast {
        title: title.clone(),
        then: then.to_vec(),
        group: *group,
        name: name.clone(),
        is_looped: *is_looped,
        fec,
        ttl: *ttl,
        dscp: *dscp,
        interface: interface.clone(),
        is_announced: !arguments.no_announce,
        scheme: arguments.scheme.map(|scheme| scheme.to_string()),
        wait_s: arguments.wait.map(|wait| wait.ns as f64 / 1e9),
        bandwidth_bps: arguments.bandwidth.map(|rate| rate.0),
    };
    let remote = Remote::new(server)?;
    let cast: Cast = remote.post("/api/v1/casts", &wanted)?;
    if !quiet {
        print(&added_text(&cast, &remote))?;
    }
    Ok(Exit::Done)
}

/// What was begun, and how to receive it.
fn added_text(cast: &Cast, remote: &Remote) -> String {
    let fec = match &cast.fec {
        None => "no FEC".to_owned(),
        Some(matrix) => {
            let who = if matrix.is_strict {
                "every receiver of SMPTE ST 2022-1"
            } else {
                "GStreamer and `reel receive`; receivers that keep to SMPTE ST 2022-1 ignore it"
            };
            format!("FEC {} x {} on port + 2, for {who}", matrix.columns, matrix.rows)
        }
    };
    // The address that this command asks may be that of this machine alone.
    let sdp = cast.url.clone().unwrap_or_else(|| remote.address_of(&cast.sdp));
    if let Some(schedule) = &cast.schedule {
        let players = match schedule.scheme == "staggered" {
            true => format!("; stock players that join a channel wait for at most {:.1} s", schedule.slot_s),
            false => String::new(),
        };
        return format!(
            "{} is sent to {} groups from {} on: {}, {:.1} Mb/s, {fec}\n  the network carries at most {:.1} Mb/s, with FEC and headers\n  clients wait for at most {:.1} s{players}\n  reel receive {sdp} | mpv -",
            cast.name,
            schedule.channels,
            cast.group,
            schedule.scheme,
            schedule.bandwidth_bps as f64 / 1e6,
            schedule.peak_bps as f64 / 1e6,
            schedule.wait_s
        );
    }
    format!(
        "{} is sent to {} from now on\n  {:.1} Mb/s, {fec}\n  ffplay -protocol_whitelist http,tcp,udp,rtp,file {sdp}\n  reel receive {sdp} | mpv -\n  vlc rtp://{}{}",
        cast.name,
        cast.group,
        cast.rate_bps as f64 / 1e6,
        sender(cast),
        cast.group
    )
}

/// The only sender of the group, as VLC has it in front of the group.
fn sender(cast: &Cast) -> String {
    match &cast.source {
        None => String::new(),
        Some(source) if source.contains(':') => format!("[{source}]@"),
        Some(source) => format!("{source}@"),
    }
}

/// `reel cast list`.
pub(super) fn list(arguments: &CastListArguments) -> Result<Exit, Failure> {
    let remote = Remote::new(&arguments.server)?;
    if arguments.json {
        let casts: serde_json::Value = remote.get("/api/v1/casts")?;
        print(&casts.to_string())?;
        return Ok(Exit::Done);
    }
    let CastList { casts } = remote.get("/api/v1/casts")?;
    if casts.is_empty() {
        print("no casts")?;
    }
    for cast in &casts {
        print(&line(cast))?;
    }
    Ok(Exit::Done)
}

fn line(cast: &Cast) -> String {
    let state = match cast.state {
        CastStage::Starting => "starting",
        CastStage::OnAir => "on air",
        CastStage::Waiting => "waiting",
        CastStage::Ended => "ended",
    };
    let mut line = format!(
        "{:<20} {:<24} {state:<8} {}, {} packets, {} late, {} lost",
        cast.name,
        cast.group,
        place(cast),
        cast.packets + cast.fec_packets,
        cast.late_packets,
        cast.lost_packets
    );
    for reason in [&cast.reason, &cast.fault].into_iter().flatten() {
        line.push_str(&format!("\n    {reason}"));
    }
    line
}

/// What a cast sends now, and at which rate.
fn place(cast: &Cast) -> String {
    if let Some(schedule) = &cast.schedule {
        let (channels, rate) = (schedule.channels, schedule.bandwidth_bps as f64 / 1e6);
        return format!("{} to {channels} groups, {rate:.1} Mb/s", schedule.scheme);
    }
    let title = if cast.playlist.is_empty() { String::new() } else { format!("{}: ", cast.title) };
    let (at_s, of_s) = (cast.position_s as u64, cast.duration_s as u64);
    format!("{title}{at_s} of {of_s} s, {:.1} Mb/s", cast.rate_bps as f64 / 1e6)
}

/// `reel cast stop`.
pub(super) fn stop(arguments: &CastStopArguments, quiet: bool) -> Result<Exit, Failure> {
    Remote::new(&arguments.server)?.delete(&format!("/api/v1/casts/{}", arguments.name))?;
    if !quiet {
        say(format!("{} was stopped", arguments.name));
    }
    Ok(Exit::Done)
}

/// `reel cast sdp`.
pub(super) fn sdp(arguments: &CastSdpArguments) -> Result<Exit, Failure> {
    let text = Remote::new(&arguments.server)?.text(&format!("/casts/{}.sdp", arguments.name))?;
    print(text.trim_end())?;
    Ok(Exit::Done)
}
