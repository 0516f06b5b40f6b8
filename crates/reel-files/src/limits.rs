//! Limits of a mounted tree, and tuning of how long answers are waited for and kept, each with its
//! reason.

use std::time::Duration;

// ---- Limits

/// Bytes of an answer of the server that are read: the list of 20,000 titles of 1.5 KiB each, which
/// takes a tenth of a second to fetch and parse.
pub const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Names in a directory: more than a volume has titles, and few enough to be kept in memory.
pub const NAMES_MAX: usize = 100_000;
/// Bytes of a name (`NAME_MAX` of the kernel).
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a value, its newline included. The longest name of a title is much shorter.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Files and directories that are open at once. A process may usually open 1024; 20 MB of texts.
pub const OPENED_MAX: usize = 65_536;
/// Questions of the kernel that wait for the server: each is a process that waits, so a thousand
/// processes at once.
pub const WAITING_MAX: usize = 1024;
/// Stretches of a title as one file: a day with two each second. 3 MB.
pub const STRETCHES_MAX: usize = 200_000;
/// Bytes of an answer that refuses: problems are much shorter, and a file shows one on a line.
pub const REFUSAL_BYTES_MAX: u64 = 4000;
/// Bytes of one write to a file of a stream (a page, as of sysfs). The longest line is much
/// shorter.
pub const WRITTEN_BYTES_MAX: usize = 4096;
/// Bytes of the name of a class: more than the server takes.
pub const CLASS_BYTES_MAX: usize = 64;
/// The highest rate that can be written: more than a memory gives.
pub const RATE_BPS_MAX: u64 = 1_000_000_000_000;
/// The last position that can be written: more than a month.
pub const POSITION_NS_MAX: u64 = 3_000_000 * 1_000_000_000;
/// Streams of one user: more than a script plays at once, and few enough that others have some.
pub const STREAMS_PER_USER_MAX: usize = 64;
/// Streams of all users: each holds up to a MiB.
pub const STREAMS_MAX: usize = 256;
/// Bytes of a piece of a title that is asked for at once, at most. A stream holds less than two.
pub const PIECE_BYTES_MAX: u64 = 512 << 10;
/// Poured streams that are read at once: each has a connection and a thread.
pub const POURED_MAX: usize = 32;
/// Bytes of a poured stream that are held for its reader: what a shell that is busy for a quarter
/// of a second misses of 8 Mb/s. The server holds the rest.
pub const POURED_BYTES_MAX: usize = 256 << 10;
/// Bytes of the head of a response: more than a server of this kind writes.
pub const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Fields of the head of a response.
pub const HEAD_FIELDS_MAX: usize = 64;
/// How long the connection of a poured stream may be silent. A server drops viewers of a stream
/// that has stood still earlier (`session_idle_s`).
pub const POURED_SILENCE: Duration = Duration::from_secs(3600);
/// Branches of a stream that is joined, with those that have ended: as many as a server's session
/// has outlets.
pub const BRANCHES_MAX: usize = 8;
/// Single titles whose answers are kept: some more than are looked at in a second.
pub const KEPT_TITLES_MAX: usize = 4096;
/// The longest time for an answer that may be given: a person would take the directory for hung.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

// ---- Tuning

/// How long the server plays a stream on whose mount does not ask how far it is: the mount was
/// killed. A mount that is only slow asks far more often ([`LOOK_EVERY`]).
pub const LEASE: Duration = Duration::from_secs(30);

/// How long the server may say nothing of a stream that it plays, before that has failed: as long
/// as a server takes that is stopped and started again.
pub const SERVER_SILENCE_MAX: Duration = Duration::from_secs(30);

/// The longest time from a question of the kernel to its answer, in which the server is asked, if
/// no other is given. Processes that wait for FUSE are not interrupted by signals other than
/// SIGKILL, so it is less than a second, with time to give the answer.
pub const ANSWER_TIME: Duration = Duration::from_millis(900);
/// How long it is waited whether anything answers for a directory that is a mount point already.
pub const LOOK_TIME: Duration = Duration::from_secs(10);
/// How long what the server said is shown again: a script that looks at each title, member or class
/// asks once a second. The kernel keeps names as long.
pub const KEPT_TIME: Duration = Duration::from_secs(1);
/// Threads that ask the server: requests of the API that are under way at once.
pub const ASKING_THREADS: usize = 8;
/// How long unmounting waits for the kernel's last word. Where a process still has a file open, or
/// is in a directory, it does not come.
pub const UNMOUNT_TIME: Duration = Duration::from_secs(1);
/// The class of a stream, if no other is written.
pub const DEFAULT_CLASS: &str = "periodic";
/// How far ahead of its pace a stream is given: as much as a player needs to begin, and to bridge a
/// read that waits a second.
pub const LEAD: Duration = Duration::from_secs(2);
/// Bytes of a piece that is asked for at once, at least: a piece is about a second of the stream.
pub const PIECE_BYTES_MIN: u64 = 64 << 10;
/// How long a read of `data` waits for all that it asks for, if there is something. At the pace of
/// a film, that is fewer than six reads a second.
pub const GATHER_TIME: Duration = Duration::from_millis(200);
/// How long a piece may take: as long as a server waits for a disk that spins up, or for the start
/// of a session.
pub const PIECE_TIME: Duration = Duration::from_secs(30);
/// How often a server is asked how far its outlets are: as often as a person would look.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Threads that ask for pieces: requests for media that are under way at once.
pub const PIECE_THREADS: usize = 16;
/// Bytes of a poured stream that are read at once: as much as the server sends of it at once.
pub const POURED_BLOCK_BYTES: usize = 64 << 10;
/// How long a stream stays without an open file: longer than a script thinks between two lines.
pub const UNUSED_TIME: Duration = Duration::from_secs(60);
/// How long the sessions of all streams may take to end when the tree is unmounted.
pub const END_TIME: Duration = Duration::from_secs(1);
