//! When a file counts as complete. Pure.
//!
//! | what is known | complete when it has not changed for |
//! |---|---|
//! | a program has it open | [`WATCH_QUIET_MAX_S`] |
//! | its container says that a part is missing | [`WATCH_QUIET_MAX_S`] |
//! | its container says that it is whole | [`WATCH_QUIET_MIN_S`] |
//! | its program has closed it, for the first time | [`WATCH_QUIET_MIN_S`] |
//! | none of these | some times the longest pause so far, between these two |
//!
//! A part that is missing counts more than what programs did: a copy that was broken off is closed,
//! too. If a file grows after all, it is ingested again, and the new title takes the place of the
//! old one.

use super::Now;
use crate::limits::{WATCH_PAUSES, WATCH_QUIET_MAX_S, WATCH_QUIET_MIN_S};
use reel_media::Ending;

/// What is known of the programs that write a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Writing {
    /// The kernel did not tell: the file was there before, or another machine writes it.
    #[default]
    Unknown,
    /// A program has written to it, and has not closed it.
    Open,
    /// It was closed after the last change, or moved here.
    Closed,
}

/// How a file has grown since it was seen first.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    /// When it was seen first, or changed.
    since_s: u64,
    has_changed: bool,
    /// The longest time between two changes.
    pause_s: u64,
    writing: Writing,
    /// Whether it has grown after it was closed: its program opens it for each part.
    is_reopened: bool,
    /// What its container says, once it was looked at.
    ending: Option<Ending>,
}

impl Growth {
    /// A file that is seen for the first time.
    pub(super) fn new(now: Now) -> Growth {
        let since_s = now.clock_s;
        Growth {
            since_s,
            has_changed: false,
            pause_s: 0,
            writing: Writing::Unknown,
            is_reopened: false,
            ending: None,
        }
    }

    /// The file has changed.
    pub(super) fn changed(&mut self, now: Now) {
        self.pause_s = self.pause_s.max(now.clock_s.saturating_sub(self.since_s));
        self.is_reopened |= self.writing == Writing::Closed;
        (self.since_s, self.has_changed, self.ending) = (now.clock_s, true, None);
    }

    /// What programs are known to do with it.
    pub(super) fn set_writing(&mut self, writing: Writing) {
        self.writing = writing;
    }

    /// Whether the answer of its container would change anything.
    pub(super) fn asks_for_ending(&self, now: Now, modified_unix_s: u64) -> bool {
        let quiet_s = now.clock_s.saturating_sub(self.since_s);
        let is_near = quiet_s >= WATCH_QUIET_MIN_S || quiet_s >= self.quiet_s();
        self.ending.is_none() && (is_near || self.is_old(now, modified_unix_s))
    }

