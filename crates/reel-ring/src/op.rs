use std::io;
use std::ops::{Deref, Range};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reel_arena::{Buffer, Lease, Sending};

use crate::train::Train;

/// A piece of what is sent.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Bytes in the arena.
    Lease(Lease),
    /// Other bytes (headers, playlists): the given range of a shared slice.
    Bytes(Arc<[u8]>, Range<usize>),
}

/// An operation. The ring owns all of it until its [`Done`].
#[derive(Debug)]
pub enum Op {
    /// Reads `bytes` bytes of the file at `offset` into `buffer[start..start + bytes]`. The result
    /// may be short; 0 is the end of the file. A file opened for direct I/O needs all three numbers
    /// aligned.
    Read {
        /// The file.
        file: Arc<OwnedFd>,
        /// Position in the file, in bytes.
        offset: u64,
        /// The buffer to read into.
        buffer: Buffer,
        /// First byte in the buffer.
        start: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// Writes the lease's bytes to the file at `offset`. The result may be short.
    Write {
        /// The file.
        file: Arc<OwnedFd>,
        /// Position in the file, in bytes.
        offset: u64,
        /// The bytes.
        lease: Lease,
    },
    /// Makes earlier writes durable (fdatasync).
    Sync {
        /// The file.
        file: Arc<OwnedFd>,
    },
    /// Waits for a connection, which is returned in [`Done::accepted`], blocking and close-on-exec.
    /// The portable driver makes the listener non-blocking.
    Accept {
        /// The listening socket.
        listener: Arc<OwnedFd>,
    },
    /// Waits for bytes and appends them within the vector's spare capacity. 0 means that the peer
    /// has closed.
    Receive {
        /// The socket.
        socket: Arc<OwnedFd>,
        /// The vector to append to; it must have spare capacity.
        buffer: Vec<u8>,
    },
    /// Sends as much as the socket takes now; `WouldBlock` if that is nothing. Never raises
    /// SIGPIPE. At most one send per socket should be in flight, or their bytes may interleave.
    Send {
        /// The socket.
        socket: Arc<OwnedFd>,
        /// What to send, in order.
        chunks: Vec<Chunk>,
    },
    /// Like `Send`, but the kernel may send from the memory itself instead of a copy, and then uses
    /// the memory until the peer has acknowledged the bytes. In that case the [`Done`] has no
    /// chunks. A second one with the same token and [`Op::Lent`] returns them, perhaps long after
    /// the socket was closed. Where the kernel cannot do this, the operation is a `Send`, whose
    /// only `Done` has all chunks.
    SendZeroCopy {
        /// The socket.
        socket: Arc<OwnedFd>,
        /// What to send, in order. The bytes must not change while a clone of them lives.
        chunks: Vec<Chunk>,
    },
    /// The end of an [`Op::SendZeroCopy`]: the kernel has released the memory. The result is how
    /// many bytes the socket had taken. Cannot be pushed.
    Lent {
        /// The chunks that were sent from. Chunks of which nothing was taken were dropped with the
        /// first part.
        chunks: Vec<Chunk>,
        /// The kernel copied some of it after all, or sent nothing.
        copied: bool,
    },
    /// Sends the packets of a train, all or none; `WouldBlock` if the socket's buffer is full.
    /// Trains of one socket that are pushed one after another are sent in that order.
    Train(Train),
    /// Waits until the socket takes bytes or is broken. The result is the poll(2) bits.
    AwaitWritable {
        /// The socket.
        socket: Arc<OwnedFd>,
    },
    /// Waits until the socket has bytes, a connection, its end or an error. The result is the
    /// poll(2) bits.
    AwaitReadable {
        /// The socket.
        socket: Arc<OwnedFd>,
    },
}

/// The end of an operation (for a zero-copy send perhaps only its first part): the result, and
/// everything that the operation owned.
#[derive(Debug)]
pub struct Done {
    /// The token given to `push`.
    pub token: u64,
    /// Bytes transferred (0 for sync and accept, the poll bits for the awaits), or the error.
    /// `ECANCELED` after a cancel.
    pub result: io::Result<usize>,
    /// The operation with its memory.
    pub op: Op,
    /// The new connection of an accept.
    pub accepted: Option<OwnedFd>,
}

impl Op {
    /// Checks that the operation is valid for every driver.
    ///
    /// # Errors
    /// If a range, a length or the kind of the operation is impossible.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self {
            Op::Read { buffer, start, bytes, .. } => {
                let fits = start.checked_add(*bytes).is_some_and(|end| end <= buffer.len());
                if fits { Ok(()) } else { Err("the read does not fit in its buffer") }
            }
            Op::Receive { buffer, .. } if buffer.len() == buffer.capacity() => {
                Err("the vector has no spare capacity to receive into")
            }
            Op::Lent { .. } => Err("the end of a zero-copy send cannot be pushed"),
            Op::Send { chunks, .. } | Op::SendZeroCopy { chunks, .. } => {
                if chunks.iter().all(Chunk::is_within) {
                    Ok(())
                } else {
                    Err("a chunk's range is not within its bytes")
                }
            }
            Op::Train(train) => train.check(),
            _ => Ok(()),
        }
    }
}

impl Chunk {
    /// A part of its bytes.
    ///
    /// # Panics
    /// If the range is not within them.
    pub fn slice(&self, range: Range<usize>) -> Chunk {
        match self {
            Chunk::Lease(lease) => Chunk::Lease(lease.slice(range)),
            Chunk::Bytes(bytes, whole) => {
                assert!(range.start <= range.end && range.end <= whole.len(), "{range:?} of {whole:?}");
                Chunk::Bytes(Arc::clone(bytes), whole.start + range.start..whole.start + range.end)
            }
        }
    }

    pub(crate) fn is_within(&self) -> bool {
        match self {
            Chunk::Lease(_) => true,
            Chunk::Bytes(bytes, range) => range.start <= range.end && range.end <= bytes.len(),
        }
    }

    /// The lease, if the chunk is one.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match self {
            Chunk::Lease(lease) => Some(lease),
            Chunk::Bytes(..) => None,
        }
    }

    /// Counts a send of arena memory for the arena's statistics, until the guard is dropped.
    pub(crate) fn sending(&self) -> Option<Sending> {
        match self {
            Chunk::Lease(lease) => Some(lease.sending()),
            Chunk::Bytes(..) => None,
        }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    /// # Panics
    /// If the range is not within the bytes.
    fn deref(&self) -> &[u8] {
        match self {
            Chunk::Lease(lease) => lease,
            Chunk::Bytes(bytes, range) => &bytes[range.clone()],
        }
    }
}

impl From<Lease> for Chunk {
    fn from(lease: Lease) -> Chunk {
        Chunk::Lease(lease)
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Chunk {
        let range = 0..bytes.len();
        Chunk::Bytes(bytes.into(), range)
    }
}

impl From<Arc<[u8]>> for Chunk {
    fn from(bytes: Arc<[u8]>) -> Chunk {
        let range = 0..bytes.len();
        Chunk::Bytes(bytes, range)
    }
}
