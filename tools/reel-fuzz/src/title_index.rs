//! Any bytes are an index or an error, and an index survives being written and read again.

use reel_media::TitleIndex;
use reel_media::transport::StreamIndex;

/// End of the magic bytes and the version.
const VERSION_END: usize = 12;

/// Reads the bytes as the index of a title or of a stored transport stream, with a right checksum.
pub fn title_index(bytes: &[u8]) {
    // The checksum at the end is set right: chance would never find it, and what lies behind it is
    // what matters.
    let mut bytes = bytes.to_vec();
    if let Some((covered, sum)) = bytes.split_last_chunk_mut::<4>() {
        *sum = reel_code::crc32c(covered).to_le_bytes();
    }
    if let Ok(index) = TitleIndex::decode(&bytes) {
        let encoded = index.encode().expect("what was read is within the limits");
        // An index of an older version is written in the newest one.
        if encoded.get(..VERSION_END) == bytes.get(..VERSION_END) {
            assert_eq!(encoded, bytes);
        }
        assert_eq!(TitleIndex::decode(&encoded).expect("what was encoded"), index);
    }
    if let Ok(index) = StreamIndex::decode(&bytes) {
        assert_eq!(index.encode().expect("what was read is within the limits"), bytes);
    }
}
