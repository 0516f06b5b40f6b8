use std::os::fd::AsRawFd;
use std::sync::LazyLock;

use io_uring::{opcode, squeue, types};

use crate::arena_map::ArenaMap;
use crate::op::Chunk;
use crate::train::{Train, TrainMessage};
use crate::uring::entry::REPORT_USAGE;

/// `IORING_RECVSEND_FIXED_BUF` (io_uring.h).
const FROM_REGISTERED: u16 = 1 << 2;

/// Whether gathered zero-copy sends take registered memory (Linux 6.15). Only the version tells: an
/// older kernel would answer EINVAL, which has a dozen other reasons.
static GATHERS_REGISTERED: LazyLock<bool> =
    LazyLock::new(|| gathers_registered(&rustix::system::uname().release().to_string_lossy()));

/// The kernel's form of a train.
pub(super) fn entry(
    train: &Train,
    message: &mut Option<Box<TrainMessage>>,
    map: Option<&ArenaMap>,
    sends_zero_copy: bool,
) -> squeue::Entry {
    let message = message.insert(TrainMessage::new(train));
    let (socket, header) = (types::Fd(train.socket.as_raw_fd()), message.header());
    let flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as u32;
    if !train.zero_copy || !sends_zero_copy || !train.can_be_lent() {
        return opcode::SendMsg::new(socket, header).flags(flags).build();
    }
    let lent = |ioprio| opcode::SendMsgZc::new(socket, header).flags(flags).ioprio(ioprio).build();
    match map.filter(|_| *GATHERS_REGISTERED).and_then(|map| piece(&train.chunks, map)) {
        Some(piece) => from_registered(lent(REPORT_USAGE | FROM_REGISTERED), piece),
        None => lent(REPORT_USAGE),
    }
}

/// The registered piece that contains all chunks.
fn piece(chunks: &[Chunk], map: &ArenaMap) -> Option<u16> {
    let mut pieces = chunks.iter().map(|chunk| map.index(chunk.as_ptr(), chunk.len()));
    let first = pieces.next()??;
    pieces.all(|piece| piece == Some(first)).then_some(first)
}

/// Sets the registered piece of a gathered send; `SendMsgZc` has no parameter for it yet.
fn from_registered(mut entry: squeue::Entry, piece: u16) -> squeue::Entry {
    /// `buf_index` of `struct io_uring_sqe` (io_uring.h).
    const PIECE_AT: usize = 40;
    const { assert!(size_of::<squeue::Entry>() == 64, "the kernel's entry of 64 bytes and nothing else") };
    // SAFETY: an entry is the kernel's structure of 64 bytes (repr(C), one field), aligned to 8.
    // Bytes 40 and 41 are its `buf_index`, a u16 for which every value is valid.
    unsafe { (&raw mut entry).cast::<u8>().add(PIECE_AT).cast::<u16>().write(piece) };
    entry
}

fn gathers_registered(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0u32));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_release_is_parsed() {
        let releases =
            ["5.15.0-91-generic", "6.1.0", "6.14.9-arch1", "unknown", "6.15.0", "6.18.44", "7.0.1", "10.4"];
        let can = releases.map(gathers_registered);
        assert_eq!(can, [false, false, false, false, true, true, true, true]);
    }
}
