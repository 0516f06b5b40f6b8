//! Limits on what a file may claim, and tuning of how files are read, each with its reason.

// ---- Limits

/// One sample. An intra frame of 8K video at 800 Mbit/s and 24 frames a second has about 4 MiB.
pub(crate) const SAMPLE_BYTES: u64 = 64 * 1024 * 1024;

// Budgets: what a file may cost grows with its bytes, so that no cost is bought by claims. A file
// of 67 MB gets about a second of a processor.

/// Units of work that every file may cost. A unit is a sample or a box visited, 20 to 70 ns.
pub(crate) const WORK_UNITS: u64 = 4 << 20;
/// Bytes of a file that pay for one more unit. Three units for each sample of a film are spent, and
/// samples with their tables have ten bytes at least (silence in AAC).
pub(crate) const WORK_BYTES: u64 = 2;
/// Units that a call of the source costs, and bytes copied by it that cost one unit more.
pub(crate) const WORK_READ_UNITS: u64 = 16;
/// See [`WORK_READ_UNITS`].
pub(crate) const WORK_READ_BYTES: u64 = 1024;
/// Samples that every file may have: six hours of sound. Each costs up to 30 bytes of tables in the
/// stored title, whatever its own size.
pub(crate) const SAMPLES: u64 = 1 << 20;
/// Bytes of a file that pay for one more sample. See [`WORK_BYTES`].
pub(crate) const SAMPLE_PAID_BYTES: u64 = 8;
/// Bytes of samples for each byte of the file: tracks may share samples, and usual ones do not.
/// Header stripping of Matroska takes a few bytes from each frame.
pub(crate) const SAMPLE_BYTES_PER_BYTE: u64 = 2;
/// Bytes of samples that every file may have beside these.
pub(crate) const SAMPLE_BYTES_MORE: u64 = 1 << 20;

/// Warnings kept for the person who ingests; a damaged file could cause one for each packet.
pub(crate) const WARNINGS: usize = 32;
/// Tracks of a Matroska file or elementary streams of a transport stream; discs have at most about
/// 70.
pub(crate) const TRACKS: usize = 128;

/// The Tracks element of Matroska is read as a whole. At most, subtitle headers make it large
/// (fonts are stored elsewhere).
pub(crate) const MKV_TRACKS_BYTES: u64 = 16 * 1024 * 1024;
/// Decoder configuration of one Matroska track.
pub(crate) const MKV_PRIVATE_BYTES: usize = 1024 * 1024;
/// Names and languages of Matroska tracks.
pub(crate) const MKV_TEXT_BYTES: usize = 1024;
/// Bytes put before every frame by header stripping; real ones have 1 to 6.
pub(crate) const MKV_STRIPPED_BYTES: usize = 1024;
/// Bytes of a cover. Those of shops have up to 3 MB, scans of a printed one about 10 MB.
pub(crate) const COVER_BYTES: usize = 16 << 20;
/// The Chapters element of Matroska is read as a whole. A thousand chapters with names in several
/// languages have less than 1 MB.
pub(crate) const MKV_CHAPTERS_BYTES: u64 = 4 * 1024 * 1024;
/// The SeekHead of Matroska names some ten elements.
pub(crate) const MKV_SEEK_HEAD_BYTES: u64 = 64 * 1024;
/// Children of one Matroska block group; real ones have fewer than ten.
pub(crate) const MKV_GROUP_CHILDREN: usize = 256;
/// Attached files (covers, fonts) of a Matroska file that are counted; films with styled subtitles
/// have up to about a hundred fonts.
pub(crate) const MKV_ATTACHMENTS: u64 = 1024;
/// Names of attached files in a warning: enough to recognize what is meant.
pub(crate) const NAMED_ATTACHMENTS: usize = 4;
/// Longest time of a Matroska file: a year. It keeps every sum of times far from overflow.
pub(crate) const MKV_TIME_NS: i64 = 366 * 24 * 3600 * 1_000_000_000;
/// How far a Matroska file is searched for the first frames and the frame rate of its tracks, in
/// blocks and in bytes.
pub(crate) const MKV_PROBE_BLOCKS: usize = 4000;
/// See [`MKV_PROBE_BLOCKS`].
pub(crate) const MKV_PROBE_BYTES: u64 = 64 * 1024 * 1024;
/// How far the search continues for a track of which no usable frame was found, in blocks: four
/// minutes of a film with one sound track.
pub(crate) const MKV_SEARCH_BLOCKS: usize = 20_000;
/// The same in bytes: 27 s at the 80 Mbit/s of Ultra HD discs. Such a file is read twice up to
/// there, which takes a hard disk three seconds.
pub(crate) const MKV_SEARCH_BYTES: u64 = 256 * 1024 * 1024;
/// Samples of an MP4 track that are searched for a frame with a header that can be read: a second
/// of MP3.
pub(crate) const MP4_PROBE_SAMPLES: usize = 40;
/// Bytes at the beginning of a picture in which its headers are. A sequence header of AV1 has less
/// than 1 kB, and metadata may stand before it.
pub(crate) const MP4_FIRST_PICTURE_BYTES: usize = 64 * 1024;
/// A sample of E-AC-3: at most 16 substreams of 4 KiB.
pub(crate) const AC3_SAMPLE_BYTES: usize = 64 * 1024;

