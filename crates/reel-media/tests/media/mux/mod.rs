//! Transport streams that are made of stored titles: ffmpeg and the demuxer of this crate read the
//! same pictures and sound from them, and receivers get everything in time.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

mod films;
mod judge;
mod laws;

use self::judge::Judged;
use crate::film::Stored;
use crate::oracle::Memory;
use reel_media::transport::{Multiplexer, MuxError, MuxStep, StreamIndex, StreamReader, WantedFragment};

/// A transport stream that was made.
struct Made {
    stream: Vec<u8>,
    index: StreamIndex,
    warnings: Vec<String>,
    estimated_bytes: u64,
}

/// Makes a transport stream of a stored title.
fn multiplex(title: &Stored) -> Result<Made, MuxError> {
    let mut mux = Multiplexer::new(&title.index)?;
    let mut stream = Vec::new();
    loop {
        match mux.step(&mut stream)? {
            MuxStep::Packets(_) => {}
            MuxStep::Wants(WantedFragment { track, fragment }) => {
                let track = &title.index.tracks[track];
                let range = track.segment_range(fragment + 1).unwrap();
                let object = &title.objects[track.object as usize];
                mux.supply(object[range.start as usize..range.end as usize].to_vec())?;
            }
            MuxStep::End => break,
        }
    }
    let estimated_bytes = mux.estimated_bytes();
    let (index, warnings) = mux.finish()?;
    Ok(Made { stream, index, warnings, estimated_bytes })
}

/// Makes a transport stream, and checks what receivers rely on and what the reader says.
fn made(title: &Stored) -> (Made, Judged) {
    let made = multiplex(title).unwrap();
    let estimated_bytes = made.estimated_bytes.max(100_000);
    assert!(made.stream.len() as u64 <= estimated_bytes * 11 / 10, "{estimated_bytes}");
    let judged = Judged::of(&made.stream);
    judged.check();
    let mut reader = StreamReader::open(Box::new(Memory(made.stream.clone()))).unwrap();
    let mut packets = Vec::new();
    while reader.read(100, &mut packets).unwrap() > 0 {}
    assert!(packets == made.stream);
    let (index, warnings) = reader.finish().unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(index, made.index);
    assert_eq!(StreamIndex::decode(&index.encode().unwrap()).as_ref(), Ok(&index));
    // The time line is straight between clock references.
    for (packet, ticks) in &judged.clocks {
        assert!(index.ticks_at(*packet as u64).abs_diff(*ticks) <= 1, "packet {packet}");
    }
    (made, judged)
}
