//! One delivery: what is read for it, and how its schedule follows its client.

use super::network::LinkState;
use super::pacing::Pacer;
use super::{DeliveryReport, NetworkPath, NewDelivery};
use crate::counters::PlayCounters;
use crate::playable::{MediaRequest, Playable};
use crate::policy::{Decided, Decision, DeliveryPolicy};
use crate::transfers::RunLeft;
use reel_admit::{PlayedBy, Session};
use reel_cache::{Body, Due, QueuePosition, Ramp, Reader, Urgency};
use reel_disk::Requester;
use reel_qos::{AdmitError, Class, DEADLINE_NONE_NS, Kind};
use std::net::{IpAddr, Ipv4Addr};
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
    /// When all of it is to be sent, if it is promised.
    pub(super) send_by_ns: Option<u64>,
    /// There was no room where its client has jumped to.
    is_displaced: bool,
    /// Whose turn on the uplink it takes.
    pub(super) client: IpAddr,
    /// What the uplink has granted it.
    pub(super) link: LinkState,
    /// Bytes that are sent together or not at all.
    pub(super) piece_bytes: u64,
    /// Set if it is sent in trains.
    pub(super) pacer: Option<Pacer>,
    /// Where it is in its run while it has no deadlines.
    pub(super) run: RunLeft,
    /// Its client is on this machine, and takes processor time, too.
    is_for_local_client: bool,
    session: Option<Arc<Session<T>>>,
    /// Where the media begins in the title as one file.
    file_offset: u64,
    /// Its schedule follows what its client takes.
    follows_client: bool,
    /// Where it is in a stream that is sent by the clock.
    passing: Option<Passing>,
    /// Set as `follows_client` is: whether it is the one of its session that the client plays from.
    played: Option<PlayedBy>,
    /// Shows the session that this response is under way.
    _answers: Option<Arc<()>>,
    preamble_bytes: u64,
    bytes: u64,
    taken_bytes: u64,
    /// What was decided for its session.
    decided: Option<Decided>,
    /// Bytes that the path to its client takes at once without loss, if it goes through the uplink.
    train_bytes: Option<u64>,
}

/// Where a delivery is in a stream that is sent by the clock.
#[derive(Clone, Copy, Debug)]
struct Passing {
    /// The byte of the stream with which it began.
    from: u64,
    /// The byte of the stream at which to say next where it is.
    next: u64,
}

/// When a delivery sends what is paced or spread.
fn pacer(spread_bytes_per_s: Option<u64>, paced_bytes_per_s: Option<u64>, train_bytes: u64) -> Option<Pacer> {
    match spread_bytes_per_s {
        Some(rate) => Some(Pacer::steady(rate, train_bytes)),
        None => paced_bytes_per_s.map(|rate| Pacer::new(rate, train_bytes)),
    }
}

impl<T: Playable> Delivery<T> {
    /// `client` takes its turn on the disks with all its deliveries together. It is on this machine
    /// if there is none, and `has_clients`.
    pub(super) fn new(
        new: NewDelivery<T>,
        (client, has_clients): (Option<IpAddr>, bool),
        token: u64,
        now_ns: u64,
    ) -> Self {
        let NewDelivery { tag, session, policy, body, preamble_bytes, file_offset, in_runs, path } = new;
        let DeliveryPolicy {
            class,
            due,
            follows_client,
            passes_stream,
            reads_on,
            start_ns,
            paced_bytes_per_s,
            send_by_ns,
            spread_bytes_per_s,
            is_displaced,
            decided,
        } = policy;
        let train_bytes = match path {
            NetworkPath::Uplink { train_bytes, .. } => Some(train_bytes),
            NetworkPath::Local => None,
        };
        // What is sent without a reservation leaves a session's memory to what is sent with one.
        let reserved = session.as_ref().filter(|_| class != Class::APERIODIC);
        let memory = reserved.and_then(|session| session.memory());
        let bytes = body.bytes();
        let requester = client.map(Requester::client);
        let is_for_local_client = has_clients && client.is_none();
        let reader = Reader::new(body, class, due, token).reading_on(reads_on).promised(memory);
        let reader = reader.on_behalf_of(requester);
        Self {
            tag,
            reader: if in_runs { reader.in_runs() } else { reader },
            class,
            send_by_ns,
            is_displaced,
            waiting: None,
            is_blocked: false,
            is_lost: false,
            progressed_ns: now_ns,
            start_ns: start_ns.max(now_ns),
            client: match path {
                NetworkPath::Uplink { client, .. } => client,
                NetworkPath::Local => IpAddr::V4(Ipv4Addr::LOCALHOST),
            },
            link: LinkState::new(path != NetworkPath::Local),
            piece_bytes: match path {
                NetworkPath::Uplink { piece_bytes, .. } => piece_bytes,
                NetworkPath::Local => 1,
            },
            pacer: train_bytes.and_then(|bytes| pacer(spread_bytes_per_s, paced_bytes_per_s, bytes)),
            run: RunLeft::default(),
            is_for_local_client,
            file_offset,
            follows_client,
            passing: passes_stream.then_some(Passing { from: file_offset, next: file_offset }),
            played: session.as_ref().filter(|_| follows_client).map(|session| session.plays_from()),
            _answers: session.as_ref().map(|session| session.answers()),
            session,
            preamble_bytes,
            bytes,
            taken_bytes: 0,
            decided,
            train_bytes,
        }
    }

