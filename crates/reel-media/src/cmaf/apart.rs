//! Two pictures at one time become two, one right after the other.
//!
//! Some writers of fragments give two pictures the same time. A player shows one of them, and a
//! browser removes the first with all that depends on it (W3C Media Source Extensions, coded frame
//! processing).

use crate::times::{self, Places};
use crate::{Packet, Sample};
use std::collections::VecDeque;

/// Pictures before the newest in decoding order that it can be among in the order of presentation:
/// twice the 16 pictures that H.264 and HEVC can hold back.
const NEAR: usize = 32;
/// Ticks per second of the coarsest clock of all forms, that of transport streams.
const COARSEST: u32 = 90_000;

/// The newest times of a video track.
pub(super) struct Apart {
    /// The least that every form tells apart, in ticks.
    step: i64,
    timescale: u32,
    recent: VecDeque<i64>,
    moved: Places,
}

impl Apart {
    pub(super) fn new(timescale: u32) -> Apart {
        let step = timescale.div_ceil(COARSEST).into();
        Apart { step, timescale, recent: VecDeque::new(), moved: Places::default() }
    }

    /// The packet of the next picture with another time, if an earlier one has its time.
    pub(super) fn moved(&mut self, packet: &Packet) -> Option<Packet> {
        let mut pts = packet.sample.pts;
        // Pictures before zero are not shown. They only keep their order.
        let step = if pts < 0 { 1 } else { self.step };
        while self.recent.contains(&pts) {
            pts += step;
        }
        if self.recent.len() == NEAR {
            self.recent.pop_front();
        }
        self.recent.push_back(pts);
        let is_moved = pts != packet.sample.pts;
        if is_moved {
            self.moved.add(Some(pts));
        }
        is_moved.then(|| Packet { sample: Sample { pts, ..packet.sample }, ..packet.clone() })
    }

    /// The warning for the track with this number, if a picture was moved.
    pub(super) fn warning(&self, number: usize) -> Option<String> {
        let (count, first) = (self.moved.count, times::at(self.moved.first?, self.timescale));
        let pictures =
            if count == 1 { "one picture has".to_owned() } else { format!("{count} pictures have") };
        Some(format!(
            "track {number}: {pictures} the time of another one, the first at {first}: each is shown right after it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(apart: &mut Apart, all: &[i64]) -> Vec<i64> {
        let picture = |pts: &i64| Packet {
            track: 0,
            sample: Sample { dts: 0, pts: *pts, duration: 1, sync: false },
            change: None,
        };
        all.iter().map(|pts| apart.moved(&picture(pts)).map_or(*pts, |packet| packet.sample.pts)).collect()
    }

    #[test]
    fn no_two_pictures_have_one_time() {
        let mut apart = Apart::new(12_800);
        assert_eq!(placed(&mut apart, &[0, 1536, 512, 512, 512, 513]), [0, 1536, 512, 513, 514, 515]);
        assert_eq!(apart.warning(1).map(|text| text.contains("3 pictures have the time")), Some(true));
        assert_eq!(apart.warning(1).map(|text| text.contains("first at 00:00:00.040")), Some(true));
        // The clock of transport streams tells them apart as well.
        let mut apart = Apart::new(1_000_000);
        assert_eq!(placed(&mut apart, &[-2, -2, 0, 40_000, 40_000]), [-2, -1, 0, 40_000, 40_012]);
    }

    #[test]
    fn what_is_apart_stays() {
        let mut apart = Apart::new(1000);
        let all: Vec<i64> = (0..200).map(|n| (n ^ 3) * 40).collect();
        assert_eq!(placed(&mut apart, &all), all);
        assert_eq!(apart.warning(1), None);
    }
}
