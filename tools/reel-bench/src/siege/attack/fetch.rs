//! Films that are fetched to their ends as fast as they come, each by a client of its own: what was
//! delivered need not be reserved any more, so newcomers find room.

use super::hoard::Hoarder;
use super::{Attack, Field};
use std::thread;
use std::time::Instant;

/// Addresses, each a client of its own.
pub(super) const ADDRESSES: usize = 32;
/// Segments a second of each address at most.
const SEGMENTS_A_SECOND: u32 = 20;

pub(super) fn run(field: &Field<'_>) {
    thread::scope(|scope| {
        for number in 0..ADDRESSES {
            let client = Hoarder::new(field, Attack::Fetch, number);
            scope.spawn(move || {
                for turn in number.. {
                    if field.is_over() {
                        return;
                    }
                    if !fetch(field, &client, turn) {
                        field.pace(Instant::now(), 1);
                    }
                }
            });
        }
    });
}

/// Fetches a film. `false` if it is refused, or its session ends before it.
fn fetch(field: &Field<'_>, client: &Hoarder<'_>, turn: usize) -> bool {
    let Ok(mut session) = client.open(turn) else { return false };
    for _ in 0..session.media.segments.len() {
        let begun = Instant::now();
        if field.is_over() || client.segment(&mut session).is_err() {
            return false;
        }
        field.pace(begun, SEGMENTS_A_SECOND);
    }
    field.count(Attack::Fetch, "films");
    true
}
