//! Pictures that begin later than the title.
//!
//! A source buffer has no media where one of its tracks has none (W3C Media Source Extensions), so
//! players skip what is heard before the pictures, and those of HLS, whose playlists have no start
//! time, show all pictures early. So the first picture is shown from the start of the title on.

use super::pauses::Taken;
use crate::{Packet, limits, unseen};

/// The first pictures of one track.
#[derive(Debug)]
pub(super) struct Beginning {
    timescale: i64,
    held: Vec<(Packet, Vec<u8>)>,
    is_over: bool,
    /// How much earlier than in the source the first picture is shown, in ticks.
    pub(super) moved: i64,
}

impl Beginning {
    pub(super) fn new(timescale: u32) -> Beginning {
        Beginning { timescale: timescale.into(), held: Vec::new(), is_over: false, moved: 0 }
    }

    /// Takes the next picture. Pictures of a late track are held until it is known which one is
    /// shown first.
    pub(super) fn take(&mut self, packet: &Packet, data: &[u8]) -> Taken {
        if self.is_over {
            return Taken::Now;
        }
        let first = self.held.first().map(|(first, _)| first.sample.pts);
        let reordered = i64::from(packet.sample.duration) * limits::LATE_PICTURES;
        let is_late = packet.sample.pts > reordered.max(self.timescale * limits::LATE_MS / 1000);
        if first.is_none() && !is_late {
            self.is_over = true;
            return Taken::Now;
        }
        self.held.push((packet.clone(), data.to_vec()));
        let is_full = self.held.len() >= limits::PAUSE_PICTURES
            || self.held.iter().map(|(_, data)| data.len()).sum::<usize>() > limits::PAUSE_BYTES;
        let is_known = first.is_some_and(|first| packet.sample.pts > first);
        if is_known || is_full || packet.change.is_some() {
            return Taken::With(self.release());
        }
        Taken::Held
    }

    /// The pictures that are held, of which the first is shown from zero on.
    pub(super) fn release(&mut self) -> Vec<(Packet, Vec<u8>)> {
        self.is_over = true;
        let mut held = std::mem::take(&mut self.held);
        let first = held.iter().enumerate().min_by_key(|(_, (packet, _))| packet.sample.pts);
        let Some((place, moved)) = first.map(|(place, (packet, _))| (place, packet.sample.pts)) else {
            return held;
        };
        // Pictures that are only decoded come right before the first one that is seen.
        let is_seen = |(packet, _): &(Packet, Vec<u8>)| {
            packet.sample.pts == moved || !unseen::is_unseen_between(moved, packet.sample.pts, self.timescale)
        };
        if !held.iter().all(is_seen) {
            return held;
        }
        let lasts = i64::from(held[place].0.sample.duration) + moved;
        // Times of fragments have 32 bits.
        let (Ok(lasts), true) = (u32::try_from(lasts), moved > 0 && i32::try_from(moved).is_ok()) else {
            return held;
        };
        // All that are decoded before it are decoded as much earlier.
        held[..=place].iter_mut().for_each(|(packet, _)| packet.sample.dts -= moved);
        held[place].0.sample.pts = 0;
        held[place].0.sample.duration = lasts;
        self.moved = moved;
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    /// The times of pictures of 4 ticks after [`Beginning`], and by how much the first was moved.
    fn after(times: &[(i64, i64)]) -> (Vec<(i64, i64, u32)>, i64) {
        let mut beginning = Beginning::new(100);
        let mut seen = Vec::new();
        let see = |packet: &Packet| (packet.sample.dts, packet.sample.pts, packet.sample.duration);
        for &(dts, pts) in times {
            let packet =
                Packet { track: 0, sample: Sample { dts, pts, duration: 4, sync: false }, change: None };
            match beginning.take(&packet, &[]) {
                Taken::Now => seen.push(see(&packet)),
                Taken::Held => {}
                Taken::With(all) => seen.extend(all.iter().map(|(packet, _)| see(packet))),
            }
        }
        seen.extend(beginning.release().iter().map(|(packet, _)| see(packet)));
        (seen, beginning.moved)
    }

    #[test]
    fn the_first_picture_of_a_late_track_is_shown_from_zero() {
        let (seen, moved) = after(&[(92, 100), (96, 112), (100, 104), (104, 108)]);
        assert_eq!(moved, 100);
        assert_eq!(seen, [(-8, 0, 104), (96, 112, 4), (100, 104, 4), (104, 108, 4)]);
        // Pictures that are shown before the key frame.
        let (seen, moved) = after(&[(88, 108), (92, 100), (96, 104), (100, 120)]);
        assert_eq!(moved, 100);
        assert_eq!(seen, [(-12, 108, 4), (-8, 0, 104), (96, 104, 4), (100, 120, 4)]);
        assert_eq!(after(&[(40, 40)]), (vec![(0, 0, 44)], 40));
    }

    #[test]
    fn other_pictures_keep_their_times() {
        for first in
            [(-8, 0), (-4, 4), (-8, -8), (12, 20), (i64::from(i32::MAX) - 4, i64::from(i32::MAX) + 1)]
        {
            let times = [first, (first.0 + 4, first.1 + 12), (first.0 + 8, first.1 + 4)];
            let (seen, moved) = after(&times);
            assert_eq!(
                (seen.iter().map(|(dts, pts, _)| (*dts, *pts)).collect::<Vec<_>>(), moved),
                (times.to_vec(), 0)
            );
        }
    }
}
