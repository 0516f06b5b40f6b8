//! Limits and tuning of this crate, each with its reason.

use std::time::Duration;

// ---- Limits

/// Characters of a title's name. A page shows about 60; the rest is for long episode names.
pub const NAME_CHARS_MAX: usize = 200;

/// Characters of a title id: it becomes part of URLs and file names (`{id}.mp4`).
pub const ID_CHARS_MAX: usize = 64;

/// Numbered ids tried for one name (`film`, `film-2`, ...) before the search fails.
pub const ID_SUFFIX_MAX: u32 = 100_000;

/// Bytes of a source file's name kept in the catalogue: the longest name Linux file systems allow.
pub const FILE_NAME_BYTES_MAX: usize = 255;

/// Renditions of one title: more steps than any player's ladder has.
pub const RENDITIONS_MAX: usize = 16;

/// Bytes of a sidecar subtitle file. Two hours of dense subtitles are about 200 KiB.
pub const SIDECAR_BYTES_MAX: u64 = 8 << 20;

/// Cues of a sidecar subtitle file.
pub const SIDECAR_CUES_MAX: usize = 100_000;

/// Sidecar files taken for one input: more languages than any disc carries.
pub const SIDECARS_MAX: usize = 64;

/// Longest time a poster may take: ffmpeg seeks and decodes one picture, which takes a second or
/// two.
pub const POSTER_SECONDS_MAX: Duration = Duration::from_secs(20);

/// Bytes of a poster. 640 pixels wide is about 60 KiB; a file near this limit is not a poster.
pub const POSTER_BYTES_MAX: u64 = 4 << 20;

/// Bytes of a stored index. A ten-hour title of 20 tracks has about 200,000 fragments of some 40
/// bytes.
pub const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Bytes of opened indexes kept in memory; the least recently used are dropped first.
pub const OPENED_BYTES_MAX: usize = 256 << 20;

/// Files that one scan of a watched directory covers.
pub const WATCH_FILES_MAX: usize = 100_000;

/// Levels of directories that a scan descends: deep enough for series/season/episode, safe against
/// loops.
pub const WATCH_DEPTH_MAX: usize = 8;

/// Recorded files whose titles were removed; the oldest are dropped. More than are left in a
/// watched directory after their titles are removed.
pub const REMOVED_MAX: usize = 10_000;

/// Bytes of the file with these records: two numbers and a name each.
pub const REMOVED_BYTES_MAX: u64 = ((REMOVED_MAX + 1) * (FILE_NAME_BYTES_MAX + 43)) as u64;

/// Bytes of the file with the records of what was taken: six numbers, an id and a path each.
pub const TAKEN_BYTES_MAX: u64 = (WATCH_FILES_MAX * 512) as u64;

// ---- Tuning

/// Width of a poster in pixels: sharp on a phone of double density, small enough to list hundreds.
pub const POSTER_WIDTH: u32 = 640;

/// Bytes of indexes that are opened before they are requested: half of the cache, so that requested
/// titles find space.
pub const OPENED_AHEAD_BYTES_MAX: usize = OPENED_BYTES_MAX / 2;

/// A file of a watched directory that has not changed for so many seconds counts as complete, if it
/// did not grow in longer pauses before. Recorders and downloads pause for seconds.
pub const WATCH_QUIET_MIN_S: u64 = 10;

/// A file counts as complete after this time, in whatever pauses it grew.
pub const WATCH_QUIET_MAX_S: u64 = 300;

/// A file counts as complete when it has not changed for so many times the longest pause in which
/// it grew.
pub const WATCH_PAUSES: u64 = 3;

/// Files of a watched directory that are shown: those that are not titles come first.
pub const WATCH_SHOWN_MAX: usize = 500;

/// Time between two scans of a watched directory.
pub const WATCH_PERIOD: Duration = Duration::from_secs(2);

/// Bytes passed to the output of an export at once.
pub const EXPORT_CHUNK_BYTES: usize = 256 << 10;
