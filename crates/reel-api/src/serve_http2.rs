//! A connection of the control plane that speaks HTTP/2: pages and API over many requests at once,
//! and no media.
//!
//! Media is the data plane's, which speaks HTTP/1.1. A request for it is answered with
//! `HTTP_1_1_REQUIRED` (RFC 9113 section 7), upon which clients ask again over a connection with
//! HTTP/1.1, and browsers stay with that for the whole site.

use crate::below::place;
use crate::limits::{
    HTTP2_HEADERS_BYTES_MAX, HTTP2_IDLE_MAX, HTTP2_IDLE_WHEN_FULL_MAX, HTTP2_PING_EVERY, HTTP2_PONG_WITHIN,
    HTTP2_SEND_BYTES_MAX, HTTP2_STREAMS_MAX, HTTP2_WINDOW_BYTES, RESPONSE_SECONDS_MAX, TOLD_FULL_TIME_MAX,
};
use crate::problem::Problem;
use crate::serve::name_client;
use crate::slots::RequestPlace;
use crate::turns::{Begun, Turns};
use crate::{ControlPlane, ShutdownStage};
use axum::Router;
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::sleep;
use tower_service::Service;

type ResponseBody = TrackedBody<UnsyncBoxBody<Bytes, axum::Error>>;

/// Answers the requests of one connection until it is idle, its client leaves, or takes too long.
///
/// A connection beyond those that are served is answered once that there are too many, and then
/// closed: its client would get the same answer even when there is room again.
pub(super) async fn serve_http2<S>(io: S, turns: Turns, control: ControlPlane)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let peer = turns.client();
    let Some(slot) = control.take_slot(peer) else {
        return tracing::debug!("too many control connections are open; one more was closed");
    };
    let full = slot.refused().is_some();
    let activity = Activity::new(turns.clone());
    let answer_sent = Arc::new(Notify::new());
    let (router, seen, answered) = (control.router(), activity.clone(), answer_sent.clone());
    let (media, named) = (control.clone(), turns.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let client = name_client(&mut request, peer, &named, &media.config().proxies);
        if full {
            answered.notify_one();
        }
        place(&mut request, peer, media.config());
        let is_media = media.is_media(request.uri().path());
        let place = media.request_place(&slot, client, request.uri().path());
        answer(request, router.clone(), (is_media, place), seen.begin())
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(HTTP2_HEADERS_BYTES_MAX)
        .max_send_buf_size(HTTP2_SEND_BYTES_MAX)
        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .keep_alive_interval(HTTP2_PING_EVERY)
        .keep_alive_timeout(HTTP2_PONG_WITHIN);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut leaving = None;
    let mut out_of_time = pin!(turns.out_of(TOLD_FULL_TIME_MAX));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a control connection failed");
                }
                return;
            }
            () = sleep(LOOK_EVERY) => {}
            () = out_of_time.as_mut(), if full => return,
            () = answer_sent.notified(), if leaving.is_none() => {
                leaving = Some(turns.begin());
                connection.as_mut().graceful_shutdown();
            }
            // Requests that have arrived are answered; the client sends further ones elsewhere.
            () = control.entered(ShutdownStage::Draining), if leaving.is_none() => {
                leaving = Some(turns.begin());
                connection.as_mut().graceful_shutdown();
            }
        }
        let idle_max = if control.is_full() { HTTP2_IDLE_WHEN_FULL_MAX } else { HTTP2_IDLE_MAX };
        let verdict = activity.verdict(idle_max);
        match (verdict, leaving) {
            (Verdict::Stuck, _) => return tracing::debug!("a client took too long for its responses"),
            // A client that was asked to leave has the time of a response for it.
            (_, Some(begun)) if turns.used(begun) > RESPONSE_SECONDS_MAX => return,
            (Verdict::Idle, None) => {
                leaving = Some(turns.begin());
                connection.as_mut().graceful_shutdown();
            }
            _ => {}
        }
    }
}

/// Answers one request: with the router, or that there are too many connections. A request for
/// media is sent to another connection.
async fn answer(
    request: hyper::Request<Incoming>,
    mut router: Router,
    (is_media, place): (bool, Result<RequestPlace, Problem>),
    under_way: UnderWay,
) -> Result<hyper::Response<ResponseBody>, h2::Error> {
    if is_media {
        return Err(h2::Error::from(h2::Reason::HTTP_1_1_REQUIRED));
    }
    let response = match &place {
        Err(problem) => problem.clone().into_response(),
        Ok(_held) => match router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
    };
    under_way.answered();
    Ok(response.map(|body| TrackedBody { body: body.boxed_unsync(), _under_way: under_way }))
}

/// How often the times of a connection are checked.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a connection is doing.
#[derive(Clone)]
struct Activity {
    counts: Arc<Mutex<Counts>>,
    turns: Turns,
}

struct Counts {
    /// Requests whose response was not taken whole.
    under_way: usize,
    /// Those of them that were answered, and wait for the client.
    answered: usize,
    /// When the last one began, was answered or was taken.
    since: Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Active,
    /// Nothing was asked for long.
    Idle,
    /// Answers wait for the client, and it has taken none of them to its end for long.
    Stuck,
}

impl Activity {
    fn new(turns: Turns) -> Self {
        let counts = Counts { under_way: 0, answered: 0, since: turns.begin() };
        Self { counts: Arc::new(Mutex::new(counts)), turns }
    }

    fn begin(&self) -> UnderWay {
        self.change(|counts| counts.under_way += 1);
        UnderWay { activity: self.clone(), answered: Mutex::new(false) }
    }

    fn verdict(&self, idle_max: Duration) -> Verdict {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = self.turns.used(counts.since);
        if counts.under_way == 0 && quiet > idle_max {
            Verdict::Idle
        } else if counts.answered > 0 && quiet > RESPONSE_SECONDS_MAX {
            Verdict::Stuck
        } else {
            Verdict::Active
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        counts.since = self.turns.begin();
    }
}

/// One request, until its response was taken or given up.
struct UnderWay {
    activity: Activity,
    answered: Mutex<bool>,
}

impl UnderWay {
    fn answered(&self) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.activity.change(|counts| counts.answered += 1);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let answered = *self.answered.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.activity.change(|counts| {
            counts.under_way -= 1;
            counts.answered -= usize::from(answered);
        });
    }
}

/// A body that is known to be under way until it is dropped.
struct TrackedBody<B> {
    body: B,
    _under_way: UnderWay,
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn quiet_connections_leave_and_stuck_ones_are_cut() {
        let activity = Activity::new(Turns::of(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let verdict = || activity.verdict(HTTP2_IDLE_MAX);
        let late = HTTP2_IDLE_MAX.max(RESPONSE_SECONDS_MAX) * 2;
        assert_eq!(verdict(), Verdict::Active);
        advance(late).await;
        assert_eq!(verdict(), Verdict::Idle);
        let request = activity.begin();
        advance(late).await;
        assert_eq!(verdict(), Verdict::Active, "an upload may take its time");
        request.answered();
        assert_eq!(verdict(), Verdict::Active);
        advance(late).await;
        assert_eq!(verdict(), Verdict::Stuck);
        drop(request);
        advance(late).await;
        assert_eq!(verdict(), Verdict::Idle);
    }
}
