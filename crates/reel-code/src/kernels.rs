//! Chooses, at run time, the widest registers that this processor has. The only file of this crate
//! with `unsafe`.
//!
//! The loop is written once, in plain safe Rust, and compiled three times: for the baseline, for
//! AVX2 and for AVX-512. The compiler vectorizes it, so there is no pointer arithmetic here. The
//! only unsafe part is the promise that the processor has the registers that the compiled copy
//! uses.

/// Bytes handled per iteration. Eight cache lines keep the stores of one iteration apart from the
/// loads of the next, and let the compiler use every register of either width.
const BLOCK_BYTES: usize = 512;

/// `target[j] ^= source[j]` for every source, in one pass over the target.
///
/// The caller guarantees that all lengths are equal.
pub(crate) fn xor_sources(target: &mut [u8], sources: &[&[u8]]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the line above has checked that this processor (and its kernel) has AVX-512F,
            // which is all that the function needs.
            unsafe { xor_avx512(target, sources) };
            return;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the line above has checked that this processor (and its kernel) has AVX2.
            unsafe { xor_avx2(target, sources) };
            return;
        }
    }
    xor_plain(target, sources);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn xor_avx512(target: &mut [u8], sources: &[&[u8]]) {
    xor_plain(target, sources);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn xor_avx2(target: &mut [u8], sources: &[&[u8]]) {
    xor_plain(target, sources);
}

#[inline(always)]
fn xor_plain(target: &mut [u8], sources: &[&[u8]]) {
    // Four sources at a time, so that a stripe of 4+1 reads each of its rows once and writes its
    // parity once.
    let mut rest = sources;
    while let Some((&[a, b, c, d], after)) = rest.split_first_chunk::<4>() {
        xor_four(target, a, b, c, d);
        rest = after;
    }
    for source in rest {
        xor_one(target, source);
    }
}

#[inline(always)]
fn xor_four(target: &mut [u8], a: &[u8], b: &[u8], c: &[u8], d: &[u8]) {
    let (a_blocks, a_tail) = a.as_chunks::<BLOCK_BYTES>();
    let (b_blocks, b_tail) = b.as_chunks::<BLOCK_BYTES>();
    let (c_blocks, c_tail) = c.as_chunks::<BLOCK_BYTES>();
    let (d_blocks, d_tail) = d.as_chunks::<BLOCK_BYTES>();
    let (blocks, tail) = target.as_chunks_mut::<BLOCK_BYTES>();
    for ((((t, a), b), c), d) in blocks.iter_mut().zip(a_blocks).zip(b_blocks).zip(c_blocks).zip(d_blocks) {
        for j in 0..BLOCK_BYTES {
            t[j] ^= a[j] ^ b[j] ^ c[j] ^ d[j];
        }
    }
    for ((((t, a), b), c), d) in tail.iter_mut().zip(a_tail).zip(b_tail).zip(c_tail).zip(d_tail) {
        *t ^= a ^ b ^ c ^ d;
    }
}

#[inline(always)]
fn xor_one(target: &mut [u8], source: &[u8]) {
    let (source_blocks, source_tail) = source.as_chunks::<BLOCK_BYTES>();
    let (blocks, tail) = target.as_chunks_mut::<BLOCK_BYTES>();
    for (t, s) in blocks.iter_mut().zip(source_blocks) {
        for j in 0..BLOCK_BYTES {
            t[j] ^= s[j];
        }
    }
    for (t, s) in tail.iter_mut().zip(source_tail) {
        *t ^= s;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One byte after another: the reference.
    fn xor_by_bytes(target: &mut [u8], sources: &[&[u8]]) {
        for source in sources {
            for j in 0..target.len() {
                target[j] ^= source[j];
            }
        }
    }

    proptest! {
        #[test]
        fn every_width_equals_one_byte_after_another(
            seed in any::<u64>(), bytes in 0usize..2200, count in 0usize..11, shift in 0usize..64,
        ) {
            let mut state = seed;
            let mut row = || -> Vec<u8> {
                (0..bytes + shift).map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) as u8
                }).collect()
            };
            let start = row();
            let rows: Vec<Vec<u8>> = (0..count).map(|_| row()).collect();
            let sources: Vec<&[u8]> = rows.iter().map(|r| &r[shift..]).collect();
            let mut expected = start.clone();
            xor_by_bytes(&mut expected[shift..], &sources);

            let mut plain = start.clone();
            xor_plain(&mut plain[shift..], &sources);
            prop_assert_eq!(&plain, &expected);

            let mut chosen = start.clone();
            xor_sources(&mut chosen[shift..], &sources);
            prop_assert_eq!(&chosen, &expected);

            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                let mut narrow = start.clone();
                // SAFETY: the condition has checked AVX2.
                unsafe { xor_avx2(&mut narrow[shift..], &sources) };
                prop_assert_eq!(&narrow, &expected);
            }
        }
    }
}
