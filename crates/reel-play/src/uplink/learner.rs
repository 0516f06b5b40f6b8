//! Learns what a link carries from the connections that use it. Pure.

use super::flow::{FlowSample, Queue};
use crate::limits::{
    LEARN_AFTER_WINDOWS, LEARN_CALM_NS, LEARN_CLIENTS_MAX, LEARN_COUNTED_CLIENTS, LEARN_KEEP_NS,
    LEARN_MEAN_WINDOWS, LEARN_PART_PERMILLE, LEARN_RATE_MIN, LEARN_ROUND_TRIP_KEEP_NS, LEARN_SHARED_CLIENTS,
    LEARN_STANDING_PERCENT, LEARN_STEP_DIVISOR, LEARN_STEP_DIVISOR_MIN, LEARN_WINDOW_NS,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

const SECOND_NS: u128 = 1_000_000_000;

/// What a link carries, as far as its connections show it.
///
/// A queue in front of the link delays everything that passes it. So the link is full if nearly all
/// clients that were sent something see a queue, and not if only one of them does: that one has a
/// slow line. Then the link carries what all clients together acknowledge. Nothing is learnt before
/// promised bytes are in danger. After that the rate is raised in small steps until a queue appears
/// again, and forgotten if none has appeared for [`LEARN_KEEP_NS`]. What the only client shows
/// limits that client alone: it is forgotten as soon as another one is sent something.
#[derive(Debug, Default)]
pub(super) struct Learner {
    clients: BTreeMap<IpAddr, Line>,
    window: Window,
    /// Bytes acknowledged in each of the last windows, and its length; the newest last.
    acknowledged: VecDeque<(u64, u64)>,
    /// For how many windows in a row the link was full...
    full_windows: usize,
    /// ...and promised bytes were in danger, too.
    dangerous_windows: usize,
    /// What several clients have shown.
    shared: Option<Learnt>,
    /// What the only client has shown.
    alone: Option<(IpAddr, Learnt)>,
    /// What the link carried when it was shown by so many clients that admission uses it, and when.
    counted: Option<(u64, u64)>,
    /// The limit that was reported last.
    reported: Option<u64>,
}

/// One client's line, as the samples of the present window show it.
#[derive(Debug, Default)]
struct Line {
    /// The shortest round trip, and when it was seen first.
    round_trip_min_ns: u64,
    floor_ns: u64,
    seen_ns: u64,
    /// Bytes acknowledged while no queue was seen...
    empty_bytes: u64,
    /// ...and while there was one.
    standing_bytes: u64,
}

#[derive(Debug, Default)]
struct Window {
    begin_ns: u64,
    acknowledged_bytes: u64,
    is_dangerous: bool,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    /// What deliveries may send in a second now.
    bytes_per_s: u64,
    /// The part by which it is raised next: the rate divided by this.
    step_divisor: u64,
    /// What the link carried in a second when it was full last, and when that was.
    full_bytes_per_s: u64,
    full_ns: u64,
}

/// Who sees a queue in front of a full link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witnesses {
    /// The only client that is sent something.
    Only(IpAddr),
    /// So many clients: nearly all.
    Several(usize),
}

impl Learner {
    /// Takes what one connection shows. `is_in_danger`: promised bytes that are due soon wait in
    /// its socket.
    pub(super) fn observe(&mut self, client: IpAddr, sample: FlowSample, is_in_danger: bool, now_ns: u64) {
        if self.alone.is_some_and(|(only, _)| only != client) {
            self.alone = None;
        }
        self.make_room(client);
        let line = self.clients.entry(client).or_default();
        let is_old = now_ns.saturating_sub(line.floor_ns) > LEARN_ROUND_TRIP_KEEP_NS;
        if line.seen_ns == 0 || is_old || sample.round_trip_min_ns < line.round_trip_min_ns {
            (line.round_trip_min_ns, line.floor_ns) = (sample.round_trip_min_ns, now_ns);
        }
        line.seen_ns = now_ns;
        let queue = sample.queue(line.round_trip_min_ns);
        match queue {
            Queue::Empty => line.empty_bytes += sample.acknowledged_bytes,
            // A connection of which everything is lost counts, too.
            Queue::Standing => line.standing_bytes += sample.acknowledged_bytes.max(1),
            Queue::Unknown => {}
        }
        self.window.acknowledged_bytes += sample.acknowledged_bytes;
        self.window.is_dangerous |= is_in_danger && queue == Queue::Standing;
    }

