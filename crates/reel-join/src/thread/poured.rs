//! Chains of what programs pour: they grow while they are played.

use super::chain::Chain;
use super::{Ending, JoinThread, StreamId};
use crate::limits::FEEDS_PER_TURN;
use crate::refused::JoinRefused;
use crate::tee::Tee;
use reel_admit::Session;
use reel_cache::Body;
use reel_play::limits::POURED_HELD_BYTES;
use reel_play::{DeliveryPolicy, PlayableTitle};
use reel_serve::streams::Opening;
use reel_serve::{LIVE, Poured, Serve, Viewing};
use std::sync::Arc;

impl JoinThread {
    /// Begins the chain of a session of a poured stream, where that is now.
    pub(super) fn open_poured(
        &mut self,
        serve: &mut Serve<'_>,
        session: Arc<Session<PlayableTitle>>,
        from_byte: u64,
    ) -> Result<StreamId, JoinRefused> {
        if from_byte > 0 {
            return Err(JoinRefused::BeginsNow);
        }
        let (now_ns, name) = (serve.now_ns(), session.title_id().trim_start_matches(LIVE));
        let viewer =
            self.joins.pours().view(name, now_ns).ok_or_else(|| JoinRefused::NotPoured(name.to_owned()))?;
        if !session.playing().is_poured_at(viewer.terms().bytes_per_s) {
            return Err(JoinRefused::PouredAgain(name.to_owned()));
        }
        // What was reserved was released if the session was not used for a while.
        serve.opener().continue_poured(&session, now_ns)?;
        let opening = Opening {
            session: Some(Arc::clone(&session)),
            body: Body::default(),
            position: 0,
            policy: DeliveryPolicy::begins(),
            // What its session was counted with: the bytes are not in the arena.
            chain_bytes_max: POURED_HELD_BYTES as usize,
            outlet: Tee::new(0, now_ns),
        };
        let set = self.streams.open(serve.engine, [opening], now_ns);
        // One opening gives one stream.
        let id = *set.first().ok_or(JoinRefused::Stopping)?;
        self.streams.stay_open(id, serve.engine);
        let live = Some(Viewing::new(viewer, now_ns));
        self.chains.insert(id, Chain { live, ..Chain::new(session) });
        Ok(id)
    }

    /// Reads what a chain has, and has its branches take it; of a poured stream, also what has come
    /// of it meanwhile.
    /// Returns how the chain has ended, if it has.
    pub(super) fn read(&mut self, serve: &mut Serve<'_>, id: StreamId) -> Option<Ending> {
        for _ in 0..FEEDS_PER_TURN {
            let batch = self.streams.read_send(&[id], serve.engine, serve.now_ns());
            if let Some((_, ending)) = batch.ended.first() {
                return Some(*ending);
            }
            match self.feed(serve, id) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    self.end_because(serve, id, Ending::Closed, why);
                    break;
                }
            }
        }
        None
    }

    /// Appends what has come of a poured stream to its chain; whether anything has.
    ///
    /// # Errors
    /// Why no more comes.
    fn feed(&mut self, serve: &mut Serve<'_>, id: StreamId) -> Result<bool, &'static str> {
        const BEHIND: &str = "it was too slow for a stream that is being poured, or that has ended";
        let Some(chain) = self.chains.get_mut(&id) else { return Ok(false) };
        let (Some(viewing), now_ns) = (chain.live.as_mut(), serve.now_ns()) else { return Ok(false) };
        if viewing.is_behind(now_ns) {
            return Err(BEHIND);
        }
        if !self.streams.awaits_more(id) {
            return Ok(false);
        }
        match viewing.next(&chain.session, serve.opener(), now_ns) {
            Poured::Part(part, class, due_ns) => self.streams.append(id, serve.engine, part, class, due_ns),
            Poured::Complete => {
                chain.live = None;
                self.streams.complete(id, serve.engine);
            }
            Poured::Nothing => return Ok(false),
            Poured::Broken => {
                return Err(
                    "the program that pours the stream is gone, or nothing can be reserved for the stream any more",
                );
            }
            Poured::Behind => return Err(BEHIND),
        }
        Ok(true)
    }
}
