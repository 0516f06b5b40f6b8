//! Poured streams that other programs read.

use super::opening::{Refused, Wanted};
use super::playing::Playing;
use super::{Ending, Programs, StreamId};
use crate::limits::PROGRAM_LIVE_STREAMS_MAX;
use crate::outlet::MappedOutlet;
use reel_admit::Client;
use reel_cache::Body;
use reel_cache::limits::SEND_BYTES_MAX;
use reel_client::RefusalCode;
use reel_play::DeliveryPolicy;
use reel_serve::streams::Opening as StreamOpening;
use reel_serve::{Poured, Serve, Viewing};
use std::sync::Arc;

impl Programs {
    /// Admits a program that reads a poured stream.
    pub(super) fn begin_live(
        &mut self,
        serve: &mut Serve<'_>,
        wanted: &Wanted,
        name: &str,
    ) -> Result<(), Refused> {
        let Some(program) = self.programs.get_mut(wanted.program) else { return Ok(()) };
        let (socket, client) = (Arc::clone(&program.socket), Client::User(program.user));
        if serve.is_draining() {
            return Err(Refused(RefusalCode::Unavailable, 1, "the server stops".to_owned()));
        }
        if wanted.from_bytes > 0 {
            let text = "a poured stream begins where it is; it has no bytes of before".to_owned();
            return Err(Refused(RefusalCode::BadRequest, 0, text));
        }
        let now_ns = serve.now_ns();
        let viewer = self.shared.pours.view(name, now_ns).ok_or_else(|| {
            let text = format!("no program pours a stream {name} now; `reel pour {name}` does");
            Refused(RefusalCode::NoSuchTitle, 0, text)
        })?;
        if self.playing.values().filter(|playing| playing.is_poured()).count() >= PROGRAM_LIVE_STREAMS_MAX {
            let text = format!(
                "programs read {PROGRAM_LIVE_STREAMS_MAX} poured streams, the most there may be; close one"
            );
            return Err(Refused(RefusalCode::Unavailable, 1, text));
        }
        let outlet = MappedOutlet::of_poured().map_err(|error| {
            Refused(RefusalCode::Unavailable, 1, format!("there is no memory for another stream: {error}"))
        })?;
        let opener = serve.opener();
        let class = opener.class(Some(wanted.class.as_str()).filter(|name| !name.is_empty()), client)?;
        let client = serve.session_client(client, class);
        let session = opener.poured_session((name, viewer.terms().bytes_per_s), client, now_ns)?;
        // How long it will be is not known.
        self.hand_over(&socket, wanted.tag, 0, &outlet)?;
        let opening = StreamOpening {
            session: Some(Arc::clone(&session)),
            body: Body::default(),
            position: 0,
            policy: DeliveryPolicy::begins(),
            chain_bytes_max: SEND_BYTES_MAX,
            outlet,
        };
        let viewing = Viewing::new(viewer, now_ns);
        let playing = Playing::of_live((wanted.program, wanted.tag), session, viewing, now_ns);
        self.start(serve, opening, playing);
        Ok(())
    }

    /// Appends what has come to streams that read poured ones, and ends those whose place is gone.
    /// Returns those to which something was appended.
    pub(super) fn feed(&mut self, serve: &mut Serve<'_>, set: &[StreamId]) -> Vec<StreamId> {
        let mut fed = Vec::new();
        for id in set {
            match self.feed_one(serve, *id) {
                Ok(true) => fed.push(*id),
                Ok(false) => {}
                Err(ending) => self.end(serve, *id, ending),
            }
        }
        fed
    }

    fn feed_one(&mut self, serve: &mut Serve<'_>, id: StreamId) -> Result<bool, Ending> {
        let Some(playing) = self.playing.get_mut(&id) else { return Ok(false) };
        let (Some(viewing), now_ns) = (playing.live.as_mut(), serve.now_ns()) else { return Ok(false) };
        if viewing.is_behind(now_ns) {
            return Err(Ending::HeldTooLong);
        }
        if !self.streams.awaits_more(id) {
            return Ok(false);
        }
        match viewing.next(&playing.session, serve.opener(), now_ns) {
            Poured::Part(part, class, due_ns) => self.streams.append(id, serve.engine, part, class, due_ns),
            Poured::Complete => {
                playing.live = None;
                self.streams.complete(id, serve.engine);
            }
            Poured::Nothing => return Ok(false),
            Poured::Broken => return Err(Ending::Closed),
            Poured::Behind => return Err(Ending::HeldTooLong),
        }
        Ok(true)
    }

    /// Ends the streams that read poured ones and whose sessions have ended, because nothing came
    /// for too long.
    pub(super) fn drop_live(&mut self, serve: &mut Serve<'_>) {
        let (sessions, now_ns) = (Arc::clone(&serve.parts().sessions), serve.now_ns());
        let is_over = |playing: &Playing| {
            playing.live.is_some() && sessions.find(&playing.session().key(), now_ns).is_none()
        };
        let over = self.playing.iter().filter(|(_, playing)| is_over(playing));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end(serve, id, Ending::Closed);
        }
    }
}
