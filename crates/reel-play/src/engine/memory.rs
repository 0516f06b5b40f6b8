//! Which deliveries give buffers back when others wait for them, and in which order those that wait
//! are served.

use super::{Delivery, DeliveryId, Engine, Event};
use crate::limits::{PRESSURE_EVERY_NS, RELEASE_AFTER_NS, RUN_UNTAKEN_NS};
use crate::playable::Playable;
use reel_cache::ReaderState;

impl<T: Playable> Engine<T> {
    /// Whether a read or a delivery of any thread waits for buffers.
    pub(super) fn is_waiting(&self) -> bool {
        self.fetcher.has_waiting_fetches() || self.units().budget().waiting_readers() > 0
    }

    pub(super) fn watch_pressure(&mut self, now_ns: u64) {
        self.pressure_ns.get_or_insert(now_ns + PRESSURE_EVERY_NS);
    }

    pub(super) fn watch_runs(&mut self, now_ns: u64) {
        self.runs_ns.get_or_insert(now_ns + RUN_UNTAKEN_NS);
    }

    /// Takes buffers back from what was read ahead and from clients that take nothing;
    /// [`Engine::turn`] gives them to those that wait.
    pub(super) fn relieve_pressure(&mut self, now_ns: u64) {
        let (budget, has_waiting_fetches) =
            (self.units().budget().clone(), self.fetcher.has_waiting_fetches());
        let helps = |is_promised| has_waiting_fetches || budget.is_helped_by(is_promised);
        if !helps(false) {
            return;
        }
        if helps(true) {
            self.prefetcher.release();
        }
        let mut blocked = self.blocked_for(RELEASE_AFTER_NS, now_ns, |_| true);
        // First those whose clients have taken nothing for longest: a client that takes what it was
        // sent is promised its buffers.
        blocked
            .sort_unstable_by_key(|token| self.deliveries.get(*token).map(|delivery| delivery.progressed_ns));
        for token in &blocked {
            if let Some(delivery) = self.deliveries.get_mut(*token) {
                delivery.reader.give_back_early(&self.fetcher);
            }
        }
        for token in blocked {
            if let Some(delivery) = self.deliveries.get_mut(token)
                && helps(delivery.reader.is_promised())
            {
                delivery.reader.release(&self.fetcher);
            }
        }
    }

    /// Takes long runs back from clients that have stopped taking. What no other delivery wants of
    /// them stays in memory for them.
    pub(super) fn end_untaken_runs(&mut self, now_ns: u64) {
        for token in self.blocked_for(RUN_UNTAKEN_NS, now_ns, |delivery| delivery.reader.has_long_run()) {
            if let Some(delivery) = self.deliveries.get_mut(token) {
                delivery.reader.release(&self.fetcher);
            }
        }
        let is_run = |delivery: &Delivery<T>| delivery.is_blocked && delivery.reader.has_long_run();
        if !self.deliveries.tokens(is_run).is_empty() {
            self.watch_runs(now_ns);
        }
    }

    /// Gives buffers to those that wait for them, in their order, as long as there are some. What
    /// is in memory already is sent in its turn.
    pub(super) fn serve_waiting(&mut self, now_ns: u64) {
        while let Some((&place, &id)) = self.waiting.first_key_value() {
            let state = self.fill_reader(id, now_ns);
            self.settle(now_ns);
            match state {
                // One that is promised more by now, or less, has another position, and another one
                // is the first.
                Some(ReaderState::AwaitMemory) if self.waiting.contains_key(&place) => return,
                Some(ReaderState::Ready | ReaderState::Done) => self.can_continue(id),
                Some(ReaderState::AwaitMemory | ReaderState::AwaitUnits) | None => {}
            }
            // Served, and removed by that; or the delivery has ended.
            self.waiting.remove(&place);
        }
    }

    fn can_continue(&mut self, id: DeliveryId) {
        if let Some(delivery) = self.deliveries.get(id.0) {
            self.events.push_back(Event::Ready(delivery.tag));
        }
    }

    /// Deliveries whose clients have taken nothing for longer than that.
    fn blocked_for(&self, for_ns: u64, now_ns: u64, also: impl Fn(&Delivery<T>) -> bool) -> Vec<u64> {
        self.deliveries.tokens(|delivery| {
            delivery.is_blocked && now_ns.saturating_sub(delivery.progressed_ns) > for_ns && also(delivery)
        })
    }
}
