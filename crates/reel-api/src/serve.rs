//! One connection of the control plane: with HTTP/1.1 one request, one response; with HTTP/2 many.

use crate::ControlPlane;
use crate::below::place;
use crate::limits::{
    HEAD_BYTES_MAX, HEAD_SECONDS_MAX, LINGER_BYTES_MAX, LINGER_SECONDS_MAX, RESPONSE_SECONDS_MAX,
    TOLD_FULL_TIME_MAX,
};
use crate::serve_http2::serve_http2;
use crate::sessions::ClientAddress;
use crate::tls_stream::TlsStream;
use crate::turns::{TurnStream, Turns};
use axum::response::IntoResponse;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reel_serve::{ForwardedFor, LocalSocket, Proxies, USER_FIELD, client_of};
use reel_tls::Protocol;
use std::io::{self, Cursor};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tower_service::Service;

/// Answers the request of one connection and closes it. `already_read` are the bytes the data plane
/// took from the socket before it saw that they were not for it: the request's head, and perhaps
/// the start of its body.
///
/// Ends after one response; every wait on the client has a limit, so the future always ends.
///
/// `peer` is the client of the connection. Requests may name another one, if it is a proxy.
///
/// With `tls`, `already_read` was opened with its keys; all other bytes are opened and sealed here.
pub async fn serve_connection(
    stream: TcpStream,
    tls: Option<Box<reel_tls::Connection>>,
    already_read: Vec<u8>,
    peer: IpAddr,
    control: ControlPlane,
) {
    let turns = Turns::of(peer).through(LocalSocket::of(&stream));
    match tls {
        None => {
            let (reader, writer) = stream.into_split();
            let writer = TurnStream::new(writer, control.uplink(), turns.clone());
            serve_http1(join(Cursor::new(already_read).chain(reader), writer), turns, control).await;
        }
        Some(tls) => {
            let protocol = tls.protocol();
            let stream = TurnStream::new(stream, control.uplink(), turns.clone());
            let stream = TlsStream::new(stream, tls, already_read);
            match protocol {
                Protocol::Http1 => serve_http1(stream, turns, control).await,
                Protocol::Http2 => serve_http2(stream, turns, control).await,
            }
        }
    }
}

/// Tells what answers a request who its client is, and returns it. The connection takes that
/// client's turns on the uplink from now on.
pub(super) fn name_client<B>(
    request: &mut hyper::Request<B>,
    peer: IpAddr,
    turns: &Turns,
    proxies: &Proxies,
) -> IpAddr {
    let fields = ["x-forwarded-for", "forwarded"].map(|name| joined(request.headers(), name));
    let [x_forwarded_for, forwarded] = [fields[0].as_deref(), fields[1].as_deref()];
    let said = ForwardedFor { x_forwarded_for, forwarded };
    let client = proxies.client(peer, said);
    let socket = turns.socket().filter(|_| !said.is_any());
    let mut users = request.headers().get_all(USER_FIELD).iter();
    // Several users are none.
    let user = users.next().filter(|_| users.next().is_none()).and_then(|user| user.to_str().ok());
    let asker = client_of(client, user, socket);
    request.extensions_mut().insert(ClientAddress(client));
    request.extensions_mut().insert(asker);
    turns.take_as(client, proxies.uplink_client(client));
    client
}

/// The fields of a name as one (RFC 9110, section 5.3).
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let values: Vec<_> = values.collect();
    (!values.is_empty()).then(|| values.join(","))
}

pub(super) async fn serve_http1<S>(io: S, turns: Turns, control: ControlPlane)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let peer = turns.client();
    let Some(slot) = control.take_slot(peer) else {
        return tracing::debug!("too many control connections are open; one more was closed");
    };
    // Held until the client has its answer, not only until the request is answered.
    let slot = Arc::new(slot);
    let held = Arc::clone(&slot);
    let io = TokioIo::new(io);
    let answered = Arc::new(Notify::new());
    let (router, answer_sent) = (control.router(), answered.clone());
    let named = turns.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let client = name_client(&mut request, peer, &named, &control.config().proxies);
        place(&mut request, peer, control.config());
        let granted = control.give_slot(&slot, client, request.uri().path());
        let (mut router, answer_sent) = (router.clone(), answer_sent.clone());
        // Boxed because taking the connection apart at its end needs a future that can be moved.
        Box::pin(async move {
            let response = match granted {
                Err(None) => return Err(io::Error::other("too many control connections are open")),
                Err(Some(problem)) => problem.into_response(),
                Ok(()) => match router.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
            };
            answer_sent.notify_one();
            Ok(response)
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_SECONDS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        // A client may close its side after the request and still wait for the answer.
        .half_close(true)
        .serve_connection(io, service);
    let taken_in_time = async {
        answered.notified().await;
        // One that is refused needs no longer than a round trip or two.
        let time = if held.refused().is_some() { TOLD_FULL_TIME_MAX } else { RESPONSE_SECONDS_MAX };
        turns.out_of(time).await;
    };
    tokio::select! {
        // Run to its end, the connection flushes and closes this side; `without_shutdown` may end
        // with bytes unsent.
        ended = &mut connection => if let Err(error) = ended {
            tracing::debug!(%error, "a control connection failed");
            // It was not answered, and has no place to wait in.
            if error.is_user() {
                return;
            }
        },
        () = taken_in_time => {
            tracing::debug!("a client took too long for its response");
            return;
        }
    }
    linger(connection.into_parts().io.into_inner()).await;
    drop(held);
}

/// Reads what the client still sends: closing a socket with unread bytes resets it, and the client
/// might lose the response it was sent.
async fn linger<S: AsyncRead + Unpin>(io: S) {
    let mut rest = io.take(LINGER_BYTES_MAX);
    let _ = timeout(LINGER_SECONDS_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
