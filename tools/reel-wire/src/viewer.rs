//! One simulated viewer: its visit, over connections of its own. No clock and no sockets; the sink
//! brings what arrives.

use super::limits::SILENCE_NS;
use super::network::Line;
use super::response::Response;
use super::script::{PlaybackCounts, Request, Script, Step, Visit};
use super::segment::{Packet, Segment, flag};
use super::tcp::{Connection, TcpOptions, TcpState};
use anyhow::{Result, anyhow};
use std::net::Ipv4Addr;

/// Ports of a viewer's connections: odd ones where all bytes are handed over.
const PORT_FIRST: u16 = 20_000;
const PORT_LAST: u16 = 60_000;

/// Packets of a viewer, with the ports they come from.
pub(super) type Sent = Vec<(u16, Packet)>;

/// What came of a viewer.
#[derive(Debug, Default)]
pub(super) struct ViewerOutcome {
    pub(super) body_bytes: u64,
    pub(super) responses: u64,
    pub(super) connections: u64,
    /// Payload that was already there.
    pub(super) repeated_bytes: u64,
    pub(super) kept: Vec<(Request, Vec<u8>)>,
    pub(super) failure: Option<String>,
    pub(super) shown: PlaybackCounts,
    pub(super) done: bool,
}

/// A viewer.
#[derive(Debug)]
pub(super) struct Viewer {
    address: Ipv4Addr,
    host: String,
    tcp_options: TcpOptions,
    line: Line,
    script: Script,
    port: u16,
    current: Option<Exchange>,
    /// A connection that is being closed.
    leaving: Option<(u16, Connection)>,
    wait_until_ns: Option<u64>,
    heard_ns: u64,
    came: ViewerOutcome,
    packets: Vec<Packet>,
}

/// A connection with what is asked on it.
#[derive(Debug)]
struct Exchange {
    port: u16,
    connection: Connection,
    asked: Option<(Request, Response)>,
    counted: u64,
}

impl Viewer {
    pub(super) fn new(
        address: Ipv4Addr,
        host: &str,
        visit: Visit,
        tcp_options: TcpOptions,
        start_ns: u64,
        line: Line,
    ) -> Result<Self> {
        Ok(Self {
            address,
            host: host.to_owned(),
            tcp_options,
            line,
            script: Script::new(visit, start_ns)?,
            port: PORT_FIRST,
            current: None,
            leaving: None,
            wait_until_ns: None,
            heard_ns: 0,
            came: ViewerOutcome::default(),
            packets: Vec::new(),
        })
    }

    /// Carries what left the server for this viewer: what arrives, and when.
    pub(super) fn carry(&mut self, now_ns: u64, segment: Segment, arrives: impl FnMut(u64, Segment)) {
        self.line.carry(now_ns, segment, arrives);
    }

    /// The viewer comes.
    pub(super) fn begin(&mut self, now_ns: u64, out: &mut Sent) {
        self.heard_ns = now_ns;
        let went = self.proceed(now_ns, out);
        self.settle(now_ns, went, out);
    }

    /// A segment arrived for one of its ports; returns how many bytes of bodies it brought.
    pub(super) fn arrived(&mut self, now_ns: u64, port: u16, segment: &Segment, out: &mut Sent) -> u64 {
        let before = self.came.body_bytes;
        self.heard_ns = now_ns;
        if self.current.as_ref().is_some_and(|exchange| exchange.port == port) {
            let took = self.take(now_ns, segment, out);
            let went = took.and_then(|()| self.proceed(now_ns, out));
            self.settle(now_ns, went, out);
        } else if let Some((_, connection)) = self.leaving.as_mut().filter(|leaving| leaving.0 == port) {
            connection.arrived(now_ns, segment, &mut self.packets);
            flush(&mut self.packets, port, out);
        } else if segment.has(flag::FIN) {
            // A connection that is long forgotten: its end is acknowledged, so that the server may
            // forget it, too.
            let acknowledged = segment.sequence.wrapping_add(segment.bytes + 1);
            let sequence = segment.acknowledged;
            let packet = Packet { flags: flag::ACK, sequence, acknowledged, ..Packet::default() };
            out.push((port, packet));
        }
        self.came.body_bytes - before
    }

