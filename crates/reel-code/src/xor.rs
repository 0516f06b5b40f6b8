//! Exclusive or of rows.

use crate::kernels::xor_sources;

/// `target[j] ^= source[j]` for every j.
///
/// # Panics
/// If the two differ in length; rows of one matrix always have the same.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "rows of one matrix have one length");
    xor_sources(target, &[source]);
}

/// `target[j] = sources[0][j] ^ sources[1][j] ^ ...` for every j: the parity of the sources. The
/// old content of `target` does not matter; without sources it becomes zero.
///
/// # Panics
/// If a source differs from the target in length.
pub fn xor_rows(target: &mut [u8], sources: &[&[u8]]) {
    for source in sources {
        assert_eq!(target.len(), source.len(), "rows of one matrix have one length");
    }
    match sources.split_first() {
        None => target.fill(0),
        Some((first, rest)) => {
            target.copy_from_slice(first);
            xor_sources(target, rest);
        }
    }
}
