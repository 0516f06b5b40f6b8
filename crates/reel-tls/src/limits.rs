//! Limits and tuning of this crate, each with its reason.

// ---- Limits

/// The most plaintext of one record (RFC 8446 section 5.1).
pub const RECORD_PLAIN_BYTES_MAX: usize = 1 << 14;

/// The most bytes that a record sealed here has beside its plaintext: header, explicit nonce of TLS
/// 1.2, inner type, tag.
pub const RECORD_OVERHEAD_BYTES_MAX: usize = 5 + 8 + 1 + 16;

/// The most bytes of a received record after its header. RFC 8446 section 5.2 allows 256 beside the
/// plaintext. RFC 5246 section 6.2.3 allows 2048, which none of the supported ciphers uses.
pub const RECORD_BODY_BYTES_MAX: usize = RECORD_PLAIN_BYTES_MAX + 256;

/// Records sealed with one key. AES-GCM stays below a distinguishing advantage of 2^-57 up to
/// 2^24.5 full records (RFC 8446 section 5.5). With TLS 1.3 a new key follows; with TLS 1.2, after
/// 137 GB, the connection ends.
pub const RECORDS_PER_KEY_MAX: u64 = 1 << 23;

/// How many key changes a client may request on one connection. A client that sends only such
/// requests costs a derivation each. Honest clients change keys every few hundred gigabytes.
pub const KEY_UPDATES_MAX: u32 = 64;

/// The most alerts without effect (`user_canceled`) or records without content in a row.
pub const EMPTY_RECORDS_MAX: u32 = 32;

/// The most certificates in a file. A chain has two to four.
pub const CHAIN_MAX: usize = 16;

/// Bytes of a handshake that wait for the rest of their message. Clients send no certificates, so
/// their messages are a few kilobytes, most of it for a key exchange that is safe against quantum
/// computers.
pub const HANDSHAKE_BYTES_MAX: usize = 32 * 1024;

// ---- Tuning

/// How long a generated certificate is valid: browsers refuse some that are valid for more than 398
/// days.
pub const GENERATED_DAYS: i64 = 397;

/// A generated certificate is replaced this long before its end.
pub const RENEW_BEFORE_S: i64 = 30 * 86_400;