/// How far a transport stream is searched for the tables and the first frame of every stream: a
/// minute of broadcast.
pub(crate) const TS_PROBE_BYTES: u64 = 48 * 1024 * 1024;
/// The same in 90 kHz ticks once the first stream has begun: a stream that is listed later is left
/// out. Recordings that begin with encrypted pictures have others after up to fifteen seconds.
pub(crate) const TS_PROBE_TICKS: i64 = 20 * 90_000;
/// Samples held during the search: twenty seconds of 50 pictures and eight kinds of sound are fewer
/// than 10,000.
pub(crate) const TS_PROBE_SAMPLES: usize = 50_000;
/// How far the search continues for a stream that is listed and silent. See [`MKV_SEARCH_BYTES`].
pub(crate) const TS_SEARCH_BYTES: u64 = MKV_SEARCH_BYTES;
/// How far a transport stream is read ahead at a joint for the time stamps of its streams: half
/// a second at 32 Mbit/s.
pub(crate) const TS_JOINT_BYTES: u64 = 2 * 1024 * 1024;
/// Streams that begin or end in the course of a transport stream and are named in warnings: enough
/// for the streams of one change.
pub(crate) const TS_CHANGE_WARNINGS: usize = 8;
/// How long sound of a transport stream must be coded in another way for a change of decoder
/// configuration, in 90 kHz ticks. Frames with damaged headers look like a change; a change costs
/// an init segment and a fragment. Advertisements last several seconds.
pub(crate) const TS_SOUND_LASTS_TICKS: i64 = 90_000 / 2;
/// Programmes that are left out and named.
pub(crate) const TS_NAMED_PROGRAMMES: usize = 8;
/// Longest table section (ISO 13818-1 section 2.4.4.11 for private ones; PAT and PMT have at most
/// 1024).
pub(crate) const TS_SECTION_BYTES: usize = 4096;
/// Programmes of a transport stream that are read; a whole satellite transponder has about 30.
pub(crate) const TS_PROGRAMMES: usize = 256;
/// Bytes of an elementary stream that wait for the end of their frame.
pub(crate) const TS_PENDING_BYTES: usize = 64 * 1024 * 1024;
/// Time stamps that wait for the frame they belong to.
pub(crate) const TS_PENDING_MARKS: usize = 4096;

