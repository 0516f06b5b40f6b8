//! The actions of clients: they arrive, request segments, wait, control their players, and leave.

use super::clients::{Kind, lane, lanes};
use super::{Event, SECOND_NS, Simulation};
use crate::client::{PlayerControl, Want};
use crate::core::{Core, Outcome, Request};
use crate::journal::ClientAction;
use crate::limits::{CLOSES_PERMILLE, START_MOST_NS};
use crate::scale::ROW_BYTES;
use crate::sessions::{ClientSession, ClientSessions, address};
use crate::title::{Title, Track};
use reel_admit::limits::{LATE_TOLERATED_NS, START_BOUND_NS};
use reel_cache::MediaKind;
use reel_play::{DeliveryPolicy, Form, MediaRequest};
use reel_qos::{AdmitError, Class};
use reel_volume::WakeOccasion;
use reel_volume::limits::WAKE_LOOK_NS;
use std::ops::Range;
use std::sync::Arc;

impl Simulation {
    /// A client checks the time.
    pub(super) fn wake(&mut self, number: u32) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let lane = lane(number, MediaKind::Video);
        match &mut client.kind {
            Kind::Viewer(player) if player.title().is_none() => {
                let title = Arc::clone(self.stored.choose(&mut client.rng));
                self.open(number, title)
            }
            Kind::Viewer(_) => self.continue_playing(number),
            Kind::Mounted(_) => self.wake_mounted(number),
            _ if self.core.is_busy(lane) => Ok(()),
            Kind::Browser => {
                let track = Arc::clone(self.stored.choose(&mut client.rng).best());
                let rows = track.map.bytes() / ROW_BYTES as u64;
                let row = client.rng.below(rows);
                let end = (row + client.rng.range(1, 5)).min(rows);
                let range = row * ROW_BYTES as u64..end * ROW_BYTES as u64;
                client.asked_ns = self.now_ns;
                self.request(lane, track, range, (None, DeliveryPolicy::interactive()))
            }
            Kind::Bulk => {
                let track = Arc::clone(self.stored.choose(&mut client.rng).best());
                let range = 0..track.map.bytes();
                let policy = DeliveryPolicy::without_deadline(Class::APERIODIC);
                self.request(lane, track, range, (None, policy))
            }
        }
    }

    fn open(&mut self, number: u32, title: Arc<Title>) -> Result<(), String> {
        if self.waits_for_disks(number) {
            return Ok(());
        }
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let opened = title.number as u64;
        let Ok(session) = self.sessions.open(number, (&title, Form::Ladder), self.now_ns) else {
            self.report.refused += 1;
            self.note_action(number, ClientAction::Refused, opened);
            self.leave(number);
            return Ok(());
        };
        player.open(title, session.offered().unwrap_or(0));
        client.session = Some(session);
        client.displaced = Default::default();
        client.generation += 1;
        client.asked_ns = self.now_ns;
        let (at_ns, generation) = (player.next_control_ns(self.now_ns), client.generation);
        self.at(at_ns, Event::PlayerControl { client: number, generation });
        self.report.opened += 1;
        self.note_action(number, ClientAction::Opens, opened);
        self.continue_playing(number)
    }

    /// Whether disks have to spin up before a session is opened. As the server does, it wakes all
    /// of them, and opens the session when they are awake.
    fn waits_for_disks(&mut self, number: u32) -> bool {
        let volume = &self.maintenance.volume;
        volume.wake(WakeOccasion::Open);
        let waits = volume.waits_for_disks();
        if waits {
            self.report.waits_for_disks += 1;
            let client = &mut self.clients[number as usize];
            client.turn += 1;
            let turn = client.turn;
            self.at(self.now_ns + WAKE_LOOK_NS, Event::Wake { client: number, turn });
        }
        waits
    }

    /// A viewer does what it wants next.
    fn continue_playing(&mut self, number: u32) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let generation = client.generation;
        let mut sleep_ns = player.ends_ns(self.now_ns);
        if sleep_ns == Some(self.now_ns) {
            self.leave(number);
            return Ok(());
        }
        for kind in player.kinds() {
            let client = &self.clients[number as usize];
            let Kind::Viewer(player) = &client.kind else { return Ok(()) };
            // What it asked for before may have been there at once, or been refused.
            if client.generation != generation {
                return Ok(());
            }
            if self.core.is_busy(lane(number, kind)) {
                continue;
            }
            match player.want(kind, self.now_ns) {
                Want::Segment(segment) => self.request_segment(number, kind, segment)?,
                Want::Sleep(at_ns) => sleep_ns = Some(sleep_ns.map_or(at_ns, |other| other.min(at_ns))),
                Want::Nothing => {}
            }
        }
        let client = &mut self.clients[number as usize];
        if let Some(at_ns) = sleep_ns.filter(|_| client.generation == generation) {
            client.turn += 1;
            let turn = client.turn;
            self.at(at_ns, Event::Wake { client: number, turn });
        }
        Ok(())
    }

    fn request_segment(&mut self, number: u32, kind: MediaKind, segment: usize) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let (Some(title), Some(session)) = (player.title().cloned(), client.session.clone()) else {
            return Ok(());
        };
        let before = player.choice();
        match kind {
            MediaKind::Video => player.choose_rendition(),
            _ => player.choose_language(self.now_ns),
        }
        // Another language may begin where it is.
        let segment = if kind == MediaKind::Video { segment } else { player.next_segment(kind) };
        let (choice, taken) = (player.choice(), player.takes(kind));
        let starts_late = player.begins() && self.now_ns > client.asked_ns + LATE_TOLERATED_NS;
        let begins = player.begins();
        let continues =
            player.continues(kind) && !client.began_late && !client.is_displaced() && !starts_late;
        let plays_on = continues && !begins;
        let decided = policy((&mut self.core, &self.sessions), &session, (kind, taken), segment, self.now_ns);
        let is_displaced = decided.as_ref().is_ok_and(|policy| policy.is_displaced);
        if choice != before {
            self.report.rendition_steps += 1;
            self.report.rendition_steps_unreserved += u64::from(is_displaced);
            self.note_action(number, ClientAction::Steps, choice as u64);
        }
        if is_displaced && continues && choice >= before && self.is_promised() {
            return Err(format!("client {number} continues with segment {segment}, which is not reserved"));
        }
        let client = &mut self.clients[number as usize];
        self.report.displaced += u64::from(is_displaced && !client.is_displaced());
        let displaced = &mut client.displaced[kind.index()];
        *displaced = is_displaced || (*displaced && !begins);
        if begins && kind == MediaKind::Video {
            client.is_unseen = decided.as_ref().is_ok_and(|policy| policy.class == Class::PERIODIC);
        }
        let policy = match decided {
            Ok(policy) if policy.start_ns > self.now_ns && plays_on && self.is_promised() => {
                let wait_ms = (policy.start_ns - self.now_ns) / 1_000_000;
                return Err(format!(
                    "client {number} continues with segment {segment} and waits {wait_ms} ms for room"
                ));
            }
            Ok(policy) => policy,
            Err(refusal) if continues && self.is_promised() => {
                return Err(format!(
                    "client {number} continues with segment {segment} and is refused it: {refusal}"
                ));
            }
            Err(_) => {
                self.report.refused += 1;
                self.note_action(number, ClientAction::Refused, title.number as u64);
                self.leave(number);
                return Ok(());
            }
        };
        self.take_segment(number, (kind, segment), (&title, &session), policy)
    }

    fn take_segment(
        &mut self,
        number: u32,
        (kind, segment): (MediaKind, usize),
        (title, session): (&Title, &ClientSession),
        policy: DeliveryPolicy,
    ) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &client.kind else { return Ok(()) };
        let Some(track) = title.track(kind, player.takes(kind)).cloned() else { return Ok(()) };
        if policy.start_ns > self.now_ns.max(client.waits_until_ns) {
            // It waits for room: its start is held to the time that it was promised.
            (client.waits_until_ns, client.asked_ns) = (policy.start_ns, policy.start_ns);
            self.report.waited_starts += 1;
        }
        self.note_action(number, ClientAction::Asks, segment as u64);
        let range = track.segment(segment);
        self.request(lane(number, kind), track, range, (Some(Arc::clone(session)), policy))
    }

    fn request(
        &mut self,
        lane: u32,
        track: Arc<Track>,
        range: Range<u64>,
        (session, policy): (Option<ClientSession>, DeliveryPolicy),
    ) -> Result<(), String> {
        let bytes_per_s = self.clients[lanes::client(lane) as usize].bytes_per_s;
        let address = address(lanes::client(lane));
        let request = Request { address, track, range, session, policy, bytes_per_s, in_runs: true };
        let outcome = self.core.begin(lane, request, self.now_ns)?;
        outcome.map_or(Ok(()), |outcome| self.handle_outcome(lane, outcome))
    }

    /// Something came of what a client asked for.
    pub(super) fn handle_outcome(&mut self, lane: u32, outcome: Outcome) -> Result<(), String> {
        let (number, kind) = (lanes::client(lane), lanes::kind(lane));
        let client = &mut self.clients[number as usize];
        match outcome {
            Outcome::Sends(until_ns) => {
                let generation = client.generation;
                self.at(until_ns, Event::Sent { lane, generation });
                Ok(())
            }
            Outcome::Late(late_ns) => {
                let segment = match &client.kind {
                    Kind::Viewer(player) => player.next_segment(kind) as u64,
                    _ => 0,
                };
                match client.kind {
                    Kind::Mounted(_) => self.report.mounted.late_units += 1,
                    _ => self.report.late_units += 1,
                }
                self.note_action(number, ClientAction::Late, segment);
                if !self.is_promised() {
                    return Ok(());
                }
                let late_us = late_ns / 1000;
                Err(format!(
                    "segment {segment} of client {number} came into memory {late_us} us after it was due"
                ))
            }
            Outcome::Failed(why) => {
                self.note_action(number, ClientAction::Fails, 0);
                Err(format!("client {number} cannot be given what is stored: {why}"))
            }
            Outcome::Done => self.done(number, lane),
        }
    }

    /// A client has all of what it asked for.
    fn done(&mut self, number: u32, lane: u32) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let at_ns = match &mut client.kind {
            Kind::Viewer(_) => return self.segment_received(number, lanes::kind(lane)),
            Kind::Mounted(_) => return self.file_read(number, lanes::of_client(lane)),
            Kind::Browser => {
                self.report.browsed(self.now_ns - client.asked_ns);
                self.now_ns + 1 + client.rng.wait_ns(self.scenario.browse_ns)
            }
            Kind::Bulk => {
                self.report.downloads += 1;
                self.now_ns + SECOND_NS
            }
        };
        client.turn += 1;
        let turn = client.turn;
        self.at(at_ns, Event::Wake { client: number, turn });
        Ok(())
    }

    /// A viewer has a whole segment.
    fn segment_received(&mut self, number: u32, kind: MediaKind) -> Result<(), String> {
        let (now_ns, client) = (self.now_ns, &mut self.clients[number as usize]);
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let segment = player.next_segment(kind) as u64;
        self.report.segments += 1;
        let began = player.begins();
        let late_ns = player.segment_received(kind, now_ns);
        let plays = began && !player.begins();
        let took_ns = now_ns.saturating_sub(client.asked_ns);
        if plays {
            client.began_late = took_ns > LATE_TOLERATED_NS;
        }
        self.note_action(number, if plays { ClientAction::Plays } else { ClientAction::Has }, segment);
        if plays {
            self.report.started(took_ns);
            let is_reserved = !self.clients[number as usize].is_displaced();
            if took_ns > START_MOST_NS && is_reserved && self.is_healthy() && self.is_promised() {
                return Err(format!("client {number} waited {} ms for a picture", took_ns / 1_000_000));
            }
        }
        if let Some(late_ns) = late_ns {
            self.late(number, segment, late_ns)?;
        }
        self.continue_playing(number)
    }

    pub(super) fn late(&mut self, number: u32, segment: u64, late_ns: u64) -> Result<(), String> {
        // Its reservation was released while it was paused, so it is admitted again. If it has to
        // wait for room for longer than its buffer lasts, its picture stands still as at a start.
        let waited_until_ns = self.clients[number as usize].waits_until_ns;
        if waited_until_ns > 0 && self.now_ns <= waited_until_ns + START_BOUND_NS {
            self.report.waits_after_pauses += 1;
            return Ok(());
        }
        self.note_action(number, ClientAction::Stalls, segment);
        self.report.stalls += 1;
        self.report.stalled_ns += late_ns;
        let client = &self.clients[number as usize];
        // What is sent when it is due comes too late after a jump that the server cannot see. Only
        // a full link sends so late.
        let is_unseen = client.is_unseen && self.scenario.uplink_bps.is_some();
        let exempt = &mut self.report.stalls_exempt;
        let reasons = [
            (client.is_displaced(), &mut exempt.displaced),
            (client.began_late, &mut exempt.began_late),
            (is_unseen, &mut exempt.unseen),
        ];
        let reason = reasons.into_iter().find(|(is_so, _)| *is_so);
        let is_exempt = reason.is_some();
        if let Some((_, count)) = reason {
            *count += 1;
        }
        if !self.is_promised() || is_exempt {
            return Ok(());
        }
        let late_us = late_ns / 1000;
        Err(format!(
            "client {number} stood still for {late_us} us before segment {segment}: an admitted stream is late"
        ))
    }

    /// A viewer controls its player.
    pub(super) fn touch(&mut self, number: u32) -> Result<(), String> {
        let now_ns = self.now_ns;
        let client = &mut self.clients[number as usize];
        if let Kind::Mounted(_) = client.kind {
            return self.control_file(number);
        }
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let touch = player.touch(now_ns);
        let segment = player.next_segment(MediaKind::Video) as u64;
        let at_ns = player.next_control_ns(now_ns);
        if matches!(touch, PlayerControl::Seek | PlayerControl::Stop) {
            lanes::of(number).for_each(|lane| self.core.cancel(lane));
            client.generation += 1;
            client.asked_ns = now_ns;
        }
        let generation = client.generation;
        match touch {
            PlayerControl::Pause => self.note_action(number, ClientAction::Pauses, segment),
            PlayerControl::Resume => self.note_action(number, ClientAction::Resumes, segment),
            PlayerControl::Seek => self.note_action(number, ClientAction::Seeks, segment),
            PlayerControl::Skip => {
                client.is_unseen = true;
                self.note_action(number, ClientAction::Skips, segment);
            }
            PlayerControl::Stop => {
                self.leave(number);
                return Ok(());
            }
        }
        self.at(at_ns, Event::PlayerControl { client: number, generation });
        self.continue_playing(number)
    }

    pub(super) fn leave(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return };
        let title = player.title().map_or(0, |title| title.number as u64);
        if let Some(session) = client.session.take()
            && client.rng.permille(CLOSES_PERMILLE)
        {
            self.sessions.close(&session);
        }
        let at_ns = player.leave(self.now_ns);
        lanes::of(number).for_each(|lane| self.core.cancel(lane));
        client.generation += 1;
        client.turn += 1;
        let turn = client.turn;
        self.note_action(number, ClientAction::Leaves, title);
        self.at(at_ns, Event::Wake { client: number, turn });
    }
}

/// How a segment is delivered to a session: the pictures in one of their renditions, or the sound
/// in one of its languages.
fn policy(
    (core, sessions): (&mut Core, &ClientSessions),
    session: &ClientSession,
    (kind, choice): (MediaKind, usize),
    segment: usize,
    now_ns: u64,
) -> Result<DeliveryPolicy, AdmitError> {
    // A player requests what its title has.
    let title = session.playing();
    let (track, number) = match title.track(kind, choice) {
        Some(track) => (track, title.track_number(kind, choice)),
        None => (title.best(), 0),
    };
    let range = track.segment(segment);
    let request =
        MediaRequest::Segment { track: number, number: segment + 1, bytes: range.end - range.start };
    sessions.touch(session, now_ns);
    core.engine.policy(session, &request, now_ns)
}
