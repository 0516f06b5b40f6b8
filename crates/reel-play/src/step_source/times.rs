//! The media times of the bytes of a stream, and where it is cut into messages. Pure.

use crate::limits::{STEP_HEAD_BYTES_MAX, STEP_MESSAGE_NS};
use reel_media::TrackIndex;
use reel_media::cmaf::samples_of_head;
use std::sync::Arc;

/// The media times of the bytes of a file, by position.
///
/// Those of a track are as fine as its samples: the head of each fragment lies before its samples,
/// and is read when it passes.
#[derive(Clone, Debug)]
pub struct StepTimes {
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

impl StepTimes {
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
        // What lies before a fragment is needed for it.
        let begins = std::iter::once(0).chain(fragments.iter().map(|fragment| fragment.end));
        let shown = fragments.iter().map(|fragment| track.nanoseconds(fragment.time));
        let stretches = begins.zip(shown).collect();
        let timescale = track.track.timescale;
        Self {
            stretches,
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
    /// time is later by [`STEP_MESSAGE_NS`], or where a head ends, whose samples have
    /// times of their own.
    pub fn cut(&mut self, position: u64, bytes: &[u8]) -> Cut {
        let end = position + bytes.len() as u64;
        let stop = self.track.as_mut().and_then(|track| track.pass(position, bytes));
        let shown_ns = self.shown_ns(position);
        let until_ns = shown_ns.saturating_add(STEP_MESSAGE_NS);
        let later = |times: &[(u64, u64)]| {
            let next = times.partition_point(|(at, _)| *at <= position);
            times[next..].iter().find(|(_, shown_ns)| *shown_ns >= until_ns).map(|(at, _)| *at)
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
        let fits = fragment.head_bytes <= STEP_HEAD_BYTES_MAX;
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
    /// A picture that is stored before it is shown, since others are made from it, is needed when
    /// the first one of what follows is.
    fn samples_of(&self, fragment: &Fragment) -> Option<Vec<(u64, u64)>> {
        let samples = samples_of_head(&self.head)?;
        if samples.len() as u64 != u64::from(fragment.samples) {
            return None;
        }
        let (mut at, mut ticks, mut all) = (fragment.at + fragment.head_bytes, 0_i64, Vec::new());
        for sample in samples {
            all.push((at, ticks.saturating_add(sample.composition)));
            at += u64::from(sample.bytes);
            ticks = ticks.saturating_add(sample.duration.into());
        }
        // The first one that is shown has the time of the fragment.
        let first = all.iter().map(|(_, ticks)| *ticks).min().unwrap_or(0);
        let mut next = i64::MAX;
        let all = all.into_iter().rev().map(|(at, ticks)| {
            next = ticks.saturating_sub(first).min(next);
            (at, self.nanoseconds(fragment.time.saturating_add_signed(next)))
        });
        let mut all: Vec<_> = all.collect();
        all.reverse();
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

#[cfg(test)]
mod tests {
    use super::*;
    use reel_testkit::Rng;

    const TICKS: u64 = 1000;

    fn boxed(kind: &[u8; 4], contents: &[&[u8]]) -> Vec<u8> {
        let contents = contents.concat();
        let length = u32::try_from(contents.len() + 8).unwrap();
        [&length.to_be_bytes(), &kind[..], &contents].concat()
    }

    /// The head of a fragment whose samples last so long, and have these sizes and compositions.
    fn head(duration: u32, samples: &[[u32; 2]]) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let tfhd = boxed(b"tfhd", &[&words(&[0x02_0008, 1, duration])]);
        let count = u32::try_from(samples.len()).unwrap();
        let trun = boxed(b"trun", &[&words(&[0xa01, count, 0]), &words(samples.as_flattened())]);
        let moof = boxed(b"moof", &[&boxed(b"mfhd", &[&[0; 8]]), &boxed(b"traf", &[&tfhd, &trun])]);
        [moof, boxed(b"mdat", &[])].concat()
    }

    /// A track of fragments whose samples last 30 ticks, and its bytes; where each sample begins,
    /// and the media time at which it is needed.
    fn track(rng: &mut Rng) -> (StepTimes, Vec<u8>, Vec<(u64, u64)>) {
        let (mut bytes, mut fragments, mut samples, mut time) = (rng.bytes(50), Vec::new(), Vec::new(), 0);
        for _ in 0..5 {
            let count = 1 + rng.below(40);
            let sample = |_| [1 + rng.below(300) as u32, 30 * rng.below(4) as u32];
            let of_fragment: Vec<[u32; 2]> = (0..count).map(sample).collect();
            let head = head(30, &of_fragment);
            let (at, first) = (bytes.len() as u64, time);
            bytes.extend_from_slice(&head);
            let shown =
                |(number, [_, composition]): (usize, &[u32; 2])| 30 * number as u64 + u64::from(*composition);
            let shown: Vec<u64> = of_fragment.iter().enumerate().map(shown).collect();
            let earliest = shown.iter().min().unwrap();
            for (number, [size, _]) in of_fragment.iter().enumerate() {
                let needed = shown[number..].iter().min().unwrap() - earliest;
                samples.push((bytes.len() as u64, (first + needed) * 1_000_000));
                bytes.extend(rng.bytes(*size as usize));
                time += 30;
            }
            let (head_bytes, end) = (head.len() as u64, bytes.len() as u64);
            fragments.push(Fragment { at, head_bytes, end, time: first, samples: of_fragment.len() as u32 });
            // The set-up of the decoder for the next one.
            let between = rng.below(2) * 7;
            bytes.extend(rng.bytes(between as usize));
        }
        let begins = std::iter::once(0).chain(fragments.iter().map(|fragment| fragment.end));
        let shown = fragments.iter().map(|fragment| fragment.time * 1_000_000);
        let stretches = begins.zip(shown).collect();
        let (head, head_at) = (Vec::new(), u64::MAX);
        let fragments = fragments.into();
        let track = Track { fragments, timescale: TICKS as u32, head, head_at, samples: Vec::new() };
        (StepTimes { stretches, track: Some(track) }, bytes, samples)
    }

    /// However the bytes come, and however much of a message is taken: a message has the media time
    /// of its first sample, and all others in it begin less than 40 ms later.
    #[test]
    fn messages_have_the_times_of_their_samples() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut times, bytes, samples) = track(&mut rng);
            let (mut position, mut messages) = (0, 0);
            while position < bytes.len() {
                let come = 1 + rng.below(500) as usize;
                let here = &bytes[position..bytes.len().min(position + come)];
                let Cut { bytes: cut, shown_ns } = times.cut(position as u64, here);
                assert!((1..=here.len()).contains(&cut));
                let in_it = position as u64..(position + cut) as u64;
                let begun: Vec<_> = samples.iter().filter(|(at, _)| in_it.contains(at)).collect();
                let last_ns = begun.last().map_or(shown_ns, |(_, time_ns)| *time_ns);
                assert!(last_ns < shown_ns + STEP_MESSAGE_NS, "{last_ns} in a message of {shown_ns}");
                if let Some((_, first_ns)) = begun.iter().rev().find(|(at, _)| *at == position as u64) {
                    assert_eq!(*first_ns, shown_ns);
                    messages += 1;
                }
                // Nothing, a part or all of it is taken.
                position += [0, cut / 2, cut][rng.below(3) as usize];
            }
            assert!(messages >= 5, "{messages} messages began with a sample");
        }
    }

    /// A head that does not say what the index says has its fragment begin when the index says.
    #[test]
    fn wrong_heads_are_not_trusted() {
        let mut rng = Rng::new(2);
        for _ in 0..200 {
            let (mut times, mut bytes, _) = track(&mut rng);
            for _ in 0..20 {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.below(256) as u8;
            }
            let (mut position, mut before_ns) = (0, 0);
            while position < bytes.len() {
                let here = &bytes[position..bytes.len().min(position + 300)];
                let Cut { bytes: cut, shown_ns } = times.cut(position as u64, here);
                assert!((1..=here.len()).contains(&cut));
                let begin_ns = before(times.stretches(), position as u64).unwrap();
                assert!(shown_ns >= begin_ns, "not before its fragment");
                let has_fragment_ended = shown_ns < before_ns;
                assert!(!has_fragment_ended || shown_ns == begin_ns);
                (position, before_ns) = (position + cut, shown_ns);
            }
        }
    }

    #[test]
    fn a_file_is_cut_at_its_stretches() {
        let mut times = StepTimes::of_file(Arc::from([(0, 0), (10, 1_000), (30, 90_000_000)]));
        assert_eq!(times.cut(0, &[0; 100]), Cut { bytes: 30, shown_ns: 0 });
        assert_eq!(times.cut(12, &[0; 100]), Cut { bytes: 18, shown_ns: 1_000 });
        assert_eq!(times.cut(30, &[0; 100]), Cut { bytes: 100, shown_ns: 90_000_000 });
        assert_eq!(times.shown_ns(29), 1_000);
    }
}