/// Bytes of a `moov` box, which is held in memory while the file is open. A day of video at 60
/// frames a second needs about 200 MB.
pub(crate) const MP4_MOOV_BYTES: u64 = 256 << 20;
/// Bytes of a `moof` box. One that indexes an hour of video as a single fragment needs about 6 MB.
pub(crate) const MP4_MOOF_BYTES: u64 = 16 << 20;
/// Fragments (`moof` boxes) of a file; each costs 80 bytes of memory. Ten hours in pieces of one
/// frame are about a million.
pub(crate) const MP4_FRAGMENTS: usize = 1 << 20;
/// Films that were joined to one file, each with a `moov` box.
pub(crate) const MP4_FILMS: usize = OUT_CHANGES;
/// Bytes of a `moov` box whose fragments follow those of the film before it. It has no samples.
pub(crate) const MP4_NEXT_MOOV_BYTES: u64 = 1 << 20;
/// Parts of a file with fragments whose times do not continue each other. Each costs 8 bytes of
/// memory for each track.
pub(crate) const MP4_PARTS: usize = OUT_CHANGES;
/// Boxes at the top level of a file: fragments come with `styp`, `sidx`, `prft`, `emsg` and `mdat`.
pub(crate) const MP4_TOP_LEVEL_BOXES: usize = 8 << 20;
/// Boxes or elements that are passed on the way to the end of a file, if only that is looked for.
/// Whole files have a few; what has more is in fragments or clusters, and may
/// continue in any case.
pub(crate) const ENDING_PIECES: usize = 1 << 16;
/// Runs of samples (`trun`) in one `moof`; each costs about 80 bytes of memory.
pub(crate) const MP4_RUNS: usize = 1 << 16;
/// Samples of one track: four days at 192 pictures or sound frames a second.
pub(crate) const MP4_SAMPLES: u64 = 1 << 26;
/// Bytes of one sample of text. A cue is a few hundred bytes; styling boxes may follow it.
pub(crate) const MP4_TEXT_BYTES: u64 = 1 << 18;
/// Samples of a track of chapters that are looked at. Empty ones stand between chapters, so it is
/// twice what is kept.
pub(crate) const MP4_CHAPTER_SAMPLES: u64 = 2 * OUT_CHAPTERS as u64;
/// Largest time, in ticks, that a file may state: a few such times can be added in an `i64`.
pub(crate) const MP4_TICKS: i64 = 1 << 60;
/// Sample descriptions of a track: one for each change that is taken.
pub(crate) const MP4_DESCRIPTIONS: usize = OUT_CHANGES;
/// Edits of an edit list that are read.
pub(crate) const MP4_EDITS: usize = 1 << 16;
/// Stretches that are cut out of a track by its edit list. Each costs about 100 bytes of memory.
pub(crate) const MP4_CUTS: usize = OUT_CHANGES;
/// Pixels of one side of a picture: the largest sides in the levels of HEVC and AV1 are 16,888 and
/// 16,384.
pub(crate) const MP4_PICTURE_SIDE: u32 = 16_384;
/// Bytes of decoder configuration of one track. Parameter sets are below 1 kB each; FLAC may carry
/// a picture.
pub(crate) const MP4_CONFIG_BYTES: usize = 1 << 20;
/// How far (in nanoseconds of presentation) one track may run ahead of another when samples are
/// read in file order.
pub(crate) const MP4_LEAD_NS: i128 = 16_000_000_000;
/// How far a transport stream is searched for its tables. They come every tenth of a second, which
/// at 80 Mbit/s is once in a mebibyte.
pub(crate) const TS_TABLES_BYTES: u64 = 8 * 1024 * 1024;
/// Parameter sets of one kind in a video stream; H.264 numbers 32 sequence sets and 256 picture
/// sets, streams use a few.
pub(crate) const PARAMETER_SETS: usize = 31;

