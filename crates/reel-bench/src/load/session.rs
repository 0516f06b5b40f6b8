//! One viewer and one title: playlists, one loader for each track, a hand on the remote control.

use super::dice::Dice;
use super::http::Connection;
use super::limits::{RETRY_NS, SAMPLE_NS, TRIES_MAX};
use super::origin::Origin;
use super::plan::Hls;
use super::player::{Next, Phase, Player, PlayerSettings};
use super::playlist::{Media, Piece, Variant};
use super::rendition::Choice;
use super::thread::{Known, Thread};
use super::trouble::{Refusal, Trouble};
use super::url::Url;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// How a session ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The film was shown to its end.
    Shown,
    /// The viewer wants another title.
    Another,
    Refused(Refusal),
    Failed,
}

/// Plays `title` to its end, or to the end of the viewer's patience.
pub(crate) async fn watch(
    thread: &Rc<Thread>,
    hls: &Hls,
    title: &Url,
    from: Origin,
    remote: &mut Dice,
) -> End {
    let opened_ns = thread.now_ns();
    thread.tallies.borrow_mut().viewers.sessions += 1;
    let opened = match Opened::open(thread, hls, title, from).await {
        Ok(opened) => opened,
        Err(Trouble::Refused(refusal)) => {
            let mut tallies = thread.tallies.borrow_mut();
            tallies.viewers.refusals.add(&refusal.reason, refusal.grantable_bps);
            thread.counters.refused.add(1);
            return End::Refused(refusal);
        }
        Err(trouble) => return failed(thread, &trouble),
    };
    thread.tallies.borrow_mut().viewers.admitted += 1;
    let settings =
        PlayerSettings { startup_ns: nanoseconds(hls.startup), buffer_ns: nanoseconds(hls.buffer) };
    let Opened { pictures, sound } = opened;
    let tracks = [Some(&pictures), sound.as_ref()].into_iter().flatten();
    let tracks = tracks.map(|loader| Rc::clone(&loader.media)).collect();
    let session = Session::new(thread, Player::new(settings, tracks, opened_ns));
    let load_sound = async {
        match sound {
            Some(loader) => loader.run(&session).await,
            None => std::future::pending().await,
        }
    };
    let trouble = tokio::select! {
        end = session.control(hls, remote) => return end,
        trouble = pictures.run(&session) => trouble,
        trouble = load_sound => trouble,
    };
    failed(thread, &trouble)
}

fn failed(thread: &Thread, trouble: &Trouble) -> End {
    thread.tallies.borrow_mut().viewers.failures.add(&trouble.reason(), None);
    thread.counters.failed.add(1);
    End::Failed
}

/// A title whose playlists are known.
struct Opened {
    pictures: Loader,
    sound: Option<Loader>,
}

