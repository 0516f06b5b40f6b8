//! A stored transport stream as one file. A viewer of it reads the object that casts of the title
//! send, so both share what is in memory.

use crate::offers::{FilePart, Offers, file_demand};
use crate::playable::PlainFile;
use reel_admit::limits::SEND_LEAD_NS;
use reel_admit::{Choices, Stretch, shared_demand};
use reel_cache::{Body, Depth, MediaKind, Part, SharedTrack, SharedTracks};
use reel_library::Stream;
use reel_media::transport::{PACKET_BYTES, SYMBOL_PAYLOAD_BYTES};
use reel_qos::Demand;
use std::ops::Range;
use std::sync::Arc;

/// A stream as one file, and what can be promised to its viewers. `None` if its symbols hold more
/// than is sent.
pub(crate) fn of_stream(stream: &Stream, depth: Depth) -> Option<(PlainFile, Offers)> {
    if stream.places.symbol_bytes() != SYMBOL_PAYLOAD_BYTES {
        return None;
    }
    let body = Body::new([Part::Object(Arc::clone(&stream.map), 0..stream.index.bytes())]);
    let stripes = stripes(stream);
    let times = stripes.iter().map(|(range, shown_ns)| (range.start, *shown_ns)).collect();
    Some((PlainFile { body, times }, Offers::of_file(choices(stream, &stripes, depth))))
}

/// The stripes of the stream, and when the first packet of each is due.
fn stripes(stream: &Stream) -> Vec<(Range<u64>, u64)> {
    let (bytes, stripe_bytes) = (stream.index.bytes(), stream.map.geometry().stripe_bytes() as u64);
    let of_stripe = |stripe: u64| {
        let start = stripe * stripe_bytes;
        // A symbol holds whole packets, and a stripe whole symbols.
        let due_ns = stream.index.time_ns(start / PACKET_BYTES as u64);
        (start..(start + stripe_bytes).min(bytes), due_ns)
    };
    (0..bytes.div_ceil(stripe_bytes)).map(of_stripe).collect()
}

/// What a viewer demands, all of which viewers share that follow each other. `None` if the stream
/// is too long to be promised.
fn choices(stream: &Stream, stripes: &[(Range<u64>, u64)], depth: Depth) -> Option<Choices> {
    let (map, members) = (&stream.map, stream.map.geometry().members());
    let parts = stripes.iter().map(|(range, shown_ns)| FilePart {
        map: &**map,
        range: range.clone(),
        shown_ns: *shown_ns,
    });
    let demand = file_demand(members, depth, parts)?;
    let mut before_ns = 0;
    let stretches = stripes.iter().map(|(range, shown_ns)| Stretch {
        map: &**map,
        range: range.clone(),
        from_ns: std::mem::replace(&mut before_ns, *shown_ns),
        due_ns: shown_ns.saturating_sub(SEND_LEAD_NS),
        duration_ns: 0,
        with_parity: false,
    });
    let shared = shared_demand(members, depth, stretches)?;
    let nothing = Demand::peak_of(&[]);
    let track = SharedTrack {
        kind: MediaKind::Video,
        map: Arc::clone(map),
        starts: stripes.iter().map(|(range, shown_ns)| (*shown_ns, range.start)).collect(),
        track_ns: stream.index.duration_ns(),
        with_parity: false,
    };
    Some(Choices {
        demands: Arc::from([Arc::new(demand.with_shared(&shared, &nothing, &nothing))]),
        shared: Arc::from([Some(Arc::new(SharedTracks::new(vec![track])))]),
    })
}
