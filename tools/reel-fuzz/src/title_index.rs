//! Any bytes are an index or an error, and an index survives being written and read again.

use reel_media::TitleIndex;

/// Reads the bytes as the index of a title, with a right checksum.
pub fn title_index(bytes: &[u8]) {
    // The checksum at the end is set right: chance would never find it, and what lies behind it is
    // what matters.
    let mut bytes = bytes.to_vec();
    if let Some((covered, sum)) = bytes.split_last_chunk_mut::<4>() {
        *sum = reel_code::crc32c(covered).to_le_bytes();
    }
    if let Ok(index) = TitleIndex::decode(&bytes) {
        assert_eq!(index.encode().expect("what was read is within the limits"), bytes);
    }
}
