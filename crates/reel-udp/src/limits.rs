//! Limits and tuning of this crate, each with its reason.

// ---- Limits

/// Flows of one UDP sender: more than a core has time to send. With what a flow holds at most, the
/// owner of the flows has to bound their memory first.
pub const UDP_FLOWS_MAX: usize = 4096;

/// Bytes that a flow holds beyond those in the kernel: a second at 16 Mb/s, so that its owner can
/// offer more in time. It is also the arena memory that the flow holds.
pub const UDP_QUEUE_BYTES_MAX: usize = 2 << 20;

/// Trains of a flow whose memory the device has not given back. A network card gives it back
/// within a millisecond, and a train goes every few. More would mean that the device stands still,
/// and that the memory is lost to it.
pub const UDP_LENT_TRAINS_MAX: usize = 16;

// ---- Tuning

/// The send buffer of a socket for multicast. All flows share it, and the kernel books a piece of a
/// huge page with all that lies before it in the page: 2 MiB each for the trains of a few dozen
/// flows. It is a bound, not memory that is taken.
pub const UDP_SEND_BUFFER_BYTES: usize = 64 << 20;

/// How much of a stream leaves as one UDP train. A burst of that size has to fit in every queue on
/// the path. 10 ms are what a home router holds of a few streams. At 50 Mb/s they are the longest
/// train that is possible.
pub const UDP_TRAIN_NS: u64 = 10_000_000;

/// How far behind its time a UDP stream may be and still catch up. Receivers of pushed streams
/// buffer some hundred milliseconds. What is later than that is late in any case.
pub const UDP_BEHIND_NS_MAX: u64 = 200_000_000;

/// How much faster than its rate a UDP stream that is behind may be sent, as a fraction. With 5/4
/// the longest delay is caught up with in less than a second. No line needs to be wider than one
/// that carries a stream with a quarter to spare.
pub const UDP_HURRY: (u64, u64) = (5, 4);

/// The shortest UDP train that is lent to the device instead of being copied. Below it, managing
/// pages costs more than copying bytes (docs/benchmarks.md).
pub const UDP_LENT_BYTES_MIN: usize = 8 << 10;

/// Lent trains in a row that the kernel copied after all until a UDP sender has its trains copied
/// from the start, which is cheaper. Single trains are copied for passing reasons, for example a
/// packet capture.
pub const UDP_COPIED_IN_ROW: u32 = 4;

/// Trains that a UDP sender then has copied until it lends one to see whether the path has changed.
/// A probe costs half a copy more, so one in a thousand is nothing. At 10 ms a train it is one
/// every ten seconds.
pub const UDP_COPIES_TO_PROBE: u32 = 1000;
