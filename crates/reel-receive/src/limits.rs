//! Limits on what a receiver keeps, and tuning of how long a receiver waits, each with its reason.

// ---- Limits

/// Packets that a receiver without FEC puts in order: a second of a stream of 10 Mb/s.
pub const REORDER_PACKETS: u64 = 1024;
/// Packets that wait for the caller. A caller takes them after each datagram, and a restart adds
/// one window of at most 4096 packets.
pub const OUTPUT_PACKETS_MAX: usize = 8192;
/// Bytes of a datagram that are read. Longer ones than an Ethernet frame are no packets of a cast.
pub const DATAGRAM_BYTES_MAX: usize = 2048;
/// Datagrams that wait in memory between the sockets and the receiver: 8 MB, six seconds of a
/// stream of 8 Mb/s.
pub const ARRIVALS_MAX: usize = 4096;
/// The longest repair window that a description may ask for: 10 s. FEC of two matrices of 1024
/// packets takes as long at 2 Mb/s.
pub const REPAIR_WINDOW_NS_MAX: u64 = 10_000_000_000;
/// Announced casts that are kept: each has at most 2000 bytes, so they take a few MB.
pub const GUIDE_CASTS_MAX: usize = 1024;
/// Announced casts of one sender that are kept: a Reel server has 64, and one that announces
/// without end leaves room for others.
pub const GUIDE_CASTS_OF_SENDER_MAX: usize = 128;
/// The place of a packet of a broadcast may be so far from the time at which it arrived: the
/// longest repair window. A server whose clock was set by more than that begins another schedule.
pub const PLACE_NS_MAX: u64 = 10_000_000_000;
/// Payloads of a broadcast that wait until the clock of the sender is known: two thousand packets
/// a second for twice the time between reports (5 s).
pub const PENDING_PACKETS_MAX: usize = 20_000;
/// How far the clock of the sender may differ without a report of the sender that says so: 10
/// minutes. Time stamps begin again after 13 h 15 min, and a clock in another time zone is wrong by
/// whole hours, so none of those is mistaken for so little.
pub const UNREPORTED_NS_MAX: u64 = 600_000_000_000;

// ---- Tuning

/// The receive buffer that is asked for: half a second of a stream of 100 Mb/s.
pub const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// A missing packet is waited for at least so long: packets that take another path, and trains of
/// 10 ms on two ports, differ by less.
pub const REORDER_NS: u64 = 100_000_000;
/// The repair window if the description names none. RFC 6015 has no default; two matrices of 100
/// packets take as long at 2 Mb/s.
pub const REPAIR_WINDOW_NS: u64 = 1_000_000_000;
/// A missing packet is waited for at least as long as this number of packets arrives. Fewer are
/// passed by one train.
pub const HOLD_PACKETS_MIN: u64 = 64;
/// Packets of another source after which it is followed, if the source before is silent. A single
/// stray packet or two change nothing.
pub const SOURCE_PACKETS: usize = 16;
/// A source that has not sent for so long is silent. A cast sends at least some packets in each
/// 10 ms; a restart of a server takes longer.
pub const SOURCE_SILENT_NS: u64 = 500_000_000;
/// Packets that follow each other after a jump forwards, after which the jump is followed. RFC
/// 3550, appendix A.1, takes two.
pub const JUMP_PACKETS: usize = 2;
/// The longest jump forwards that is counted as loss (RFC 3550, appendix A.1: `MAX_DROPOUT`).
/// After a longer one, the number of lost packets is not known.
pub const LOSS_PACKETS_MAX: i16 = 3000;
/// Time from the end of a source (BYE) to the end of the receiver: packets on other ports may
/// arrive after it.
pub const GOODBYE_NS: u64 = 500_000_000;
/// Packets of a broadcast whose places agree, after which the clock of the sender is known. Of
/// random time stamps, one in a hundred or fewer has a place.
pub const CLOCK_PACKETS: u32 = 16;
/// Places agree if they are so near to each other: a train has 10 ms, and a path that changes some
/// hundred.
pub const CLOCK_AGREES_NS: u64 = 1_000_000_000;
/// A difference of the clocks that leaves the plan as it is: half of the time that channels are
/// joined before their slots.
pub const CLOCK_KEEPS_NS: u64 = reel_broadcast::limits::JOIN_NS / 2;
/// Packets of other broadcasts than the described one, and the time in which nothing of that
/// arrived, after which the description is out of date. A server that begins again is silent for
/// longer than a moment, and sends from the described sources.
pub const UNDESCRIBED_PACKETS: u64 = 16;
/// See [`UNDESCRIBED_PACKETS`].
pub const UNDESCRIBED_NS: u64 = 2_000_000_000;
