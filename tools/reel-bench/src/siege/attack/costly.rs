//! Small uploads that cost much: boxes without end, samples that overlap, and films.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use anyhow::{Context, Result};
use reel_testkit::http::Client;
use std::fs;
use std::io::Write;
use std::time::Instant;

/// Uploads a second at most.
const A_SECOND: u32 = 2;
/// Films that are stored at most: more would fill the volume, which is another question.
const FILMS_MAX: usize = 8;
/// Empty boxes of an upload: 2 MB.
const BOXES: usize = 250_000;

pub(super) fn run(field: &Field<'_>) {
    let film = match fs::read(&field.arguments.film) {
        Ok(film) => film,
        Err(error) => return field.count(Attack::Costly, error),
    };
    let kinds = [("boxes", boxes()), ("overlapping", overlapping(&film)), ("film", film)];
    let mut films = 0;
    for (turn, (name, bytes)) in kinds.iter().cycle().enumerate() {
        let begun = Instant::now();
        if field.is_over() {
            return;
        }
        films += usize::from(*name == "film");
        if *name == "film" && films > FILMS_MAX {
            continue;
        }
        match upload(field, turn, bytes) {
            Ok(status) => field.count(Attack::Costly, format!("{name} {status}")),
            Err(_) => field.count(Attack::Costly, format!("{name} broken off")),
        }
        field.pace(begun, A_SECOND);
    }
}

fn upload(field: &Field<'_>, turn: usize, bytes: &[u8]) -> Result<u16> {
    let to = field.arguments.http;
    let mut client = Client::on(connect(Attack::Costly.address(turn % 2), to, PATIENCE)?);
    let (line, length) = (format!("POST /api/v1/titles?filename=costly-{turn}.mp4 HTTP/1.1"), bytes.len());
    let fields = format!("Host: {to}\r\nContent-Type: video/mp4\r\nContent-Length: {length}\r\n");
    client.request(&line, &fields)?;
    // The answer may come before the end of what is sent.
    let sent = client.stream().write_all(bytes);
    let head = client.head();
    sent.map_err(Into::into).and(head).map(|head| head.status).context("no answer")
}

/// An MP4 of empty boxes.
fn boxes() -> Vec<u8> {
    let mut file = b"\0\0\0\x10ftypisom\0\0\0\0".to_vec();
    file.extend(b"\0\0\0\x08free".repeat(BOXES));
    file
}

/// The film with all of its samples at one place, and larger than they are.
fn overlapping(film: &[u8]) -> Vec<u8> {
    let mut film = film.to_vec();
    // Fields behind the name: version and flags, then counts and entries of four bytes.
    patch(&mut film, b"stco", 4, |_| [0, 0, 0, 48]);
    patch(&mut film, b"stsz", 8, |_| [0, 0, 0x80, 0]);
    film
}

/// Changes the entries of all tables of this name; their number is so many bytes behind it.
fn patch(film: &mut [u8], name: &[u8; 4], count_at: usize, change: impl Fn([u8; 4]) -> [u8; 4]) {
    let places: Vec<_> = film.windows(4).enumerate().filter(|(_, bytes)| bytes == name).collect();
    let places: Vec<usize> = places.into_iter().map(|(place, _)| place + 4).collect();
    for place in places {
        let number = |film: &[u8], at: usize| -> Option<[u8; 4]> { film.get(at..at + 4)?.try_into().ok() };
        let Some(count) = number(film, place + count_at).map(u32::from_be_bytes) else { continue };
        for entry in 0..count as usize {
            let at = place + count_at + 4 + entry * 4;
            let Some(old) = number(film, at) else { break };
            film[at..at + 4].copy_from_slice(&change(old));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_of_a_table_are_changed() {
        let mut film = b"....stco\0\0\0\0\0\0\0\x02aaaabbbbcccc".to_vec();
        patch(&mut film, b"stco", 4, |_| *b"zzzz");
        assert_eq!(film, b"....stco\0\0\0\0\0\0\0\x02zzzzzzzzcccc");
        let mut cut = b"stco\0\0\0\0\0\0\0\x09aaaab".to_vec();
        patch(&mut cut, b"stco", 4, |_| *b"zzzz");
        assert_eq!(cut, b"stco\0\0\0\0\0\0\0\x09zzzzb");
    }

    #[test]
    fn boxes_are_a_file_of_boxes() {
        assert_eq!(boxes().len(), 16 + 8 * BOXES);
    }
}
