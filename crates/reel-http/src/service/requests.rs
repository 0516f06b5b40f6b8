//! Requests: received, parsed, and passed to what answers them.

use super::{Then, Turn};
use crate::connection::State;
use crate::limits::RECEIVE_BYTES;
use crate::peer::Headed;
use crate::request::{Head, Request};
use crate::response::Response;
use crate::route::{Route, is_health, is_of_dav, stored_form};
use reel_library::Form as StoredForm;
use reel_play::DeliveryPolicy;
use reel_ring::Op;

impl Turn<'_, '_> {
    /// Waits for the next request without holding memory for it.
    pub(super) fn await_request(&mut self) -> Then {
        self.connection.since_ns = self.serve.now_ns();
        self.connection.quiet();
        if !self.connection.input.is_empty() {
            self.connection.state = State::Heading;
            return self.begin();
        }
        if self.serve.is_draining() {
            return self.linger();
        }
        self.connection.state = State::Idle;
        self.connection.input = Vec::new();
        self.push(|socket| Op::AwaitReadable { socket })
    }

    /// Parses what was received, decides what a request is for, and answers it or passes it on.
    pub(super) fn begin(&mut self) -> Then {
        let mut parsed = match self.connection.peer.take_header(&mut self.connection.input) {
            Headed::Done => Head::parse(&self.connection.input),
            Headed::Partial => Head::Partial,
            Headed::Bad => Head::Bad(400, "the header of the PROXY protocol is not valid"),
        };
        if let Head::Complete(request, _) = &mut parsed {
            request.enter(&self.own.shared.http.base_path);
        }
        if let Some(why) = self.connection.aside
            && !matches!(parsed, Head::Partial)
            && !matches!(&parsed, Head::Complete(request, _) if is_health(&request.path))
        {
            return self.refuse(why);
        }
        let (mut request, head_bytes) = match parsed {
            Head::Partial => return self.receive(),
            Head::Bad(status, detail) => {
                self.connection.busy();
                self.connection.input.clear();
                let request = Request { method: "-".into(), path: "-".into(), ..Request::default() };
                let response = Response::problem(&request, status, detail, "");
                return self.respond_interactive(request, response);
            }
            Head::Complete(request, head_bytes) => (*request, head_bytes),
        };
        request.keep_alive &= !self.serve.is_draining();
        let route = Route::of(&request.path);
        if route == Route::ControlPlane || is_of_dav(&request.path, &request.method) {
            return Then::HandsOver { is_health: is_health(&request.path) };
        }
        self.connection.busy();
        self.connection.input.drain(..head_bytes);
        self.connection.peer.begin_request(&self.own.shared.http.proxies, request.forwarded_for());
        if let Some(named) = request.user.as_deref().filter(|_| !request.forwarded_for().is_any()) {
            self.connection.peer.name_user(named, &self.connection.socket);
        }
        self.connection.about = None;
        if request.has_body {
            request.keep_alive = false;
            let response = Response::problem(&request, 400, "media is read without a request body", "");
            return self.respond_interactive(request, response);
        }
        let response = match request.method.as_str() {
            "GET" | "HEAD" => match route {
                Route::Session { key, file, title } => {
                    return self.begin_keyed(request, (key, file), title.as_deref());
                }
                Route::Watch { title, file } => return self.open(request, title, stored_form(file)),
                Route::Download { title } | Route::Play { title } => {
                    return self.open(request, title, StoredForm::Cmaf);
                }
                Route::Live { name } => return self.view(request, &name),
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
        self.respond_interactive(request, response)
    }

    /// Answers with something that belongs to no session, and that an interactive client waits for.
    pub(super) fn respond_interactive(&mut self, request: Request, response: Response) -> Then {
        self.respond(request, response, (None, DeliveryPolicy::interactive()))
    }

    /// Receives what comes next.
    pub(super) fn receive(&mut self) -> Then {
        let mut buffer = match &mut self.connection.secure {
            // Bytes that are discarded need not be decrypted.
            Some(secure) if !matches!(self.connection.state, State::Lingering(_)) => {
                secure.tls.take_incoming()
            }
            _ => std::mem::take(&mut self.connection.input),
        };
        // An incomplete head is shorter than the longest possible head: there is always room for
        // more.
        buffer.reserve_exact(RECEIVE_BYTES.max(buffer.len()));
        self.push(|socket| Op::Receive { socket, buffer })
    }
}
