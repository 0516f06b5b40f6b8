//! One client's connection: what it is doing, and since when.

use crate::access_log::AccessRecord;
use crate::limits::{
    HANDSHAKE_TIME_MAX_NS, HEAD_TIME_MAX_NS, IDLE_TIME_MAX_NS, LINGER_TIME_MAX_NS, SEND_CRITICAL_NS,
    STALL_TIME_MAX_NS,
};
use crate::opening::OpenResult;
use crate::request::Request;
use crate::secure::Secure;
use crate::zero_copy::ZeroCopy;
use reel_play::{DeliveryId, DeliveryReport, Order};
use reel_rt::{TaskId, TaskKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A connection and its place in the life of a request: `(ShakingHands ->) Idle -> Heading ->
/// (Opening -> Opened ->) Sending -> Idle`, and after the last response `Lingering`.
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
    /// An operation of this connection is in the ring. There is never more than one, beside
    /// zero-copy sends of which only the memory is still to come back.
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
    /// Everything was sent and our side is closed; what the client still sends is thrown away, up
    /// to so many bytes.
    Lingering(usize),
}

/// A response on its way.
pub(crate) struct Sending {
    /// What the engine knows of it.
    pub(crate) delivery: DeliveryId,
    /// The socket takes nothing at the moment.
    pub(crate) blocked: bool,
    pub(crate) keep_alive: bool,
    pub(crate) started_ns: u64,
    pub(crate) status: u16,
    pub(crate) request: Request,
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

    /// The delivery of the response that is under way.
    pub(crate) fn delivery(&self) -> Option<DeliveryId> {
        match &self.state {
            State::Sending(sending) => Some(sending.delivery),
            _ => None,
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

/// The kind of task that a connection is for its thread, and from when on it is critical. `order`
/// is that of its delivery; without one it reads a request or shakes hands, which a client waits
/// for.
pub(crate) fn task_kind(order: Option<Order>) -> (TaskKind, u64) {
    match order {
        Some(Order::Due(due_ns)) => {
            (TaskKind::Deadline { delay_ns: SEND_CRITICAL_NS }, due_ns.saturating_sub(SEND_CRITICAL_NS))
        }
        Some(Order::Interactive) | None => (TaskKind::Interactive, 0),
        Some(Order::Background) => (TaskKind::Background, 0),
    }
}

impl Sending {
    pub(crate) fn into_record(self, report: DeliveryReport, client: SocketAddr, now_ns: u64) -> AccessRecord {
        AccessRecord {
            client,
            status: self.status,
            class: report.class,
            sent_bytes: report.media_bytes,
            took_ns: now_ns.saturating_sub(self.started_ns),
            complete: report.is_complete,
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
        State::Sending(Box::new(Sending {
            delivery: DeliveryId::default(),
            blocked,
            keep_alive: true,
            started_ns: START_NS,
            status: 200,
            request: Request::default(),
        }))
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

    /// What is reserved and due soon goes first, the soonest before all; however many downloads
    /// came before it.
    #[test]
    fn the_thread_goes_on_with_what_is_due_and_with_downloads_last() {
        const NOW_NS: u64 = 100_000_000_000;
        let due = |ahead_ns| Some(Order::Due(NOW_NS + ahead_ns));
        let mut came = vec![("download", Some(Order::Background)); 500];
        came.push(("ahead", due(30_000_000_000)));
        came.push(("less ahead", due(SEND_CRITICAL_NS + 1)));
        came.push(("start", Some(Order::Interactive)));
        came.push(("page", Some(Order::Interactive)));
        came.push(("request", None));
        came.push(("due", due(SEND_CRITICAL_NS)));
        came.push(("due sooner", due(100_000_000)));
        let mut agenda = reel_rt::Agenda::default();
        let mut names = std::collections::HashMap::new();
        for (name, order) in came {
            let task = agenda.add(TaskKind::Interactive, 0).unwrap();
            agenda.wait(task, 0);
            let (kind, critical_ns) = task_kind(order);
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
