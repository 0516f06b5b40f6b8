//! Several films in one file, joined byte by byte (`cat a.mp4 b.mp4`). The places of samples count
//! from the beginning of each film, and its tables know nothing of the film before it.

use super::atom::{Atom, FourCc};
use super::fragments::FilmOf;
use super::layout::{Film, Layout};
use super::trak::MediaTrack;
use super::{Found, trex};
use crate::input::joined;
use crate::input::warnings::Warnings;
use crate::{Description, MediaError, Source, limits};
use std::io;
use std::sync::Arc;

/// The film that is read: the first one with a `moov` box, with the place of that.
pub(super) fn first(films: &[Film]) -> Option<(usize, (u64, u64))> {
    films.iter().enumerate().find_map(|(number, film)| Some((number, film.moov?)))
}

/// The films after the first one whose fragments are played: those that have no samples but in
/// fragments, and the tracks of the first one. Their sample descriptions are added to its tracks.
/// A warning is given for those without fragments.
pub(super) fn follow(
    layout: &Layout,
    first: usize,
    found: &mut Found,
    source: &mut dyn Source,
    warnings: &mut Warnings,
) -> Result<Vec<Option<FilmOf>>, MediaError> {
    let mut has_fragments = vec![false; layout.films.len()];
    layout.moofs.iter().for_each(|moof| has_fragments[usize::from(moof.film)] = true);
    let mut films = Vec::new();
    for (number, film) in layout.films.iter().enumerate() {
        let is_later = number > first;
        films.push(match is_later && has_fragments[number] {
            true => next(film, layout.quicktime, found, source)?,
            false => None,
        });
        if is_later && !has_fragments[number] {
            let left_out = left_out(&layout.films, number, source)?;
            left_out.into_iter().for_each(|warning| warnings.add(warning));
        }
    }
    if films.iter().any(Option::is_some) {
        // It is that of the first film alone.
        found.tracks.iter_mut().for_each(|media| media.edit.end = None);
    }
    Ok(films)
}

/// Reads the `moov` box of another film; `None` if it cannot follow.
fn next(
    film: &Film,
    quicktime: bool,
    found: &mut Found,
    source: &mut dyn Source,
) -> Result<Option<FilmOf>, MediaError> {
    let Some((offset, bytes)) = film.moov.filter(|(_, bytes)| *bytes <= limits::MP4_NEXT_MOOV_BYTES) else {
        return Ok(None);
    };
    let mut moov = vec![0; bytes as usize];
    source.read_at(offset, &mut moov)?;
    source.work(bytes)?;
    let moov = Arc::new(moov);
    let root = Atom { kind: FourCc(*b"moov"), body: &moov, offset };
    let mut other = Found::default();
    let mut ignored = Warnings::default();
    // A film that cannot be read cannot follow.
    if other.read(&root, &moov, quicktime, &mut ignored).is_err() {
        return Ok(None);
    }
    let Ok(defaults) = root.child(b"mvex").and_then(|mvex| mvex.map_or(Ok(Vec::new()), |mvex| trex(&mvex)))
    else {
        return Ok(None);
    };
    let can_follow = found.tracks.len() == other.tracks.len()
        && found.tracks.iter().zip(&other.tracks).all(|(media, next)| media.can_continue_as(next));
    if !can_follow {
        return Ok(None);
    }
    let mut of_film = FilmOf { defaults, start: film.start, ..FilmOf::default() };
    for (media, next) in found.tracks.iter_mut().zip(&other.tracks) {
        of_film.descriptions.push(media.add_descriptions(next));
        of_film.shifts.push(next.edit.shift - media.edit.shift);
    }
    Ok(Some(of_film))
}

impl MediaTrack {
    /// Whether the fragments of a track of another film can follow.
    fn can_continue_as(&self, next: &Self) -> bool {
        let of = |media: &Self| (media.id, media.track.kind, media.track.codec, media.track.timescale);
        let room = limits::MP4_DESCRIPTIONS.saturating_sub(self.forms.len());
        of(self) == of(next)
            && self.text.is_some() == next.text.is_some()
            && self.edit.is_simple()
            && next.edit.is_simple()
            && next.tables.is_empty()
            && next.forms.len() <= room
    }

    /// Adds the sample descriptions of a track of another film. Returns how many were there before,
    /// and how many were added.
    fn add_descriptions(&mut self, next: &Self) -> (u32, u32) {
        // At most as many as the limit.
        let added = (self.forms.len() as u32, next.forms.len() as u32);
        for form in &next.forms {
            let description = form.map(|form| match form.checked_sub(1) {
                None => next.track.description(),
                Some(other) => next.others[other].clone(),
            });
            let form = description.map(|description| self.form_of(description));
            self.forms.push(form);
        }
        added
    }

    fn form_of(&mut self, mut description: Description) -> usize {
        if let (Some(video), Some(first)) = (&mut description.video, &self.track.video) {
            video.rotation = first.rotation;
        }
        if description == self.track.description() {
            return 0;
        }
        let known = self.others.iter().position(|other| *other == description);
        1 + known.unwrap_or_else(|| {
            self.others.push(description);
            self.others.len() - 1
        })
    }
}

/// What is said of a film that is not read; nothing if it has nothing that is not read elsewhere.
fn left_out(films: &[Film], number: usize, source: &mut dyn Source) -> io::Result<Option<String>> {
    let film = &films[number];
    let end = films.get(number + 1).map_or(source.bytes(), |next| next.start);
    if film.has_head && !film.has_media {
        return Ok(None);
    }
    if film.has_head {
        return Ok(Some(joined::another_film(film.start, end - film.start)));
    }
    // A recorder may write its `moov` box at both ends of the file. One more is looked at.
    let Some((first, read)) = first(films) else { return Ok(None) };
    let is_next = films[first + 1..number].iter().all(|before| before.has_head);
    let Some(other) = film.moov.filter(|_| is_next) else { return Ok(None) };
    if are_equal(read, other, source)? {
        return Ok(None);
    }
    Ok(Some(format!(
        "another `moov` box begins at byte {}, and is not used: it may describe more than the one before it; if \
         pictures or sound are missing, copy the file with another program first",
        film.start
    )))
}

/// Whether two stretches of the file, as offset and length, have the same bytes.
pub(super) fn are_equal(one: (u64, u64), other: (u64, u64), source: &mut dyn Source) -> io::Result<bool> {
    if one == other || one.1 != other.1 {
        return Ok(one == other);
    }
    let (mut at, mut left) = ((one.0, other.0), one.1);
    while left > 0 {
        let count = left.min(limits::WINDOW_BYTES as u64);
        let mut bytes = [vec![0; count as usize], vec![0; count as usize]];
        source.read_at(at.0, &mut bytes[0])?;
        source.read_at(at.1, &mut bytes[1])?;
        if bytes[0] != bytes[1] {
            return Ok(false);
        }
        (at, left) = ((at.0 + count, at.1 + count), left - count);
    }
    Ok(true)
}
