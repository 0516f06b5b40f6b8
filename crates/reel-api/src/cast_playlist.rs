//! `/casts.m3u`: the casts as a playlist that stock players open.
//!
//! Entries are `rtp://@GROUP:PORT`, which VLC and ffmpeg play; VLC opens no SDP files. Such an
//! address says nothing of FEC, so the address of the description stands beside it as a comment.

use crate::below::Below;
use crate::casts::seen;
use crate::playlist_lines::one_line;
use crate::wire::{Cast, CastStage};
use crate::{ControlPlane, Problem, on_blocking_thread};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::fmt::Write as _;

/// `GET /casts.m3u`
pub(super) async fn show(State(control): State<ControlPlane>, below: Below) -> Result<Response, Problem> {
    let entries = on_blocking_thread(move || {
        let casts = control.casts().list().into_iter().filter(|cast| cast.state != CastStage::Ended);
        let described = |cast: Cast| {
            let description = control.casts().description(&cast.name);
            (seen(cast, &below), description.as_deref().and_then(source).map(str::to_owned))
        };
        casts.map(described).collect::<Vec<_>>()
    })
    .await?;
    let fields = [(header::CONTENT_TYPE, "audio/x-mpegurl"), (header::CACHE_CONTROL, "no-store")];
    Ok((fields, playlist(&entries)).into_response())
}

/// The only sender that receivers are to join for, in a description (RFC 4570, section 3).
fn source(description: &str) -> Option<&str> {
    let filter = description.lines().find_map(|line| line.strip_prefix("a=source-filter: incl IN "))?;
    filter.split(' ').nth(2)
}

/// The playlist of casts, each with the only sender of its group if there is one.
fn playlist(casts: &[(Cast, Option<String>)]) -> String {
    let mut text = String::from("#EXTM3U\n");
    for (cast, source) in casts {
        let Cast { group, sdp, .. } = cast;
        let name = one_line(&cast.label);
        let line = match &cast.schedule {
            // Only receivers that follow its schedule can play it.
            Some(schedule) => {
                let (scheme, channels) = (&schedule.scheme, schedule.channels);
                writeln!(
                    text,
                    "# {name}: a broadcast ({scheme}, {channels} groups) for `reel receive`: {sdp}"
                )
            }
            None => {
                let source = source.as_deref().map(bracketed).unwrap_or_default();
                writeln!(text, "#EXTINF:-1,{name}\n# {sdp}\nrtp://{source}@{group}")
            }
        };
        line.expect("a string takes everything");
    }
    text
}

/// The address as URLs have it.
fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cast(label: &str, group: &str, schedule: bool) -> Cast {
        let schedule = schedule.then(|| {
            json!({ "scheme": "rfs", "channels": 5, "segments": 73, "slot_s": 2.0, "wait_s": 4.0,
                    "bandwidth_bps": 1, "peak_bps": 2 })
        });
        let mut cast = json!({
            "name": "a", "title": "t", "title_name": "t", "label": label, "group": group, "loop": true, "state": "on-air",
            "position_s": 0.0, "duration_s": 1.0, "rate_bps": 1, "packets": 0, "fec_packets": 0,
            "late_packets": 0, "lost_packets": 0, "sdp": "/casts/a.sdp"
        });
        if let Some(schedule) = schedule {
            cast["schedule"] = schedule;
        }
        serde_json::from_value(cast).expect("a cast")
    }

    #[test]
    fn each_plain_cast_is_an_entry() {
        let casts = [
            (cast("Amélie, 2001", "239.1.1.1:5000", false), None),
            (cast("a\r\nrtp://trap\u{2028}b", "232.1.1.1:5000", false), Some("192.0.2.1".to_owned())),
            (cast("six", "[ff3e::8000:1]:5000", false), Some("2001:db8::1".to_owned())),
            (cast("all", "239.1.2.1:5000", true), None),
        ];
        let lines = [
            "#EXTM3U",
            "#EXTINF:-1,Amélie, 2001",
            "# /casts/a.sdp",
            "rtp://@239.1.1.1:5000",
            "#EXTINF:-1,a  rtp://trap b",
            "# /casts/a.sdp",
            "rtp://192.0.2.1@232.1.1.1:5000",
            "#EXTINF:-1,six",
            "# /casts/a.sdp",
            "rtp://[2001:db8::1]@[ff3e::8000:1]:5000",
            "# all: a broadcast (rfs, 5 groups) for `reel receive`: /casts/a.sdp",
            "",
        ];
        assert_eq!(playlist(&casts), lines.join("\n"));
        assert_eq!(playlist(&[]), "#EXTM3U\n");
    }

    #[test]
    fn the_only_sender_is_that_of_the_description() {
        let filter = "v=0\r\na=source-filter: incl IN IP4 232.1.1.1 192.0.2.1\r\n";
        assert_eq!((source(filter), source("v=0\r\n")), (Some("192.0.2.1"), None));
    }
}
