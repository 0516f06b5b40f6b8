//! Laws of schedules over random sizes, and the figures that the documents name.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod clients;
mod cuts;
mod figures;
mod laws;

use proptest::prelude::*;
use reel_broadcast::Scheme;

/// Widths of skyscrapers.
const WIDTHS: [u32; 8] = [1, 2, 5, 12, 25, 52, 105, 212];

/// All schemes whose clients begin with segment 1.
fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::Staggered),
        Just(Scheme::Fast),
        Just(Scheme::RecursiveFrequencySplitting),
        skyscrapers(),
    ]
}

fn skyscrapers() -> impl Strategy<Value = Scheme> {
    proptest::sample::select(&WIDTHS[..]).prop_map(|width| Scheme::Skyscraper { width })
}
