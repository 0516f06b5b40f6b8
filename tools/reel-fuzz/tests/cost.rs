//! The judge of costs finds what costs too much.

use reel_fuzz::cost::{Cost, within};
use std::panic::catch_unwind;

const COST: Cost = Cost { bytes: 100, bytes_each: 2, pieces: 3, pieces_each_16: 1 };

/// Whether a target passes that allocates so many pieces of so many bytes for 16 bytes.
fn passes(pieces: usize, bytes: usize) -> bool {
    catch_unwind(|| {
        within(COST, &[0; 16], |_| (0..pieces).for_each(|_| drop(std::hint::black_box(vec![1_u8; bytes]))))
    })
    .is_ok()
}

#[test]
fn what_costs_too_much_is_found_also_if_it_is_released_at_once() {
    assert!(passes(0, 0) && passes(4, 33) && passes(1, 132));
    assert!(!passes(5, 1), "pieces");
    assert!(!passes(4, 34), "bytes");
    assert!(!passes(1, 133), "bytes");
    let kept = catch_unwind(|| within(COST, &[0; 16], |_| std::mem::forget(vec![1_u8; 8])));
    assert!(kept.is_err(), "bytes that are kept");
}
