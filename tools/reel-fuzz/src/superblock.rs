//! Any block is a superblock or an error, and a superblock survives being written and read again.

use reel_volume::Superblock;

/// Where the checksum of a block lies (docs/volume-format.md).
const SUM: std::ops::Range<usize> = 8..12;

/// Reads the bytes as a superblock, with its magic and a right checksum.
pub fn superblock(bytes: &[u8]) {
    // A block with its magic and a right checksum: chance would never find either.
    let mut block = bytes.to_vec();
    block.resize(4096, 0);
    block[..8].copy_from_slice(b"REELVOL\n");
    block[SUM].fill(0);
    let sum = reel_code::crc32c(&block);
    block[SUM].copy_from_slice(&sum.to_le_bytes());
    if let Ok(superblock) = Superblock::decode(&block) {
        let again = Superblock::decode(&superblock.encode()).expect("what was written can be read");
        assert_eq!(format!("{again:?}"), format!("{superblock:?}"));
    }
}