    /// The class that its session had when it was decided on, if it has another one now.
    pub(super) fn former_class(&self) -> Option<Class> {
        let (session, decided) = (self.session.as_ref()?, self.decided.as_ref()?);
        (session.class() != decided.class).then_some(decided.class)
    }

    /// Continues in the class that its session has now. Its session was admitted there; what cannot
    /// be promised to it all the same continues as well as it can.
    pub(super) fn change_class(&mut self, decision: &Decision<'_, T>, counters: &PlayCounters, had: Class) {
        let (Some(session), Some(decided)) = (self.session.clone(), self.decided.as_mut()) else { return };
        decided.class = session.class();
        let place = (self.file_offset, self.taken_bytes.saturating_sub(self.preamble_bytes));
        let again = decision.again(&session, &decided.request, place, had).unwrap_or_else(|refusal| {
            counters.not_admitted(&refusal);
            Some(DeliveryPolicy::without_deadline(Class::APERIODIC))
        });
        let Some(policy) = again else {
            if self.class == had {
                self.class = session.class();
                self.reader.set_class(self.class);
            }
            return;
        };
        let DeliveryPolicy { class, due, follows_client, send_by_ns, is_displaced, .. } = policy;
        self.pacer = self.train_bytes.and_then(|bytes| pacer(None, policy.paced_bytes_per_s, bytes));
        (self.class, self.send_by_ns, self.is_displaced) = (class, send_by_ns, is_displaced);
        self.follows_client = follows_client;
        if follows_client && self.played.is_none() {
            self.played = Some(session.plays_from());
        }
        if class != Class::APERIODIC && !self.reader.is_promised() {
            self.reader.promise(session.memory());
        }
        self.reader.set_terms(class, due);
    }

    /// More of a body that is still being made.
    pub(super) fn append(&mut self, more: Body, class: Class, due_ns: Option<u64>) {
        let due = due_ns.map_or(Due::After(DEADLINE_NONE_NS), |due_ns| {
            Due::Ramp(Ramp { due_ns, duration_ns: 0, bytes: more.bytes() })
        });
        self.class = class;
        self.reader.set_terms(class, due);
        self.bytes += more.bytes();
        self.reader.append(more);
    }

    /// The session for whose start it waits.
    pub(super) fn awaits_start_of(&self, now_ns: u64) -> Option<Arc<Session<T>>> {
        self.session.clone().filter(|_| self.start_ns > now_ns)
    }

    /// A stream of a set: it continues in this class, and its bytes are due then.
    pub(super) fn set_step(&mut self, class: Class, due: Due) {
        self.class = class;
        if let Some(session) = self.session.as_ref().filter(|_| class != Class::APERIODIC)
            && !self.reader.is_promised()
        {
            self.reader.promise(session.memory());
        }
        self.reader.set_terms(class, due);
    }

    /// The session that it belongs to, to keep.
    pub(super) fn session_shared(&self) -> Option<Arc<Session<T>>> {
        self.session.clone()
    }

    /// The session that it belongs to.
    pub(super) fn session(&self) -> Option<&Session<T>> {
        self.session.as_deref()
    }

    /// The client took `bytes`.
    pub(super) fn taken(&mut self, bytes: u64, now_ns: u64) {
        self.progressed_ns = now_ns;
        self.taken_bytes += bytes;
        if let Some(session) = &self.session {
            session.sent(bytes, now_ns);
        }
    }

