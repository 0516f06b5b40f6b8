//! Sessions that are opened until the server refuses, and then kept as if they were watched: whole
//! segments are fetched, and what has ended is opened again.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use anyhow::{Context, Result, bail};
use reel_testkit::http::Client;
use reel_testkit::{Media, Playlist, Url};
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

/// Addresses, each a client of its own.
const ADDRESSES: usize = 3;
/// Requests a second of each address at most.
const REQUESTS_A_SECOND: u32 = 20;
/// Sessions of one address that are kept.
const SESSIONS_MAX: usize = 300;
/// After a refusal none is opened for so long.
const REFUSED: Duration = Duration::from_secs(1);

/// A session that was opened.
pub(super) struct Held {
    /// Its playlist of segments.
    playlist: Url,
    pub(super) media: Media,
    next: usize,
}

pub(super) fn run(field: &Field<'_>) {
    thread::scope(|scope| {
        for number in 0..ADDRESSES {
            let hoarder = Hoarder::new(field, Attack::Hoard, number);
            scope.spawn(move || hoarder.hoard());
        }
    });
}

/// A client of an attack that opens sessions.
pub(super) struct Hoarder<'a> {
    field: &'a Field<'a>,
    attack: Attack,
    from: Ipv4Addr,
}

impl<'a> Hoarder<'a> {
    pub(super) fn new(field: &'a Field<'a>, attack: Attack, number: usize) -> Self {
        Self { field, attack, from: attack.address(number) }
    }

    fn hoard(&self) {
        let mut held: Vec<Held> = Vec::new();
        let mut ask_again = Instant::now();
        for turn in 0_usize.. {
            let begun = Instant::now();
            if self.field.is_over() {
                return;
            }
            if begun >= ask_again && held.len() < SESSIONS_MAX {
                match self.open(turn) {
                    Ok(session) => held.push(session),
                    Err(_) => ask_again = begun + REFUSED,
                }
            }
            let place = turn % held.len().max(1);
            if held.get_mut(place).is_some_and(|session| self.segment(session).is_err()) {
                // It has ended; another one takes its place.
                held.swap_remove(place);
            }
            self.field.pace(begun, REQUESTS_A_SECOND);
        }
    }

    /// Opens a session of one of the titles.
    pub(super) fn open(&self, turn: usize) -> Result<Held> {
        let titles = &self.field.arguments.titles;
        let title = titles.get(turn % titles.len().max(1)).context("no titles to hoard")?;
        let watch = Url::parse(&format!("http://{}{title}", self.field.arguments.http))?;
        let (playlist, text) = self.text(&watch)?;
        let Playlist::Master(master) = Playlist::parse(&text)? else { bail!("no renditions") };
        let variant = master.variants.last().context("a title without renditions")?;
        let (playlist, text) = self.text(&playlist.join(&variant.uri)?)?;
        let Playlist::Media(media) = Playlist::parse(&text)? else { bail!("no segments") };
        self.field.count(self.attack, "opened");
        Ok(Held { playlist, media, next: 0 })
    }

    /// Fetches the next segment of a session.
    pub(super) fn segment(&self, session: &mut Held) -> Result<()> {
        let pieces = &session.media.segments;
        let piece = pieces.get(session.next % pieces.len()).context("a title without segments")?;
        session.next += 1;
        let url = piece.url(&session.playlist)?;
        let range =
            piece.range.map(|(first, bytes)| format!("Range: bytes={first}-{}\r\n", first + bytes - 1));
        self.request(&url, &range.unwrap_or_default()).map(drop)
    }

    /// A text, and where it was found.
    fn text(&self, url: &Url) -> Result<(Url, String)> {
        let (head, body) = self.request(url, "")?;
        match head.field("Location") {
            Some(location) => {
                let url = url.join(location)?;
                let (_, body) = self.request(&url, "")?;
                Ok((url, String::from_utf8(body)?))
            }
            None => Ok((url.clone(), String::from_utf8(body)?)),
        }
    }

    fn request(&self, url: &Url, fields: &str) -> Result<(reel_testkit::http::Head, Vec<u8>)> {
        let to = self.field.arguments.http;
        let mut client = Client::on(connect(self.from, to, PATIENCE)?);
        let fields = format!("Host: {to}\r\nConnection: close\r\n{fields}");
        client.request(&format!("GET {} HTTP/1.1", url.target), &fields)?;
        let head = client.head()?;
        let body = client.body(&head)?;
        self.field.count(self.attack, head.status);
        if head.status >= 400 {
            bail!("status {}", head.status);
        }
        Ok((head, body))
    }
}
