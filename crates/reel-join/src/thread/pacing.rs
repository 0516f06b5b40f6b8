//! When the thread of joins is to look at datagrams again.

use super::PACED;
use reel_rt::Core;

/// The timer for the datagrams of all outlets. A timer cannot be cancelled, so those that were set
/// before an earlier one come in vain.
#[derive(Default)]
pub(super) struct Pacing {
    next_ns: Option<u64>,
}

impl Pacing {
    /// Something leaves at this time.
    pub(super) fn leaves(&mut self, core: &mut Core, at_ns: u64) {
        if self.next_ns.is_none_or(|next_ns| at_ns < next_ns) {
            self.next_ns = Some(at_ns);
            core.at(at_ns, PACED);
        }
    }

    /// A timer has come; whether anything leaves now.
    pub(super) fn has_come(&mut self, now_ns: u64) -> bool {
        self.next_ns.take_if(|next_ns| *next_ns <= now_ns).is_some()
    }
}
