//! When the next session of a loop is asked for. Pure.

use crate::limits::CAST_LOOK_NS;

/// One question at a time, and after a refusal not before [`CAST_LOOK_NS`]: a question occupies the
/// ledger, which viewers need.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    is_under_way: bool,
    /// Not before this time.
    next_ns: u64,
}

impl Asking {
    /// Whether to ask now. Then it is under way.
    pub(crate) fn begins(&mut self, now_ns: u64) -> bool {
        let begins = !self.is_under_way && now_ns >= self.next_ns;
        if begins {
            *self = Asking { is_under_way: true, next_ns: now_ns.saturating_add(CAST_LOOK_NS) };
        }
        begins
    }

    /// The question was answered.
    pub(crate) fn ends(&mut self) {
        self.is_under_way = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cast looks a hundred times in a second, and each look could ask.
    #[test]
    fn a_refused_loop_asks_once_a_second() {
        let mut asking = Asking::default();
        let (mut asked, mut refused_at) = (0, None);
        for now_ns in (0..10 * CAST_LOOK_NS).step_by(10_000_000) {
            if refused_at.is_some_and(|refused_ns| now_ns >= refused_ns) {
                asking.ends();
                refused_at = None;
            }
            if asking.begins(now_ns) {
                assert_eq!(refused_at, None, "one at a time");
                asked += 1;
                refused_at = Some(now_ns + 30_000_000);
            }
        }
        assert_eq!(asked, 10);
    }
}
