//! Gaps of sound: every form has silence in them, so that players that play the frames one after
//! the other stay in step.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::chain::{publish, store};
use crate::film_dir::{DecodedSound, FilmDir, first_difference};

/// Bytes of a frame of one channel: 1024 samples.
const FRAME: usize = 2048;
const FORMS: [&str; 4] = ["film.mp4", "master.m3u8", "manifest.mpd", "1/whole.mp4"];

/// What ffmpeg decodes of each form of a film whose sound lacks the frames that `dropped` names.
fn heard(name: &str, layout: &str, dropped: &str) -> Vec<Vec<u8>> {
    let film_dir = FilmDir::new();
    // Without noise that depends on the number of frames that were decoded before.
    let codecs = "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -aac_pns 0";
    let pictures = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=9";
    let tone = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=9";
    let path = film_dir.make(
        name,
        &format!(
            "{pictures} {tone} {codecs} -af aformat=channel_layouts={layout} -bsf:a noise=drop={dropped}"
        ),
    );
    let folder = film_dir.path("out");
    publish(&store(&path), &folder);
    FORMS.into_iter().map(|form| DecodedSound::of(&folder.join(form), "0:a:0").pcm).collect()
}

#[test]
fn gaps_of_sound_are_silent_in_every_form() {
    let layouts = [("mono", 1), ("stereo", 2), ("3.0", 3), ("4.0", 4), ("5.0", 5), ("5.1", 6)];
    let transport_streams = layouts.map(|(layout, channels)| ("a.ts", layout, channels));
    let others = [("a.mkv", "stereo", 2), ("a.mp4", "mono", 1), ("a.mp4", "5.1", 6)];
    for (name, layout, channels) in transport_streams.into_iter().chain(others) {
        let whole = heard(name, layout, "0");
        // Two gaps, of one and a half and three seconds.
        let gapped = heard(name, layout, "gte(n\\,70)*lt(n\\,140)+gte(n\\,200)*lt(n\\,340)");
        for (form, (whole, gapped)) in FORMS.into_iter().zip(whole.iter().zip(&gapped)) {
            let what = format!("{form} of {name}, {layout}");
            assert_eq!(gapped.len(), whole.len(), "{what}");
            let part = |from: usize, to: usize| from * FRAME * channels..to * FRAME * channels;
            for clear in [part(0, 67), part(142, 197), part(342, 418)] {
                assert_eq!(first_difference(&whole[clear.clone()], &gapped[clear]), None, "{what}");
            }
            for silent in [part(71, 138), part(201, 338)] {
                let zeros = vec![0; silent.len()];
                assert_eq!(first_difference(&zeros, &gapped[silent]), None, "{what}");
            }
        }
    }
}
