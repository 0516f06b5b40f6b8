//! Any bytes are a film or an error. What is taken as a film goes all the way: packed, indexed,
//! read back, listed in playlists and manifests, laid out as a file.

use crate::demux::Memory;
use reel_media::cmaf::{CutPolicy, Packager};
use reel_media::{MediaError, TitleIndex, TrackKind, dash, hls, progressive};

/// Packets taken of one input: a small file cannot claim more than this and still end soon.
const PACKETS_MAX: usize = 20_000;

/// Takes the bytes all the way.
pub fn chain(bytes: &[u8]) {
    if let Ok(Some(index)) = take(bytes) {
        list(&index);
    }
}

/// Demuxes and packs; the index if the film gets that far.
fn take(bytes: &[u8]) -> Result<Option<TitleIndex>, MediaError> {
    let mut film = reel_media::open(Box::new(Memory(bytes.to_vec())))?;
    let Ok(mut packager) = Packager::new(film.tracks().to_vec(), CutPolicy::default()) else {
        return Ok(None);
    };
    let mut data = Vec::new();
    for _ in 0..PACKETS_MAX {
        let Some(packet) = film.next(&mut data)? else { break };
        assert!(packet.track < film.tracks().len(), "a packet of no track");
        if packager.push(&packet, &data).is_err() {
            return Ok(None);
        }
        packager.take();
    }
    let Ok(packaged) = packager.finish() else { return Ok(None) };
    Ok(Some(TitleIndex::assemble(vec![packaged]).0))
}

/// Whatever is written from an index must be possible for every index that can be stored.
fn list(index: &TitleIndex) {
    let Ok(stored) = index.encode() else { return };
    let index = TitleIndex::decode(&stored).expect("what was written can be read");
    let _ = (hls::master(&index), dash::manifest(&index));
    for track in 0..index.tracks.len() {
        let _ = (hls::media(&index, track), hls::iframes(&index, track), hls::text(&index, track));
    }
    let selection: Vec<usize> = (0..index.tracks.len())
        .filter(|&track| index.tracks[track].track.kind != TrackKind::Subtitle)
        .collect();
    if let Ok(file) = progressive::layout(&index, &selection) {
        let total: u64 = file.parts().iter().map(progressive::Part::bytes).sum();
        assert_eq!(total, file.bytes());
    }
}
