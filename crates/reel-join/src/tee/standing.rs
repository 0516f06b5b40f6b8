//! For how long a branch stands still for a reason that is not its destination's. Pure.

#[derive(Debug, Default)]
pub(super) struct Standing {
    since_ns: Option<u64>,
    /// For how long it has stood before that, and what of all that was seen.
    before_ns: u64,
    seen_ns: u64,
}

impl Standing {
    /// Whether it stands from now on.
    pub(super) fn stands(&mut self, stands: bool, now_ns: u64) {
        if stands {
            self.since_ns.get_or_insert(now_ns);
        } else {
            self.before_ns = self.waited_ns(now_ns);
            self.since_ns = None;
        }
    }

    /// For how long it has stood in all.
    pub(super) fn waited_ns(&self, now_ns: u64) -> u64 {
        let stands_ns = self.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.before_ns + stands_ns
    }

    /// For how long it has stood since the last call.
    pub(super) fn since_look_ns(&mut self, now_ns: u64) -> u64 {
        let waited_ns = self.waited_ns(now_ns);
        waited_ns.saturating_sub(std::mem::replace(&mut self.seen_ns, waited_ns))
    }
}
