//! What the bytes of a stranger may cost: so much memory in so many pieces, and so much more for
//! each byte. Both are counted, so they are the same on every machine.

/// What may be allocated, all in all, also if it is released at once.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes, whatever was sent.
    pub bytes: u64,
    /// Bytes for each byte that was sent.
    pub bytes_each: u64,
    /// Pieces, whatever was sent.
    pub pieces: u64,
    /// Pieces for each 16 bytes that were sent.
    pub pieces_each_16: u64,
}

/// Runs a target on these bytes.
///
/// # Panics
/// If it allocates more than it may, or keeps anything.
pub fn within(cost: Cost, sent: &[u8], target: impl FnOnce(&[u8])) {
    let spent = allocation_counter::measure(|| target(sent));
    let sent_bytes = sent.len() as u64;
    let bytes_max = cost.bytes + cost.bytes_each * sent_bytes;
    let pieces_max = cost.pieces + cost.pieces_each_16 * sent_bytes.div_ceil(16);
    let (bytes, pieces) = (spent.bytes_total, spent.count_total);
    assert!(bytes <= bytes_max, "{sent_bytes} bytes cost {bytes} bytes of memory, not {bytes_max}");
    assert!(pieces <= pieces_max, "{sent_bytes} bytes cost {pieces} pieces of memory, not {pieces_max}");
    assert_eq!(spent.bytes_current, 0, "bytes are kept");
}
