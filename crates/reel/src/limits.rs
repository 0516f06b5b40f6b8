//! Limits, tuning and configuration of the command line, each with its reason.

use std::time::Duration;

// ---- Limits

/// Most bytes of a configuration file. The example with all its comments has 4 KiB.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Most files that `reel demo` uses from a directory, so that its start has a bound.
pub(crate) const DEMO_FILMS_MAX: usize = 200;

/// Most bytes read of the kernel's routing table: thousands of routes, of which the default is
/// among the first.
pub(crate) const ROUTES_BYTES_MAX: u64 = 1 << 20;

// ---- Tuning

/// Descriptors that are not connections: members, rings, posters, uploads, programs and their
/// memory.
pub(crate) const DESCRIPTORS_OTHER: usize = 256;

/// How long a server measures members that have no profile before it serves: short enough not to
/// delay the start noticeably.
pub(crate) const QUICK_PROBE: Duration = Duration::from_millis(1500);

/// A quick profile is not valid any more when a member holds more than this number of times the
/// data that was measured.
pub(crate) const PROFILE_OUTGROWN: u64 = 4;

// ---- Configuration

/// Most threads of a kind. More than the cores of any machine are of no use.
pub(crate) const THREADS_MAX: usize = 256;

/// The highest priority of SCHED_FIFO (sched(7)).
pub(crate) const REAL_TIME_PRIORITY_MAX: usize = 99;

/// Most sessions and most connections. Each costs a descriptor or a few KiB; a million is beyond
/// any one machine.
pub(crate) const CLIENTS_MAX: usize = 1 << 20;

/// Least seconds until an idle session is dropped: players request a segment every few seconds.
pub(crate) const SESSION_IDLE_S_MIN: usize = 10;

/// Most seconds until an idle session is dropped: one day, longer than any pause.
pub(crate) const SESSION_IDLE_S_MAX: usize = 86_400;

/// Most seconds that a start or a seek can be made to wait for room. After thirty seconds without
/// an answer, most players give up.
pub(crate) const START_WAIT_S_MAX: usize = 30;

/// Most ingests at once. Each keeps all members busy by itself; more only take memory from viewers.
pub(crate) const INGESTS_MAX: usize = 16;

/// Lowest network rate that can be configured. Audio alone takes as much, so below it no session
/// could be admitted.
pub(crate) const NETWORK_BPS_MIN: u64 = 64_000;

/// Longest measurement of `reel probe`. After ten minutes the results do not change.
pub(crate) const PROBE_S_MAX: i64 = 600;

/// Highest rate for `reel capacity`: more than any interface carries, and the bytes of two hours
/// still fit 64 bits.
pub(crate) const FILM_BPS_MAX: u64 = 1_000_000_000_000;

/// Seconds that `reel probe` takes for each member by default: enough for cells and a few windows
/// of each size.
pub(crate) const PROBE_S_EACH: u32 = 3;

/// Seconds that it takes by default for all members, which are measured together: half a minute is
/// an acceptable wait.
pub(crate) const PROBE_S_ALL: u32 = 30;