    /// Ends the window if its time has passed. `is_wanted`: deliveries wait for the link. Returns
    /// whether the limit has changed since the last call.
    pub(super) fn pass(&mut self, is_wanted: bool, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.window.begin_ns);
        if passed_ns >= LEARN_WINDOW_NS {
            self.end_window(passed_ns, is_wanted, now_ns);
        }
        let limit = self.bytes_per_s();
        std::mem::replace(&mut self.reported, limit) != limit
    }

    /// What deliveries may send in a second; `None` if nothing is known.
    pub(super) fn bytes_per_s(&self) -> Option<u64> {
        self.learnt().map(|learnt| learnt.bytes_per_s).min()
    }

    /// What the link carried in a second when it was full last; `None` if that is not known or too
    /// long ago.
    pub(super) fn full_bytes_per_s(&self) -> Option<u64> {
        self.learnt().map(|learnt| learnt.full_bytes_per_s).min()
    }

    /// The same, if so many clients have shown it that admission may use it.
    pub(super) fn counted_bytes_per_s(&self) -> Option<u64> {
        self.counted.map(|(bytes_per_s, _)| bytes_per_s)
    }

    fn learnt(&self) -> impl Iterator<Item = Learnt> {
        self.shared.into_iter().chain(self.alone.map(|(_, learnt)| learnt))
    }

    fn end_window(&mut self, passed_ns: u64, is_wanted: bool, now_ns: u64) {
        let window = std::mem::replace(&mut self.window, Window { begin_ns: now_ns, ..Window::default() });
        if passed_ns > 3 * LEARN_WINDOW_NS {
            // Nothing was sent for a while.
            self.acknowledged.clear();
        } else {
            self.acknowledged.push_back((window.acknowledged_bytes, passed_ns));
            if self.acknowledged.len() > LEARN_MEAN_WINDOWS {
                self.acknowledged.pop_front();
            }
        }
        self.forget(now_ns);
        let Some(witnesses) = self.take_witnesses(window.begin_ns) else {
            (self.full_windows, self.dangerous_windows) = (0, 0);
            return self.is_not_full(is_wanted, now_ns);
        };
        self.full_windows += 1;
        self.dangerous_windows = if window.is_dangerous { self.dangerous_windows + 1 } else { 0 };
        let knows = self.shared.is_some() || self.alone.is_some();
        let windows = if knows { self.full_windows } else { self.dangerous_windows };
        if windows >= LEARN_AFTER_WINDOWS {
            self.is_full(witnesses, now_ns);
        }
    }

    /// Who sees a queue, if nearly all clients of the window that began then do; and begins the
    /// next window.
    fn take_witnesses(&mut self, begin_ns: u64) -> Option<Witnesses> {
        let (mut standing, mut empty, mut present) = (0, 0, 0);
        let mut only = None;
        for (client, line) in &mut self.clients {
            let empty_bytes = std::mem::take(&mut line.empty_bytes);
            let standing_bytes = std::mem::take(&mut line.standing_bytes);
            present += usize::from(line.seen_ns >= begin_ns);
            if standing_bytes > empty_bytes {
                standing += 1;
                only = Some(*client);
            } else if empty_bytes > 0 {
                empty += 1;
            }
        }
        if standing >= LEARN_SHARED_CLIENTS {
            let is_full = standing * 100 >= (standing + empty) * LEARN_STANDING_PERCENT;
            return is_full.then_some(Witnesses::Several(standing));
        }
        only.filter(|_| present == 1).map(Witnesses::Only)
    }

    /// The link carries what is acknowledged now. Less is sent than that, so that its queue runs
    /// empty.
    fn is_full(&mut self, witnesses: Witnesses, now_ns: u64) {
        let Some(carried) = self.carried_bytes_per_s() else { return };
        let full_bytes_per_s = part(carried, LEARN_PART_PERMILLE).max(LEARN_RATE_MIN);
        let learn = |known: Option<Learnt>| Learnt {
            bytes_per_s: known.map_or(full_bytes_per_s, |known| known.bytes_per_s.min(full_bytes_per_s)),
            step_divisor: LEARN_STEP_DIVISOR,
            full_bytes_per_s,
            full_ns: now_ns,
        };
        match witnesses {
            Witnesses::Only(client) => {
                self.alone = Some((client, learn(self.alone.map(|(_, known)| known))));
            }
            Witnesses::Several(clients) => {
                self.shared = Some(learn(self.shared));
                if clients >= LEARN_COUNTED_CLIENTS {
                    self.counted = Some((full_bytes_per_s, now_ns));
                }
            }
        }
    }

    /// The link may carry more: it is tried if more is wanted, in larger steps when it was not full
    /// for long.
    fn is_not_full(&mut self, is_wanted: bool, now_ns: u64) {
        if !is_wanted {
            return;
        }
        for learnt in self.shared.iter_mut().chain(self.alone.iter_mut().map(|(_, learnt)| learnt)) {
            learnt.bytes_per_s = learnt.bytes_per_s.saturating_add(learnt.bytes_per_s / learnt.step_divisor);
            if now_ns.saturating_sub(learnt.full_ns) > LEARN_CALM_NS {
                learnt.step_divisor = (learnt.step_divisor / 2).max(LEARN_STEP_DIVISOR_MIN);
            }
        }
    }

    /// Forgets what was shown too long ago.
    fn forget(&mut self, now_ns: u64) {
        let is_old = |full_ns: u64| now_ns.saturating_sub(full_ns) > LEARN_KEEP_NS;
        self.shared.take_if(|learnt| is_old(learnt.full_ns));
        self.alone.take_if(|(_, learnt)| is_old(learnt.full_ns));
        self.counted.take_if(|(_, full_ns)| is_old(*full_ns));
    }

    /// Bytes that clients acknowledged in a second: the mean of the last windows, or of the last
    /// two where that is more, since a connection begins slowly.
    fn carried_bytes_per_s(&self) -> Option<u64> {
        let mean = |windows: usize| {
            let newest = self.acknowledged.iter().rev().take(windows);
            let sum = |(bytes, ns): (u128, u128), window: &(u64, u64)| {
                (bytes + u128::from(window.0), ns + u128::from(window.1))
            };
            let (bytes, ns) = newest.fold((0, 0), sum);
            (bytes * SECOND_NS).checked_div(ns)
        };
        let bytes_per_s = mean(LEARN_MEAN_WINDOWS)?.max(mean(2)?);
        (bytes_per_s > 0).then(|| u64::try_from(bytes_per_s).unwrap_or(u64::MAX))
    }

    /// Forgets the client that was silent for longest, if there are too many.
    fn make_room(&mut self, client: IpAddr) {
        if self.clients.len() < LEARN_CLIENTS_MAX || self.clients.contains_key(&client) {
            return;
        }
        let oldest = self.clients.iter().min_by_key(|(_, line)| line.seen_ns).map(|(client, _)| *client);
        oldest.and_then(|oldest| self.clients.remove(&oldest));
    }
}

fn part(bytes: u64, permille: u64) -> u64 {
    // Fits: at most `bytes`.
    (u128::from(bytes) * u128::from(permille) / 1000) as u64
}

#[cfg(test)]
#[path = "learner_laws.rs"]
mod laws;
