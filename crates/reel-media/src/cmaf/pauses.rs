//! Decoding times at a pause of the pictures.
//!
//! Encoders count decoding times some pictures behind presentation times. The first pictures after
//! a pause are then decoded before it, and the step over the pause lies behind one of them. Its
//! duration reaches far into the pictures that follow. Shaka shows an HLS segment that begins with
//! it late, because it takes the decoding time for the time of the segment. dash.js and Shaka drop
//! it near the end of the film with all up to the next key frame, because it would last longer than
//! the film (W3C Media Source Extensions, append window). So the step is moved to the pause.

use crate::{Packet, limits};

/// What becomes of a sample.
#[derive(Debug)]
pub(super) enum Taken {
    /// It is added as it is.
    Now,
    /// It is held until the step is known.
    Held,
    /// It is added with those that were held before, in this order.
    With(Vec<(Packet, Vec<u8>)>),
}

/// The pictures of one track that are decoded long before they are shown.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The longest time from decoding to presentation that other pictures have; `None` before the
    /// first.
    usual: Option<i64>,
    /// Duration of the last of the others; `None` before the first.
    step: Option<u32>,
    held: Vec<(Packet, Vec<u8>)>,
}

impl Pauses {
    /// Takes the next picture.
    pub(super) fn take(&mut self, packet: &Packet, data: &[u8], timescale: u32) -> Taken {
        let pause = i64::from(timescale) * limits::PAUSE_MS / 1000;
        let ahead = ahead(packet);
        let is_full = self.held.len() >= limits::PAUSE_PICTURES
            || self.held.iter().map(|(_, data)| data.len()).sum::<usize>() > limits::PAUSE_BYTES;
        // A film can begin just before a pause.
        if ahead - self.usual.unwrap_or(0) <= pause || packet.change.is_some() || is_full {
            self.usual = self.usual.max(Some(ahead));
            self.step = Some(packet.sample.duration);
            let mut all = self.release();
            if all.is_empty() {
                return Taken::Now;
            }
            all.push((packet.clone(), data.to_vec()));
            return Taken::With(all);
        }
        self.held.push((packet.clone(), data.to_vec()));
        let durations = || self.held.iter().map(|(packet, _)| packet.sample.duration);
        let step = i64::from(self.step.or(durations().min()).unwrap_or(0));
        let excess = |duration: u32| i64::from(duration) - step;
        match durations().rposition(|duration| excess(duration) > pause) {
            Some(place) => {
                let excess = excess(self.held[place].0.sample.duration);
                move_step(&mut self.held[..=place], excess);
                Taken::With(self.release())
            }
            None => Taken::Held,
        }
    }

    /// The pictures that are held, with their own times.
    pub(super) fn release(&mut self) -> Vec<(Packet, Vec<u8>)> {
        std::mem::take(&mut self.held)
    }
}

/// How long before its presentation a sample is decoded.
fn ahead(packet: &Packet) -> i64 {
    packet.sample.pts.saturating_sub(packet.sample.dts)
}

/// Moves a step behind the last of some pictures before as many of them as can be decoded so late.
fn move_step(pictures: &mut [(Packet, Vec<u8>)], excess: i64) {
    for (n, (packet, _)) in pictures.iter_mut().rev().enumerate() {
        if ahead(packet) < excess {
            return;
        }
        packet.sample.dts += excess;
        if n == 0 {
            // Fits: the excess is a part of the duration.
            packet.sample.duration -= excess as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    /// Ticks of a second.
    const TIMESCALE: u32 = 100;

    /// The decoding times and durations after [`Pauses`], of pictures with these decoding and
    /// presentation times. The last one lasts 4 ticks.
    fn after(times: &[(i64, i64)]) -> Vec<(i64, u32)> {
        let mut pauses = Pauses::default();
        let mut seen = Vec::new();
        let see = |packet: &Packet| (packet.sample.dts, packet.sample.duration);
        for (n, &(dts, pts)) in times.iter().enumerate() {
            let next = times.get(n + 1).map_or(dts + 4, |next| next.0);
            let sample = Sample { dts, pts, duration: (next - dts) as u32, sync: n == 0 };
            let packet = Packet { track: 0, sample, change: None };
            match pauses.take(&packet, &[n as u8], TIMESCALE) {
                Taken::Now => seen.push(see(&packet)),
                Taken::Held => {}
                Taken::With(all) => seen.extend(all.iter().map(|(packet, _)| see(packet))),
            }
        }
        seen.extend(pauses.release().iter().map(|(packet, _)| see(packet)));
        seen
    }

    #[test]
    fn the_step_is_moved_to_the_pause() {
        // A key frame, and a picture that is decoded before two others, on both sides of a pause.
        let times = [(0, 8), (4, 20), (8, 12), (12, 16), (16, 324), (20, 336), (324, 328), (328, 332)];
        let seen = after(&times);
        assert_eq!(seen.iter().map(|(dts, _)| *dts).collect::<Vec<_>>(), [0, 4, 8, 12, 316, 320, 324, 328]);
        assert_eq!(seen[5].1, 4, "its duration ends with the step");
        assert!(seen.iter().zip(&times).all(|((dts, _), (_, pts))| dts <= pts));
    }

    #[test]
    fn a_film_may_begin_just_before_a_pause() {
        // Encoders count decoding times from the first picture they can give out.
        let times =
            [(-300, 0), (-296, 316), (0, 308), (4, 4), (308, 312), (312, 332), (316, 324), (320, 320)];
        let seen = after(&times);
        assert_eq!(seen.iter().map(|(dts, _)| *dts).collect::<Vec<_>>(), [-8, -4, 0, 4, 308, 312, 316, 320]);
        assert_eq!(seen[1].1, 4);
    }

    #[test]
    fn pictures_that_cannot_be_decoded_later_and_films_without_a_pause_are_left_alone() {
        let dts = |times: &[(i64, i64)]| after(times).iter().map(|(dts, _)| *dts).collect::<Vec<_>>();
        // The last picture before the pause is decoded after the key frame behind it.
        assert_eq!(dts(&[(0, 8), (4, 12), (8, 320), (12, 16), (320, 328)]), [0, 4, 8, 12, 320]);
        // A step that lies where the pause is.
        assert_eq!(dts(&[(0, 8), (4, 12), (308, 316), (312, 320)]), [0, 4, 308, 312]);
        // Pictures that are all decoded long before: slides, and times that are wrong.
        let slides: Vec<_> = (0..40).map(|n| (n * 100, n * 100 + 300)).collect();
        assert_eq!(dts(&slides), slides.iter().map(|(dts, _)| *dts).collect::<Vec<_>>());
        let wrong: Vec<_> = (0..90).map(|n| (n * 4, n * 4 + if n > 2 { 900 } else { 0 })).collect();
        assert_eq!(dts(&wrong), wrong.iter().map(|(dts, _)| *dts).collect::<Vec<_>>());
    }
}