    /// What its container says.
    pub(super) fn set_ending(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    /// Whether it counts as complete.
    pub(super) fn is_complete(&self, now: Now, modified_unix_s: u64) -> bool {
        now.clock_s.saturating_sub(self.since_s) >= self.quiet_s() || self.is_old(now, modified_unix_s)
    }

    /// A file that was here before, or was moved here, has not changed for long.
    fn is_old(&self, now: Now, modified_unix_s: u64) -> bool {
        let least_s = if self.is_cut() { WATCH_QUIET_MAX_S } else { WATCH_QUIET_MIN_S };
        let is_open = self.writing == Writing::Open;
        !self.has_changed && !is_open && now.unix_s.saturating_sub(modified_unix_s) >= least_s
    }

    /// How long it must not change.
    fn quiet_s(&self) -> u64 {
        match (self.ending, self.writing) {
            (Some(Ending::Cut), _) | (_, Writing::Open) => WATCH_QUIET_MAX_S,
            (Some(Ending::Whole), _) => WATCH_QUIET_MIN_S,
            (_, Writing::Closed) if !self.is_reopened => WATCH_QUIET_MIN_S,
            _ => self.pause_s.saturating_mul(WATCH_PAUSES).clamp(WATCH_QUIET_MIN_S, WATCH_QUIET_MAX_S),
        }
    }

    fn is_cut(&self) -> bool {
        self.ending == Some(Ending::Cut)
    }

    /// Why it is not ingested yet.
    pub(super) fn waits_for(&self, bytes: u64) -> String {
        let quiet_s = self.quiet_s();
        if bytes == 0 {
            return format!(
                "it is empty; it is ingested when it has grown, and has not changed for {quiet_s} s"
            );
        }
        if self.is_cut() {
            return format!(
                "a part of it is missing, as its container says; it is ingested when it is whole, or has not changed for {quiet_s} s"
            );
        }
        if self.writing == Writing::Open {
            return format!(
                "a program is writing it; it is ingested when the program has closed it, or it has not changed for {quiet_s} s"
            );
        }
        format!("it is ingested when it has not changed for {quiet_s} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clock_s: u64) -> Now {
        Now { clock_s, unix_s: 1_000_000 + clock_s }
    }

    /// The seconds without a change after which a file is complete that has changed after 100 s.
    fn wait_s(writing: Writing, ending: Option<Ending>) -> u64 {
        let mut growth = Growth::new(at(0));
        growth.changed(at(100));
        growth.set_writing(writing);
        ending.into_iter().for_each(|ending| growth.set_ending(ending));
        let is_complete = |wait_s: &u64| growth.is_complete(at(100 + wait_s), 1_000_100);
        (0..1000).find(is_complete).expect("complete at some time")
    }

    #[test]
    fn what_is_known_decides_how_long_a_file_waits() {
        let paused_s = 100 * WATCH_PAUSES;
        for (writing, ending, expected_s) in [
            (Writing::Unknown, None, paused_s),
            (Writing::Unknown, Some(Ending::Unsaid), paused_s),
            (Writing::Unknown, Some(Ending::Whole), WATCH_QUIET_MIN_S),
            (Writing::Unknown, Some(Ending::Cut), WATCH_QUIET_MAX_S),
            (Writing::Open, Some(Ending::Unsaid), WATCH_QUIET_MAX_S),
            (Writing::Open, Some(Ending::Whole), WATCH_QUIET_MAX_S),
            (Writing::Closed, None, WATCH_QUIET_MIN_S),
            (Writing::Closed, Some(Ending::Unsaid), WATCH_QUIET_MIN_S),
            (Writing::Closed, Some(Ending::Cut), WATCH_QUIET_MAX_S),
        ] {
            assert_eq!(wait_s(writing, ending), expected_s, "{writing:?} {ending:?}");
        }
    }

    #[test]
    fn a_file_that_was_there_before_need_not_wait_unless_a_part_is_missing() {
        let mut growth = Growth::new(at(0));
        assert!(growth.is_complete(at(0), 0));
        growth.set_ending(Ending::Cut);
        assert!(growth.is_complete(at(0), 0), "it has not changed for long");
        assert!(!growth.is_complete(at(WATCH_QUIET_MIN_S), 1_000_000));
        assert!(growth.is_complete(at(WATCH_QUIET_MAX_S), 1_000_000));
    }

    #[test]
    fn a_file_that_is_opened_for_each_part_is_judged_by_its_pauses() {
        let mut growth = Growth::new(at(0));
        growth.set_writing(Writing::Closed);
        growth.changed(at(9));
        growth.set_writing(Writing::Closed);
        let complete_s = (9..1000).find(|at_s| growth.is_complete(at(*at_s), 1_000_009));
        assert_eq!(complete_s, Some(9 + 9 * WATCH_PAUSES));
    }

    #[test]
    fn a_change_makes_the_answer_of_the_container_old() {
        let mut growth = Growth::new(at(0));
        assert!(growth.asks_for_ending(at(WATCH_QUIET_MIN_S), 1_000_000));
        growth.set_ending(Ending::Cut);
        assert!(!growth.asks_for_ending(at(WATCH_QUIET_MIN_S), 1_000_000));
        growth.changed(at(20));
        assert!(!growth.asks_for_ending(at(20), 1_000_020), "too early");
        assert!(growth.asks_for_ending(at(20 + WATCH_QUIET_MIN_S), 1_000_020));
    }
}
