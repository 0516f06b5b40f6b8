//! What sessions were promised: a ledger in which sessions that play the same share the disks, and
//! the session of each reservation.
//!
//! A session that begins at a position is put behind the next session that plays the same. The
//! condition is that everything between the two is in memory (`Audience::follows`) and can stay
//! there. Then the session is charged with that memory, and not with the disks. Otherwise it is
//! charged with the disks as any other session.

use crate::admission::Sharing;
use crate::choices::Choices;
use crate::limits::{ROOM_PERMILLE, ROOM_ROUNDS};
use reel_cache::{Audience, KeptBuffers, SessionKey, SharedTracks, Start, Units};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Capacities, Class, ClassTable, Ledger, Meeting, MemberCapacity, Overcommitment,
    ReservationId, Resource, SharedReservations,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The ledger, and the session of each reservation.
#[derive(Debug)]
pub(crate) struct Reservations {
    groups: SharedReservations,
    holders: HashMap<ReservationId, Holder>,
    /// Where followers find what other sessions have read. Without it no session follows another.
    memory: Option<Memory>,
    /// The next group of sessions to check for whether it can follow another group. If that group
    /// has gone, the next existing one is checked.
    met: u64,
}

/// The session that holds a reservation.
#[derive(Debug)]
struct Holder {
    key: SessionKey,
    /// The part of what it plays that other sessions may play, too.
    shared: Option<Arc<SharedTracks>>,
}

#[derive(Debug)]
struct Memory {
    audience: Audience,
    /// Buffers that no reader may use.
    kept: KeptBuffers,
    buffer_bytes: u64,
}

/// Where in its title a session begins, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    /// The media time.
    pub(crate) media_ns: u64,
    /// When this media time is played: now, or later if there is no room now.
    pub(crate) start_ns: u64,
    /// The present.
    pub(crate) now_ns: u64,
}

/// The session that requests a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applicant<'a> {
    pub(crate) key: SessionKey,
    pub(crate) class: Class,
    /// Its label in the ledger.
    pub(crate) label: &'a str,
}

impl Reservations {
    /// Over a ledger without reservations.
    pub(crate) fn new(ledger: Ledger) -> Reservations {
        Reservations {
            groups: SharedReservations::new(ledger),
            holders: HashMap::new(),
            memory: None,
            met: 0,
        }
    }

    /// Lets sessions that play the same follow each other in the memory of these units.
    pub(crate) fn follow_in(&mut self, units: &Units) {
        let kept = units.budget().keep(0);
        self.memory = kept.map(|kept| Memory {
            audience: units.audience().clone(),
            kept,
            buffer_bytes: units.buffer_bytes().max(1),
        });
    }

