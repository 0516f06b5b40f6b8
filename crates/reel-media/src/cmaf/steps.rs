//! The steps from one shown picture to the next, and which of them are pauses.
//!
//! Chromium asks for the next picture a little after the last one that it has would usually end,
//! whatever duration that has, and waits for it. Players request a segment when what is buffered
//! ends soon. So a segment must not end with a picture that is shown for minutes: playback would
//! stop there for ever.

use crate::limits;
use std::collections::VecDeque;

/// So many steps say what is usual.
const RECENT: usize = 8;
/// A pause is so many times as long as the steps before it: slides have none.
const UNUSUAL: i64 = 4;

/// The latest steps of one track.
#[derive(Debug)]
pub(super) struct Steps {
    /// The least pause, in ticks.
    pause: i64,
    latest: Option<i64>,
    recent: VecDeque<i64>,
    /// The newest picture is shown after a pause.
    pub(super) is_after_pause: bool,
    /// Ticks of the pauses of the unfinished fragment.
    paused: u64,
}

impl Steps {
    pub(super) fn new(timescale: u32) -> Steps {
        let pause = i64::from(timescale) * limits::LONG_PAUSE_MS / 1000;
        Steps { pause, latest: None, recent: VecDeque::new(), is_after_pause: false, paused: 0 }
    }

    /// Takes the presentation time of the next picture.
    pub(super) fn add(&mut self, pts: i64) {
        self.is_after_pause = false;
        let step = pts - *self.latest.get_or_insert(pts);
        if step <= 0 {
            return;
        }
        let count = self.recent.len() as i64;
        let is_unusual = step.saturating_mul(count) > self.recent.iter().sum::<i64>().saturating_mul(UNUSUAL);
        self.is_after_pause = step > self.pause && (is_unusual || count == 0);
        self.paused += if self.is_after_pause { step as u64 } else { 0 };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(step);
        self.latest = Some(pts);
    }

    /// The longest of the latest steps.
    pub(super) fn longest(&self) -> i64 {
        self.recent.iter().copied().max().unwrap_or(0)
    }

    /// A fragment was finished.
    pub(super) fn finish_fragment(&mut self) {
        self.paused = 0;
    }

    /// Ticks of a fragment without its pauses.
    pub(super) fn played(&self, ticks: u64) -> u64 {
        ticks.saturating_sub(self.paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of pictures behind a pause.
    fn behind_pauses(times_s: &[i64]) -> Vec<usize> {
        let mut steps = Steps::new(1000);
        let is_behind = |(place, at): (usize, &i64)| {
            steps.add(*at * 1000);
            steps.is_after_pause.then_some(place)
        };
        times_s.iter().enumerate().filter_map(is_behind).collect()
    }

    #[test]
    fn a_pause_is_long_and_unusual() {
        assert_eq!(behind_pauses(&[0, 1, 2, 602, 603, 604, 1204, 1205, 1210]), [3, 6]);
        assert_eq!(behind_pauses(&[0, 600, 1200, 1800, 1801, 2401]), [1], "slides");
        assert_eq!(behind_pauses(&[0, 3, 1, 2, 6, 4, 5, 66, 64, 65, 69]), [7], "pictures out of order");
        assert_eq!(behind_pauses(&[0, 3, 1, 2]), [0; 0]);
    }

    #[test]
    fn pauses_are_no_part_of_what_is_played() {
        let mut steps = Steps::new(1000);
        [0, 40, 80, 60_080, 60_120].into_iter().for_each(|at| steps.add(at));
        assert_eq!((steps.played(60_120), steps.longest()), (120, 60_000));
        steps.finish_fragment();
        assert_eq!(steps.played(60_120), 60_120);
    }
}
