//! What is said of fragments that are not played.

use crate::input::joined;
use crate::limits;
use crate::subtitle::webvtt;

/// What happened, in the order of the file.
#[derive(Default)]
pub(super) struct Notes(Vec<Note>);

/// What happened at one place.
pub(super) struct Note {
    pub(super) what: What,
    /// What is missing because of it.
    pub(super) hole: Option<Hole>,
}

/// What can happen to fragments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The numbers of the fragments have a gap.
    Missing { cause: u64 },
    /// So many fragments from this byte on are damaged.
    Damaged { cause: u64, at: u64, count: u64 },
    /// So many fragments were there before.
    Repeated { count: u64 },
    /// Another film that cannot follow.
    Film { at: u64, bytes: u64 },
}

/// A stretch of a track, in ticks of the media.
#[derive(Clone, Copy)]
pub(super) struct Hole {
    /// The place of the track in [`super::fragments::Fragments::ids`].
    pub(super) line: usize,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Notes {
    /// Adds a note.
    pub(super) fn add(&mut self, what: What, hole: Option<Hole>) {
        if self.0.len() <= limits::WARNINGS {
            self.0.push(Note { what, hole });
        }
    }

    /// Adds what is missing for a reason. That of the first track is stated.
    pub(super) fn add_hole(&mut self, number: u64, hole: Hole) {
        let is_of = |note: &&mut Note| match note.what {
            What::Missing { cause } | What::Damaged { cause, .. } => cause == number,
            _ => false,
        };
        match self.0.iter_mut().rev().find(is_of) {
            Some(note) => note.hole = note.hole.filter(|first| first.line <= hole.line).or(Some(hole)),
            None => self.add(What::Missing { cause: number }, Some(hole)),
        }
    }

    /// One more fragment that was there before.
    pub(super) fn repeat(&mut self, hole: Option<Hole>) {
        for note in &mut self.0 {
            if let What::Repeated { count } = &mut note.what {
                *count += 1;
                return;
            }
        }
        self.add(What::Repeated { count: 1 }, hole);
    }

    /// The warnings. `ms` finds the begin and the end of a hole in the presentation, in
    /// milliseconds.
    pub(super) fn warnings(&self, ms: impl Fn(&Hole) -> Option<(u64, u64)>) -> Vec<String> {
        self.0.iter().map(|note| text(note.what, note.hole.as_ref().and_then(&ms))).collect()
    }
}

fn text(what: What, ms: Option<(u64, u64)>) -> String {
    let span = ms.map(|(from, to)| {
        let seconds = to.saturating_sub(from) as f64 / 1000.0;
        format!("from {} to {} ({seconds:.3} s)", webvtt::time(from), webvtt::time(to))
    });
    let from = ms.map_or(String::new(), |(from, _)| format!(" at {}", webvtt::time(from)));
    match what {
        What::Missing { .. } => {
            let span = span.unwrap_or_else(|| "at an unknown time".to_owned());
            format!("pictures and sound {span} are missing: the file does not have their fragments")
        }
        What::Damaged { at, count, .. } => {
            let which = match count {
                1 => format!("a damaged fragment at byte {at} is left out"),
                _ => format!("{count} damaged fragments from byte {at} on are left out"),
            };
            match (ms, span) {
                (Some((from, to)), Some(span)) if to > from => {
                    format!("{which}: pictures and sound {span} are missing")
                }
                (Some((from, _)), _) => format!("{which}, after {}", webvtt::time(from)),
                _ => which,
            }
        }
        What::Repeated { count: 1 } => format!("a fragment{from} is in the file twice, and is played once"),
        What::Repeated { count } => {
            format!("{count} fragments are in the file twice, the first{from}, and are played once")
        }
        What::Film { at, bytes } => joined::film_of_other_tracks(&from, at, bytes),
    }
}
