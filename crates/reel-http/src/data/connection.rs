//! One client's connection: what it is doing, and since when.

use super::access_log::AccessRecord;
use super::counters::DataCounters;
use super::film::Film;
use super::opener::OpenResult;
use super::request::Request;
use super::response::Response;
use super::secure::Secure;
use super::terms::{Terms, TermsDesk};
use super::zero_copy::ZeroCopy;
use crate::limits::{
    HANDSHAKE_TIME_MAX_NS, HEAD_TIME_MAX_NS, IDLE_TIME_MAX_NS, LINGER_TIME_MAX_NS, SEND_CRITICAL_NS,
    STALL_TIME_MAX_NS,
};
use reel_admit::{PlayedBy, Session};
use reel_cache::{Place, Reader, Urgency};
use reel_qos::Class;
use reel_rt::{TaskId, TaskKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection and its place in the life of a request:
/// `(ShakingHands ->) Idle -> Heading -> (Opening -> Opened ->) Sending -> Idle`, and after the last response `Lingering`.
pub(crate) struct Connection {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) peer: SocketAddr,
    /// What goes on with it when something has come.
    pub(crate) task: TaskId,
    /// Set if it speaks TLS.
    pub(crate) secure: Option<Box<Secure>>,
    /// Received, opened and not yet used. Empty while a receive operation has it.
    pub(crate) input: Vec<u8>,
    pub(crate) state: State,
    /// When `state` last changed or its client last took or sent something.
    pub(crate) since_ns: u64,
    /// An operation of this connection is in the ring. There is never more than one, beside zero-copy sends of which only the memory is
    /// still to come back.
    pub(crate) in_ring: bool,
    /// How its socket is sent to.
    pub(crate) zero_copy: ZeroCopy,
}

pub(crate) enum State {
    /// The TLS handshake is not done yet.
    ShakingHands,
    /// Waits for the first byte of a request.
    Idle,
    /// Has the beginning of a request head.
    Heading,
    /// A title is being opened for this request.
    Opening(Box<Request>),
    /// It was, or cannot be.
    Opened(Box<(Request, OpenResult)>),
    /// A response is on its way.
    Sending(Box<Sending>),
    /// Everything was sent and our side is closed; what the client still sends is thrown away, up to so many bytes.
    Lingering(usize),
}

/// A response on its way.
pub(crate) struct Sending {
    pub(crate) reader: Reader,
    /// The socket takes nothing at the moment.
    pub(crate) blocked: bool,
    /// The reader's place in the line, while it waits until others give memory back.
    pub(crate) starved: Option<Place>,
    pub(crate) keep_alive: bool,
    pub(crate) session: Option<Arc<Session<Film>>>,
    pub(crate) class: Class,
    /// Where in its film a response begins whose schedule follows what its client takes.
    paced_from: Option<u64>,
    /// Set likewise: whether it is the one of its session that the client plays from.
    played: Option<PlayedBy>,
    /// Bytes of head and body that were taken.
    taken_bytes: u64,
    head_bytes: u64,
    /// Bytes of head and body.
    bytes: u64,
    started_ns: u64,
    status: u16,
    request: Request,
}

/// Why a connection is closed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeOut {
    /// A handshake did not end in time: closed without a word.
    Handshake,
    /// No request came: closed without a word.
    Idle,
    /// A request head did not end in time: 408.
    Head,
    /// The client took nothing: cut off.
    Stall,
    /// The client did not close its side: closed for it.
    Linger,
}

impl Connection {
    /// A new one, on a ring that can send without a copy or cannot.
    pub(crate) fn new(socket: OwnedFd, peer: SocketAddr, task: TaskId, can_lend: bool, now_ns: u64) -> Self {
        let socket = Arc::new(socket);
        Self {
            socket,
            peer,
            task,
            secure: None,
            input: Vec::new(),
            state: State::Idle,
            since_ns: now_ns,
            in_ring: false,
            zero_copy: ZeroCopy::new(can_lend),
        }
    }

    /// How urgent it is to go on with it: what it does, and from when on that is critical.
    ///
    /// Bytes that are promised for a time are critical when that is near. What has no time of its own yet (a request that is not read, a
    /// handshake) is waited for by somebody.
    pub(crate) fn urgency(&self) -> (TaskKind, u64) {
        let State::Sending(sending) = &self.state else { return (TaskKind::Interactive, 0) };
        match sending.reader.urgency() {
            Urgency::Due(due_ns) => {
                let kind = TaskKind::Deadline { delay_ns: SEND_CRITICAL_NS };
                (kind, due_ns.saturating_sub(SEND_CRITICAL_NS))
            }
            Urgency::Waited => (TaskKind::Interactive, 0),
            Urgency::Unhurried if sending.class == Class::INTERACTIVE => (TaskKind::Interactive, 0),
            Urgency::Unhurried => (TaskKind::Background, 0),
        }
    }

