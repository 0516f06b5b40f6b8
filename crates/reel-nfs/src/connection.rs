//! One client's connection, and the replies that it waits for.

use crate::answer::Asking;
use crate::limits::{IDLE_TIME_MAX_NS, RECORD_TIME_MAX_NS, STALL_TIME_MAX_NS};
use crate::nfs::{HoldCall, ReadCall};
use crate::record::Records;
use reel_play::{DeliveryId, FlowMeter, FlowSample, NetworkPath};
use reel_ring::TcpStatus;
use reel_rt::TaskId;
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
    /// The reply of which a part was sent.
    pub(crate) current: Option<u64>,
    pub(crate) is_receiving: bool,
    pub(crate) is_sending: bool,
    /// The client takes nothing at the moment.
    pub(crate) is_blocked: bool,
    /// It ends after its replies, because another one has got its place.
    pub(crate) is_leaving: bool,
    /// When the client last sent or took something.
    pub(crate) since_ns: u64,
    flow: FlowMeter,
}

/// A reply that is owed.
pub(crate) struct Reply {
    /// The connection that it belongs to.
    pub(crate) connection: u64,
    /// The number of the call.
    pub(crate) xid: u32,
    pub(crate) asked: Asked,
    pub(crate) state: ReplyState,
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
            current: None,
            is_receiving: false,
            is_sending: false,
            is_blocked: false,
            is_leaving: false,
            since_ns: now_ns,
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
        self.counted.quiet(token, self.since_ns);
    }

    /// A call has arrived.
    pub(crate) fn busy(&self) {
        self.counted.busy();
    }

    /// Whether it has exceeded a time limit. While the client waits for the server, none counts.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        let limit_ns = match self.is_quiet() {
            true if self.records.is_within() => RECORD_TIME_MAX_NS,
            true => IDLE_TIME_MAX_NS,
            false if self.is_blocked => STALL_TIME_MAX_NS,
            false => return false,
        };
        now_ns.saturating_sub(self.since_ns) > limit_ns
    }
}
