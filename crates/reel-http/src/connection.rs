//! One client's connection: its state, and the time of the last change.

use crate::access_log::AccessRecord;
use crate::limits::{
    ASIDE_TIME_MAX_NS, HANDSHAKE_TIME_MAX_NS, HEAD_TIME_MAX_NS, IDLE_TIME_MAX_NS, LINGER_TIME_MAX_NS,
    SEND_CRITICAL_NS, STALL_TIME_MAX_NS,
};
use crate::live::Live;
use crate::peer::Peer;
use crate::request::Request;
use crate::secure::Secure;
use crate::service::Watched;
use crate::zero_copy::ZeroCopy;
use reel_cache::SessionKey;
use reel_play::{DeliveryId, DeliveryOrder, DeliveryReport, FlowMeter, NetworkPath};
use reel_rt::{TaskId, TaskKind};
use reel_serve::{Counted, NoPlace, OpenResult};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A connection and its state in the life of a request: `(ShakingHands ->) Idle -> Heading ->
/// (Opening -> Opened ->) Sending -> Idle`, and after the last response `Lingering`.
pub(crate) struct Connection {
    pub(crate) socket: Arc<OwnedFd>,
    /// Its token among the connections of its thread.
    pub(crate) token: u64,
    /// The connection is counted as open as long as this exists.
    counted: Counted,
    pub(crate) peer: Peer,
    /// The task that continues with the connection when something has arrived.
    pub(crate) task: TaskId,
    /// Its handshake is counted as under way as long as this exists.
    pub(crate) handshake: Option<Counted>,
    /// Set if the connection uses TLS.
    pub(crate) secure: Option<Box<Secure>>,
    /// Bytes that are received, decrypted and not yet used. Empty while a receive operation has the
    /// buffer.
    pub(crate) input: Vec<u8>,
    pub(crate) state: State,
    /// What its request works on. It stays until the next request.
    pub(crate) about: Option<About>,
    /// When `state` last changed, or the client last accepted or sent something.
    pub(crate) since_ns: u64,
    /// Why there is no place for it, if it is held aside: only its request for health is served.
    pub(crate) aside: Option<NoPlace>,
    /// It ends after its response, because another connection has got its place.
    pub(crate) is_leaving: bool,
    /// An operation of this connection is in the ring. There is never more than one, except for
    /// zero-copy sends whose memory is still to be returned.
    pub(crate) in_ring: bool,
    /// How bytes are sent to the socket.
    pub(crate) zero_copy: ZeroCopy,
    /// What the socket shows of the path to the client.
    pub(crate) flow: FlowMeter,
}

/// The title of a request, and the session if it has one. If the request panics, they are to be
/// blamed.
pub(crate) struct About {
    pub(crate) title: String,
    pub(crate) session: Option<SessionKey>,
}

pub(crate) enum State {
    /// The TLS handshake is not finished.
    ShakingHands,
    /// Waits for the first byte of a request.
    Idle,
    /// Has the beginning of a request head.
    Heading,
    /// A title is being opened for this request.
    Opening(Box<Request>),
    /// The title was opened, or cannot be opened.
    Opened(Box<(Request, OpenResult)>),
    /// A response is on its way.
    Sending(Box<Sending>),
    /// Everything was sent and the server's side is closed. What the client still sends is
    /// discarded, up to this many bytes.
    Lingering(usize),
}

/// A response on its way.
pub(crate) struct Sending {
    /// The engine's delivery of this response.
    pub(crate) delivery: DeliveryId,
    /// The socket accepts nothing at the moment.
    pub(crate) blocked: bool,
    pub(crate) keep_alive: bool,
    pub(crate) started_ns: u64,
    pub(crate) status: u16,
    pub(crate) request: Request,
    /// Set if it is watched whether the client plays.
    pub(crate) watched: Option<Watched>,
    /// Set while a poured stream is sent and more of it may come.
    pub(crate) live: Option<Live>,
}

/// Why a connection is closed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeOut {
    /// A handshake did not end in time. The connection is closed without an answer.
    Handshake,
    /// No request arrived. The connection is closed without an answer.
    Idle,
    /// A request head did not end in time. The answer is 408.
    Head,
    /// The client accepted nothing. The response is cut off.
    Stall,
    /// The client did not close its side. The server closes the connection.
    Linger,
}

impl Connection {
    /// A new connection. `can_lend`: whether the ring can send without a copy.
    pub(crate) fn new(
        socket: OwnedFd,
        counted: Counted,
        peer: Peer,
        task: TaskId,
        can_lend: bool,
        now_ns: u64,
    ) -> Self {
        let socket = Arc::new(socket);
        Self {
            socket,
            token: 0,
            counted,
            peer,
            task,
            handshake: None,
            secure: None,
            input: Vec::new(),
            state: State::Idle,
            about: None,
            since_ns: now_ns,
            aside: None,
            is_leaving: false,
            in_ring: false,
            zero_copy: ZeroCopy::new(can_lend),
            flow: FlowMeter::default(),
        }
    }

    /// How responses reach the client. What stays on this machine uses no link.
    pub(crate) fn path(&self) -> NetworkPath {
        NetworkPath::of(self.peer.uplink_client(), self.flow.train_bytes())
    }

    /// The delivery of the current response.
    pub(crate) fn delivery(&self) -> Option<DeliveryId> {
        match &self.state {
            State::Sending(sending) => Some(sending.delivery),
            _ => None,
        }
    }

