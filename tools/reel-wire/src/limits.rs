//! Limits and tuning of the wire, each with its reason.

use std::net::Ipv4Addr;

// ---- Limits

/// Viewers at once: one sink of one thread plays them.
pub(crate) const VIEWERS_MAX: u32 = 20_000;

/// Longest body that is kept: a playlist of a day is 3 MiB, a sampled segment less than this.
pub(crate) const KEPT_BYTES_MAX: u64 = 64 << 20;

/// Ranges behind a hole that a viewer remembers; what is beyond is lost once more.
pub(crate) const HOLES_MAX: usize = 32;

/// Ranges that one acknowledgement tells (RFC 2018: as many as its options hold).
pub(crate) const TOLD_MAX: usize = 4;

/// A viewer that gets nothing for this long has failed.
pub(crate) const SILENCE_NS: u64 = 30_000_000_000;

// ---- Tuning

/// The server's address on the cable.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Port of the first server; each has the next one.
pub(crate) const PORT_FIRST: u16 = 8000;

/// The far side's own address: for clients that are real sockets.
pub(crate) const SIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Bits of the network of the two.
pub(crate) const SERVER_BITS: u32 = 24;

/// First address of simulated viewers; each has one of its own.
pub(crate) const VIEWERS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);

/// Bits of the viewers' network: eight million of them.
pub(crate) const VIEWERS_BITS: u32 = 9;

/// Runs after which addresses are used again: so many times the viewers fit their network.
pub(crate) const RUNS: u32 = 400;

/// The cable's end, on both sides.
pub(crate) const DEVICE: &str = "wire0";

/// Ring between the kernel and the sink: a tenth of a second at 200,000 segments a second with room
/// for heads.
pub(crate) const RING_BYTES: u32 = 32 << 20;

/// First bytes of a response that are handed over: a head with room to spare (nginx: 250 bytes,
/// Reel: 400).
pub(crate) const HEAD_BYTES: usize = 1024;

/// Size of the pieces in which whole payloads are handed over.
pub(crate) const PIECE_BYTES: usize = 4096;

/// Payload of a full segment at an MTU of 1500 bytes, as on most access networks.
pub(crate) const SEGMENT_BYTES: u32 = 1460;

/// Packets that are sent with one system call.
pub(crate) const BATCH_PACKETS: usize = 64;

/// First wait for an answer to a SYN or a request; it doubles (RFC 6298).
pub(crate) const ANSWER_NS: u64 = 1_000_000_000;

/// Tries of a SYN or a request before a viewer gives up.
pub(crate) const TRIES_MAX: u32 = 8;

/// The longest that an acknowledgement is held back (RFC 1122 allows 500 ms; Linux takes 40).
pub(crate) const HELD_NS: u64 = 40_000_000;

/// How often the sink looks what came: as a card that gathers its interrupts, and well below any
/// round trip worth simulating.
pub(crate) const TURN_NS: u64 = 200_000;