/// Packets of a stored transport stream: 800 GB. Their numbers fit 32 bits.
pub(crate) const STREAM_PACKETS: u64 = u32::MAX as u64;
/// Points of the time line of a stored transport stream: fourteen hours at the finest distance; a
/// longer one has them farther apart. Each costs 24 bytes of memory.
pub(crate) const STREAM_POINTS: usize = 1 << 20;
/// Places where receivers may join a stored transport stream: six days of one each half second.
pub(crate) const STREAM_JOINS: usize = 1 << 20;
/// Jumps of the clock of a stored transport stream that are marked in its time line. See
/// [`OUT_CHANGES`].
pub(crate) const STREAM_JUMPS: usize = OUT_CHANGES;

/// Samples of one stored fragment that is multiplexed: ten minutes, the longest fragment, at 1700
/// samples a second. Each costs 32 bytes of memory.
pub(crate) const STORED_FRAGMENT_SAMPLES: usize = 1 << 20;
/// Bytes of one stored fragment that is multiplexed, which is held in memory: twice what a fragment
/// may have when it is packed.
pub(crate) const MUX_FRAGMENT_BYTES: u64 = 128 << 20;
/// How far decoding times of a track may be after the end of its presentation, in seconds, when it
/// is multiplexed. Reordered pictures are at most 16 apart; this is far more at usual rates.
pub(crate) const MUX_MARGIN_S: u64 = 30;
/// Sound tracks of a multiplexed transport stream. Their entries fit one section of 1024 bytes
/// (ISO 13818-1 section 2.4.4.9); discs have up to 32.
pub(crate) const MUX_SOUND_TRACKS: usize = 32;

/// Memory for the sample tables of one file: more than a day of 60 frames a second with B-frames
/// and two audio tracks. They are kept until the end because their boxes start with their counts.
pub(crate) const OUT_TABLES_BYTES: usize = 96 << 20;

/// Text of all subtitle tracks of a file. A film with much dialogue has 200 KiB for each language.
pub(crate) const OUT_TEXT_BYTES: usize = 16 << 20;

/// Decoder configuration of one track. The largest valid ones (HEVC parameter sets, FLAC with a
/// picture removed) have a few kilobytes.
pub(crate) const OUT_CONFIG_BYTES: usize = 64 << 10;

/// Names and languages, in bytes; longer ones are cut at a character.
pub(crate) const OUT_NAME_BYTES: usize = 1024;

/// Language tags; RFC 5646 (4.4.1) recommends room for 35 letters.
pub(crate) const OUT_LANGUAGE_BYTES: usize = 64;

/// Tracks of one file or title.
pub(crate) const OUT_TRACKS: usize = 256;

/// Fragments of one track: more than a month at four seconds each.
pub(crate) const OUT_FRAGMENTS: usize = 1 << 20;

/// Changes of decoder configuration in one track. A day of broadcast has some hundred, at the
/// borders of advertisements.
pub(crate) const OUT_CHANGES: usize = 4096;

/// Chapters of a title; discs have at most 99, audio books some hundred.
pub(crate) const OUT_CHAPTERS: usize = 4096;

/// Bytes of one fragment, whatever the policy says: sizes in a fragment header have 32 bits.
pub(crate) const OUT_FRAGMENT_BYTES: usize = 1 << 30;

/// Largest time in ticks, either side of zero: nine years at a nanosecond a tick. No sum of two of
/// them overflows.
pub(crate) const OUT_TICKS: u64 = 1 << 58;

/// Latest time of a sample, either side of zero: a year, as for a Matroska file. Nanoseconds in 64
/// bits reach 584 times as far.
pub(crate) const OUT_SECONDS: u64 = 366 * 24 * 3600;

/// Memory that reading and packing one file may take: its `moov` with the lists of fragments and
/// runs, the tables and the text of the stored file, and a sample on either side. Other containers
/// hold less.
pub const FILE_MEMORY_BYTES: u64 = MP4_MOOV_BYTES
    + MP4_MOOF_BYTES
    + 80 * MP4_FRAGMENTS as u64
    + 8 * (MP4_PARTS * TRACKS) as u64
    + 100 * (MP4_CUTS * TRACKS) as u64
    + 80 * MP4_RUNS as u64
    + OUT_TABLES_BYTES as u64
    + OUT_TEXT_BYTES as u64
    + 2 * SAMPLE_BYTES;