    /// The first bytes of a request are there.
    pub(crate) fn heading(&mut self, now_ns: u64) {
        if matches!(self.state, State::Idle) {
            self.state = State::Heading;
            self.since_ns = now_ns;
        }
    }

    /// The limit of time this connection has run into, if any.
    pub(crate) fn timed_out(&self, now_ns: u64) -> Option<TimeOut> {
        let (limit_ns, which) = match &self.state {
            State::ShakingHands => (HANDSHAKE_TIME_MAX_NS, TimeOut::Handshake),
            State::Idle => (IDLE_TIME_MAX_NS, TimeOut::Idle),
            State::Heading => (HEAD_TIME_MAX_NS, TimeOut::Head),
            State::Opening(_) | State::Opened(_) => return None,
            // While the server is the one who is late, the client's clock stands still.
            State::Sending(sending) if !sending.blocked => return None,
            State::Sending(_) => (STALL_TIME_MAX_NS, TimeOut::Stall),
            State::Lingering(_) => (LINGER_TIME_MAX_NS, TimeOut::Linger),
        };
        (now_ns.saturating_sub(self.since_ns) > limit_ns).then_some(which)
    }
}

impl Sending {
    pub(crate) fn new(
        response: Response,
        request: Request,
        session: Option<Arc<Session<Film>>>,
        terms: Terms,
        token: u64,
        now_ns: u64,
    ) -> Self {
        let Terms { class, due, is_paced, reads_on } = terms;
        // What is sent without a promise leaves a session's memory to what is sent with one.
        let memory =
            session.as_ref().filter(|_| class != Class::APERIODIC).and_then(|session| session.memory());
        Self {
            head_bytes: response.body.bytes() - response.body_bytes,
            bytes: response.body.bytes(),
            reader: Reader::new(response.body, class, due, token)
                .in_runs()
                .reading_on(reads_on)
                .promised(memory),
            paced_from: is_paced.then_some(response.body_offset),
            played: session.as_ref().filter(|_| is_paced).map(|session| session.plays_from()),
            blocked: false,
            starved: None,
            keep_alive: response.keep_alive,
            session,
            class,
            taken_bytes: 0,
            started_ns: now_ns,
            status: response.status,
            request,
        }
    }

    /// So much of the reader's chunks was taken by the client.
    pub(crate) fn taken(&mut self, bytes: u64, now_ns: u64) {
        self.reader.advance(bytes);
        self.arrived(bytes, now_ns);
    }

    /// So much was taken by the client of what the reader has let go before, when it was sealed.
    pub(crate) fn arrived(&mut self, bytes: u64, now_ns: u64) {
        self.taken_bytes += bytes;
        if let Some(session) = &self.session {
            session.sent(bytes, now_ns);
        }
    }

    /// Where in its film the client is, if the schedule follows that.
    pub(crate) fn paced_offset(&self) -> Option<u64> {
        Some(self.paced_from? + self.body_bytes_taken())
    }

    /// Has the session's schedule and the promises follow the client, who is at `offset` of the film now. What cannot be promised again
    /// goes on as well as it can: its head is out, so nobody can be told any more. So does what the client does not play from any more.
    pub(crate) fn follow(&mut self, desk: &TermsDesk<'_>, offset: u64, counters: &DataCounters) {
        let Some(session) = &self.session else { return };
        let is_played = self.played.as_ref().is_none_or(PlayedBy::is_played);
        let terms = is_played.then(|| desk.paced(session, self.paced_from.unwrap_or(offset), offset));
        let terms = match terms {
            Some(Ok(terms)) => terms,
            Some(Err(refusal)) => {
                counters.not_admitted(&refusal);
                Terms::unhurried(Class::APERIODIC)
            }
            None => Terms::unhurried(Class::APERIODIC),
        };
        if terms.class != self.class && terms.class == Class::APERIODIC {
            counters.unpromised.fetch_add(1, Ordering::Relaxed);
        }
        self.class = terms.class;
        self.reader.set_terms(terms.class, terms.due);
    }

    /// Body bytes the client took.
    pub(crate) fn body_bytes_taken(&self) -> u64 {
        self.taken_bytes.saturating_sub(self.head_bytes)
    }

