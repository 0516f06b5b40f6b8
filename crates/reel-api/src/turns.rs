//! A connection's turns on the uplink: its socket takes bytes only when the link has time for them.
//!
//! The stream lies directly on the socket. So it counts what the link carries: responses with their
//! heads, frames of HTTP/2, records of TLS.

use crate::limits::TURNS_WAIT_MAX;
use crate::path::{PathMeter, ShowsPath};
use reel_play::{MaySend, SendTerms, UplinkGate, UplinkSender, uplink_client};
use reel_rt::lock;
use reel_serve::LocalSocket;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

/// The uplink, as the control plane sends through it.
#[derive(Clone)]
pub struct ControlUplink {
    /// Whose turn it is.
    pub gate: Arc<UplinkGate>,
    /// The clock of all that send through the link.
    pub clock: fn() -> u64,
}

/// What the socket of a connection and its requests share. Clones are the same one.
#[derive(Clone)]
pub(super) struct Turns {
    state: Arc<Mutex<State>>,
    /// The socket, if its client is on this machine and no proxy has named another one.
    socket: Option<LocalSocket>,
}

struct State {
    /// Whose request is answered.
    client: IpAddr,
    /// Whose turn on the uplink the connection takes; `None` if it uses no link.
    uplink_client: Option<IpAddr>,
    /// For how long it has waited for its turns.
    waited: Duration,
    /// Since when it waits for this one.
    since: Option<Instant>,
}

/// A moment from which on a client has a limited time.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    at: Instant,
    waited: Duration,
}

/// A socket that sends in turns.
pub(super) struct TurnStream<S: ShowsPath> {
    socket: S,
    path: PathMeter,
    sender: UplinkSender,
    uplink: ControlUplink,
    turns: Turns,
}

impl Turns {
    /// Those of a connection from `peer`.
    pub(super) fn of(peer: IpAddr) -> Turns {
        let uplink_client = uplink_client(peer);
        let state = State { client: peer, uplink_client, waited: Duration::ZERO, since: None };
        Turns { state: Arc::new(Mutex::new(state)), socket: None }
    }

    /// The same of a connection through this socket, if both are of one client.
    pub(super) fn through(self, socket: Option<LocalSocket>) -> Turns {
        let is_own = self.client().to_canonical().is_loopback();
        Turns { socket: socket.filter(|_| is_own), ..self }
    }

    /// The socket, if its client is on this machine and no proxy has named another one.
    pub(super) fn socket(&self) -> Option<LocalSocket> {
        self.socket
    }

    /// Whose request is answered.
    pub(super) fn client(&self) -> IpAddr {
        lock(&self.state).client
    }

    /// A request names another client, from now on, whose turn on the uplink is that of
    /// `uplink_client`.
    pub(super) fn take_as(&self, client: IpAddr, uplink_client: Option<IpAddr>) {
        let mut state = lock(&self.state);
        (state.client, state.uplink_client) = (client, uplink_client);
    }

    fn uplink_client(&self) -> Option<IpAddr> {
        lock(&self.state).uplink_client
    }

    /// A client's time begins.
    pub(super) fn begin(&self) -> Begun {
        Begun { at: Instant::now(), waited: lock(&self.state).waited(Instant::now()) }
    }

    /// How much of its time the client has used: what passed, without what the connection waited
    /// for its turns.
    pub(super) fn used(&self, begun: Begun) -> Duration {
        let now = Instant::now();
        let waited = lock(&self.state).waited(now).saturating_sub(begun.waited);
        now.saturating_duration_since(begun.at).saturating_sub(waited.min(TURNS_WAIT_MAX))
    }

    /// Waits until a client that begins now has used this time.
    pub(super) async fn out_of(&self, time: Duration) {
        let begun = self.begin();
        loop {
            let left = time.saturating_sub(self.used(begun));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    fn waits(&self) {
        lock(&self.state).since.get_or_insert_with(Instant::now);
    }

    fn has_its_turn(&self) {
        let mut state = lock(&self.state);
        state.waited = state.waited(Instant::now());
        state.since = None;
    }
}

impl State {
    fn waited(&self, now: Instant) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

impl<S: ShowsPath> TurnStream<S> {
    pub(super) fn new(socket: S, uplink: &ControlUplink, turns: Turns) -> Self {
        Self {
            socket,
            path: PathMeter::default(),
            sender: uplink.gate.sender(),
            uplink: uplink.clone(),
            turns,
        }
    }

    /// How many of these bytes may be sent now; at least one.
    fn poll_turn(&mut self, context: &mut Context<'_>, bytes: usize) -> Poll<usize> {
        self.path.look(&self.socket, &self.turns, &self.uplink);
        let is_limited = self.uplink.gate.is_limited();
        if !is_limited && !self.sender.has_turn() {
            return Poll::Ready(bytes);
        }
        let client = self.turns.uplink_client().filter(|_| is_limited && bytes > 0);
        let Some(client) = client else {
            self.sender.forget_turn();
            self.turns.has_its_turn();
            return Poll::Ready(bytes);
        };
        let terms = SendTerms::interactive(client);
        match self.sender.may_send(bytes as u64, &terms, context.waker(), (self.uplink.clock)()) {
            MaySend::Bytes(granted) => {
                self.turns.has_its_turn();
                Poll::Ready(bytes.min(usize::try_from(granted).unwrap_or(usize::MAX)))
            }
            MaySend::Later { is_first } => {
                self.turns.waits();
                if is_first {
                    drop(tokio::spawn(collect(self.uplink.clone())));
                }
                Poll::Pending
            }
        }
    }

    /// What the socket did not take is given back.
    fn tell(&mut self, sent: &Poll<io::Result<usize>>) {
        let bytes = match sent {
            Poll::Ready(Ok(bytes)) => *bytes as u64,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        self.sender.sent(bytes);
    }
}

/// Gives all connections their turns, as long as one of them waits.
async fn collect(ControlUplink { gate, clock }: ControlUplink) {
    loop {
        let now_ns = clock();
        let Some(look_ns) = gate.collect(now_ns) else { return };
        sleep(Duration::from_nanos(look_ns.saturating_sub(now_ns))).await;
    }
}

impl<S: ShowsPath> Drop for TurnStream<S> {
    fn drop(&mut self) {
        self.path.end(&self.socket, &self.turns, &self.uplink);
    }
}

impl<S: AsyncRead + ShowsPath + Unpin> AsyncRead for TurnStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, out)
    }
}

impl<S: AsyncWrite + ShowsPath + Unpin> AsyncWrite for TurnStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let granted = ready!(this.poll_turn(context, bytes.len()));
        let sent = Pin::new(&mut this.socket).poll_write(context, &bytes[..granted]);
        this.tell(&sent);
        sent
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let granted = ready!(this.poll_turn(context, bytes));
        let socket = Pin::new(&mut this.socket);
        let sent = if granted == bytes {
            socket.poll_write_vectored(context, pieces)
        } else {
            socket.poll_write_vectored(context, &beginning(pieces, granted))
        };
        this.tell(&sent);
        sent
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// The first bytes of these pieces.
fn beginning<'a>(pieces: &'a [IoSlice<'_>], bytes: usize) -> Vec<IoSlice<'a>> {
    let cut = |left: &mut usize, piece: &'a IoSlice<'_>| {
        let taken = piece.len().min(*left);
        *left -= taken;
        (taken > 0).then(|| IoSlice::new(&piece[..taken]))
    };
    pieces.iter().scan(bytes, |left, piece| Some(cut(left, piece))).flatten().collect()
}
