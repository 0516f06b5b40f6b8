//! One delivery: what is read for it, and how its schedule follows its client.

use super::network::LinkState;
use super::pacing::Pacer;
use super::{DeliveryReport, NetworkPath, NewDelivery};
use crate::counters::PlayCounters;
use crate::playable::Playable;
use crate::policy::{Decision, DeliveryPolicy};
use reel_admit::{PlayedBy, Session};
use reel_cache::{QueuePosition, Reader};
use reel_qos::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct Delivery<T> {
    pub(super) tag: u64,
    pub(super) reader: Reader,
    pub(super) class: Class,
    /// Its position in the queue for buffers, while it waits there.
    pub(super) waiting: Option<QueuePosition>,
    /// The client takes nothing at the moment.
    pub(super) is_blocked: bool,
    /// It has been reported that its bytes are lost.
    pub(super) is_lost: bool,
    /// When the client last took something, or the delivery began.
    pub(super) progressed_ns: u64,
    /// Nothing is read or sent before this time.
    pub(super) start_ns: u64,
    /// What the uplink has granted it.
    pub(super) link: LinkState,
    /// Set if it is sent in trains.
    pub(super) pacer: Option<Pacer>,
    session: Option<Arc<Session<T>>>,
    /// Where in its title a delivery begins whose schedule follows what its client takes.
    paced_from: Option<u64>,
    /// Set likewise: whether it is the one of its session that the client plays from.
    played: Option<PlayedBy>,
    /// Shows the session that this response is under way.
    _answers: Option<Arc<()>>,
    preamble_bytes: u64,
    bytes: u64,
    taken_bytes: u64,
}

impl<T: Playable> Delivery<T> {
    pub(super) fn new(new: NewDelivery<T>, token: u64, now_ns: u64) -> Self {
        let NewDelivery { tag, session, policy, body, preamble_bytes, file_offset, in_runs, path } = new;
        let DeliveryPolicy { class, due, follows_client, reads_on, start_ns, paced_bytes_per_s } = policy;
        let pacer = |train_bytes| paced_bytes_per_s.map(|rate| Pacer::new(rate, train_bytes));
        // What is sent without a reservation leaves a session's memory to what is sent with one.
        let reserved = session.as_ref().filter(|_| class != Class::APERIODIC);
        let memory = reserved.and_then(|session| session.memory());
        let bytes = body.bytes();
        let reader = Reader::new(body, class, due, token).reading_on(reads_on).promised(memory);
        Self {
            tag,
            reader: if in_runs { reader.in_runs() } else { reader },
            class,
            waiting: None,
            is_blocked: false,
            is_lost: false,
            progressed_ns: now_ns,
            start_ns: start_ns.max(now_ns),
            link: LinkState::new(path != NetworkPath::Local),
            pacer: match path {
                NetworkPath::Uplink { train_bytes } => pacer(train_bytes),
                NetworkPath::Local => None,
            },
            paced_from: follows_client.then_some(file_offset),
            played: session.as_ref().filter(|_| follows_client).map(|session| session.plays_from()),
            _answers: session.as_ref().map(|session| session.answers()),
            session,
            preamble_bytes,
            bytes,
            taken_bytes: 0,
        }
    }

    /// The client took `bytes`.
    pub(super) fn taken(&mut self, bytes: u64, now_ns: u64) {
        self.progressed_ns = now_ns;
        self.taken_bytes += bytes;
        if let Some(session) = &self.session {
            session.sent(bytes, now_ns);
        }
    }

    /// Has the session's schedule and its reservation follow the client, if they do that. What
    /// cannot be reserved for again continues as well as it can: its beginning is out, so nothing
    /// else can be said any more. So does what the client does not play from any more.
    pub(super) fn follow(&mut self, decision: &Decision<'_, T>, counters: &PlayCounters) {
        let (Some(session), Some(from)) = (&self.session, self.paced_from) else { return };
        let offset = from + self.media_bytes_taken();
        let is_played = self.played.as_ref().is_none_or(PlayedBy::is_played);
        let policy = match is_played.then(|| decision.paced(session, from, offset)) {
            Some(Ok(policy)) => policy,
            Some(Err(refusal)) => {
                counters.not_admitted(&refusal);
                DeliveryPolicy::without_deadline(Class::APERIODIC)
            }
            None => DeliveryPolicy::without_deadline(Class::APERIODIC),
        };
        if policy.class != self.class && policy.class == Class::APERIODIC {
            counters.unreserved.fetch_add(1, Ordering::Relaxed);
        }
        self.class = policy.class;
        self.reader.set_terms(policy.class, policy.due);
    }

    /// The class in which it is sent. What an admitted session begins with is read as interactive,
    /// and is sent with the class that was promised.
    pub(super) fn sent_class(&self) -> Class {
        match &self.session {
            Some(session) if self.reader.is_promised() && self.class == Class::INTERACTIVE => session.class(),
            _ => self.class,
        }
    }

    /// The most that may be sent now.
    pub(super) fn sendable_bytes(&self) -> usize {
        let train = self.pacer.as_ref().map_or(u64::MAX, Pacer::left_bytes);
        self.link.bytes_max().min(usize::try_from(train).unwrap_or(usize::MAX))
    }

    /// These bytes are sent.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.link.spend(bytes);
        if let Some(pacer) = &mut self.pacer {
            pacer.spend(bytes);
        }
    }

    pub(super) fn report(&self) -> DeliveryReport {
        DeliveryReport {
            class: self.class,
            media_bytes: self.media_bytes_taken(),
            is_complete: self.taken_bytes == self.bytes,
        }
    }

    fn media_bytes_taken(&self) -> u64 {
        self.taken_bytes.saturating_sub(self.preamble_bytes)
    }
}