// ---- Tuning

/// Frames of silence that are put into the gaps of one track of sound: 17 minutes at 48 kHz, at
/// most 2 MB with their entries. A gap that needs more stays, so a short file cannot ask for hours.
pub(crate) const SILENT_FRAMES: u64 = 50_000;
/// A pause of the pictures: a picture that is decoded so much longer before its presentation than
/// those before is decoded before a pause, and shown behind it.
pub(crate) const PAUSE_MS: i64 = 500;
/// Of a pause of the pictures in milliseconds that no fragment begins behind.
pub(crate) const LONG_PAUSE_MS: i64 = 5000;
/// What begins later than this after the start of the title, in milliseconds, is late: more than by
/// the delay of reordered pictures, which some files leave in.
pub(crate) const LATE_MS: i64 = 200;
/// The same for slow pictures, in pictures.
pub(crate) const LATE_PICTURES: i64 = 3;
/// What is missing of a track at its start or end without a warning, in milliseconds.
pub(crate) const UNNOTICED_MS: i64 = 1000;
/// So long before the end of the title, in milliseconds, a picture is repeated that is to stay.
pub(crate) const LAST_PICTURES_MS: i64 = 50;

/// Pictures that are held until the step over a pause is known: as many as decoders reorder.
pub(crate) const PAUSE_PICTURES: usize = 17;
/// Their bytes, beyond which no more are held.
pub(crate) const PAUSE_BYTES: usize = 16 << 20;

/// A track that was cut for a change of its decoder configuration is not cut once more for a border
/// of another track so near to it. Borders of the same splice are less than half a second apart.
pub(crate) const CHANGE_NEAR_MS: u64 = 500;
/// How long before a period its pictures may begin. dash.js 5 and Shaka 5 keep what begins up to
/// a tenth of a second before; half of that leaves room for rounding.
pub(crate) const PERIOD_EARLY_MS: u64 = 50;

/// Bytes read at once where a few are wanted: boxes that follow each other closely cost one read.
pub(crate) const SMALL_READ_BYTES: usize = 4096;
/// Bytes read at once from a Matroska or transport stream file: large enough to be sequential for a
/// disk, small enough to hold one for each ingest.
pub(crate) const WINDOW_BYTES: usize = 256 * 1024;
/// Video frames whose times determine the frame rate: several seconds at every usual rate.
pub(crate) const MKV_PROBE_FRAMES: usize = 240;

/// Slots of a multiplexed transport stream in a second. Packets are evenly spread over a slot,
/// which is as long as the points of the stored time line are apart.
pub(crate) const MUX_SLOTS_PER_S: u64 = 20;
/// Time over which the bytes of a picture are spread before the picture is decoded, in ms. With the
/// slot in which they are sent it stays below a second, the longest time in the buffers of a
/// decoder (ISO 13818-1 section 2.4.2.7).
pub(crate) const MUX_PICTURES_SPREAD_MS: u64 = 900;
/// The same for sound. Buffers for sound are small: 3584 bytes for two channels of AAC (ISO 13818-1
/// section 2.4.2.7), 0.2 s at 128 kbit/s.
pub(crate) const MUX_SOUND_SPREAD_MS: u64 = 100;
/// Longest time of the sound in one PES packet, in 90 kHz ticks: three frames of AAC, two of AC-3.
/// A longer one would fill the buffers for sound, a shorter one costs more headers.
pub(crate) const MUX_SOUND_PES_TICKS: i64 = 65 * 90;
/// The tables come at the latest so many halves of a slot after the last ones: every 75 ms.
/// Receivers want them every tenth of a second.
pub(crate) const MUX_TABLES_HALVES: u64 = 3;
