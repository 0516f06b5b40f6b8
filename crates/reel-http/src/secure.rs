//! The TLS side of a connection: its keys, and the sealed bytes that are not yet accepted.

use reel_ring::Chunk;
use reel_tls::limits::{RECORD_OVERHEAD_BYTES_MAX, RECORD_PLAIN_BYTES_MAX};
use reel_tls::{Connection as Tls, TlsError};

/// The additional state of a connection with TLS.
pub(crate) struct Secure {
    pub(crate) tls: Tls,
    /// Received and not yet decrypted.
    pub(crate) received: Option<Vec<u8>>,
    /// Sealed bytes that are neither accepted by the socket nor in the ring.
    pub(crate) pending: Option<Chunk>,
    /// Bytes of the response in the sealed bytes that are not completely accepted.
    pub(crate) plain_bytes: u64,
    /// Bytes of `pending` that were moved out of a buffer that other connections needed.
    pub(crate) parked_bytes: usize,
}

/// The result of one sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedBytes {
    /// Bytes of the response.
    pub(crate) plain: usize,
    /// Bytes to be sent.
    pub(crate) sealed: usize,
}

/// A record that is cut only because its buffer ends should not be tiny: each record costs a pass
/// of its own.
const CUT_BYTES_MIN: usize = 4096;

impl Secure {
    pub(crate) fn new(tls: Tls) -> Self {
        Self { tls, received: None, pending: None, plain_bytes: 0, parked_bytes: 0 }
    }

    /// The most bytes that `chunks` take when sealed, with the records before and after them.
    pub(crate) fn room_bytes(chunks: &[Chunk]) -> usize {
        let record = |chunk: &Chunk| {
            chunk.len() + chunk.len().div_ceil(RECORD_PLAIN_BYTES_MAX) * RECORD_OVERHEAD_BYTES_MAX
        };
        // Room for an answer to a change of keys, and for the closing alert.
        chunks.iter().map(record).sum::<usize>() + 4 * RECORD_OVERHEAD_BYTES_MAX
    }

    /// Seals `chunks` into `out`, in their order, as far as there is room.
    ///
    /// A record never extends beyond the end of a chunk. So each byte is read from its place in
    /// memory, written to the place from which it is sent, and copied nowhere between.
    pub(crate) fn seal(&mut self, chunks: &[Chunk], out: &mut [u8]) -> Result<SealedBytes, TlsError> {
        let first = self.tls.take_outgoing();
        let mut sealed = first.len();
        let Some(place) = out.get_mut(..sealed) else { return Err(TlsError::Over) };
        place.copy_from_slice(&first);
        let mut plain = 0;
        for chunk in chunks {
            let mut rest: &[u8] = chunk;
            while !rest.is_empty() {
                if out.len() - sealed < rest.len().min(CUT_BYTES_MIN) + RECORD_OVERHEAD_BYTES_MAX {
                    return Ok(SealedBytes { plain, sealed });
                }
                let (taken, written) = self.tls.seal(rest, &mut out[sealed..])?;
                sealed += written;
                plain += taken;
                if taken == 0 {
                    return Ok(SealedBytes { plain, sealed });
                }
                rest = &rest[taken..];
            }
        }
        Ok(SealedBytes { plain, sealed })
    }

    /// `text`, sealed as the last message to the client, if the state of the connection permits it.
    pub(crate) fn seal_last(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; text.len() + 4 * RECORD_OVERHEAD_BYTES_MAX];
        let sealed = if text.is_empty() { self.tls.take_outgoing() } else { Vec::new() };
        if !sealed.is_empty() {
            return sealed;
        }
        let mut bytes = self.tls.seal(text, &mut out).map_or(0, |(_, written)| written);
        bytes += self.tls.close(&mut out[bytes..]);
        out.truncate(bytes);
        out
    }
}

/// The remainder of a chunk after its first `bytes`; the chunk itself if nothing remains.
pub(crate) fn rest_of(chunk: Chunk, bytes: usize) -> Result<Chunk, Chunk> {
    if bytes >= chunk.len() {
        return Err(chunk);
    }
    Ok(match chunk {
        Chunk::Lease(lease) => Chunk::Lease(lease.slice(bytes..lease.len())),
        Chunk::Bytes(shared, range) => Chunk::Bytes(shared, range.start + bytes..range.end),
    })
}

/// Whether a client seems to send HTTP where TLS is expected. TLS records begin with a control
/// character, requests with capital letters.
pub(crate) fn looks_like_http(first: &[u8]) -> bool {
    first.len() >= 3 && first[..3].iter().all(u8::is_ascii_uppercase)
}