    /// The poured stream that is sent, while more of it may come.
    pub(crate) fn live(&self) -> Option<&Live> {
        match &self.state {
            State::Sending(sending) => sending.live.as_ref(),
            _ => None,
        }
    }

    /// Whether the client owes a request, or the rest of one.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.state, State::ShakingHands | State::Idle | State::Heading)
    }

    /// The client owes the next request from now on.
    pub(crate) fn quiet(&self) {
        self.counted.quiet(self.token, self.since_ns);
    }

    /// The head of a request has arrived.
    pub(crate) fn busy(&self) {
        self.counted.busy();
    }

    /// The first bytes of a request have arrived.
    pub(crate) fn begin_head(&mut self, now_ns: u64) {
        if matches!(self.state, State::Idle) {
            self.state = State::Heading;
            self.since_ns = now_ns;
        }
    }

    /// Whether the client has closed the connection, or its side of it: no client of media closes
    /// one side before it has its response.
    pub(crate) fn has_left(&self) -> bool {
        let mut look = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut look, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|events| events > 0)
    }

    /// The time limit that this connection has exceeded, if any.
    pub(crate) fn timed_out(&self, now_ns: u64) -> Option<TimeOut> {
        let (limit_ns, which) = match &self.state {
            State::ShakingHands => (HANDSHAKE_TIME_MAX_NS, TimeOut::Handshake),
            State::Idle => (IDLE_TIME_MAX_NS, TimeOut::Idle),
            State::Heading => (HEAD_TIME_MAX_NS, TimeOut::Head),
            State::Opening(_) | State::Opened(_) => return None,
            // While the client waits for the server, the client's time limit does not run.
            State::Sending(sending) if !sending.blocked => return None,
            State::Sending(_) => (STALL_TIME_MAX_NS, TimeOut::Stall),
            State::Lingering(_) => (LINGER_TIME_MAX_NS, TimeOut::Linger),
        };
        let limit_ns = if self.aside.is_some() { limit_ns.min(ASIDE_TIME_MAX_NS) } else { limit_ns };
        (now_ns.saturating_sub(self.since_ns) > limit_ns).then_some(which)
    }
}

/// The kind of task that a connection is for its thread, and the time from which it is critical.
///
/// `order` is that of its delivery. A connection without a delivery reads a request or shakes
/// hands: a client waits for it.
pub(crate) fn task_kind(order: Option<DeliveryOrder>) -> (TaskKind, u64) {
    match order {
        Some(DeliveryOrder::Due(due_ns)) => {
            (TaskKind::Deadline { delay_ns: SEND_CRITICAL_NS }, due_ns.saturating_sub(SEND_CRITICAL_NS))
        }
        Some(DeliveryOrder::Interactive) | None => (TaskKind::Interactive, 0),
        Some(DeliveryOrder::Background) => (TaskKind::Background, 0),
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
    use reel_serve::{OpenConnections, PlaceShares, Proxies};
    use std::os::unix::net::UnixStream;

    const START_NS: u64 = 5_000;

    fn connection(state: State) -> Connection {
        let (socket, _) = UnixStream::pair().unwrap();
        let peer = Peer::new(SocketAddr::from(([127, 0, 0, 1], 1)), &Proxies::default());
        let task = reel_rt::Agenda::default().add(TaskKind::Interactive, 0).unwrap();
        let counted = OpenConnections::new(1, 1, PlaceShares::default()).place(None).expect("there is room");
        let mut connection = Connection::new(socket.into(), counted, peer, task, false, START_NS);
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
            watched: None,
            live: None,
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
            assert_eq!(connection.timed_out(0), None, "a clock that goes back");
            assert_eq!(connection.timed_out(START_NS + limit_ns), None, "{which:?}");
            assert_eq!(connection.timed_out(START_NS + limit_ns + 1), Some(which));
        }
    }

    #[test]
    fn a_connection_that_is_held_aside_has_little_time() {
        for state in [State::ShakingHands, State::Idle, State::Heading] {
            let mut connection = connection(state);
            connection.aside = Some(NoPlace::Full);
            assert_eq!(connection.timed_out(START_NS + ASIDE_TIME_MAX_NS), None);
            assert!(connection.timed_out(START_NS + ASIDE_TIME_MAX_NS + 1).is_some());
        }
    }

    #[test]
    fn the_time_limit_of_a_client_does_not_run_while_the_server_is_late() {
        for state in [State::Opening(Box::default()), sending(false)] {
            assert_eq!(connection(state).timed_out(u64::MAX), None);
        }
    }

    /// Reserved work that is due soon comes first, in order of deadlines, even if many downloads
    /// were ready before it.
    #[test]
    fn the_thread_continues_with_due_work_first_and_with_downloads_last() {
        const NOW_NS: u64 = 100_000_000_000;
        let due = |ahead_ns| Some(DeliveryOrder::Due(NOW_NS + ahead_ns));
        let mut tasks = vec![("download", Some(DeliveryOrder::Background)); 500];
        tasks.push(("ahead", due(30_000_000_000)));
        tasks.push(("less ahead", due(SEND_CRITICAL_NS + 1)));
        tasks.push(("start", Some(DeliveryOrder::Interactive)));
        tasks.push(("page", Some(DeliveryOrder::Interactive)));
        tasks.push(("request", None));
        tasks.push(("due", due(SEND_CRITICAL_NS)));
        tasks.push(("due sooner", due(100_000_000)));
        let mut agenda = reel_rt::Agenda::default();
        let mut names = std::collections::HashMap::new();
        for (name, order) in tasks {
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
