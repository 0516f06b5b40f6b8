//! What a player loads: the playlists of a title, then each track, segment by segment, over a
//! connection of its own.

use super::http::Connection;
use super::limits::{RETRY_NS, TRIES_MAX};
use super::origin::Origin;
use super::plan::{Hls, Rendition};
use super::player::Next;
use super::rendition::Choice;
use super::request_error::RequestError;
use super::session::Session;
use super::thread::{Known, Thread};
use reel_testkit::Url;
use reel_testkit::{Media, Piece, Variant};
use std::rc::Rc;

/// A title whose playlists are known.
pub(super) struct OpenedTitle {
    pub(super) pictures: Loader,
    pub(super) sound: Option<Loader>,
}

impl OpenedTitle {
    pub(super) async fn open(
        thread: &Rc<Thread>,
        hls: &Hls,
        title: &Url,
        from: Origin,
    ) -> Result<Self, RequestError> {
        let mut connection = Connection::new(thread, from);
        let (url, known) = fetch_playlist(thread, &mut connection, title).await?;
        let master = match known {
            Known::Media(media) => {
                let pictures = Loader::new(0, connection, url, media, Renditions::none());
                return Ok(Self { pictures, sound: None });
            }
            Known::Master(master) => master,
        };
        let choice = Choice::new(hls.rendition);
        let current = choice.choose(&master.variants, None);
        let variant = &master.variants[current];
        let (video_url, video) = fetch_media(thread, &mut connection, &join(&url, &variant.uri)?).await?;
        let sound = match &variant.audio {
            Some(uri) => {
                let mut connection = Connection::new(thread, from);
                let (url, media) = fetch_media(thread, &mut connection, &join(&url, uri)?).await?;
                Some(Loader::new(1, connection, url, media, Renditions::none()))
            }
            None => None,
        };
        let renditions =
            Renditions { master_url: Some(url), variants: master.variants.clone(), current, choice };
        Ok(Self { pictures: Loader::new(0, connection, video_url, video, renditions), sound })
    }
}

/// Loads one track, segment by segment, over a connection of its own.
pub(super) struct Loader {
    track: usize,
    connection: Connection,
    /// Where the playlist was found, and what it says.
    url: Url,
    pub(super) media: Rc<Media>,
    /// What must come before the segments is here.
    initialised: bool,
    renditions: Renditions,
}

/// Where a track may be taken from.
struct Renditions {
    master_url: Option<Url>,
    variants: Vec<Variant>,
    current: usize,
    choice: Choice,
}

impl Renditions {
    /// A track of which there is only one.
    fn none() -> Self {
        let choice = Choice::new(Rendition::Highest);
        Self { master_url: None, variants: Vec::new(), current: 0, choice }
    }
}

impl Loader {
    fn new(track: usize, connection: Connection, url: Url, media: Rc<Media>, renditions: Renditions) -> Self {
        Self { track, connection, url, media, initialised: false, renditions }
    }

    /// Loads what the player wants, for as long as it may want something; returns only in trouble.
    pub(super) async fn run(mut self, session: &Session) -> RequestError {
        loop {
            let changed = session.changed.notified();
            let next = session.tell(|player, now_ns| player.next(now_ns, self.track));
            match next {
                Next::Fetch(segment) => {
                    if let Err(error) = self.load(session, segment).await {
                        return error;
                    }
                }
                Next::WaitUntil(at_ns) => tokio::select! {
                    () = session.thread.sleep_until(at_ns) => {}
                    () = changed => {}
                },
                Next::WaitForChange | Next::Done => changed.await,
            }
        }
    }

    /// Loads a segment, with some patience, unless a seek makes it useless.
    async fn load(&mut self, session: &Session, segment: usize) -> Result<(), RequestError> {
        let generation = session.generation();
        let mut wait_ns = RETRY_NS;
        for attempt in 1.. {
            let tried = tokio::select! {
                tried = self.try_load(session, segment) => Some(tried),
                () = session.useless(generation) => None,
            };
            let error = match tried {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => error,
                None => {
                    self.connection.close();
                    return Ok(());
                }
            };
            self.connection.close();
            session.tell(|player, now_ns| player.broke_off(now_ns, self.track));
            if attempt >= TRIES_MAX {
                return Err(error);
            }
            session.thread.tallies.borrow_mut().viewers.retries += 1;
            tokio::select! {
                () = session.thread.sleep(wait_ns) => wait_ns *= 2,
                () = session.useless(generation) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn try_load(&mut self, session: &Session, segment: usize) -> Result<(), RequestError> {
        if self.change_rendition(session).await? {
            // The same media time may be another segment there.
            return Ok(());
        }
        let media = Rc::clone(&self.media);
        if !self.initialised
            && let Some(init) = &media.init
        {
            self.fetch(session, init, None).await?;
        }
        self.initialised = true;
        let asked_ns = session.thread.now_ns();
        let bytes = self.fetch(session, &media.segments[segment], Some(segment)).await?;
        self.renditions.choice.measured(bytes, session.thread.now_ns() - asked_ns);
        Ok(())
    }

    /// Takes another rendition if one fits better.
    async fn change_rendition(&mut self, session: &Session) -> Result<bool, RequestError> {
        let Renditions { master_url: Some(master_url), variants, current, choice } = &mut self.renditions
        else {
            return Ok(false);
        };
        let chosen = choice.choose(variants, Some(*current));
        if chosen == *current {
            return Ok(false);
        }
        let url = join(master_url, &variants[chosen].uri)?;
        let (url, media) = fetch_media(&session.thread, &mut self.connection, &url).await?;
        *current = chosen;
        session.thread.tallies.borrow_mut().viewers.switches += 1;
        session.tell(|player, _| player.switch(self.track, Rc::clone(&media)));
        (self.url, self.media, self.initialised) = (url, media, false);
        Ok(true)
    }

    /// Fetches a piece; a segment is accounted for as it arrives.
    async fn fetch(
        &mut self,
        session: &Session,
        piece: &Piece,
        segment: Option<usize>,
    ) -> Result<u64, RequestError> {
        let url = piece.url(&self.url).map_err(|error| RequestError::failed(error.to_string()))?;
        let (_, head) = self.connection.get(&url, piece.range).await?;
        let track = self.track;
        if let Some(segment) = segment {
            session.tell(|player, _| player.begin(track, segment, head.length));
        }
        let mut bytes = 0;
        while let Some(got) = self.connection.next().await? {
            bytes += got.bytes;
            session.thread.counters.bytes.add(got.bytes);
            if segment.is_some() {
                session.tell(|player, _| player.received(got.now_ns, track, got.bytes));
            }
        }
        if segment.is_some() {
            session.tell(|player, now_ns| player.complete(now_ns, track));
        }
        Ok(bytes)
    }
}

async fn fetch_playlist(
    thread: &Thread,
    connection: &mut Connection,
    url: &Url,
) -> Result<(Url, Known), RequestError> {
    let (url, _) = connection.get(url, None).await?;
    let text = connection.text().await?;
    thread.counters.bytes.add(text.len() as u64);
    Ok((url, thread.playlist(text)?))
}

async fn fetch_media(
    thread: &Thread,
    connection: &mut Connection,
    url: &Url,
) -> Result<(Url, Rc<Media>), RequestError> {
    match fetch_playlist(thread, connection, url).await? {
        (url, Known::Media(media)) => Ok((url, media)),
        _ => Err(RequestError::failed("a master playlist inside a master playlist")),
    }
}

fn join(base: &Url, reference: &str) -> Result<Url, RequestError> {
    base.join(reference).map_err(|error| RequestError::failed(error.to_string()))
}
