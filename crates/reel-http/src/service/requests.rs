//! Requests: received, parsed, and passed to what answers them.

use super::HttpThread;
use super::playing::session_of;
use crate::connection::State;
use crate::limits::RECEIVE_BYTES;
use crate::peer::Headed;
use crate::request::{Head, Request};
use crate::response::Response;
use crate::route::{Route, is_health, is_of_dav};
use reel_play::DeliveryPolicy;
use reel_ring::Op;
use reel_serve::Serve;
use std::sync::Arc;

impl HttpThread {
    /// Waits for the next request without holding memory for it.
    pub(super) fn await_request(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.since_ns = serve.now_ns();
        connection.quiet(token);
        if !connection.input.is_empty() {
            connection.state = State::Heading;
            return self.begin(serve, token);
        }
        if serve.is_draining() {
            return self.linger(serve, token);
        }
        connection.state = State::Idle;
        connection.input = Vec::new();
        connection.in_ring = true;
        serve.core.ring.push(token, Op::AwaitReadable { socket: Arc::clone(&connection.socket) });
    }

    pub(super) fn receive(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let mut buffer = match &mut connection.secure {
            // Bytes that are discarded need not be decrypted.
            Some(secure) if !matches!(connection.state, State::Lingering(_)) => secure.tls.take_incoming(),
            _ => std::mem::take(&mut connection.input),
        };
        // An incomplete head is shorter than the longest possible head: there is always room for
        // more.
        buffer.reserve_exact(RECEIVE_BYTES.max(buffer.len()));
        connection.in_ring = true;
        serve.core.ring.push(token, Op::Receive { socket: Arc::clone(&connection.socket), buffer });
    }

    /// Parses what was received, decides what a request is for, and answers it or passes it on.
    pub(super) fn begin(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let parsed = match connection.peer.take_header(&mut connection.input) {
            Headed::Done => Head::parse(&connection.input),
            Headed::Partial => Head::Partial,
            Headed::Bad => Head::Bad(400, "the header of the PROXY protocol is not valid"),
        };
        if let Some(why) = connection.aside
            && !matches!(parsed, Head::Partial)
            && !matches!(&parsed, Head::Complete(request, _) if is_health(&request.path))
        {
            return self.refuse(serve, token, why);
        }
        let (mut request, head_bytes) = match parsed {
            Head::Partial => return self.receive(serve, token),
            Head::Bad(status, detail) => {
                connection.busy();
                connection.input.clear();
                let request = Request { method: "-".into(), path: "-".into(), ..Request::default() };
                let response = Response::problem(&request, status, detail, "");
                return self.respond_interactive(serve, token, request, response);
            }
            Head::Complete(request, head_bytes) => (*request, head_bytes),
        };
        request.keep_alive &= !serve.is_draining();
        let route = Route::of(&request.path);
        if route == Route::ControlPlane || is_of_dav(&request.path, &request.method) {
            return self.hand_over(serve, token);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.busy();
        connection.input.drain(..head_bytes);
        connection.peer.begin_request(&self.shared.http.proxies, request.forwarded_for.as_deref());
        connection.about = None;
        if request.has_body {
            request.keep_alive = false;
            let response = Response::problem(&request, 400, "media is read without a request body", "");
            return self.respond_interactive(serve, token, request, response);
        }
        let response = match request.method.as_str() {
            "GET" | "HEAD" => match route {
                Route::Session { key, file } => match session_of(serve, &key, &request) {
                    Some(session) => return self.play(serve, token, request, file, session),
                    None => match serve.parts().sessions.former(&key) {
                        Some(former) => return self.open(serve, token, request, former.title_id),
                        None => Response::ended(&request),
                    },
                },
                Route::Watch { title, .. } | Route::Download { title } | Route::Play { title } => {
                    return self.open(serve, token, request, title);
                }
                Route::NotFound | Route::ControlPlane => {
                    Response::problem(&request, 404, "there is nothing at this path", "")
                }
            },
            "OPTIONS" => Response::options(&request),
            _ => {
                let detail = "media can be read (GET, HEAD) and nothing else";
                Response::problem(&request, 405, detail, "Allow: GET, HEAD, OPTIONS\r\n")
            }
        };
        self.respond_interactive(serve, token, request, response);
    }

    /// Answers with something that belongs to no session, and that an interactive client waits for.
    pub(super) fn respond_interactive(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        request: Request,
        response: Response,
    ) {
        self.respond(serve, token, request, response, (None, DeliveryPolicy::interactive()));
    }
}
