//! The media times of the bytes of a strand, and where it is cut into messages. Pure.

use crate::limits::{STRAND_HEAD_BYTES_MAX, STRAND_MESSAGE_NS};
use reel_media::TrackIndex;
use reel_media::cmaf::samples_of_head;
use std::sync::Arc;

/// The media times of the bytes of a file, by position.
///
/// Those of a track are as fine as its samples: the head of each fragment lies before its samples,
/// and is read when it passes.
#[derive(Clone, Debug)]
pub struct StrandTimes {
    /// Where stretches begin, and their media times, in ascending order.
    stretches: Arc<[(u64, u64)]>,
    /// The fragments of a track, if it is one.
    track: Option<Track>,
}

#[derive(Clone, Debug)]
struct Track {
    fragments: Arc<[Fragment]>,
    timescale: u32,
    /// What has passed of the head of the fragment that begins there.
    head: Vec<u8>,
    head_at: u64,
    /// Where the samples of that fragment begin, and their media times, if its head has passed.
    samples: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Fragment {
    /// Where its head begins.
    at: u64,
    head_bytes: u64,
    end: u64,
    /// Ticks of the track.
    time: u64,
    samples: u32,
}

/// A message: so many bytes from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How many, at least one.
    pub bytes: usize,
    /// The media time of the first one.
    pub shown_ns: u64,
}

impl StrandTimes {
    /// Those of a file of which only these stretches are known.
    pub fn of_file(stretches: Arc<[(u64, u64)]>) -> Self {
        Self { stretches, track: None }
    }

    /// Those of a track as it is stored: an initialisation segment, and fragments.
    pub fn of_track(track: &TrackIndex) -> Self {
        let fragment = |fragment: &reel_media::Fragment| Fragment {
            at: fragment.offset,
            head_bytes: fragment.header_bytes.into(),
            end: fragment.offset + u64::from(fragment.bytes),
            time: fragment.time,
            samples: fragment.samples,
        };
        let fragments: Arc<[Fragment]> = track.fragments.iter().map(fragment).collect();
        let first = std::iter::once((0, 0));
        let stretches = fragments.iter().map(|fragment| (fragment.at, track.nanoseconds(fragment.time)));
        let timescale = track.track.timescale;
        Self {
            stretches: first.chain(stretches).collect(),
            track: Some(Track {
                fragments,
                timescale,
                head: Vec::new(),
                head_at: u64::MAX,
                samples: Vec::new(),
            }),
        }
    }

    /// Where stretches begin and their media times, as a reader of the file knows them.
    pub fn stretches(&self) -> &Arc<[(u64, u64)]> {
        &self.stretches
    }

    /// The media time of the byte at a position, as far as it is known now.
    pub fn shown_ns(&self, position: u64) -> u64 {
        let track = self.track.as_ref();
        track
            .and_then(|track| before(&track.samples, position).filter(|_| track.has(position)))
            .unwrap_or_else(|| before(&self.stretches, position).unwrap_or(0))
    }

    /// The next message, which begins with `bytes` (not empty) at a position. It ends where media
    /// time is later by more than [`STRAND_MESSAGE_NS`], or where a head ends, whose samples have
    /// times of their own.
    pub fn cut(&mut self, position: u64, bytes: &[u8]) -> Cut {
        let end = position + bytes.len() as u64;
        let stop = self.track.as_mut().and_then(|track| track.pass(position, bytes));
        let shown_ns = self.shown_ns(position);
        let until_ns = shown_ns.saturating_add(STRAND_MESSAGE_NS);
        let later = |times: &[(u64, u64)]| {
            let next = times.partition_point(|(at, _)| *at <= position);
            times[next..].iter().find(|(_, shown_ns)| *shown_ns > until_ns).map(|(at, _)| *at)
        };
        let samples = self.track.as_ref().and_then(|track| later(&track.samples));
        let ends = [stop, samples, later(&self.stretches)];
        let end = ends.into_iter().flatten().filter(|at| *at > position).fold(end, u64::min);
        // The cast fits: it is at most the length of the bytes.
        Cut { bytes: (end - position) as usize, shown_ns }
    }
}

impl Track {
    /// The fragment that a position belongs to.
    fn fragment(&self, position: u64) -> Option<Fragment> {
        let after = self.fragments.partition_point(|fragment| fragment.at <= position);
        self.fragments.get(after.checked_sub(1)?).copied()
    }

    /// Whether the samples are those of the fragment at a position.
    fn has(&self, position: u64) -> bool {
        self.fragment(position).is_some_and(|fragment| fragment.at == self.head_at && position < fragment.end)
    }

    /// Takes what passes of a head. Returns where that ends, or where the next one begins.
    fn pass(&mut self, position: u64, bytes: &[u8]) -> Option<u64> {
        let Some(fragment) = self.fragment(position) else { return Some(self.fragments.first()?.at) };
        let head_end = fragment.at + fragment.head_bytes;
        if position >= fragment.end {
            // The set-up of the decoder for the next one.
            let next = self.fragments.partition_point(|fragment| fragment.at <= position);
            return self.fragments.get(next).map(|next| next.at);
        }
        if position >= head_end {
            return Some(fragment.end);
        }
        if self.head_at != fragment.at {
            self.head.clear();
            self.samples.clear();
            self.head_at = fragment.at;
        }
        // The same bytes are seen again if they were not taken.
        let seen = self.head.len() as u64;
        let from = fragment.at + seen;
        let fits = fragment.head_bytes <= STRAND_HEAD_BYTES_MAX;
        if fits && (position..position + bytes.len() as u64).contains(&from) && from < head_end {
            // The casts fit: both are within the bytes, or the head.
            let start = (from - position) as usize;
            let end = bytes.len().min((head_end - position) as usize);
            self.head.extend_from_slice(&bytes[start..end]);
            if self.head.len() as u64 == fragment.head_bytes {
                self.samples = self.samples_of(&fragment).unwrap_or_default();
            }
        }
        Some(head_end)
    }

    /// Where the samples of a fragment begin whose head has passed, if it says what the index says.
    fn samples_of(&self, fragment: &Fragment) -> Option<Vec<(u64, u64)>> {
        let samples =
            samples_of_head(&self.head).filter(|all| all.len() as u64 == u64::from(fragment.samples))?;
        let (mut at, mut ticks) = (fragment.at + fragment.head_bytes, fragment.time);
        let all = samples.iter().map(|sample| {
            let begin = (at, self.nanoseconds(ticks));
            at += u64::from(sample.bytes);
            ticks = ticks.saturating_add(sample.duration.into());
            begin
        });
        let all: Vec<_> = all.collect();
        (at == fragment.end).then_some(all)
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        let scale = u128::from(self.timescale.max(1));
        let ns = (u128::from(ticks) * 1_000_000_000 + scale / 2) / scale;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The media time of the last place that is not behind a position.
fn before(times: &[(u64, u64)], position: u64) -> Option<u64> {
    let after = times.partition_point(|(at, _)| *at <= position);
    after.checked_sub(1).map(|place| times[place].1)
}
