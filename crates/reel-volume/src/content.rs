//! Whether a file or device that is to become a member holds anything.
//!
//! A disk that looks empty at its start may hold a RAID whose superblock is at the end, or one half
//! of a disk image. So its whole length is sampled.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::limits::{CONTENT_END_BYTES, CONTENT_SAMPLE_BYTES, CONTENT_SAMPLES};
use crate::signature::named;

/// What a file or device of so many bytes already holds, as a message: `holds an ext file system`.
/// `None` if it is empty, or only zeros were found.
pub(crate) fn content(file: &File, bytes: u64) -> Option<String> {
    let read = |offset, bytes| {
        let mut target = vec![0; bytes];
        file.read_exact_at(&mut target, offset).ok().map(|()| target)
    };
    named(bytes, &read).or_else(|| first_sample_with_data(file, bytes))
}

/// Samples the whole: both ends in full, and places in between at even distances.
fn first_sample_with_data(file: &File, bytes: u64) -> Option<String> {
    let ends = [(0, CONTENT_END_BYTES.min(bytes)), (bytes.saturating_sub(CONTENT_END_BYTES), bytes)];
    for (mut at, end) in ends {
        while at < end {
            let next = end.min(at + CONTENT_SAMPLE_BYTES);
            if let Some(found) = not_zero(file, at, next) {
                return Some(found);
            }
            at = next;
        }
    }
    let distance = bytes / CONTENT_SAMPLES;
    let mut read = 0;
    for sample in 0..CONTENT_SAMPLES {
        let at = next_data(file, read.max(sample * distance))?;
        read = bytes.min(at.saturating_add(CONTENT_SAMPLE_BYTES));
        if at >= bytes {
            return None;
        }
        if let Some(found) = not_zero(file, at, read) {
            return Some(found);
        }
    }
    None
}

fn not_zero(file: &File, at: u64, end: u64) -> Option<String> {
    let mut sample = vec![0; (end - at) as usize];
    if let Err(error) = file.read_exact_at(&mut sample, at) {
        return Some(format!("cannot be read at byte {at} ({error}), so it may hold something"));
    }
    let place = sample.iter().position(|byte| *byte != 0)?;
    Some(format!("is not empty: there is data at byte {}", at + place as u64))
}

/// The first byte from here on that is not in a hole; `None` if a hole reaches to the end. A device
/// has no holes.
fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 300 << 20;

    fn sparse(data: &[(u64, usize)]) -> Option<String> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES).unwrap();
        for (at, bytes) in data {
            file.write_all_at(&vec![1; *bytes], *at).unwrap();
        }
        content(&file, BYTES)
    }

    #[test]
    fn one_byte_at_either_end_is_found() {
        assert_eq!(sparse(&[]), None);
        for at in [0, 200 << 10, (1 << 20) - 1, BYTES - (1 << 20), BYTES - 1] {
            assert_eq!(sparse(&[(at, 1)]), Some(format!("is not empty: there is data at byte {at}")));
        }
    }

    #[test]
    fn data_between_holes_is_found_wherever_it_is() {
        for at in [2 << 20, 100 << 20, (177 << 20) + 4096, (298 << 20) + 8192] {
            assert_eq!(sparse(&[(at, 1)]), Some(format!("is not empty: there is data at byte {at}")));
        }
    }

    #[test]
    fn a_part_without_holes_is_sampled() {
        let zeros = (20 << 20, 250 << 20);
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES).unwrap();
        file.write_all_at(&vec![0; zeros.1], zeros.0).unwrap();
        assert_eq!(content(&file, BYTES), None);
        file.write_all_at(&vec![1; 4 << 20], 150 << 20).unwrap();
        assert!(content(&file, BYTES).is_some());
    }
}
