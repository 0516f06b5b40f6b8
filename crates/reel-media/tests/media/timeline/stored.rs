//! What Reel makes of a file: read, packaged, and read again from the stored fragments.

use super::frames::number_of;
use super::meant::RATE;
use crate::isobmff;
use crate::oracle::Memory;
use reel_media::cmaf::{CutPolicy, Packager};
use reel_media::{TitleIndex, TrackKind};

/// What is put into gaps of sound, with one channel and with two.
const SILENCE: [&[u8]; 2] = [&[0, 0, 0, 7], &[0x21, 0, 0, 0, 0, 0x1c]];

/// A stored sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: u32,
    /// When it is shown, in ticks of timelines, rounded.
    pub(crate) pts: i64,
}

/// A stored title.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// In decoding order.
    pub(crate) pictures: Vec<Found>,
    pub(crate) sound: Vec<Found>,
    /// In ticks of timelines.
    pub(crate) length: i64,
    pub(crate) warnings: Vec<String>,
}

impl Stored {
    /// What is stored of a file.
    pub(crate) fn of(bytes: Vec<u8>) -> Result<Stored, String> {
        let mut demux = reel_media::open(Box::new(Memory(bytes))).map_err(|error| error.to_string())?;
        let tracks = demux.tracks().to_vec();
        // Short fragments, so that there are several.
        let policy = CutPolicy { fragment_min_ms: 500, ..CutPolicy::default() };
        let mut packager = Packager::new(tracks.clone(), policy).map_err(|error| error.to_string())?;
        let mut objects = vec![Vec::new(); tracks.len()];
        let mut data = Vec::new();
        while let Some(packet) = demux.next(&mut data).map_err(|error| error.to_string())? {
            packager.push(&packet, &data).map_err(|error| error.to_string())?;
            packager.take().into_iter().for_each(|piece| objects[piece.track].extend(piece.bytes));
        }
        let mut stored = Stored { warnings: demux.warnings().to_vec(), ..Stored::default() };
        let packaged = packager.finish().map_err(|error| error.to_string())?;
        packaged.pieces.iter().for_each(|piece| objects[piece.track].extend(&piece.bytes));
        let (index, ..) = TitleIndex::assemble(vec![packaged]);
        stored.length = (index.duration_ns as i64 * 9 + 50_000) / 100_000;
        for (track, object) in tracks.iter().zip(&objects) {
            let scale = i64::from(track.timescale);
            let found = isobmff::fragments(object).into_iter().flatten();
            // Silence in gaps is no frame of the file.
            let found =
                found.filter(|sample| !SILENCE.contains(&sample.data.as_slice())).map(|sample| Found {
                    id: number_of(&sample.data),
                    pts: (sample.pts * RATE * 2 + scale).div_euclid(scale * 2),
                });
            match track.kind {
                TrackKind::Video => stored.pictures.extend(found),
                _ => stored.sound.extend(found),
            }
        }
        stored.pictures.truncate(own_pictures(&stored.pictures));
        Ok(stored)
    }

    /// Whether something like this is warned of.
    pub(crate) fn warns_of(&self, what: &str) -> bool {
        self.warnings.iter().any(|warning| warning.contains(what))
    }
}

/// The number of pictures without a key frame that is repeated at the end of the title because the
/// sound is much longer.
fn own_pictures(pictures: &[Found]) -> usize {
    let Some(last) = pictures.last() else { return 0 };
    // Within a twentieth of a second.
    let is_repeated = |picture: &&Found| picture.id == last.id && last.pts - picture.pts <= RATE / 20;
    let own = pictures.len() - pictures.iter().rev().take_while(is_repeated).count();
    // The key frame itself may be the last picture.
    own + usize::from(!pictures[..own].iter().any(|picture| picture.id == last.id))
}
