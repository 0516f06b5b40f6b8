//! Periods of a title: the parts between changes of decoder configuration.
//!
//! A period of DASH holds all tracks. So a change of one track divides the others too, at their
//! nearest fragment.

use super::{TitleIndex, TrackIndex};
use crate::limits;
use std::ops::Range;

/// A part of a title in which no track changes, except where a track has no fragment to divide it
/// at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    /// For each track of the title: its fragments. Empty for a track that is not presented then,
    /// and for subtitles.
    pub(crate) fragments: Vec<Range<usize>>,
}

/// The periods of a title, at least one.
pub(crate) fn periods(index: &TitleIndex) -> Vec<Period> {
    let mut starts = vec![vec![0; index.tracks.len()]];
    for group in groups(index) {
        let last = &starts[starts.len() - 1];
        if let Some(next) = divide(index, &group, last) {
            starts.push(next);
        }
    }
    starts.push(index.tracks.iter().map(|track| track.fragments.len()).collect());
    let between =
        |pair: &[Vec<usize>]| pair[0].iter().zip(&pair[1]).map(|(from, until)| *from..*until).collect();
    starts.windows(2).map(|pair| Period { fragments: between(pair) }).collect()
}

/// A change of a track.
#[derive(Clone, Copy, Debug)]
struct Place {
    at_ns: u64,
    track: usize,
    fragment: usize,
}

/// Changes by time. Those of several tracks at the same splice are one group.
fn groups(index: &TitleIndex) -> Vec<Vec<Place>> {
    let of_track = |(number, track): (usize, &TrackIndex)| {
        let place = |fragment: usize| Place {
            at_ns: track.fragments.get(fragment).map_or(0, |first| track.nanoseconds(first.time)),
            track: number,
            fragment,
        };
        track.changes.iter().map(|change| place(change.fragment as usize)).collect::<Vec<_>>()
    };
    let mut places: Vec<Place> = index.tracks.iter().enumerate().flat_map(of_track).collect();
    places.sort_by_key(|place| place.at_ns);
    let mut groups: Vec<Vec<Place>> = Vec::new();
    for place in places {
        match groups.last_mut() {
            Some(group)
                if place.at_ns - group[0].at_ns < limits::CHANGE_NEAR_MS * 1_000_000
                    && group.iter().all(|other| other.track != place.track) =>
            {
                group.push(place);
            }
            _ => groups.push(vec![place]),
        }
    }
    groups
}

/// The first fragment of each track in the period that begins with these changes. `None` if a track
/// would have none in the period before.
fn divide(index: &TitleIndex, group: &[Place], last: &[usize]) -> Option<Vec<usize>> {
    let at_ns = group[0].at_ns;
    index
        .tracks
        .iter()
        .enumerate()
        .map(|(number, track)| {
            if track.fragments.is_empty() {
                return Some(0);
            }
            let changed = group.iter().find(|place| place.track == number);
            let first = changed.map_or_else(|| nearest(track, at_ns), |place| place.fragment);
            let begins_later = first == 0 && track.nanoseconds(track.start) >= at_ns;
            let ended = first == track.fragments.len() && track.nanoseconds(track.end) <= at_ns;
            let divides = first > last[number] && first < track.fragments.len();
            (divides || begins_later || ended).then_some(first)
        })
        .collect()
}

/// The fragment of a track that begins nearest to a time; the number of fragments for its end.
fn nearest(track: &TrackIndex, at_ns: u64) -> usize {
    let begins_ns = |fragment: usize| {
        track.nanoseconds(track.fragments.get(fragment).map_or(track.end, |fragment| fragment.time))
    };
    let after = track.fragments.partition_point(|fragment| track.nanoseconds(fragment.time) < at_ns);
    let before = after.saturating_sub(1);
    if at_ns.abs_diff(begins_ns(before)) < at_ns.abs_diff(begins_ns(after)) { before } else { after }
}
