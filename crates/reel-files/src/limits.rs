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
/// Single titles whose answers are kept: some more than are looked at in a second.
pub const KEPT_TITLES_MAX: usize = 4096;
/// The longest time for an answer that may be given: a person would take the directory for hung.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

// ---- Tuning

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
