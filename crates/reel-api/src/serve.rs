//! One connection of the control plane: with HTTP/1.1 one request, one response; with HTTP/2 many.

use crate::ControlPlane;
use crate::limits::{
    HEAD_BYTES_MAX, HEAD_SECONDS_MAX, LINGER_BYTES_MAX, LINGER_SECONDS_MAX, RESPONSE_SECONDS_MAX,
};
use crate::problem::Problem;
use crate::serve_http2::serve_http2;
use crate::sessions::Client;
use crate::tls_stream::TlsStream;
use axum::response::IntoResponse;
use hyper::Uri;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reel_tls::Protocol;
use std::borrow::Cow;
use std::convert::Infallible;
use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tower_service::Service;

/// Answers the request of one connection and closes it. `already_read` are the bytes the data plane
/// took from the socket before it saw that they were not for it: the request's head, and perhaps
/// the start of its body.
///
/// Ends after one response; every wait on the client has a limit, so the future always ends.
///
/// With `tls`, `already_read` was opened with its keys; all other bytes are opened and sealed here.
pub async fn serve_connection(
    stream: TcpStream,
    tls: Option<Box<reel_tls::Connection>>,
    already_read: Vec<u8>,
    control: ControlPlane,
) {
    // A client that has disconnected has no address, and needs no answer.
    let Ok(peer) = stream.peer_addr() else { return };
    match tls {
        None => {
            let (reader, writer) = stream.into_split();
            serve_http1(join(Cursor::new(already_read).chain(reader), writer), peer.ip(), control).await;
        }
        Some(tls) => {
            let protocol = tls.protocol();
            let stream = TlsStream::new(stream, tls, already_read);
            match protocol {
                Protocol::Http1 => serve_http1(stream, peer.ip(), control).await,
                Protocol::Http2 => serve_http2(stream, peer.ip(), control).await,
            }
        }
    }
}

/// Brings the path of a request into its normal form, so that equal paths get equal answers.
pub(super) fn normalise<B>(request: &mut hyper::Request<B>) {
    let Cow::Owned(path) = reel_serve::normal_path(request.uri().path()) else { return };
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = request.uri().clone().into_parts();
    // What was a path without an encoded character is one with it decoded.
    parts.path_and_query = target.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

pub(super) async fn serve_http1<S>(io: S, peer: IpAddr, control: ControlPlane)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(slot) = control.take_slot() else {
        return tracing::debug!("too many control connections are open; one more was closed");
    };
    let io = TokioIo::new(io);
    let answered = Arc::new(Notify::new());
    let (router, answer_sent) = (control.router(), answered.clone());
    let full = slot.is_full;
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Client(peer));
        normalise(&mut request);
        let (mut router, answer_sent) = (router.clone(), answer_sent.clone());
        // Boxed because taking the connection apart at its end needs a future that can be moved.
        Box::pin(async move {
            let response = if full {
                Problem::unavailable("too many control connections are open").retry_after_s(5).into_response()
            } else {
                let response: Result<_, Infallible> = router.call(request).await;
                match response {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            };
            answer_sent.notify_one();
            Ok::<_, Infallible>(response)
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
        sleep(RESPONSE_SECONDS_MAX).await;
    };
    tokio::select! {
        // Run to its end, the connection flushes and closes this side; `without_shutdown` may end
        // with bytes unsent.
        ended = &mut connection => if let Err(error) = ended {
            tracing::debug!(%error, "a control connection failed");
        },
        () = taken_in_time => {
            tracing::debug!("a client took too long for its response");
            return;
        }
    }
    linger(connection.into_parts().io.into_inner()).await;
}

/// Reads what the client still sends: closing a socket with unread bytes resets it, and the client
/// might lose the response it was sent.
async fn linger<S: AsyncRead + Unpin>(io: S) {
    let mut rest = io.take(LINGER_BYTES_MAX);
    let _ = timeout(LINGER_SECONDS_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
