//! Why samples cannot be packaged.

/// What is wrong with the samples of a file. The text is for the person who ingests the file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// Decoding times of a track decrease, or jump further than a sample can last.
    #[error(
        "track {track}: the decoding time goes from {from} to {to} (ticks of 1/{timescale} s): the file's \
             timestamps are broken; remultiplex it, for example with ffmpeg -fflags +genpts -c copy"
    )]
    DecodingOrder {
        /// Track, counted from 1.
        track: usize,
        /// Time of the sample before.
        from: i64,
        /// Time of the sample at fault.
        to: i64,
        /// Ticks per second.
        timescale: u32,
    },
    /// A presentation time is too far from its decoding time.
    #[error(
        "track {track}: a sample decoded at {dts} is presented at {pts} (ticks of 1/{timescale} s), further away \
             than an MP4 file can say"
    )]
    Composition {
        /// Track, counted from 1.
        track: usize,
        /// Decoding time.
        dts: i64,
        /// Presentation time.
        pts: i64,
        /// Ticks per second.
        timescale: u32,
    },
    /// Fragments start at key frames, and the next key frame does not come.
    #[error(
        "track {track}: no key frame follows the one at {start_s} s within {seconds} s and {bytes} bytes (limits: \
             {limit_s} s, {limit_bytes} bytes); playback can only start at key frames: encode with more of them, for \
             example ffmpeg -g 96"
    )]
    GopTooLong {
        /// Track, counted from 1.
        track: usize,
        /// When the fragment starts.
        start_s: u64,
        /// How long it is by now.
        seconds: u64,
        /// How large it is by now.
        bytes: u64,
        /// Largest length allowed.
        limit_s: u64,
        /// Largest size allowed.
        limit_bytes: u64,
    },
    /// The first sample of a video track is not a key frame.
    #[error("track {track}: the video does not start with a key frame; cut the file at one")]
    NoKeyFrameFirst {
        /// Track, counted from 1.
        track: usize,
    },
    /// A count or size exceeds a limit.
    #[error("track {track}: {what} is {value}, more than the limit of {limit}")]
    Limit {
        /// Track, counted from 1; 0 for all of them together.
        track: usize,
        /// What was counted.
        what: &'static str,
        /// What was found.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A track description contradicts itself.
    #[error("track {track}: {what}")]
    Track {
        /// Track, counted from 1.
        track: usize,
        /// What is wrong.
        what: &'static str,
    },
}