    /// When `timer` is to be called next.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let current = self.current.as_ref().and_then(|exchange| exchange.connection.due_ns());
        let leaving = self.leaving.as_ref().and_then(|leaving| leaving.1.due_ns());
        let asked = self.current.as_ref().is_some_and(|exchange| exchange.asked.is_some());
        let silent = asked.then_some(self.heard_ns + SILENCE_NS);
        [current, leaving, silent, self.wait_until_ns].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(super) fn timer(&mut self, now_ns: u64, out: &mut Sent) {
        if let Some((port, connection)) = &mut self.leaving {
            if connection.due_ns().is_some_and(|due| due <= now_ns) {
                connection.timer(now_ns, &mut self.packets);
            }
            flush(&mut self.packets, *port, out);
        }
        if let Some(exchange) = &mut self.current {
            if exchange.connection.due_ns().is_some_and(|due| due <= now_ns) {
                exchange.connection.timer(now_ns, &mut self.packets);
            }
            flush(&mut self.packets, exchange.port, out);
            if exchange.asked.is_some() && self.heard_ns + SILENCE_NS <= now_ns {
                self.settle(now_ns, Err(anyhow!("the server was silent")), out);
                return;
            }
        }
        let went = self.proceed(now_ns, out);
        self.settle(now_ns, went, out);
    }

    /// The viewer is gone at once; the server shall not wait for it.
    pub(super) fn abandon(&mut self, out: &mut Sent) {
        let current = self.current.take().map(|exchange| (exchange.port, exchange.connection));
        for (port, mut connection) in current.into_iter().chain(self.leaving.take()) {
            connection.abandon(&mut self.packets);
            flush(&mut self.packets, port, out);
        }
    }

    /// Whether the viewer's next packet is lost on the way.
    pub(super) fn loses(&mut self) -> bool {
        self.line.lost()
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(super) fn is_done(&self) -> bool {
        self.came.done
    }

    /// What came of it until now.
    pub(super) fn finish(mut self, now_ns: u64) -> ViewerOutcome {
        if self.came.failure.is_none() {
            self.script.ended(now_ns);
        }
        self.came.shown = self.script.shown;
        self.came
    }

    fn take(&mut self, now_ns: u64, segment: &Segment, out: &mut Sent) -> Result<()> {
        let Some(exchange) = &mut self.current else { return Ok(()) };
        let before = exchange.connection.received();
        if !segment.text.is_empty()
            && let Some((_, response)) = &mut exchange.asked
        {
            response.text(exchange.connection.place(segment.sequence), &segment.text)?;
        }
        exchange.connection.arrived(now_ns, segment, &mut self.packets);
        let received = exchange.connection.received();
        if segment.bytes > 0
            && received == before
            && exchange.connection.place(segment.sequence) < before as i64
        {
            self.came.repeated_bytes += u64::from(segment.bytes);
        }
        flush(&mut self.packets, exchange.port, out);
        let Some((want, response)) = &mut exchange.asked else { return Ok(()) };
        let whole = response.whole(received)?;
        let bytes = whole.as_ref().map_or_else(|| response.body_bytes(received), |a| a.head.body_bytes);
        self.came.body_bytes += bytes - exchange.counted;
        exchange.counted = bytes;
        let Some(answer) = whole else { return Ok(()) };
        self.came.responses += 1;
        self.script.answered(now_ns, &answer)?;
        let want = want.clone();
        exchange.asked = None;
        if let Some(body) = answer.body.filter(|_| want.keep) {
            self.came.kept.push((want, body));
        }
        if answer.head.closes {
            self.leave(now_ns, out);
        }
        Ok(())
    }

    /// Asks for the next thing, if it is time.
    fn proceed(&mut self, now_ns: u64, out: &mut Sent) -> Result<()> {
        // A viewer that was refused does not ask again while its connection closes.
        if self.came.done {
            return Ok(());
        }
        if let Some(exchange) = &self.current {
            match exchange.connection.state() {
                TcpState::Broken(why) if exchange.asked.is_some() => return Err(anyhow!(why)),
                TcpState::Broken(_) | TcpState::Closed => self.current = None,
                _ if exchange.connection.server_ended() => {
                    // Servers end connections that were used often enough. What was not begun is
                    // asked for again.
                    if exchange
                        .asked
                        .as_ref()
                        .is_some_and(|asked| asked.1.begun(exchange.connection.received()))
                    {
                        return Err(anyhow!("the server ended the connection within a response"));
                    }
                    self.leave(now_ns, out);
                }
                _ => {}
            }
        }
        self.wait_until_ns = None;
        if self.current.as_ref().is_some_and(|exchange| exchange.asked.is_some()) {
            return Ok(());
        }
        match self.script.step(now_ns)? {
            Step::Done => {
                self.came.done = true;
                self.leave(now_ns, out);
            }
            Step::WaitUntil(at_ns) => self.wait_until_ns = Some(at_ns),
            Step::Get(want) => self.ask(now_ns, want, out),
        }
        Ok(())
    }

    fn ask(&mut self, now_ns: u64, want: Request, out: &mut Sent) {
        if self.current.as_ref().is_some_and(|exchange| (exchange.port & 1 == 1) != want.keep) {
            self.leave(now_ns, out);
        }
        let text = request(&self.host, &want);
        let mut exchange = self.current.take().unwrap_or_else(|| {
            self.port = if self.port >= PORT_LAST { PORT_FIRST } else { self.port + 2 };
            self.came.connections += 1;
            let port = self.port | u16::from(want.keep);
            // A first number that differs from port to port, so that nothing old fits.
            let sequence = u32::from(self.address) ^ (u32::from(port) << 16);
            let connection = Connection::open(now_ns, sequence, self.tcp_options, &mut self.packets);
            Exchange { port, connection, asked: None, counted: 0 }
        });
        let response = Response::awaited(exchange.connection.received(), want.keep);
        exchange.counted = 0;
        exchange.connection.send(now_ns, text.as_bytes(), &mut self.packets);
        flush(&mut self.packets, exchange.port, out);
        exchange.asked = Some((want, response));
        self.current = Some(exchange);
    }

    fn leave(&mut self, now_ns: u64, out: &mut Sent) {
        let Some(mut exchange) = self.current.take() else { return };
        exchange.connection.close(now_ns, &mut self.packets);
        flush(&mut self.packets, exchange.port, out);
        self.leaving = Some((exchange.port, exchange.connection));
    }

    fn settle(&mut self, now_ns: u64, went: Result<()>, out: &mut Sent) {
        if let Err(error) = went {
            self.came.failure = Some(format!("{error:#}"));
            self.came.done = true;
            self.wait_until_ns = None;
            self.leave(now_ns, out);
        }
    }
}

fn flush(packets: &mut Vec<Packet>, port: u16, out: &mut Sent) {
    out.extend(packets.drain(..).map(|packet| (port, packet)));
}

/// A request as it is sent.
pub(super) fn request(host: &str, want: &Request) -> String {
    let range = match &want.range {
        Some(range) => format!("Range: bytes={}-{}\r\n", range.start, range.end.max(1) - 1),
        None => String::new(),
    };
    format!("GET {} HTTP/1.1\r\nHost: {host}\r\n{range}\r\n", want.target)
}

#[cfg(test)]
mod tests {
    use super::super::network::Link;
    use super::super::script::Pace;
    use super::*;
    use reel_testkit::Url;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A server's segment to the connection whose first packet was `syn`.
    fn answer(syn: &Packet, flags: u8, text: &[u8], taken: u32) -> Segment {
        let sequence = if flags & flag::SYN != 0 { 9 } else { 10 };
        let acknowledged = syn.sequence.wrapping_add(1 + taken);
        Segment {
            flags: flags | flag::ACK,
            sequence,
            acknowledged,
            bytes: text.len() as u32,
            text: text.to_vec(),
        }
    }

