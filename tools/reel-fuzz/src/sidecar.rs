//! Subtitle files beside a film, in any encoding.

use reel_library::parse_sidecar;
use reel_media::Packet;
use reel_media::cmaf::Packager;

/// Bytes of text for each byte of a file, at most: a byte of an old code page is up to three of
/// UTF-8, and a character that markup needs is escaped in five.
const GROWTH: usize = 15;
/// Ends before most cues that a fuzzer writes, so that cues behind the end occur.
const FILM_NS: u64 = 3_600_000_000_000;

/// Reads bytes as a file of SubRip, WebVTT or SubStation Alpha, in the encoding that they state or
/// that is guessed. Its cues are in order and can be stored.
pub fn sidecar(bytes: &[u8]) {
    let Ok(sidecar) = parse_sidecar(bytes, "film.en.srt", "film.mp4") else { return };
    assert!(!sidecar.cues.is_empty(), "a file without cues is an error");
    assert!(sidecar.cues.is_sorted_by_key(|(sample, _)| sample.pts), "cues come by their start");
    let mut text_bytes = 0;
    for (sample, text) in &sidecar.cues {
        assert!(sample.duration > 0 && sample.dts == sample.pts && sample.sync);
        assert!(!text.is_empty() && !text.contains("\n\n"), "an empty line would end the cue: {text:?}");
        text_bytes += text.len();
    }
    assert!(text_bytes <= GROWTH * bytes.len(), "{text_bytes} bytes of text of {}", bytes.len());
    let mut packager = Packager::for_subtitles(sidecar.track, FILM_NS).expect("a track of subtitles");
    for (sample, text) in sidecar.cues {
        let packet = Packet { track: 0, sample, change: None };
        packager.push(&packet, text.as_bytes()).expect("a cue can be stored");
    }
    packager.finish().expect("subtitles can be stored");
}
