//! A stored transport stream as one file. A viewer of it reads the object that casts of the title
//! send, so both share what is in memory.

use crate::offers::{FilePart, Offers, file_demand};
use crate::playable::PlainFile;
use reel_admit::limits::SEND_LEAD_NS;
use reel_admit::{Choices, Stretch, shared_demand};
use reel_cache::{Body, Depth, MediaKind, Part, RowKind, SharedTrack, SharedTracks};
use reel_library::Stream;
use reel_media::transport::{PACKET_BYTES, SYMBOL_PAYLOAD_BYTES};
use reel_qos::Demand;
use std::ops::Range;
use std::sync::Arc;

/// A stripe of the stream.
struct StreamStripe {
    /// Where it begins in the file.
    file_start: u64,
    /// Its bytes of the object.
    stored: Range<u64>,
    /// When its first packet is due.
    due_ns: u64,
}

/// A stream as one file, and what can be promised to its viewers.
pub(crate) fn of_stream(stream: &Stream, depth: Depth) -> (PlainFile, Offers) {
    let (map, range) = (Arc::clone(&stream.map), 0..stream.index.bytes());
    let body = Body::new([match kind(stream) {
        RowKind::Payload(bytes) => Part::Payload(map, bytes, range),
        RowKind::Data | RowKind::Parity => Part::Object(map, range),
    }]);
    let stripes = stripes(stream);
    let times = stripes.iter().map(|stripe| (stripe.file_start, stripe.due_ns)).collect();
    (PlainFile { body, times }, Offers::of_file(choices(stream, &stripes, depth)))
}

/// Which bytes of the object are those of the stream. Symbols of volumes for the form `cmaf` hold
/// more than is sent.
fn kind(stream: &Stream) -> RowKind {
    match stream.places.symbol_bytes() {
        SYMBOL_PAYLOAD_BYTES => RowKind::Data,
        _ => RowKind::Payload(SYMBOL_PAYLOAD_BYTES as u32),
    }
}

/// The stripes of the stream in order.
fn stripes(stream: &Stream) -> Vec<StreamStripe> {
    let (kind, geometry) = (kind(stream), stream.map.geometry());
    let (bytes, stripe_bytes) = (stream.index.bytes(), kind.stripe_bytes(geometry));
    let of_stripe = |stripe: u64| {
        let file_start = stripe * stripe_bytes;
        let file_end = (file_start + stripe_bytes).min(bytes);
        let [start, end] = [file_start, file_end].map(|at| kind.stored_at(geometry, at));
        // A symbol holds whole packets, and a stripe whole symbols.
        let due_ns = stream.index.time_ns(file_start / PACKET_BYTES as u64);
        StreamStripe { file_start, stored: start..end, due_ns }
    };
    (0..bytes.div_ceil(stripe_bytes)).map(of_stripe).collect()
}

/// What a viewer demands, all of which viewers share that follow each other. What fills symbols is
/// counted as sent. `None` if the stream is too long to be promised.
fn choices(stream: &Stream, stripes: &[StreamStripe], depth: Depth) -> Option<Choices> {
    let (map, members) = (&stream.map, stream.map.geometry().members());
    let parts =
        stripes.iter().map(|stripe| FilePart { map, range: stripe.stored.clone(), shown_ns: stripe.due_ns });
    let demand = file_demand(members, depth, parts)?;
    let mut before_ns = 0;
    let stretches = stripes.iter().map(|stripe| Stretch {
        map,
        range: stripe.stored.clone(),
        from_ns: std::mem::replace(&mut before_ns, stripe.due_ns),
        due_ns: stripe.due_ns.saturating_sub(SEND_LEAD_NS),
        duration_ns: 0,
        with_parity: false,
    });
    let shared = shared_demand(members, depth, stretches)?;
    let nothing = Demand::peak_of(&[]);
    let track = SharedTrack {
        kind: MediaKind::Video,
        map: Arc::clone(map),
        starts: stripes.iter().map(|stripe| (stripe.due_ns, stripe.stored.start)).collect(),
        track_ns: stream.index.duration_ns(),
        with_parity: false,
    };
    Some(Choices {
        demands: Arc::from([Arc::new(demand.with_shared(&shared, &nothing, &nothing))]),
        shared: Arc::from([Some(Arc::new(SharedTracks::new(vec![track])))]),
    })
}
