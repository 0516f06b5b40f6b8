//! Outlets whose place another destination takes.

use super::JoinThread;
use super::chain::Sink;
use crate::joins::Wanted;
use crate::refused::JoinRefused;
use reel_serve::Serve;
use reel_serve::streams::StreamId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl JoinThread {
    /// Has another destination take the place of an outlet, as soon as that has nothing under way.
    pub(super) fn replace(&mut self, serve: &mut Serve<'_>, number: u64, wanted: Wanted) {
        let key = wanted.session.key();
        let has_it = |chain: &super::Chain| chain.session.key() == key && chain.sinks.contains_key(&number);
        let Some(id) = self.chains.iter().find(|(_, chain)| has_it(chain)).map(|(id, _)| *id) else {
            return self.refuse(wanted, JoinRefused::NoSuchOutlet(number));
        };
        if let Some(chain) = self.chains.get_mut(&id) {
            // Of a client that gave up waiting.
            let before = chain.replacing.insert(number, wanted);
            before.into_iter().for_each(|before| self.give_up(before.to));
        }
        // What its socket did not take is not under way.
        if self.sends.forget_wait((id, number))
            && let Some(tee) = self.streams.outlet_mut(id)
        {
            tee.sent(number, 0);
        }
        self.pump(serve, id);
    }

    /// Has destinations take the places of those outlets that have nothing under way.
    pub(super) fn replace_idle(&mut self, id: StreamId) {
        let (Some(tee), Some(chain)) = (self.streams.outlet_mut(id), self.chains.get_mut(&id)) else {
            return;
        };
        let idle: Vec<u64> =
            chain.replacing.keys().copied().filter(|number| !tee.is_sending(*number)).collect();
        for number in idle {
            self.take_place(id, number);
        }
    }

    fn take_place(&mut self, id: StreamId, number: u64) {
        let (Some(tee), Some(chain)) = (self.streams.outlet_mut(id), self.chains.get_mut(&id)) else {
            return;
        };
        let Some(wanted) = chain.replacing.remove(&number) else { return };
        if wanted.outlet.is_unwanted() {
            return self.give_up(wanted.to);
        }
        let Wanted { outlet, to, place, answer, .. } = wanted;
        let from_byte = tee.hand_over(number, outlet.takes_packets);
        outlet.from_byte.store(from_byte, Ordering::Relaxed);
        tracing::info!(to = outlet.to, from_byte, "a destination has taken the place of another one");
        let sink = Sink::new(Arc::clone(&outlet), self.sink_to(id, &outlet, to), place);
        let before = self.chains.get_mut(&id).and_then(|chain| chain.sinks.insert(number, sink));
        before.into_iter().for_each(|before| self.complete(before));
        // The client may have given up waiting: then it is removed with the next tick.
        let _ = answer.send(Ok(()));
    }
}
