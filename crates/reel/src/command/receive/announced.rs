//! Casts that are announced (SAP): all that are heard, or the one of a name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reel_receive::{Announced, Arrivals, Guide, GuideCounts, Member, Port, Wait};
use reel_rtp::sap::announcement_groups;
use reel_rtp::sdp::Session;

use super::playing::stopped_by;
use crate::args::ReceiveArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::output::print;
use crate::remote::Remote;
use crate::signals::Signals;

/// How long casts are listened for if nothing else is asked for: a Reel server with up to four
/// casts announces each at least once in this time.
const LISTEN_NS: u64 = 6_000_000_000;

/// The longest wait, so that a signal is noticed.
const WAIT: Duration = Duration::from_millis(100);

/// Names of other casts that are shown.
const SHOWN_MAX: usize = 8;

/// `reel receive --list`: prints what is on the air.
pub(super) fn list(arguments: &ReceiveArguments, quiet: bool) -> Result<Exit, Failure> {
    let signals =
        Signals::catch().map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    let stopped = stopped_by(signals);
    let arrivals = listen(arguments.interface.as_deref())?;
    let for_ns = arguments.duration.map_or(LISTEN_NS, |duration| duration.ns);
    let mut guide = Guide::new();
    while arrivals.now_ns() < for_ns && !stopped.load(Ordering::Relaxed) {
        take(&arrivals, &mut guide);
    }
    let casts = guide.casts();
    for cast in &casts {
        print(&line(cast))?;
    }
    if casts.is_empty() {
        print(&format!("no casts were announced in {:.1} s", arrivals.now_ns() as f64 / 1e9))?;
    } else if !quiet {
        say("receive one: reel receive 'sap://NAME' | mpv -");
    }
    if !quiet && let Some(note) = note(guide.counts(), arrivals.dropped()) {
        say(note);
    }
    Ok(Exit::Done)
}

/// Waits for the announcement of a cast.
pub(super) fn find(name: &str, arguments: &ReceiveArguments) -> Result<Session, Failure> {
    if name.is_empty() {
        return Err(Failure::usage("sap:// needs the name of a cast")
            .help("`reel receive --list` shows those that are announced"));
    }
    let arrivals = listen(arguments.interface.as_deref())?;
    let (mut guide, mut all) = (Guide::of_name(name), Guide::new());
    while arrivals.now_ns() < arguments.timeout.ns {
        if let Wait::Arrived(arrival) = arrivals.wait(WAIT) {
            guide.push(&arrival.bytes, arrival.from.ip());
            all.push(&arrival.bytes, arrival.from.ip());
        }
        if let Some(cast) = guide.casts().first() {
            return whole(cast.session, cast.from);
        }
    }
    let heard: Vec<String> =
        all.casts().iter().take(SHOWN_MAX).map(|cast| format!("{:?}", cast.session.name)).collect();
    let waited_s = arrivals.now_ns() as f64 / 1e9;
    let mut what = format!("no cast {name:?} was announced in {waited_s:.1} s");
    if !heard.is_empty() {
        what.push_str(&format!("; announced were {}", heard.join(", ")));
    }
    Err(Failure::not_found(what).help(
        "servers with many casts announce each every minute or two (--timeout 2min); the cast's description, \
         http://host:8080/casts/NAME.sdp, needs no announcement",
    ))
}

/// The whole description. One that is too long for an announcement is at an address of the sender.
/// No announcement has another machine asked.
fn whole(session: &Session, from: IpAddr) -> Result<Session, Failure> {
    let Some(url) = &session.whole_at else { return Ok(session.clone()) };
    let host = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let is_sender = host.parse::<SocketAddr>().is_ok_and(|host| host.ip() == from);
    if !is_sender {
        let name = &session.name;
        return Err(Failure::failed(format!("{from} announces {name:?} with a description at {url}"))
            .help("a description is taken from the address that announces it; if you trust this one, name it instead of sap://"));
    }
    let text = Remote::new(url)?.text("")?;
    Session::parse(&text).map_err(|error| Failure::advised(Exit::Failed, &error.to_string()))
}

/// Joins the groups of announcements that can be joined.
fn listen(interface: Option<&str>) -> Result<Arrivals, Failure> {
    let arrivals = Arrivals::none();
    let mut refused = None;
    let mut joined = 0;
    for (number, group) in announcement_groups().into_iter().enumerate() {
        match Member::join(group, &[], interface) {
            Ok(member) => {
                arrivals
                    .also(number, Port::Media, Arc::new(member))
                    .map_err(|error| Failure::failed(format!("cannot start a thread to receive: {error}")))?;
                joined += 1;
            }
            // A machine without IPv6, or without a route to one of the scopes.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if joined == 0 => Err(Failure::advised(Exit::Failed, &error.to_string())),
        _ => Ok(arrivals),
    }
}

fn take(arrivals: &Arrivals, guide: &mut Guide) {
    if let Wait::Arrived(arrival) = arrivals.wait(WAIT) {
        guide.push(&arrival.bytes, arrival.from.ip());
    }
}

/// Name, group, rate, FEC and sender.
fn line(cast: &Announced<'_>) -> String {
    let session = cast.session;
    let (group, fec) = match session.channels.first() {
        None => (String::new(), String::new()),
        Some(channel) => {
            let fec =
                channel.fec.map(|fec| format!("FEC {} x {}", fec.geometry.columns(), fec.geometry.rows()));
            let address = SocketAddr::new(channel.address, channel.port);
            (address.to_string(), fec.unwrap_or_else(|| "no FEC".to_owned()))
        }
    };
    let rate = match session.rate_kbps {
        Some(kbps) => format!("{:.1} Mb/s", kbps as f64 / 1e3),
        None => "? Mb/s".to_owned(),
    };
    let channels = match session.channels.len() {
        0 | 1 => String::new(),
        count => format!(", {count} groups"),
    };
    format!("{:<28} {group:<24} {rate:<10} {fec:<11} from {}{channels}", session.name, cast.from)
}

/// What was heard beside casts, if anything was.
fn note(counts: GuideCounts, dropped: u64) -> Option<String> {
    let parts: Vec<String> = [
        ("announcements of something else", counts.others),
        ("datagrams that are no announcements", counts.malformed),
        ("announcements that found no room", counts.no_room + dropped),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| format!("{count} {name}"))
    .collect();
    (!parts.is_empty()).then(|| format!("note: there were also {}", parts.join(", ")))
}