impl Opened {
    async fn open(thread: &Rc<Thread>, hls: &Hls, title: &Url, from: Origin) -> Result<Self, Trouble> {
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

/// The state that loaders and remote control share. Whoever drops it ends the account.
struct Session {
    thread: Rc<Thread>,
    player: RefCell<Player>,
    /// The film started, went on or was put elsewhere.
    changed: Notify,
    shown: Cell<Phase>,
    late_bytes: Cell<u64>,
}

impl Session {
    fn new(thread: &Rc<Thread>, player: Player) -> Self {
        thread.counters.moved(None, Some(player.phase()));
        Self {
            thread: Rc::clone(thread),
            shown: Cell::new(player.phase()),
            player: RefCell::new(player),
            changed: Notify::new(),
            late_bytes: Cell::new(0),
        }
    }

    /// Tells the player something, and others what came of it.
    fn tell<T>(&self, what: impl FnOnce(&mut Player, u64) -> T) -> T {
        let mut player = self.player.borrow_mut();
        let generation = player.generation();
        let answer = what(&mut player, self.thread.now_ns());
        let (before, after) = (self.shown.replace(player.phase()), player.phase());
        if before != after {
            self.thread.counters.moved(Some(before), Some(after));
        }
        let late_bytes = player.tally().late_bytes;
        self.thread.counters.late_bytes.add(late_bytes - self.late_bytes.replace(late_bytes));
        if before != after || generation != player.generation() {
            self.changed.notify_waiters();
        }
        answer
    }

    /// Until a seek has made useless what was asked for in `generation`.
    async fn useless(&self, generation: u64) {
        loop {
            let changed = self.changed.notified();
            if self.player.borrow().generation() != generation {
                return;
            }
            changed.await;
        }
    }

    /// Waits for the end of the film and does meanwhile what the viewer likes.
    async fn control(&self, hls: &Hls, dice: &mut Dice) -> End {
        let mut remote = Remote::new(hls, self.thread.now_ns(), dice);
        loop {
            if self.tell(|player, now_ns| {
                player.advance(now_ns);
                player.phase() == Phase::Ended
            }) {
                return End::Shown;
            }
            let now_ns = self.thread.now_ns();
            if now_ns >= remote.next_ns {
                match remote.act(self, dice) {
                    Some(end) => return end,
                    None => continue,
                }
            }
            let event_ns = self.player.borrow().next_event_ns().unwrap_or(u64::MAX);
            // Once a second for those who look on.
            let wake_ns = event_ns.min(remote.next_ns).min(now_ns + SAMPLE_NS);
            let changed = self.changed.notified();
            tokio::select! {
                () = self.thread.sleep_until(wake_ns) => {}
                () = changed => {}
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let nothing = PlayerSettings { startup_ns: 0, buffer_ns: 0 };
        let player = self.player.replace(Player::new(nothing, Vec::new(), 0));
        let tally = player.finish(self.thread.now_ns());
        self.thread.counters.moved(Some(self.shown.get()), None);
        self.thread.counters.late_bytes.add(tally.late_bytes - self.late_bytes.get());
        self.thread.tallies.borrow_mut().viewers.add(&tally);
    }
}

/// A viewer's remote control: exponential times between actions.
struct Remote {
    mean_ns: Option<f64>,
    next_ns: u64,
    paused: bool,
}

impl Remote {
    /// Pauses are this part of the time between two actions.
    const PAUSE_SHARE: f64 = 0.25;

    fn new(hls: &Hls, now_ns: u64, dice: &mut Dice) -> Self {
        let mut remote =
            Self { mean_ns: hls.vcr.map(|mean| mean.as_nanos() as f64), next_ns: u64::MAX, paused: false };
        remote.think(now_ns, 1.0, dice);
        remote
    }

    fn think(&mut self, now_ns: u64, share: f64, dice: &mut Dice) {
        if let Some(mean_ns) = self.mean_ns {
            self.next_ns = now_ns.saturating_add(dice.exponential(mean_ns * share) as u64);
        }
    }

    /// Pauses, seeks (both two times of five) or wants another title. A picture that does not move is left alone.
    fn act(&mut self, session: &Session, dice: &mut Dice) -> Option<End> {
        let thread = &session.thread;
        if self.paused {
            self.paused = false;
            session.tell(|player, now_ns| player.resume(now_ns));
            self.think(thread.now_ns(), 1.0, dice);
            return None;
        }
        match dice.below(5) {
            0 | 1 => self.paused = session.tell(|player, now_ns| player.pause(now_ns)),
            2 | 3 => session.tell(|player, now_ns| {
                let to_ns = dice.below(player.duration_ns());
                player.seek(now_ns, to_ns);
                thread.tallies.borrow_mut().viewers.seeks += 1;
            }),
            _ => return Some(End::Another),
        }
        thread.tallies.borrow_mut().viewers.pauses += u64::from(self.paused);
        self.think(thread.now_ns(), if self.paused { Self::PAUSE_SHARE } else { 1.0 }, dice);
        None
    }
}

/// Loads one track, segment by segment, over a connection of its own.
struct Loader {
    track: usize,
    connection: Connection,
    /// Where the playlist was found, and what it says.
    url: Url,
    media: Rc<Media>,
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
        let choice = Choice::new(super::plan::Rendition::Highest);
        Self { master_url: None, variants: Vec::new(), current: 0, choice }
    }
}

impl Loader {
    fn new(track: usize, connection: Connection, url: Url, media: Rc<Media>, renditions: Renditions) -> Self {
        Self { track, connection, url, media, initialised: false, renditions }
    }

    /// Loads what the player wants, for as long as it may want something; returns only in trouble.
    async fn run(mut self, session: &Session) -> Trouble {
        loop {
            let changed = session.changed.notified();
            let next = session.tell(|player, now_ns| player.next(now_ns, self.track));
            match next {
                Next::Fetch(segment) => {
                    if let Err(trouble) = self.load(session, segment).await {
                        return trouble;
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
    async fn load(&mut self, session: &Session, segment: usize) -> Result<(), Trouble> {
        let generation = session.player.borrow().generation();
        let mut wait_ns = RETRY_NS;
        for attempt in 1.. {
            let tried = tokio::select! {
                tried = self.try_load(session, segment) => Some(tried),
                () = session.useless(generation) => None,
            };
            let trouble = match tried {
                Some(Ok(())) => return Ok(()),
                Some(Err(trouble)) => trouble,
                None => {
                    self.connection.close();
                    return Ok(());
                }
            };
            self.connection.close();
            session.tell(|player, now_ns| player.broke_off(now_ns, self.track));
            if attempt >= TRIES_MAX {
                return Err(trouble);
            }
            session.thread.tallies.borrow_mut().viewers.retries += 1;
            tokio::select! {
                () = session.thread.sleep(wait_ns) => wait_ns *= 2,
                () = session.useless(generation) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn try_load(&mut self, session: &Session, segment: usize) -> Result<(), Trouble> {
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
    async fn change_rendition(&mut self, session: &Session) -> Result<bool, Trouble> {
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
    ) -> Result<u64, Trouble> {
        let url = piece.url(&self.url).map_err(|error| Trouble::failed(error.to_string()))?;
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
) -> Result<(Url, Known), Trouble> {
    let (url, _) = connection.get(url, None).await?;
    let text = connection.text().await?;
    thread.counters.bytes.add(text.len() as u64);
    Ok((url, thread.playlist(text)?))
}

async fn fetch_media(
    thread: &Thread,
    connection: &mut Connection,
    url: &Url,
) -> Result<(Url, Rc<Media>), Trouble> {
    match fetch_playlist(thread, connection, url).await? {
        (url, Known::Media(media)) => Ok((url, media)),
        _ => Err(Trouble::failed("a master playlist inside a master playlist")),
    }
}

fn join(base: &Url, reference: &str) -> Result<Url, Trouble> {
    base.join(reference).map_err(|error| Trouble::failed(error.to_string()))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
