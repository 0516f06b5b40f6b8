//! Every bound of this crate, with its reason.

/// Buffers in which a core seals responses, of a unit each (264 KiB): one for each client whose
/// socket is full at the moment, and those of a turn of the core. With more slow clients than that,
/// what waits longest is put aside.
pub const SCRATCH_BUFFERS_PER_CORE: usize = 32;

/// The part of a small arena that all cores together seal in at most: one in so many buffers.
pub const SCRATCH_PART: usize = 4;

/// How long a client must have been slow before its buffers are taken back for others.
pub const RELEASE_AFTER_NS: u64 = SECOND_NS / 100;

/// How long a client must have taken nothing before its long run is taken back, whether or not
/// others wait: longer than a pause of the network.
pub const RUN_UNTAKEN_NS: u64 = SECOND_NS;

/// How often the cores look whether buffers should be taken back, while somebody waits for memory.
pub const PRESSURE_EVERY_NS: u64 = SECOND_NS / 200;

/// How often a core looks whether something is to be read ahead, while it has such plans. They are
/// made for seconds ahead.
pub const PREFETCH_EVERY_NS: u64 = SECOND_NS / 10;

/// Processor time that sending a MiB costs, reading, checksums and the socket's copy included, for
/// admission until it is learnt: 0.49 to 0.58 seconds per GB were measured with 1200 to 2400
/// viewers of 5 Mb/s on a network, 0.3 with few connections on loopback (docs/benchmarks.md).
pub const CORE_MIB_NS: u64 = 600_000;

/// Between two looks at what it did cost: a second is enough to tell.
pub const CORE_LOOK_NS: u64 = SECOND_NS;

/// It is learnt while what is sent takes this part of the serve threads or more, by the price so
/// far: below, what threads do beside sending decides.
pub const CORE_BUSY_PART: u64 = 8;

/// The price goes up by this part of what is missing, with each look...
pub const CORE_PRICE_RISE: u64 = 4;

/// ...and down by this part of what is too much: who was let in by a price stays.
pub const CORE_PRICE_FALL: u64 = 32;

/// The price is at most so many times what was measured, and at least that part of it. A small
/// processor takes two to three times as long; beyond, something else keeps the threads busy.
pub const CORE_PRICE_SPAN: u64 = 4;

/// Prices of a member that differ by less are the same: they are corrected all the time, and the
/// ledger counts anew with each change.
pub const PRICE_CHANGE_PERCENT: u128 = 5;

/// The same over TLS, with the seals, which are 0.08 to 0.11 seconds per GB and were 0.16 beside
/// all else (docs/benchmarks.md). Where TLS is spoken, all viewers are counted with it, since a
/// session may be asked for either way.
pub const CORE_MIB_TLS_NS: u64 = 760_000;

/// What an admitted viewer begins with is due so long after he asked: a fifth of a second is what
/// people still take for at once. What people browse has no deadline, so that a crowd of them does
/// not come before him.
pub const BEGIN_DEADLINE_NS: u64 = SECOND_NS / 5;

/// Stripes that one ingest is given memory for at once: the pictures keep their writer full, and
/// eight tracks beside them are small and rarely have more than one stripe under way. A film that
/// wants more is stored all the same, but waits for buffers.
pub const STRIPES_PER_INGEST: usize = reel_volume::limits::WRITER_STRIPES_IN_FLIGHT + 8;

/// The part of the arena that all sockets together may have been lent: one buffer in so many.
/// Nobody can take it back before the peers have acknowledged, so readers are never promised it;
/// when it is out, the kernel copies. Little, because what lending saves is processor time, which
/// has never been what runs out first (docs/benchmarks.md, `viewers`).
pub const LENT_PART: usize = 64;

/// Buffers of the smallest arena of which some are lent (132 MiB with the default unit): below, a
/// few viewers and programs need all of it.
pub const LENT_ARENA_BUFFERS_MIN: usize = 512;

/// Stripes of a film as one file that are read ahead together for a client that asks for it piece
/// by piece, while memory is plentiful: some 3 MiB on each member, which cost a hard disk 20 ms for
/// the transfer and 7 for the way.
pub const FILE_WINDOW_STRIPES: u64 = 12;

/// The next window is read when a client has asked for all but so many stripes of the last one...
pub const FILE_WINDOW_LEFT_STRIPES: u64 = 2;

/// ...or when what it has asked for lasts no longer than this: three rounds for the disks.
pub const FILE_WINDOW_LEFT_NS: u64 = 3_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;
