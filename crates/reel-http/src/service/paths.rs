//! Looks at the connections of responses, so that the engine can learn what the network carries.

use super::{HttpThread, Own, PATHS, Then, Turn};
use crate::connection::{Connection, State};
use crate::limits::{PATHS_EVERY_NS, PATHS_MAX};
use reel_ring::tcp_status;
use reel_serve::Serve;

impl HttpThread {
    /// Looks at the connections that send through the uplink. If there are more than one look may
    /// take, the next look continues with the others.
    pub(super) fn look_at_paths(&mut self, serve: &mut Serve<'_>) {
        self.own.paths_planned = false;
        let sending = |connection: &Connection| {
            connection.peer.shows_path() && matches!(connection.state, State::Sending(_))
        };
        let mut tokens = self.connections.tokens(sending);
        if tokens.is_empty() {
            return;
        }
        let count = tokens.len();
        tokens.rotate_left(self.paths_seen % count);
        self.paths_seen = if count > PATHS_MAX { self.paths_seen % count + PATHS_MAX } else { 0 };
        for token in tokens.into_iter().take(PATHS_MAX) {
            self.step(serve, token, |turn| turn.look_at_path());
        }
        self.own.watch_paths(serve);
    }
}

impl Own {
    /// Plans the next look, unless it is planned.
    pub(super) fn watch_paths(&mut self, serve: &mut Serve<'_>) {
        if !self.paths_planned {
            self.paths_planned = true;
            serve.core.at(serve.now_ns() + PATHS_EVERY_NS, PATHS);
        }
    }
}

impl Turn<'_, '_> {
    fn look_at_path(&mut self) -> Then {
        let connection = &mut *self.connection;
        let (Some(delivery), Some(status)) = (connection.delivery(), tcp_status(&connection.socket)) else {
            return Then::Stays;
        };
        let was_lossy = connection.flow.is_lossy();
        if let Some(sample) = connection.flow.observe(status) {
            if connection.flow.is_lossy()
                && !was_lossy
                && let Some(system) = &self.own.shared.system_congestion
            {
                // A connection that is already gone reports that later.
                let _ = rustix::net::sockopt::set_tcp_congestion(&connection.socket, system);
            }
            self.serve.engine.observe(delivery, sample, self.serve.now_ns());
        }
        Then::Stays
    }
}
