//! Limits and tuning of this crate, each with its reason.

use std::time::Duration;

// ---- Limits

/// Characters of a title's name. A page shows about 60; the rest is for long episode names.
pub const NAME_CHARS_MAX: usize = 200;

/// Warnings that are kept with a title: more than anybody reads of one film. All titles are listed
/// with theirs.
pub const WARNINGS_MAX: usize = 10;

/// Bytes of each of them; most have fewer than 200.
pub const WARNING_BYTES_MAX: usize = 400;

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

/// Fields of an event that a file of SubStation Alpha may list; there are ten.
pub const EVENT_FIELDS_MAX: usize = 64;

/// Sidecar files taken for one input: more languages than any disc carries.
pub const SIDECARS_MAX: usize = 64;

/// Seconds of a processor that parsing and packing any file may take. Work is counted and bounded
/// by `reel-media`; this ends what the count overlooks.
pub const PARSE_SECONDS: u64 = 60;

/// Bytes of a file that pay for one second more: a tenth of what the slowest parser does.
pub const PARSE_BYTES_A_SECOND: u64 = 4 << 20;

/// Memory that the ingest of a film in one file may take beside media memory.
pub const INGEST_BYTES_MAX: u64 = reel_media::FILE_MEMORY_BYTES;

/// Longest time a poster may take. ffmpeg seeks and decodes one picture, which takes a second or
/// two of a processor; at the lowest priority of a busy machine that may be a minute. What it
/// costs is bounded by [`POSTER_CPU_SECONDS_MAX`]; this bounds the wait for one that hangs.
pub const POSTER_SECONDS_MAX: Duration = Duration::from_secs(120);

/// Seconds of a processor that ffmpeg may take for a poster, after which the kernel ends it.
pub const POSTER_CPU_SECONDS_MAX: u64 = 10;

/// Bytes of a poster. 640 pixels wide is about 60 KiB; a file near this limit is not a poster.
pub const POSTER_BYTES_MAX: u64 = 4 << 20;

/// Pixels of a cover or of a frame that becomes a poster: a page scanned at 600 dots an inch has 35
/// million, a film of 7680 x 4320 has 33 million.
pub const PICTURE_PIXELS_MAX: u64 = 40_000_000;

/// Largest single allocation of ffmpeg while it decodes a picture: one of the most pixels with
/// eight bytes each. Compressed metadata may claim any size.
pub const PICTURE_ALLOCATION_BYTES_MAX: u64 = 8 * PICTURE_PIXELS_MAX;

/// Address space of ffmpeg. With one thread, ffmpeg 5.1 uses 370 MB for a film of 3840 x 2160 and
/// 650 MB for one of 7680 x 4320 (HEVC, 10 bits); about 270 MB of these are its libraries. If it
/// has eight threads for decoding and sixteen for filters all the same, it uses 1.3 and 1.8 GB,
/// since each thread maps a stack and memory for its allocations.
pub const POSTER_MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Bytes of a stored index. A ten-hour title of 20 tracks has about 200,000 fragments of some 40
/// bytes.
pub const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Bytes of the stored index of a transport stream: its most points and places to join have 20 MiB.
pub const STREAM_INDEX_BYTES_MAX: u64 = 32 << 20;

/// Bytes of the stored partial checksums of a transport stream, which are in memory as a whole
/// while it is ingested: 33 million symbols, 12 hours at 8 Mb/s. A longer stream is stored without.
pub const STREAM_SUMS_BYTES_MAX: u64 = 64 << 20;

/// Fragments of a title whose playlists are not counted with its index: three tracks of a film of
/// six hours, whose texts have two megabytes while it is played.
pub const TEXT_FRAGMENTS_FREE: usize = 16 << 10;

/// Bytes of a fragment in the media playlist of its track and in the playlist of its pictures.
pub const PLAYLIST_BYTES_A_FRAGMENT: usize = 110;

/// Bytes of a fragment in a manifest.
pub const MANIFEST_BYTES_A_FRAGMENT: usize = 60;

/// Bytes of opened indexes kept in memory; the least recently used are dropped first.
pub const OPENED_BYTES_MAX: usize = 256 << 20;

/// Bytes of the indexes of merged titles that are held at once, beside those of their parts: 400
/// films of two hours. Clients choose the pairs, so the number of titles is no limit.
pub const MERGED_BYTES_MAX: usize = 64 << 20;

/// Files that one scan of a watched directory covers.
pub const WATCH_FILES_MAX: usize = 100_000;

/// Levels of directories that a scan descends: deep enough for series/season/episode, safe against
/// loops.
pub const WATCH_DEPTH_MAX: usize = 8;

/// Recorded files whose titles were removed; the oldest are dropped. More than are left in a
/// watched directory after their titles are removed.
pub const REMOVED_MAX: usize = 10_000;

/// Directories of a watched directory of which the kernel reports what programs write. Each takes
/// about a kilobyte of the kernel's memory; systems allow users at least 8192 in all.
pub const WATCH_DIRECTORIES_MAX: usize = 8_000;

/// Reports that are taken at once; the kernel keeps 16,384 by default.
pub const WATCH_REPORTS_MAX: usize = 100_000;

/// Bytes of the file with these records: two numbers and a name each.
pub const REMOVED_BYTES_MAX: u64 = ((REMOVED_MAX + 1) * (FILE_NAME_BYTES_MAX + 43)) as u64;

/// Bytes of the file with the records of what was taken: six numbers, an id and a path each.
pub const TAKEN_BYTES_MAX: u64 = (WATCH_FILES_MAX * 512) as u64;

// ---- Tuning

/// How often a run of ffmpeg is asked whether its picture is still wanted.
pub const STOP_LOOK: Duration = Duration::from_millis(50);

/// Width of a poster in pixels: sharp on a phone of double density, small enough to list hundreds.
pub const POSTER_WIDTH: u32 = 640;

/// Height of a poster made of a cover, in pixels: that of a portrait cover of the poster's width.
pub const COVER_HEIGHT_MAX: u32 = POSTER_WIDTH * 3 / 2;

/// Bytes of indexes that are opened before they are requested: half of the cache, so that requested
/// titles find space.
pub const OPENED_AHEAD_BYTES_MAX: usize = OPENED_BYTES_MAX / 2;

/// A file of a watched directory that has not changed for so many seconds counts as complete, if it
/// did not grow in longer pauses before, and nothing says that more will come. Recorders and
/// downloads pause for seconds.
pub const WATCH_QUIET_MIN_S: u64 = 10;

/// A file counts as complete after this time, in whatever pauses it grew, if a program has it open,
/// and if a part of it is missing: the program that wrote it may be gone.
pub const WATCH_QUIET_MAX_S: u64 = 300;

/// A file counts as complete when it has not changed for so many times the longest pause in which
/// it grew.
pub const WATCH_PAUSES: u64 = 3;

/// Files of a watched directory that are shown: those that are not titles come first.
pub const WATCH_SHOWN_MAX: usize = 500;

/// A look at a watched directory that takes longer is reported as one that hangs: so many files as
/// one may have are looked at in this time even if each takes a network file system 3 ms.
pub const WATCH_LOOK_MAX_NS: u64 = 300_000_000_000;

/// Time between two scans of a watched directory.
pub const WATCH_PERIOD: Duration = Duration::from_secs(2);

/// Bytes passed to the output of an export at once.
pub const EXPORT_CHUNK_BYTES: usize = 256 << 10;
