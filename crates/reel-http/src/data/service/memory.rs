//! What is read ahead, and who gives memory back when others wait for it.

use super::{Data, PREFETCH, PRESSURE};
use crate::data::connection::{Connection, State};
use crate::limits::{PREFETCH_EVERY_NS, PRESSURE_EVERY_NS, RELEASE_AFTER_NS, RUN_UNTAKEN_NS};
use reel_cache::ReaderState;
use reel_rt::Core;

impl Data {
    /// Reads ahead what is due to be, and looks again soon if more will be.
    pub(super) fn prefetch(&mut self, core: &mut Core) {
        self.prefetch_timer = false;
        self.prefetcher.turn(&mut self.fetcher, core.now_ns());
        self.watch_prefetches(core);
    }

    pub(super) fn watch_prefetches(&mut self, core: &mut Core) {
        if !self.prefetch_timer && !self.prefetcher.is_empty() {
            self.prefetch_timer = true;
            core.at(core.now_ns() + PREFETCH_EVERY_NS, PREFETCH);
        }
    }

    /// Somebody waits for memory: looks after it soon.
    pub(super) fn watch_pressure(&mut self, core: &mut Core) {
        if !self.pressure_timer {
            self.pressure_timer = true;
            core.at(core.now_ns() + PRESSURE_EVERY_NS, PRESSURE);
        }
    }

    /// Takes buffers back from clients that take nothing; [`Data::turn`] gives them to those who wait.
    pub(super) fn relieve_pressure(&mut self, core: &mut Core) {
        self.pressure_timer = false;
        let (budget, is_hungry) = (self.fetcher.units().budget().clone(), self.fetcher.is_hungry());
        let helps = |is_promised| is_hungry || budget.is_helped_by(is_promised);
        if !helps(false) {
            return;
        }
        if helps(true) {
            self.prefetcher.release();
        }
        let now_ns = core.now_ns();
        let blocked = |connection: &Connection| {
            let waited = now_ns.saturating_sub(connection.since_ns) > RELEASE_AFTER_NS;
            matches!(&connection.state, State::Sending(sending) if sending.blocked && waited)
        };
        let mut tokens = self.connections.tokens(blocked);
        // Those first whose clients have taken nothing for longest: who takes what he was sent is promised his memory.
        tokens.sort_unstable_by_key(|token| self.connections.get_mut(*token).map(|c| c.since_ns));
        for token in &tokens {
            if let Some(State::Sending(sending)) = self.connections.get_mut(*token).map(|c| &mut c.state) {
                sending.reader.give_back_early(&self.fetcher);
            }
        }
        for token in tokens {
            let Some(State::Sending(sending)) = self.connections.get_mut(token).map(|c| &mut c.state) else {
                continue;
            };
            if helps(sending.reader.is_promised()) {
                sending.reader.release(&self.fetcher);
            }
        }
    }

    /// Takes long runs back from clients that have stopped taking. What nobody else wants of it stays in memory for them.
    pub(super) fn end_untaken_runs(&mut self, now_ns: u64) {
        let untaken = |connection: &Connection| {
            let waited = now_ns.saturating_sub(connection.since_ns) > RUN_UNTAKEN_NS;
            matches!(&connection.state, State::Sending(sending) if sending.blocked && waited && sending.reader.has_long_run())
        };
        for token in self.connections.tokens(untaken) {
            if let Some(State::Sending(sending)) = self.connections.get_mut(token).map(|c| &mut c.state) {
                sending.reader.release(&self.fetcher);
            }
        }
    }

    /// Gives memory to those who wait for it, in their order, as long as there is some. What is in memory already is sent in its turn.
    pub(super) fn feed_starved(&mut self, core: &mut Core) {
        while let Some((&place, &token)) = self.starved.first_key_value() {
            match self.fill(core, token) {
                // One that is promised more by now, or less, stands elsewhere, and another is the first.
                Some(ReaderState::AwaitMemory) if self.starved.contains_key(&place) => return,
                Some(ReaderState::Ready | ReaderState::Done) => self.ready(core, token),
                Some(ReaderState::AwaitMemory | ReaderState::AwaitUnits) | None => {}
            }
            // Served, and gone from here by that; or its connection is gone.
            self.starved.remove(&place);
        }
    }
}
