//! What holds for every stream that is made, whatever the sizes and times of its samples are.

use super::judge::Judged;
use super::{made, multiplex};
use crate::film::{Film, Stored, audio, frames, samples, sound, video};
use proptest::prelude::*;
use reel_media::Packet;
use reel_media::cmaf::CutPolicy;
use reel_media::transport::TICKS_PER_S;

/// Gives samples other sizes, as NAL units with a length.
fn sized(lane: Vec<(Packet, Vec<u8>)>, sizes: &[usize]) -> Vec<(Packet, Vec<u8>)> {
    let resize = |(at, (packet, _)): (usize, (Packet, Vec<u8>))| {
        let bytes = sizes[at % sizes.len()].max(1);
        let mut data = u32::try_from(bytes).unwrap().to_be_bytes().to_vec();
        data.resize(4 + bytes, 0x41);
        (packet, data)
    };
    lane.into_iter().enumerate().map(resize).collect()
}

fn title(pictures: Vec<(i64, i64, u32, bool)>, sizes: &[usize], sound_bytes: &[usize]) -> Stored {
    let seconds = pictures.last().map_or(0, |last| last.0 / 12_800 + 1);
    let frames = sound((seconds * 48_000 / 1024 + 1) as usize, 1024, -1024);
    let lanes = vec![sized(samples(0, pictures), sizes), sized(samples(1, frames), sound_bytes)];
    Film::new(vec![video(12_800), audio(48_000, 1024)], lanes).store_with(CutPolicy::default())
}

fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![4 => 1_usize..3000, 2 => 3000_usize..30_000, 1 => 30_000_usize..200_000];
    prop::collection::vec(size, 1..200)
}

/// The most bytes of any time of this length, by decoding times, as bits per second.
fn decoded_peak_bps(judged: &Judged, window_s: f64) -> f64 {
    let due: Vec<(f64, usize)> = judged.decoded();
    let at = |from: f64| {
        due.iter()
            .filter(|(time, _)| (from..=from + window_s).contains(time))
            .map(|(_, bytes)| bytes)
            .sum::<usize>()
    };
    let peak = due.iter().map(|(time, _)| at(*time)).max().unwrap_or(0);
    (peak * 8) as f64 / window_s
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn everything_comes_in_time_at_a_bounded_rate(
        sizes in any_sizes(),
        sound_bytes in prop::collection::vec(1_usize..1500, 1..40),
        gop in 2_usize..60,
        b_frames: bool,
        count in 2_usize..300,
    ) {
        let title = title(frames(count, 512, gop, b_frames), &sizes, &sound_bytes);
        let (_, judged) = made(&title);
        // Headers, stuffing, tables and clock references: 4 % and 200 kbit/s.
        let decoded = decoded_peak_bps(&judged, 0.9);
        let sent = judged.peak_bps(1.0);
        prop_assert!(sent <= decoded * 1.04 + 200_000.0, "{sent} of {decoded}");
    }

    #[test]
    fn damage_is_refused_or_carried(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        track in 0_usize..2,
        in_header: bool,
    ) {
        let mut title = title(frames(60, 512, 25, true), &[300], &[100]);
        let fragment = title.index.tracks[track].fragments[0];
        let length = if in_header { fragment.header_bytes } else { fragment.bytes } as usize;
        for (place, byte) in places {
            title.objects[track][fragment.offset as usize + place.index(length)] = byte;
        }
        if let Ok(made) = multiplex(&title) {
            prop_assert!(made.stream.len() < 4_000_000, "{} bytes", made.stream.len());
        }
    }

    #[test]
    fn uneven_times_are_kept(
        steps in prop::collection::vec(1_u32..4000, 2..100),
        sizes in any_sizes(),
        sound_bytes in prop::collection::vec(1_usize..1500, 1..40),
    ) {
        let mut dts = 0;
        let pictures = steps.iter().enumerate().map(|(at, step)| {
            let picture = (dts, dts, *step, at % 7 == 0);
            dts += i64::from(*step);
            picture
        });
        let (made, judged) = made(&title(pictures.collect(), &sizes, &sound_bytes));
        prop_assert_eq!(made.warnings, [""; 0]);
        let times: Vec<u64> = judged.pes.iter().filter(|pes| pes.pid == 0x100).map(|pes| pes.dts).collect();
        prop_assert_eq!(times.len(), steps.len());
        for (pair, step) in times.windows(2).zip(&steps) {
            let exact = f64::from(*step) * 90_000.0 / 12_800.0;
            prop_assert!(((pair[1] - pair[0]) as f64 - exact).abs() <= 1.0);
        }
    }
}

#[test]
fn a_constant_rate_stays_constant() {
    let title = title(frames(500, 512, 25, true), &[20_000], &[340]);
    let (made, judged) = made(&title);
    let mean = made.index.mean_bps() as f64;
    assert!(judged.peak_bps(1.0) < mean * 1.15, "{} of {mean}", judged.peak_bps(1.0));
    assert!(made.index.peak_bps() as f64 <= mean * 1.15);
    assert_eq!(made.index.joins.len(), 20);
    let seconds = made.index.duration_ticks() as f64 / TICKS_PER_S as f64;
    assert!((20.0..21.2).contains(&seconds), "{seconds}");
}

#[test]
fn decoding_after_showing_is_moved() {
    let late = |picture: (i64, i64, u32, bool)| (picture.0 + 1024, picture.1, picture.2, picture.3);
    let pictures = frames(100, 512, 25, true).into_iter().map(late).collect();
    let (made, judged) = made(&title(pictures, &[900], &[100]));
    assert_eq!(made.warnings, [""; 0]);
    assert!(judged.pes.iter().any(|pes| pes.pts > pes.dts));
}

#[test]
fn damaged_fragments_are_refused() {
    let mut title = title(frames(100, 512, 25, true), &[900], &[100]);
    let fragment = title.index.tracks[0].fragments[0];
    title.objects[0][fragment.offset as usize + 4] ^= 1;
    let error = multiplex(&title).err().unwrap().to_string();
    assert!(error.contains("fragment 0 of track 0 is damaged"), "{error}");
}
