//! One client's connection, and the replies that it waits for.

use crate::answer::Asking;
use crate::limits::SEND_CRITICAL_NS;
use crate::nfs::{HoldCall, ReadCall};
use crate::record::{Records, TooLong};
use crate::times::Times;
use reel_play::{DeliveryId, DeliveryOrder, FlowMeter, FlowSample, NetworkPath};
use reel_ring::TcpStatus;
use reel_rt::{TaskId, TaskKind};
use reel_serve::Counted;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A connection. At most one operation receives and one sends at a time.
pub(crate) struct Connection {
    pub(crate) socket: Arc<OwnedFd>,
    /// The connection is counted as open as long as this exists.
    counted: Counted,
    pub(crate) client: IpAddr,
    pub(crate) asking: Asking,
    /// The task that continues with the connection when something has arrived.
    pub(crate) task: TaskId,
    /// What was received and not read yet.
    pub(crate) input: Vec<u8>,
    pub(crate) records: Records,
    /// The replies that are owed, in the order of the calls.
    pub(crate) replies: VecDeque<u64>,
    /// Those of calls that have waited for the listing that was read now.
    pub(crate) listed: VecDeque<u64>,
    /// The reply of which a part was sent.
    pub(crate) current: Option<u64>,
    pub(crate) is_receiving: bool,
    /// No more calls are read, because too much is owed to the client.
    pub(crate) is_held_back: bool,
    pub(crate) is_sending: bool,
    /// It ends after its replies, because another one has got its place.
    pub(crate) is_leaving: bool,
    pub(crate) times: Times,
    /// When the bytes of the newest read were due, if they are promised. The next ones are due
    /// later.
    pub(crate) due_ns: Option<u64>,
    flow: FlowMeter,
}

/// A reply that is owed.
pub(crate) struct Reply {
    /// The connection that it belongs to.
    pub(crate) connection: u64,
    /// The network of its client.
    pub(crate) network: IpAddr,
    /// The number of the call.
    pub(crate) xid: u32,
    pub(crate) asked: Asked,
    pub(crate) state: ReplyState,
    /// What is in memory for it, without bytes of titles.
    pub(crate) bytes: usize,
}

/// What a call needs of an open title.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Nothing,
    Read(ReadCall),
    Hold(HoldCall),
}

impl Asked {
    /// The id of the title.
    pub(crate) fn title(&self) -> Option<&str> {
        match self {
            Asked::Nothing => None,
            Asked::Read(call) => Some(&call.title.id),
            Asked::Hold(call) => Some(&call.title.id),
        }
    }
}

pub(crate) enum ReplyState {
    /// The call is answered by the next listing.
    AwaitsListing(Vec<u8>),
    /// A title is opened for it. The reply so far.
    AwaitsTitle(Vec<u8>),
    /// It is sent, or its bytes are read.
    Delivered(DeliveryId),
}

impl Connection {
    pub(crate) fn new(
        socket: OwnedFd,
        counted: Counted,
        client: IpAddr,
        asking: Asking,
        task: TaskId,
        now_ns: u64,
    ) -> Self {
        Self {
            socket: Arc::new(socket),
            counted,
            client,
            asking,
            task,
            input: Vec::new(),
            records: Records::default(),
            replies: VecDeque::new(),
            listed: VecDeque::new(),
            current: None,
            is_receiving: false,
            is_held_back: false,
            is_sending: false,
            is_leaving: false,
            times: Times::new(now_ns),
            due_ns: None,
            flow: FlowMeter::default(),
        }
    }

    /// How replies reach the client. What stays on this machine uses no link.
    pub(crate) fn path(&self) -> NetworkPath {
        NetworkPath::to(self.client, self.flow.train_bytes())
    }

    /// Takes what the socket shows of the path to the client.
    pub(crate) fn observe(&mut self, status: TcpStatus) -> Option<FlowSample> {
        self.flow.observe(status)
    }

    /// Whether the client owes a call, or the rest of one.
    pub(crate) fn is_quiet(&self) -> bool {
        self.replies.is_empty()
    }

    /// The client owes the next call from now on. `token` is that of this connection.
    pub(crate) fn quiet(&self, token: u64) {
        self.counted.quiet(token, self.times.since_ns());
    }

    /// A call has arrived.
    pub(crate) fn busy(&self) {
        self.counted.busy();
    }

    /// The kind of task that the connection is for its thread, and the time from which it is
    /// critical. `order` is that of the reply that is sent. Without one, the next call is as urgent
    /// as the newest read was.
    pub(crate) fn task_kind(&self, order: Option<DeliveryOrder>) -> (TaskKind, u64) {
        match order.or(self.due_ns.map(DeliveryOrder::Due)) {
            Some(DeliveryOrder::Due(due_ns)) => {
                (TaskKind::Deadline { delay_ns: SEND_CRITICAL_NS }, due_ns.saturating_sub(SEND_CRITICAL_NS))
            }
            Some(DeliveryOrder::Interactive) | None => (TaskKind::Interactive, 0),
            Some(DeliveryOrder::Background) => (TaskKind::Background, 0),
        }
    }

    /// Takes some of what was received, and a call if one is complete.
    ///
    /// # Errors
    /// As of [`Records::take`].
    pub(crate) fn take_record(&mut self, now_ns: u64) -> Result<Option<Vec<u8>>, TooLong> {
        let (taken, record) = self.records.take(&self.input)?;
        self.input.drain(..taken);
        self.times.read(self.records.announced_bytes(), now_ns);
        Ok(record)
    }

    /// The client has taken a whole reply.
    pub(crate) fn finish(&mut self, reply: u64, now_ns: u64) {
        self.current = None;
        self.replies.retain(|owed| *owed != reply);
        if self.is_quiet() {
            self.times.served(now_ns);
        }
    }

    /// Whether it has exceeded a time limit.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        self.times.is_overdue(self.is_quiet(), now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portmap::Told;
    use reel_rt::Agenda;
    use reel_serve::{OpenConnections, PlaceShares};
    use std::net::Ipv4Addr;

    const NOW_NS: u64 = 5_000_000_000_000;
    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    pub(crate) fn connection(agenda: &mut Agenda) -> Connection {
        let socket = std::net::UdpSocket::bind((CLIENT, 0)).expect("a socket").into();
        let open = OpenConnections::new(1, 1, PlaceShares::default());
        let counted = open.place(None).expect("a place");
        let task = agenda.add(TaskKind::Interactive, 0).expect("room");
        let told = Told { port: 1, mapper_port: None, server: CLIENT };
        Connection::new(socket, counted, CLIENT, Asking { is_allowed: true, told }, task, NOW_NS)
    }

    /// What a player asks for next comes before the lists of any number of other clients.
    #[test]
    fn the_next_read_of_a_player_comes_before_lists() {
        let mut agenda = Agenda::default();
        let [list, mut player, mut copy] = std::array::from_fn(|_| connection(&mut agenda));
        player.due_ns = Some(NOW_NS + SEND_CRITICAL_NS);
        copy.due_ns = Some(NOW_NS + 100 * SEND_CRITICAL_NS);
        for connection in [&list, &list, &copy, &player] {
            let (kind, critical_ns) = connection.task_kind(None);
            agenda.set_kind(connection.task, kind);
            agenda.wait(connection.task, critical_ns);
            agenda.ready(connection.task);
        }
        let order = [player.task, list.task, copy.task];
        for task in order {
            assert_eq!(agenda.choose(NOW_NS).task, Some(task));
            agenda.remove(task);
        }
        assert_eq!(player.task_kind(Some(DeliveryOrder::Interactive)).0, TaskKind::Interactive);
    }
}
