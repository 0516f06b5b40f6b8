//! What this crate takes from a file before it says no. Every number here bounds memory or time against a file that lies.

/// Tracks of one file. Discs and broadcasts have up to some thirty sound and subtitle tracks.
pub(crate) const MAX_TRACKS: usize = 64;
/// Bytes of a `moov` box, which is held in memory while the file is open. A day of film at 60 frames a second needs about 200 MB.
pub(crate) const MAX_MOOV_BYTES: u64 = 256 << 20;
/// Bytes of a `moof` box. One that indexes an hour of film as a single fragment needs about 6 MB.
pub(crate) const MAX_MOOF_BYTES: u64 = 16 << 20;
/// Fragments (`moof` boxes) of a file; each costs 24 bytes of memory. Ten hours in pieces of one frame are about a million.
pub(crate) const MAX_FRAGMENTS: usize = 1 << 20;
/// Boxes at the top level of a file: fragments come with `styp`, `sidx`, `prft`, `emsg` and `mdat`.
pub(crate) const MAX_TOP_LEVEL_BOXES: usize = 8 << 20;
/// Runs of samples (`trun`) in one `moof`; each costs about 80 bytes of memory.
pub(crate) const MAX_RUNS: usize = 1 << 16;
/// Samples of one track: four days at 192 pictures or sound frames a second.
pub(crate) const MAX_SAMPLES: u64 = 1 << 26;
/// Bytes of one sample. An 8K intra picture at broadcast quality is some 20 MB.
pub(crate) const MAX_SAMPLE_BYTES: u32 = 64 << 20;
/// Bytes of one sample of text. A cue is a few hundred; styling boxes may follow it.
pub(crate) const MAX_TEXT_BYTES: u32 = 1 << 18;
/// Largest time, in ticks, that a file may state: leaves room to add a few such times in an `i64`.
pub(crate) const MAX_TICKS: i64 = 1 << 60;
/// Remarks kept for the person who ingests; more would only repeat themselves.
pub(crate) const MAX_WARNINGS: usize = 100;
/// Edits of an edit list that are looked at.
pub(crate) const MAX_EDITS: usize = 1 << 16;
/// Pixels of one side of a picture: the largest side HEVC and AV1 levels know is 16,888 and 16,384.
pub(crate) const MAX_PICTURE_SIDE: u32 = 16_384;
/// Bytes of decoder configuration of one track. Parameter sets are below 1 kB each; FLAC may carry a picture.
pub(crate) const MAX_CONFIG_BYTES: usize = 1 << 20;
/// How far (in nanoseconds of film) one track may run ahead of another for the sake of reading in file order.
pub(crate) const MAX_LEAD_NS: i128 = 16_000_000_000;