    pub(crate) fn into_record(self, client: SocketAddr, now_ns: u64) -> AccessRecord {
        AccessRecord {
            client,
            status: self.status,
            class: self.class,
            sent_bytes: self.body_bytes_taken(),
            took_ns: now_ns.saturating_sub(self.started_ns),
            complete: self.taken_bytes == self.bytes,
            method: self.request.method,
            path: self.request.path,
            range: self.request.range,
            user_agent: self.request.user_agent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_cache::{Due, Ramp};
    use reel_qos::DEADLINE_NONE_NS;
    use std::os::unix::net::UnixStream;

    const START_NS: u64 = 5_000;

    fn connection(state: State) -> Connection {
        let (socket, _) = UnixStream::pair().unwrap();
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let task = reel_rt::Agenda::default().add(TaskKind::Interactive, 0).unwrap();
        let mut connection = Connection::new(socket.into(), peer, task, false, START_NS);
        connection.state = state;
        connection
    }

    fn sending(blocked: bool) -> State {
        let request = Request::default();
        let response = Response::redirect(&request, "/");
        let sending = Sending::new(response, request, None, Terms::interactive(), 0, START_NS);
        State::Sending(Box::new(Sending { blocked, ..sending }))
    }

    #[test]
    fn every_wait_on_a_client_has_an_end() {
        for (state, limit_ns, which) in [
            (State::ShakingHands, HANDSHAKE_TIME_MAX_NS, TimeOut::Handshake),
            (State::Idle, IDLE_TIME_MAX_NS, TimeOut::Idle),
            (State::Heading, HEAD_TIME_MAX_NS, TimeOut::Head),
            (sending(true), STALL_TIME_MAX_NS, TimeOut::Stall),
            (State::Lingering(1), LINGER_TIME_MAX_NS, TimeOut::Linger),
        ] {
            let connection = connection(state);
            assert_eq!(connection.timed_out(0), None, "a clock that seems to go back");
            assert_eq!(connection.timed_out(START_NS + limit_ns), None, "{which:?}");
            assert_eq!(connection.timed_out(START_NS + limit_ns + 1), Some(which));
        }
    }

    #[test]
    fn the_client_is_not_blamed_for_our_own_time() {
        for state in [State::Opening(Box::default()), sending(false)] {
            assert_eq!(connection(state).timed_out(u64::MAX), None);
        }
    }

    #[test]
    fn the_head_is_not_counted_as_body() {
        let State::Sending(mut sending) = sending(false) else { unreachable!("just made") };
        sending.taken_bytes = sending.head_bytes - 1;
        assert_eq!(sending.body_bytes_taken(), 0);
        sending.taken_bytes = sending.head_bytes + 3;
        assert_eq!(sending.body_bytes_taken(), 3);
    }

    /// What was promised and is due soon goes first, the soonest before all; however many downloads came before it.
    #[test]
    fn the_core_goes_on_with_who_is_due_and_with_downloads_last() {
        const NOW_NS: u64 = 100_000_000_000;
        let sending = |due, class| {
            let request = Request::default();
            let terms = Terms { class, due, is_paced: false, reads_on: false };
            let response = Response::redirect(&request, "/");
            State::Sending(Box::new(Sending::new(response, request, None, terms, 0, NOW_NS)))
        };
        let promised = |ahead_ns| {
            let (due_ns, duration_ns) = (NOW_NS + ahead_ns, 4_000_000_000);
            sending(Due::Ramp(Ramp { due_ns, duration_ns, bytes: 1 << 20 }), Class::PERIODIC)
        };
        let download = || ("download", sending(Due::After(DEADLINE_NONE_NS), Class::APERIODIC));
        let mut came: Vec<(&str, State)> = (0..500).map(|_| download()).collect();
        came.push(("ahead", promised(30_000_000_000)));
        came.push(("less ahead", promised(SEND_CRITICAL_NS + 1)));
        came.push(("start", sending(Terms::begins().due, Class::PERIODIC)));
        came.push(("page", sending(Terms::interactive().due, Class::INTERACTIVE)));
        came.push(("request", State::Heading));
        came.push(("due", promised(SEND_CRITICAL_NS)));
        came.push(("due sooner", promised(100_000_000)));
        let mut agenda = reel_rt::Agenda::default();
        let mut names = std::collections::HashMap::new();
        for (name, state) in came {
            let task = agenda.add(TaskKind::Interactive, 0).unwrap();
            agenda.wait(task, 0);
            let (kind, critical_ns) = connection(state).urgency();
            agenda.set_kind(task, kind);
            agenda.wait(task, critical_ns);
            assert!(agenda.ready(task));
            names.insert(task, name);
        }
        let order = std::iter::from_fn(|| {
            let task = agenda.choose(NOW_NS).task?;
            agenda.remove(task);
            names.get(&task).copied()
        });
        let wanted =
            ["due sooner", "due", "start", "page", "request", "less ahead", "ahead", "download", "download"];
        assert_eq!(order.take(9).collect::<Vec<_>>(), wanted);
    }
}
