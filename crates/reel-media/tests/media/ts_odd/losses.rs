//! Packets lost at random places, also so many that the counters continue: what can be known is
//! named.

use super::*;

/// Numbers that look random, always the same.
fn places(count: usize, below: usize) -> impl Iterator<Item = usize> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    })
    .take(count)
}

const LOSSES: usize = 40;

/// How many losses of `count` packets of a stream are named.
fn named(bytes: &[u8], pid: u16, count: usize) -> usize {
    let packets = packets_of(bytes, pid).len();
    let named = places(LOSSES, packets - count - 60).filter(|place| {
        let played = Played::of(&without(bytes, pid, place + 30, count));
        !played.warnings.is_empty()
    });
    named.count()
}

#[test]
fn losses_are_named() {
    let film_dir = FilmDir::new();
    let mpeg = "-c:v libx264 -preset ultrafast -bf 0 -g 50 -b:v 1M -c:a libmp3lame";
    // Of those that leave the counter as it was, what is within one picture cannot be known, nor
    // those of HEVC and of pictures to which no other refers.
    for (codecs, least_pictures) in [(H264_AAC, 20), (HEVC_AC3, 0), (mpeg, 15)] {
        let bytes = make(&film_dir, "a.ts", 8, codecs);
        assert!(Played::of(&bytes).warnings.is_empty());
        let of = |count| (named(&bytes, PICTURE_PID, count), named(&bytes, SOUND_PID, count));
        assert_eq!(of(15), (LOSSES, LOSSES), "{codecs}");
        let (pictures, sound) = of(16);
        assert!(pictures >= least_pictures && sound == LOSSES, "{codecs}: {pictures} {sound}");
    }
}

#[test]
fn pictures_at_varying_distances_are_no_losses() {
    let film_dir = FilmDir::new();
    // Every third picture and some runs are left out.
    let varying = "select='mod(n,3)*lt(mod(n,70),55)'";
    for codecs in [H264_AAC, HEVC_AC3] {
        let arguments = format!("-vf {varying} -fps_mode passthrough {codecs}");
        let played = Played::of(&make(&film_dir, "a.ts", 20, &arguments));
        assert!(played.warnings.is_empty(), "{:?}", played.warnings);
    }
}
