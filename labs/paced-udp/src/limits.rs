//! Every bound of this crate, with its reason.

/// How much of a stream leaves as one UDP train. A burst of it has to fit in every queue on the
/// way: 10 ms are what a home router holds of a few streams, and at 50 Mb/s they are the longest
/// train there is.
pub const UDP_TRAIN_NS: u64 = 10_000_000;

/// How far behind its time a UDP stream may be and still be caught up with: receivers of pushed
/// streams buffer some hundred milliseconds; what is later than that is late whatever is done.
pub const UDP_BEHIND_NS_MAX: u64 = 200_000_000;

/// How much faster than its rate a UDP stream that is behind may be sent, as a fraction: 5/4, so
/// the longest delay is caught up with in less than a second, and no line needs to be wider than
/// one that carries a stream with a quarter to spare.
pub const UDP_HURRY: (u64, u64) = (5, 4);

/// Bytes that a UDP sender holds beyond those in the kernel: a second at 16 Mb/s, so that it is
/// asked for more in time; it is also what it keeps from the arena.
pub const UDP_QUEUE_BYTES_MAX: usize = 2 << 20;

/// Trains of a UDP sender whose memory the device has not given back: a card does so within a
/// millisecond, and a train goes every few. More would be a device that stands still, and memory
/// lost to it.
pub const UDP_LENT_TRAINS_MAX: usize = 16;

/// The shortest UDP train that is lent to the device instead of being copied: below it, looking
/// after pages costs more than copying bytes (docs/benchmarks.md).
pub const UDP_LENT_BYTES_MIN: usize = 8 << 10;

/// Lent trains in a row that were copied after all until a UDP sender copies them itself, which is
/// cheaper. Single ones are copied for reasons that pass: somebody captured packets.
pub const UDP_COPIED_IN_ROW: u32 = 4;

/// Trains that a UDP sender then copies until it lends one to see whether the way has changed: a
/// probe costs half a copy more, so a thousandth is nothing, and at 10 ms a train it is one every
/// ten seconds.
pub const UDP_COPIES_TO_PROBE: u32 = 1000;
