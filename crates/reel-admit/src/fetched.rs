//! Which parts of a track a client has requested, in any order.

use crate::limits::{FETCHED_PARTS_MAX, PARALLEL_SEGMENTS};
use crate::schedule::TrackSpan;

/// The parts of one track that its client has, or is being sent: in order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched(Vec<(u64, u64)>);

impl Fetched {
    /// A segment was requested. `follows` says whether it is one of those that continue from the
    /// last one.
    ///
    /// Otherwise the client has jumped, or its requests overtake each other. Programs that fetch in
    /// parallel request no segment twice, and stay within a few segments. A player that has jumped
    /// may drop all it has from there on, and it does request that again.
    pub(crate) fn requested(&mut self, span: &TrackSpan, follows: bool) {
        let length_ns = span.until_ns.saturating_sub(span.from_ns);
        if !follows {
            let near_ns = length_ns.saturating_mul(PARALLEL_SEGMENTS);
            let is_near = |&(from_ns, until_ns): &(u64, u64)| {
                from_ns <= span.until_ns.saturating_add(near_ns)
                    && span.from_ns <= until_ns.saturating_add(near_ns)
            };
            self.0.retain(is_near);
            let is_again =
                self.0.iter().any(|&(from_ns, until_ns)| (from_ns..until_ns).contains(&span.from_ns));
            if is_again {
                self.0.retain(|&(from_ns, _)| from_ns <= span.from_ns);
                self.0.iter_mut().for_each(|(_, until_ns)| *until_ns = span.from_ns.min(*until_ns));
            }
        }
        self.insert(span.from_ns, span.until_ns);
    }

    /// Whether everything from one time to another was requested.
    pub(crate) fn covers(&self, from_ns: u64, until_ns: u64) -> bool {
        self.0.iter().any(|&(begins_ns, ends_ns)| begins_ns <= from_ns && ends_ns >= until_ns)
    }

    fn insert(&mut self, mut from_ns: u64, mut until_ns: u64) {
        self.0.retain(|&(begins_ns, ends_ns)| {
            let is_apart = ends_ns < from_ns || begins_ns > until_ns;
            if !is_apart {
                (from_ns, until_ns) = (from_ns.min(begins_ns), until_ns.max(ends_ns));
            }
            is_apart
        });
        let place = self.0.partition_point(|&(begins_ns, _)| begins_ns < from_ns);
        self.0.insert(place, (from_ns, until_ns));
        // The first ones are behind what is fetched now.
        if self.0.len() > FETCHED_PARTS_MAX {
            self.0.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::TrackSpan;
    use proptest::prelude::*;
    use reel_cache::MediaKind;

    fn segment(number: u64) -> TrackSpan {
        TrackSpan { kind: MediaKind::Video, from_ns: number * 4, until_ns: number * 4 + 4 }
    }

    proptest! {
        #[test]
        fn segments_that_overtake_each_other_are_all_fetched(
            orders in prop::collection::vec(Just((0..PARALLEL_SEGMENTS).collect::<Vec<_>>()).prop_shuffle(), 1..20),
            follows in any::<bool>(),
        ) {
            let mut fetched = Fetched::default();
            let count = orders.len() as u64 * PARALLEL_SEGMENTS;
            for (group, order) in orders.iter().enumerate() {
                for place in order {
                    prop_assert!(!fetched.covers(0, count * 4));
                    fetched.requested(&segment(group as u64 * PARALLEL_SEGMENTS + place), follows);
                }
            }
            prop_assert!(fetched.covers(0, count * 4));
            prop_assert_eq!(fetched.0.len(), 1);
        }

        #[test]
        fn parts_are_in_order_apart_and_few(
            requests in prop::collection::vec((0_u64..100, any::<bool>()), 1..100),
        ) {
            let mut fetched = Fetched::default();
            for (number, follows) in requests {
                fetched.requested(&segment(number), follows);
                prop_assert!(fetched.covers(number * 4, number * 4 + 4) || fetched.0.len() == FETCHED_PARTS_MAX);
                prop_assert!(fetched.0.is_sorted_by(|before, after| before.1 < after.0));
                prop_assert!(fetched.0.len() <= FETCHED_PARTS_MAX);
            }
        }
    }

    #[test]
    fn a_player_that_jumps_back_into_what_it_has_may_have_dropped_the_rest() {
        let mut fetched = Fetched::default();
        (0..50).for_each(|number| fetched.requested(&segment(number), true));
        assert!(fetched.covers(0, 200));
        fetched.requested(&segment(40), false);
        assert!(fetched.covers(0, 164) && !fetched.covers(0, 168));
    }

    #[test]
    fn what_is_far_from_a_jump_is_forgotten() {
        let mut fetched = Fetched::default();
        (50..100).for_each(|number| fetched.requested(&segment(number), true));
        fetched.requested(&segment(0), false);
        (1..50).for_each(|number| fetched.requested(&segment(number), true));
        assert!(fetched.covers(0, 200) && !fetched.covers(0, 204));
    }
}
