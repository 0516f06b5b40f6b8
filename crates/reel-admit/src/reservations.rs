//! What sessions were promised: a ledger in which sessions that play the same share the disks, and
//! the session of each reservation.
//!
//! A session that begins at a position is put behind the next session that plays the same. The
//! condition is that everything between the two is in memory (`Audience::follows`) and can stay
//! there. Then the session is charged with that memory, and not with the disks. Otherwise it is
//! charged with the disks as any other session.

use crate::admission::Sharing;
use crate::choices::Choices;
use crate::client::Client;
use crate::limits::{ROOM_PERMILLE, ROOM_ROUNDS};
use crate::shares::{Asked, Shares};
use reel_cache::{Audience, GroupMember, GroupWidth, KeptBuffers, SessionKey, SharedTracks, Start, Units};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Ahead, Capacities, ClassTable, ClientShare, DemandStart, Ledger, Meeting, MemberCapacity,
    Overcommitment, ReservationId, Resource, Sender, SharedReservations,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The ledger, and the session of each reservation.
#[derive(Debug)]
pub(crate) struct Reservations {
    groups: SharedReservations,
    holders: HashMap<ReservationId, Holder>,
    /// What each client holds.
    shares: Shares,
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
    /// The round of the title, and when it is played: now, or later if there is no room now.
    start: DemandStart,
    /// The media time from which on the client has nothing.
    media_ns: u64,
    /// The present.
    now_ns: u64,
    /// Whether this was promised by the server before this one. Then it is not bounded by the share
    /// of a client. Of several sessions each had its share when it was opened, and not in the
    /// order in which they continue.
    is_continued: bool,
}

impl Begin {
    /// A client that has nothing begins to play `media_ns` at `start_ns`.
    pub(crate) fn at(media_ns: u64, start_ns: u64, now_ns: u64) -> Begin {
        // Fits: rounds of a title that can be promised.
        let start = DemandStart::new((media_ns / ROUND_NS) as usize, start_ns / ROUND_NS);
        Begin { start, media_ns, now_ns, is_continued: false }
    }

    /// The same for a client that may have what is shown there.
    pub(crate) fn having_shown(mut self, has_shown: bool) -> Begin {
        self.start.has_shown = has_shown;
        self
    }

    /// A client begins to play the title so many rounds later. What it begins with is sent from now
    /// on.
    pub(crate) fn spread(early_rounds: u64, now_ns: u64) -> Begin {
        let start = DemandStart::spread(now_ns / ROUND_NS, early_rounds);
        Begin { start, media_ns: 0, now_ns, is_continued: false }
    }

    /// A client plays on in another class. It shows what the round of media time 0 says, and has
    /// everything before `media_ns`.
    pub(crate) fn playing_on(epoch: i64, media_ns: u64, now_ns: u64) -> Begin {
        Begin { is_continued: false, ..Begin::continued(epoch, media_ns, now_ns) }
    }

    /// A client plays on that the server before this one has admitted. It shows what the round of
    /// media time 0 says, and has everything before `media_ns`.
    pub(crate) fn continued(epoch: i64, media_ns: u64, now_ns: u64) -> Begin {
        let start = DemandStart::playing_on(epoch, now_ns / ROUND_NS);
        Begin { start, media_ns, now_ns, is_continued: true }
    }
}

/// One of the choices of what a session plays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) choices: &'a Choices,
    pub(crate) choice: usize,
    /// Whether the session does not request another choice at the moment.
    pub(crate) is_played: bool,
}

/// The session that requests a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applicant<'a> {
    pub(crate) key: SessionKey,
    /// Its class, and the front end that sends to it.
    pub(crate) sender: Sender,
    /// Its label in the ledger.
    pub(crate) label: &'a str,
    /// The client in whose share the reservation counts.
    pub(crate) sharer: Option<Client>,
}