    /// Reserves one of the choices of what a session plays, from where it begins on, in place of
    /// what it `held`. `is_played` is true unless the session requests another choice at the
    /// moment. A refusal changes nothing.
    pub(crate) fn put(
        &mut self,
        (applicant, held): (Applicant<'_>, Option<ReservationId>),
        (choices, choice, is_played): (&Choices, usize, bool),
        Begin { media_ns, start_ns, now_ns }: Begin,
    ) -> Result<ReservationId, AdmitError> {
        let demand = &choices.demands[choice];
        // Fits: rounds of a title that can be promised.
        let at = ((media_ns / ROUND_NS) as usize, start_ns / ROUND_NS);
        let shared = choices.shared(choice);
        let starts = shared.filter(|_| is_played).map_or_else(Vec::new, |shared| shared.starts(media_ns));
        let ahead = self.groups.next_ahead(applicant.class, demand, at, held);
        let before = ahead.and_then(|(reservation, group)| {
            let ahead = self.holders.get(&reservation)?.key;
            // Asked only for sessions that might follow, since it goes through the whole title.
            let is_worth = self.groups.is_worth_following(applicant.class, demand, group, at);
            (is_worth && self.can_keep(group, at)).then_some(())?;
            self.memory.as_ref()?.audience.follows(applicant.key, (ahead, group), &starts, now_ns)
        });
        let is_held = before.is_some();
        let put = match held {
            Some(reservation) => self.groups.change(reservation, demand, at, is_held).map(|()| reservation),
            None => self.groups.admit(applicant.class, demand, at, is_held, applicant.label),
        };
        match &put {
            Ok(reservation) => {
                self.holders.insert(*reservation, Holder { key: applicant.key, shared: shared.cloned() });
                if shared.is_some() {
                    self.begins(applicant.key, *reservation, &starts, now_ns);
                }
            }
            Err(error) => {
                if let (Some(before), Some(memory)) = (before, &self.memory) {
                    memory.audience.returns(applicant.key, before);
                }
                if let AdmitError::Ended(reservation) = error {
                    self.holders.remove(reservation);
                }
            }
        }
        self.settle_memory();
        put
    }

    /// A session that shares a choice requests a lower one. It continues alone with the next lower
    /// choice, for which it holds disk time of its own. `false` if the session shares nothing.
    pub(crate) fn leave(
        &mut self,
        (applicant, reservation): (Applicant<'_>, ReservationId),
        (choices, choice): (&Choices, usize),
        now_ns: u64,
    ) -> bool {
        let next = choices.demands.get(choice + 1).filter(|_| self.groups.is_sharing(reservation));
        let has_left = next.is_some_and(|next| self.groups.leave(reservation, next).is_ok());
        if has_left {
            self.holders.insert(
                reservation,
                Holder { key: applicant.key, shared: choices.shared(choice + 1).cloned() },
            );
            self.begins(applicant.key, reservation, &[], now_ns);
            self.settle_memory();
        }
        has_left
    }

    /// As [`SharedReservations::is_sharing`].
    pub(crate) fn is_sharing(&self, reservation: ReservationId) -> bool {
        self.groups.is_sharing(reservation)
    }

    /// Releases what a session held.
    pub(crate) fn release(&mut self, reservation: ReservationId) {
        self.groups.release(reservation);
        self.holders.remove(&reservation);
        self.settle_memory();
    }

    /// A group whose first session has come to where another session has been follows that session
    /// from here on, with all its followers. The conditions are that everything between is in
    /// memory and that memory costs less. So a session that began where no session had been need
    /// not be charged with the disks to its end.
    ///
    /// Checks the next group that could follow; `false` if there was none left.
    /// [`Reservations::settle_memory`] must be called after the last check.
    pub(crate) fn meet_next(&mut self) -> bool {
        let Some(meeting) = self.groups.next_meeting(self.met) else {
            self.met = 0;
            return false;
        };
        self.met = meeting.behind + 1;
        self.follow_from_here(&meeting);
        true
    }

    /// As [`Ledger::advance`].
    pub(crate) fn advance(&mut self, now_round: u64) {
        self.groups.advance(now_round);
        self.settle_memory();
    }

    /// The ledger itself, for reading.
    pub(crate) fn ledger(&self) -> &Ledger {
        self.groups.ledger()
    }

    /// How many sessions share what others read.
    pub(crate) fn sharing(&self) -> Sharing {
        let (_, groups) = self.groups.counts();
        let (followers, interval_bytes) = (self.groups.followers(), self.groups.interval_bytes());
        Sharing { groups, followers, interval_bytes }
    }

    /// As [`SharedReservations::adds_up`].
    pub(crate) fn adds_up(&self) -> bool {
        self.groups.adds_up()
    }

    /// Whether so little of the members' time is promised that a session that plays alone may read
    /// more than was promised to it, for sessions that may follow later.
    pub(crate) fn is_roomy(&self) -> bool {
        self.promised_permille() <= ROOM_PERMILLE
    }

    /// As [`Ledger::set_capacities`].
    pub(crate) fn set_capacities(&mut self, capacities: Capacities) -> Vec<Overcommitment> {
        self.groups.set_capacities(capacities)
    }

    /// As [`Ledger::set_classes`].
    pub(crate) fn set_classes(&mut self, classes: ClassTable) -> Vec<Overcommitment> {
        self.groups.set_classes(classes)
    }

    /// Thousandths of the members' time that are promised: the most in any of the next
    /// [`ROOM_ROUNDS`] rounds.
    fn promised_permille(&self) -> u64 {
        let ledger = self.groups.ledger();
        let (members, now_round) = (&ledger.capacities().members, ledger.now_round());
        let of_member = |(number, member): (usize, &MemberCapacity)| {
            let rounds = now_round..now_round.saturating_add(ROOM_ROUNDS);
            let used = rounds.map(|round| {
                // With independent limits for requests and bytes, the one of which more is
                // promised.
                let parts = [Resource::Member(number), Resource::MemberBytes(number)];
                parts.map(|part| ledger.used(None, part, round)).into_iter().max()
            });
            let used = used.max().flatten();
            // Fits: sums are below 2^63, and the reservations beyond a round are close to it.
            (u128::from(used.unwrap_or(0)) * 1000 / u128::from(member.round_ns.max(1))) as u64
        };
        members.iter().enumerate().map(of_member).max().unwrap_or(0)
    }

    fn follow_from_here(&mut self, meeting: &Meeting) {
        let Reservations { groups, holders, memory: Some(memory), .. } = self else { return };
        let (Some(leader), Some(ahead)) = (holders.get(&meeting.leader), holders.get(&meeting.ahead)) else {
            return;
        };
        let Some(shared) = &leader.shared else { return };
        if !groups.is_worth_merging(meeting) || !memory.keep(groups.interval_bytes_merged(meeting)) {
            return;
        }
        let all: Vec<SessionKey> = groups
            .streams_of(meeting.behind)
            .filter_map(|reservation| Some(holders.get(&reservation)?.key))
            .collect();
        let meet = || groups.merge(meeting).then(|| groups.width_rounds(meeting.into));
        memory.audience.meet((leader.key, &all), (ahead.key, meeting.into), shared, meet);
    }

    /// Withholds from readers as much memory as the intervals take if a session joins a group;
    /// `false` if readers have that memory now.
    fn can_keep(&mut self, group: u64, at: (usize, u64)) -> bool {
        let bytes = self.groups.interval_bytes_with(group, at);
        self.memory.as_mut().is_some_and(|memory| memory.keep(bytes))
    }

    /// A session begins at a new position. From here on the audience knows which sessions follow
    /// it, and which session it follows.
    fn begins(&self, session: SessionKey, reservation: ReservationId, starts: &[Start<'_>], now_ns: u64) {
        if let Some(memory) = &self.memory
            && let Some(group) = self.groups.group_of(reservation)
        {
            let rounds = self.groups.width_rounds(group);
            memory.audience.begins(session, (group, rounds), starts, now_ns);
        }
    }

    /// Gives memory that is not kept any more back to the readers.
    pub(crate) fn settle_memory(&mut self) {
        let bytes = self.groups.interval_bytes();
        if let Some(memory) = &mut self.memory {
            memory.keep(bytes);
        }
    }
}

impl Memory {
    /// Withholds this much memory from all other uses; `false` without a change if readers have it
    /// now.
    fn keep(&mut self, bytes: u64) -> bool {
        self.kept.set(usize::try_from(bytes.div_ceil(self.buffer_bytes)).unwrap_or(usize::MAX))
    }
}
