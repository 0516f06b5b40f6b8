//! An example of a front end: a client sends the name of a title and a line feed, and gets the
//! title as one file, or a line that says why not. Then the connection is closed.
//!
//! Three lines are for tests. The thread panics on a title, or outside of any connection. Or a
//! title loses its room between the opening of its session and the request of its bytes.

use crate::serving::capacities;
use reel_admit::{OpenRefused, SessionClient};
use reel_play::{
    DeliveryId, Form, MediaRequest, NetworkPath, NewDelivery, Playable, PlayableTitle, Readiness,
    SessionRefused, Slots,
};
use reel_qos::Class;
use reel_ring::{Done, Op};
use reel_serve::{Accepted, Counted, NoPlace, OpenResult, OpenedSession, Protocol, Refusal, Serve, Step};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The longest name, with its line feed.
pub(crate) const LINE_BYTES_MAX: usize = 80;

/// A line that begins like this makes the thread panic on the title that follows.
pub(crate) const PANIC_ON: &str = "panic on ";
/// With a line that begins like this, the room of the title that follows is lost, as when a link
/// fails.
pub(crate) const WITHOUT_ROOM: &str = "without room ";
/// This line makes the thread panic in a timer.
pub(crate) const PANIC_OF_THE_THREAD: &str = "panic";

/// The state of one thread.
#[derive(Default)]
pub(crate) struct Lines {
    connections: Slots<Connection>,
}

struct Connection {
    socket: Arc<OwnedFd>,
    /// What it is sent, in a session that ends with the connection.
    delivery: Option<(DeliveryId, OpenedSession)>,
    /// An operation is in the ring.
    in_ring: bool,
    title: Option<String>,
    loses_room: bool,
    _counted: Counted,
}

impl Lines {
    fn receive(&mut self, serve: &mut Serve<'_>, token: u64, line: Vec<u8>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let mut buffer = line;
        buffer.reserve_exact(LINE_BYTES_MAX - buffer.len());
        connection.in_ring = true;
        serve.core.ring.push(token, Op::Receive { socket: Arc::clone(&connection.socket), buffer });
    }

    fn received(&mut self, serve: &mut Serve<'_>, token: u64, line: Vec<u8>) {
        match line.strip_suffix(b"\n").map(String::from_utf8_lossy) {
            Some(line) if line == PANIC_OF_THE_THREAD => serve.core.at(serve.now_ns(), 0),
            Some(title) => {
                self.panic_on_purpose(token, &title);
                let title = self.without_room(token, &title).to_owned();
                if let Err(refusal) = serve.open_title(token, title) {
                    self.refuse(token, &refusal);
                }
            }
            None if line.len() < LINE_BYTES_MAX => self.receive(serve, token, line),
            None => self.close(serve, token),
        }
    }

    /// As a defect would, with the connection half changed.
    fn panic_on_purpose(&mut self, token: u64, line: &str) {
        let Some(title) = line.strip_prefix(PANIC_ON) else { return };
        if let Some(connection) = self.connections.get_mut(token) {
            connection.title = Some(title.to_owned());
        }
        panic!("on purpose");
    }

