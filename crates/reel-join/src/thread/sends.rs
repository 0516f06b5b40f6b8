//! Operations on the sockets of outlets, by the tokens that the ring knows.

use reel_ring::Op;
use reel_rt::Core;
use reel_serve::streams::StreamId;
use std::collections::HashMap;

/// An operation that is under way.
struct Under {
    of: (StreamId, u64),
    /// It only waits until the socket takes something.
    is_wait: bool,
}

/// The operations that are under way. A token is never used again, so one that ends late is of no
/// other outlet.
#[derive(Default)]
pub(super) struct Sends {
    next: u64,
    of: HashMap<u64, Under>,
}

impl Sends {
    /// Begins an operation for an outlet of a chain.
    pub(super) fn begin(&mut self, core: &mut Core, of: (StreamId, u64), op: Op) {
        let token = self.next;
        self.next += 1;
        self.of.insert(token, Under { of, is_wait: matches!(op, Op::AwaitWritable { .. }) });
        core.ring.push(token, op);
    }

    /// An operation has ended; whose it was.
    pub(super) fn ended(&mut self, token: u64) -> Option<(StreamId, u64)> {
        self.of.remove(&token).map(|under| under.of)
    }

    /// Whether an outlet waits until its socket takes something. If so, nothing waits for that any
    /// more.
    pub(super) fn forget_wait(&mut self, of: (StreamId, u64)) -> bool {
        let before = self.of.len();
        self.of.retain(|_, under| !(under.is_wait && under.of == of));
        self.of.len() < before
    }
}
