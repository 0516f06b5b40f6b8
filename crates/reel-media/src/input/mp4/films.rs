//! Several films in one file, joined byte by byte (`cat a.mp4 b.mp4`). The places of samples count
//! from the beginning of each film, and its tables know nothing of the film before it.

use super::layout::Film;
use crate::input::joined;
use crate::{Source, limits};
use std::io;

/// The film that is read: the first one with a `moov` box, with the place of that.
pub(super) fn first(films: &[Film]) -> Option<(usize, (u64, u64))> {
    films.iter().enumerate().find_map(|(number, film)| Some((number, film.moov?)))
}

/// What is said of a film that is not read; nothing if it has nothing that is not read elsewhere.
pub(super) fn left_out(films: &[Film], number: usize, source: &mut dyn Source) -> io::Result<Option<String>> {
    let film = &films[number];
    let end = films.get(number + 1).map_or(source.bytes(), |next| next.start);
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
fn are_equal(one: (u64, u64), other: (u64, u64), source: &mut dyn Source) -> io::Result<bool> {
    if one.1 != other.1 {
        return Ok(false);
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