    fn without_room<'a>(&mut self, token: u64, line: &'a str) -> &'a str {
        let Some(title) = line.strip_prefix(WITHOUT_ROOM) else { return line };
        if let Some(connection) = self.connections.get_mut(token) {
            connection.loses_room = true;
        }
        title
    }

    fn begin(&mut self, serve: &mut Serve<'_>, token: u64, title: Arc<PlayableTitle>) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get_mut(token) else { return Ok(()) };
        let Some(file) = title.file() else {
            self.close(serve, token);
            return Ok(());
        };
        let (body, id) = (file.body.clone(), title.title().record().id.clone());
        let client = SessionClient::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        let now_ns = serve.now_ns();
        let session = serve.opener().session(&id, title, Form::File, client, now_ns)?;
        if connection.loses_room {
            let sessions = &serve.parts().sessions;
            sessions.pause(&session);
            sessions.admission().set_capacities(capacities(0));
        }
        let media = MediaRequest::File(0..body.bytes());
        let refused = |error| SessionRefused::from(OpenRefused::from(error));
        let policy = serve.engine.policy(&session, &media, now_ns).map_err(refused)?;
        let delivery = NewDelivery {
            tag: token,
            session: Some(Arc::clone(&session)),
            policy,
            body,
            preamble_bytes: 0,
            file_offset: 0,
            in_runs: false,
            path: NetworkPath::Local,
        };
        connection.delivery = Some((serve.engine.open(delivery, now_ns), session));
        self.pump(serve, token);
        Ok(())
    }

    /// Sends what can be sent, or requests what is missing.
    fn pump(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let (Some((delivery, _)), false) = (&connection.delivery, connection.in_ring) else { return };
        let delivery = *delivery;
        match serve.engine.fill(delivery, serve.now_ns()) {
            None | Some(Readiness::Waiting) => {}
            Some(Readiness::Done) => self.close(serve, token),
            Some(Readiness::Ready) => {
                connection.in_ring = true;
                let (socket, chunks) = (Arc::clone(&connection.socket), serve.engine.chunks(delivery));
                serve.core.ring.push(token, Op::Send { socket, chunks });
            }
        }
    }

    fn refuse(&mut self, token: u64, refusal: &Refusal) {
        let Some(connection) = self.connections.remove(token) else { return };
        let _ = rustix::io::write(&connection.socket, format!("refused: {refusal}\n").as_bytes());
    }

    fn close(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.remove(token) else { return };
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        if let Some((delivery, _)) = connection.delivery {
            serve.engine.close(delivery);
        }
    }
}

impl Protocol for Lines {
    fn connected(&mut self, serve: &mut Serve<'_>, accepted: Accepted) {
        let Accepted { socket, counted, .. } = accepted;
        let connection = Connection {
            socket: Arc::new(socket),
            delivery: None,
            in_ring: false,
            title: None,
            loses_room: false,
            _counted: counted,
        };
        let token = self.connections.insert(connection);
        self.receive(serve, token, Vec::new());
    }

    fn turned_away(&mut self, _: &mut Serve<'_>, _: OwnedFd, _: usize, _: NoPlace) {}

    fn opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult) {
        if let Err(refusal) = result.and_then(|title| self.begin(serve, tag, title)) {
            self.refuse(tag, &refusal);
        }
    }

    fn done(&mut self, serve: &mut Serve<'_>, done: Done) {
        let Some(connection) = self.connections.get_mut(done.token) else { return };
        connection.in_ring = false;
        match (done.op, done.result, &connection.delivery) {
            (Op::Receive { buffer, .. }, Ok(1..), _) => self.received(serve, done.token, buffer),
            (Op::Send { chunks, .. }, Ok(bytes), Some((delivery, _))) => {
                drop(chunks);
                serve.engine.taken(*delivery, bytes as u64, serve.core.now_ns());
                self.pump(serve, done.token);
            }
            (Op::Send { socket, .. }, Err(error), Some(_)) if error.kind() == ErrorKind::WouldBlock => {
                connection.in_ring = true;
                serve.core.ring.push(done.token, Op::AwaitWritable { socket });
            }
            (Op::AwaitWritable { .. }, Ok(_), _) => self.pump(serve, done.token),
            _ => self.close(serve, done.token),
        }
    }

    fn timer(&mut self, _: &mut Serve<'_>, _: u64) {
        panic!("on purpose, outside of any connection");
    }

    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.pump(serve, tag);
    }

    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.close(serve, tag);
    }

    fn drain(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(|connection| connection.delivery.is_none()) {
            self.close(serve, token);
        }
    }

    fn has_drained(&self) -> bool {
        self.connections.is_empty()
    }

    fn title_of(&self, step: Step) -> Option<String> {
        let Step::Done(token) = step else { return None };
        self.connections.get(token)?.title.clone()
    }

    fn end(&mut self, serve: &mut Serve<'_>, step: Step) -> bool {
        let Step::Done(token) = step else { return false };
        self.close(serve, token);
        serve.engine.close_tagged(token);
        true
    }

    fn cut_off_all(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(|_| true) {
            self.close(serve, token);
        }
    }
}