    /// Continues as a delivery of a session, if that has started.
    pub(super) fn join(
        &mut self,
        decision: &Decision<'_, T>,
        session: Arc<Session<T>>,
    ) -> Result<bool, AdmitError> {
        let offset = self.file_offset + self.media_bytes_taken();
        let policy = decision.paced(&session, self.file_offset, offset)?;
        if self.session.is_some() || policy.start_ns > decision.now_ns {
            return Ok(false);
        }
        self.class = policy.class;
        self.is_displaced = policy.is_displaced;
        self.follows_client = policy.follows_client;
        if policy.class != Class::APERIODIC {
            self.reader.promise(session.memory());
        }
        self.reader.set_terms(policy.class, policy.due);
        self.played = policy.follows_client.then(|| session.plays_from());
        let request = MediaRequest::File(self.file_offset..self.file_offset + self.bytes);
        self.decided = Some(Decided { class: session.class(), request });
        self._answers = Some(session.answers());
        self.session = Some(session);
        Ok(true)
    }

    /// Continues without deadlines.
    pub(super) fn release_deadlines(&mut self, class: Class) {
        let policy = DeliveryPolicy::without_deadline(class);
        self.class = class;
        self.reader.set_terms(class, policy.due);
    }

    /// Has the session's schedule and its reservation follow the client, if they do that. What
    /// cannot be reserved for again continues as well as it can: its beginning is out, so nothing
    /// else can be said any more. So does what the client does not play from any more.
    pub(super) fn follow(&mut self, decision: &Decision<'_, T>, counters: &PlayCounters) {
        self.pass(decision);
        let Some(session) = self.session.as_ref().filter(|_| self.follows_client) else {
            return self.note_place(decision);
        };
        if self.former_class().is_some() {
            // What follows is decided with its next read.
            return;
        }
        let from = self.file_offset;
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

    /// Notes where its client is in the title as one file, if its class has no deadlines.
    fn note_place(&self, decision: &Decision<'_, T>) {
        if let (Some(session), Some(Decided { request: MediaRequest::File(_), class })) =
            (&self.session, &self.decided)
            && decision.classes.kind(*class) != Kind::Periodic
        {
            decision.passes_file(session, self.file_offset + self.media_bytes_taken());
        }
    }

    /// Says where a stream is that is sent by the clock, once for each stripe.
    fn pass(&mut self, decision: &Decision<'_, T>) {
        let taken = self.media_bytes_taken();
        if let (Some(session), Some(passing)) = (&self.session, &mut self.passing)
            && passing.from + taken >= passing.next
        {
            passing.next = decision.passes(session, passing.from + taken);
        }
    }

    /// The class in which it is sent. What an admitted session begins with is read as interactive,
    /// and is sent with the class that was promised.
    pub(super) fn sent_class(&self) -> Class {
        match &self.session {
            Some(session) if self.is_promised_start() => session.class(),
            _ => self.class,
        }
    }

    /// A displaced client has a reservation, but not for this.
    fn is_promised_start(&self) -> bool {
        self.reader.is_promised() && self.class == Class::INTERACTIVE && !self.is_displaced
    }

    /// Whether it comes after all others: it has no deadline, and no person waits for it.
    pub(super) fn is_transfer(&self) -> bool {
        self.class != Class::INTERACTIVE && matches!(self.reader.urgency(), Urgency::Unhurried)
    }

    /// The most that may be sent now.
    pub(super) fn sendable_bytes(&self) -> usize {
        let train = self.pacer.as_ref().map_or(u64::MAX, Pacer::left_bytes);
        self.link.bytes_max().min(usize::try_from(train).unwrap_or(usize::MAX))
    }

    /// These bytes are sent, and are not its reader's any more.
    pub(super) fn spend(&mut self, bytes: u64, counters: &PlayCounters) {
        if self.is_transfer() {
            self.run.spend(bytes);
            counters.transfers.sent(bytes, self.is_for_local_client);
        }
        self.reader.advance(bytes);
        self.link.spend(bytes);
        if let Some(pacer) = &mut self.pacer {
            pacer.spend(bytes);
        }
    }

    pub(super) fn report(&self) -> DeliveryReport {
        DeliveryReport {
            class: self.class,
            media_bytes: self.media_bytes_taken(),
            is_complete: self.taken_bytes == self.bytes && !self.reader.grows(),
        }
    }

    fn media_bytes_taken(&self) -> u64 {
        self.taken_bytes.saturating_sub(self.preamble_bytes)
    }
}
