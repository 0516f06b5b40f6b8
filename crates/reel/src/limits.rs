//! Every bound of the command line and its configuration, with its reason.

use std::time::Duration;

/// Most threads of a kind. More than the cores of any machine help nobody.
pub(crate) const THREADS_MAX: usize = 256;

/// The highest priority of SCHED_FIFO (sched(7)).
pub(crate) const REAL_TIME_PRIORITY_MAX: usize = 99;

/// Most sessions and most connections. Each costs a descriptor or a few KiB; a million is beyond any one box.
pub(crate) const CLIENTS_MAX: usize = 1 << 20;

/// Descriptors that are no connections: members, rings, posters, uploads, programs and their memory.
pub(crate) const DESCRIPTORS_OTHER: usize = 256;

/// Least seconds until a session is forgotten: players ask for a segment every few seconds.
pub(crate) const SESSION_IDLE_S_MIN: usize = 10;

/// Most seconds until a session is forgotten: one day, longer than anybody pauses.
pub(crate) const SESSION_IDLE_S_MAX: usize = 86_400;

/// Most films stored at once. Each keeps all members busy by itself; more only take memory from viewers.
pub(crate) const INGESTS_MAX: usize = 16;

/// Lowest rate of the network that can be configured: sound alone takes as much, so below it nobody could ever be admitted.
pub(crate) const NETWORK_BPS_MIN: u64 = 64_000;

/// Most bytes of a configuration file. The example with all its comments has 4 KiB.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Most films taken from a directory by `reel demo`. A demonstration ends somewhere.
pub(crate) const DEMO_FILMS_MAX: usize = 200;

/// Longest measurement of `reel probe`. After ten minutes nothing new is seen.
pub(crate) const PROBE_S_MAX: i64 = 600;

/// How long a server measures members that have no profile before it serves: a start is not held up noticeably.
pub(crate) const QUICK_PROBE: Duration = Duration::from_millis(1500);

/// A quick measurement does not count any more when a member holds more than so many times what it was made of.
pub(crate) const PROFILE_OUTGROWN: u64 = 4;

/// Most bytes read of the kernel's table of routes: thousands of them, of which the default is among the first.
pub(crate) const ROUTES_BYTES_MAX: u64 = 1 << 20;

/// Highest rate of a film that can be asked about: more than any interface carries, and its bytes of two hours can be counted.
pub(crate) const FILM_BPS_MAX: u64 = 1_000_000_000_000;

/// Seconds that `reel probe` takes for each member if it is not told: enough for cells and a few windows of each size.
pub(crate) const PROBE_S_EACH: u32 = 3;

/// Seconds that it takes for all members, which are measured together: half a minute is what a person waits.
pub(crate) const PROBE_S_ALL: u32 = 30;
