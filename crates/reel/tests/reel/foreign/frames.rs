//! What ffmpeg decodes from the source and from the server must be the same.

use reel_compare::{Bounds, Decoded, first_difference, of_pictures};

/// Fails with the first difference unless both have the same pictures at the same times.
pub(crate) fn assert_same_pictures(source: &str, served: &str, what: &str) {
    let [source, served] = [source, served].map(|input| reel_compare::pictures(input).unwrap());
    assert!(!source.is_empty(), "{what}: no pictures");
    if let Some(difference) = of_pictures(&source, &served, 0) {
        panic!("{what}: {difference}");
    }
}

/// Fails with the first difference unless both have the same pictures and sound at the same times.
pub(crate) fn assert_same(source: &str, served: &str, bounds: Bounds, what: &str) {
    let [source, served] = [source, served].map(|input| Decoded::of(input).unwrap());
    // Of less than a second of sound nearly all may be within the bounds.
    let is_enough = |decoded: &Decoded| decoded.sounds.iter().all(|it| it.samples.len() > it.rate as usize);
    assert!(is_enough(&source), "{what}: hardly any sound");
    if let Some(difference) = first_difference(&source, &served, bounds) {
        panic!("{what}: {difference}");
    }
}
