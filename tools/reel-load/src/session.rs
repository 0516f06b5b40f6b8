//! One viewer and one title: what loaders bring, a player makes of it, and a hand on the remote
//! control wants.

use super::limits::SAMPLE_NS;
use super::loader::OpenedTitle;
use super::origin::Origin;
use super::plan::Hls;
use super::player::{Phase, Player, PlayerSettings};
use super::request_error::{Refusal, RequestError};
use super::thread::Thread;
use reel_testkit::Rng;
use reel_testkit::Url;
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
    remote: &mut Rng,
) -> End {
    let opened_ns = thread.now_ns();
    thread.tallies.borrow_mut().viewers.sessions += 1;
    let opened = match OpenedTitle::open(thread, hls, title, from).await {
        Ok(opened) => opened,
        Err(RequestError::Refused(refusal)) => {
            let mut tallies = thread.tallies.borrow_mut();
            tallies.viewers.refusals.add(&refusal.reason, refusal.grantable_bps);
            thread.counters.refused.add(1);
            return End::Refused(refusal);
        }
        Err(error) => return failed(thread, &error),
    };
    thread.tallies.borrow_mut().viewers.admitted += 1;
    let settings =
        PlayerSettings { startup_ns: nanoseconds(hls.startup), buffer_ns: nanoseconds(hls.buffer) };
    let OpenedTitle { pictures, sound } = opened;
    let tracks = [Some(&pictures), sound.as_ref()].into_iter().flatten();
    let tracks = tracks.map(|loader| Rc::clone(&loader.media)).collect();
    let session = Session::new(thread, Player::new(settings, tracks, opened_ns));
    let load_sound = async {
        match sound {
            Some(loader) => loader.run(&session).await,
            None => std::future::pending().await,
        }
    };
    let error = tokio::select! {
        end = session.control(hls, remote) => return end,
        error = pictures.run(&session) => error,
        error = load_sound => error,
    };
    failed(thread, &error)
}

fn failed(thread: &Thread, error: &RequestError) -> End {
    thread.tallies.borrow_mut().viewers.failures.add(&error.reason(), None);
    thread.counters.failed.add(1);
    End::Failed
}

/// The state that loaders and remote control share. The part that drops it ends the account.
pub(super) struct Session {
    pub(super) thread: Rc<Thread>,
    player: RefCell<Player>,
    /// The film started, continued or was put elsewhere.
    pub(super) changed: Notify,
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
    pub(super) fn tell<T>(&self, what: impl FnOnce(&mut Player, u64) -> T) -> T {
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

    pub(super) fn generation(&self) -> u64 {
        self.player.borrow().generation()
    }

    /// Until a seek has made useless what was asked for in `generation`.
    pub(super) async fn useless(&self, generation: u64) {
        loop {
            let changed = self.changed.notified();
            if self.player.borrow().generation() != generation {
                return;
            }
            changed.await;
        }
    }

    /// Waits for the end of the film and does meanwhile what the viewer likes.
    async fn control(&self, hls: &Hls, rng: &mut Rng) -> End {
        let mut remote = RemoteControl::new(hls, self.thread.now_ns(), rng);
        loop {
            if self.tell(|player, now_ns| {
                player.advance(now_ns);
                player.phase() == Phase::Ended
            }) {
                return End::Shown;
            }
            let now_ns = self.thread.now_ns();
            if now_ns >= remote.next_ns {
                match remote.act(self, rng) {
                    Some(end) => return end,
                    None => continue,
                }
            }
            let event_ns = self.player.borrow().next_event_ns().unwrap_or(u64::MAX);
            // Once a second for the display.
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
struct RemoteControl {
    mean_ns: Option<f64>,
    next_ns: u64,
    paused: bool,
}

impl RemoteControl {
    /// Pauses are this part of the time between two actions.
    const PAUSE_SHARE: f64 = 0.25;

    fn new(hls: &Hls, now_ns: u64, rng: &mut Rng) -> Self {
        let mut remote =
            Self { mean_ns: hls.vcr.map(|mean| mean.as_nanos() as f64), next_ns: u64::MAX, paused: false };
        remote.think(now_ns, 1.0, rng);
        remote
    }

    fn think(&mut self, now_ns: u64, share: f64, rng: &mut Rng) {
        if let Some(mean_ns) = self.mean_ns {
            self.next_ns = now_ns.saturating_add(rng.exponential(mean_ns * share) as u64);
        }
    }

    /// Pauses, seeks (both two times of five) or wants another title. A picture that does not move
    /// is left alone.
    fn act(&mut self, session: &Session, rng: &mut Rng) -> Option<End> {
        let thread = &session.thread;
        if self.paused {
            self.paused = false;
            session.tell(|player, now_ns| player.resume(now_ns));
            self.think(thread.now_ns(), 1.0, rng);
            return None;
        }
        match rng.below(5) {
            0 | 1 => self.paused = session.tell(|player, now_ns| player.pause(now_ns)),
            2 | 3 => session.tell(|player, now_ns| {
                let to_ns = rng.below(player.duration_ns());
                player.seek(now_ns, to_ns);
                thread.tallies.borrow_mut().viewers.seeks += 1;
            }),
            _ => return Some(End::Another),
        }
        thread.tallies.borrow_mut().viewers.pauses += u64::from(self.paused);
        self.think(thread.now_ns(), if self.paused { Self::PAUSE_SHARE } else { 1.0 }, rng);
        None
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