impl Reservations {
    /// Over a ledger without reservations.
    pub(crate) fn new(ledger: Ledger, client_share: ClientShare) -> Reservations {
        Reservations {
            groups: SharedReservations::new(ledger),
            holders: HashMap::new(),
            shares: Shares::new(client_share),
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

    /// Reserves an offer for a session, from where it begins on, in place of what it `held`, which
    /// may be in another class. A refusal changes nothing.
    pub(crate) fn put(
        &mut self,
        applicant: Applicant<'_>,
        held: Option<ReservationId>,
        Offer { choices, choice, is_played }: Offer<'_>,
        Begin { start, media_ns, now_ns, is_continued }: Begin,
    ) -> Result<ReservationId, AdmitError> {
        let demand = &choices.demands[choice];
        let shared = choices.shared(choice);
        let starts = shared.filter(|_| is_played).map_or_else(Vec::new, |shared| shared.starts(media_ns));
        let ahead = self.groups.next_ahead(applicant.sender.class, demand, start, held);
        let before = ahead.and_then(|Ahead { stream, group }| {
            let session = self.holders.get(&stream)?.key;
            // Asked only for sessions that might follow, since it goes through the whole title.
            let is_worth = self.groups.is_worth_following(applicant.sender.class, demand, group, start);
            (is_worth && self.can_keep(group, start)).then_some(())?;
            self.memory.as_ref()?.audience.follows(
                applicant.key,
                GroupMember { session, group },
                &starts,
                now_ns,
            )
        });
        let is_held = before.is_some();
        let Applicant { sharer, sender, .. } = applicant;
        let asked = Asked { sharer, sender, demand, start, held, is_held };
        let has_share = if is_continued { Ok(()) } else { self.shares.check(self.groups.ledger(), &asked) };
        let put = match has_share {
            Err(refused) => Err(refused),
            Ok(()) => match held {
                Some(reservation) => self
                    .groups
                    .reclass(reservation, sender.class, demand, start, is_held)
                    .map(|()| reservation),
                None => self.groups.admit(sender, demand, start, is_held, applicant.label),
            },
        };
        match &put {
            Ok(reservation) => {
                self.shares.holds(self.groups.ledger(), *reservation, &asked);
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
                    self.shares.released(*reservation);
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
        applicant: Applicant<'_>,
        reservation: ReservationId,
        choices: &Choices,
        choice: usize,
        now_ns: u64,
    ) -> bool {
        let next = choices.demands.get(choice + 1).filter(|_| self.groups.is_sharing(reservation));
        let has_left = next.is_some_and(|next| self.groups.leave(reservation, next).is_ok());
        if let Some(demand) = next.filter(|_| has_left) {
            let start = DemandStart::new(0, now_ns / ROUND_NS);
            let Applicant { sharer, sender, .. } = applicant;
            let asked = Asked { sharer, sender, demand, start, held: Some(reservation), is_held: false };
            self.shares.holds(self.groups.ledger(), reservation, &asked);
            self.holders.insert(
                reservation,
                Holder { key: applicant.key, shared: choices.shared(choice + 1).cloned() },
            );
            self.begins(applicant.key, reservation, &[], now_ns);
            self.settle_memory();
        }
        has_left
    }

    /// As [`SharedReservations::epoch_of`].
    pub(crate) fn epoch_of(&self, reservation: ReservationId) -> Option<i64> {
        self.groups.epoch_of(reservation)
    }

    /// As [`SharedReservations::is_sharing`].
    pub(crate) fn is_sharing(&self, reservation: ReservationId) -> bool {
        self.groups.is_sharing(reservation)
    }

    /// Releases what a session held.
    pub(crate) fn release(&mut self, reservation: ReservationId) {
        self.groups.release(reservation);
        self.holders.remove(&reservation);
        self.shares.released(reservation);
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
        let ahead = GroupMember { session: ahead.key, group: meeting.into };
        memory.audience.meet(leader.key, &all, ahead, shared, meet);
    }

    /// Withholds from readers as much memory as the intervals take if a session joins a group;
    /// `false` if readers have that memory now.
    fn can_keep(&mut self, group: u64, start: DemandStart) -> bool {
        let bytes = self.groups.interval_bytes_with(group, start);
        self.memory.as_mut().is_some_and(|memory| memory.keep(bytes))
    }

    /// A session begins at a new position. From here on the audience knows which sessions follow
    /// it, and which session it follows.
    fn begins(&self, session: SessionKey, reservation: ReservationId, starts: &[Start<'_>], now_ns: u64) {
        if let Some(memory) = &self.memory
            && let Some(group) = self.groups.group_of(reservation)
        {
            let width = GroupWidth { group, rounds: self.groups.width_rounds(group) };
            memory.audience.begins(session, width, starts, now_ns);
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