    #[test]
    fn a_viewer_that_is_refused_asks_no_more() {
        let playlist = Url::parse("http://wire/watch/film").expect("a url");
        let visit = Visit::Film { playlist, pace: Pace::Flat, begins_ns: 0, keep: false };
        let tcp_options = TcpOptions { window_bytes: 1 << 20, step_bytes: 64 << 10 };
        let line = Line::new(Link { round_trip_ns: 0, line_bps: None, loss: 0.0 }, 1, 0);
        let mut viewer =
            Viewer::new(Ipv4Addr::LOCALHOST, "wire", visit, tcp_options, 0, line).expect("a viewer");
        let mut out = Sent::new();
        viewer.begin(1, &mut out);
        let (port, syn) = out.remove(0);
        viewer.arrived(2, port, &answer(&syn, flag::SYN, b"", 0), &mut out);
        let asked: usize = out.drain(..).map(|(_, packet)| packet.payload.len()).sum();
        assert!(asked > 0);
        let refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        viewer.arrived(3, port, &answer(&syn, 0, refusal, asked as u32), &mut out);
        assert!(viewer.is_done());
        out.clear();
        // The server says nothing more, so the end of the connection is told repeatedly.
        for second in 1..60 {
            viewer.timer(second * SECOND_NS, &mut out);
        }
        assert!(
            out.iter().all(|(_, packet)| packet.payload.is_empty() && packet.flags & flag::SYN == 0),
            "{out:?}"
        );
        assert_eq!(viewer.finish(60 * SECOND_NS).connections, 1);
    }
}
