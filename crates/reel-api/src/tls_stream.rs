//! A secured connection as a stream of plain bytes, for hyper.

use crate::turns::TurnStream;
use reel_tls::Connection;
use reel_tls::limits::RECORD_OVERHEAD_BYTES_MAX;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The socket with its keys.
pub(super) struct TlsStream {
    socket: TurnStream<TcpStream>,
    tls: Box<Connection>,
    /// Opened and not yet read, from `read` on.
    plain: Vec<u8>,
    read: usize,
    /// Sealed and not yet sent, from `sent` on.
    sealed: Vec<u8>,
    sent: usize,
}

/// Bytes taken from the socket at once: a whole record.
const RECEIVE_BYTES: usize = 18 * 1024;

/// Plain bytes that are sealed at once: four records, so that a large answer takes few calls.
const SEAL_BYTES: usize = 64 * 1024;

impl TlsStream {
    /// Continues with a connection whose handshake is done; `plain` was read from it before.
    pub(super) fn new(socket: TurnStream<TcpStream>, tls: Box<Connection>, plain: Vec<u8>) -> Self {
        Self { socket, tls, plain, read: 0, sealed: Vec::new(), sent: 0 }
    }

    /// Sends what is sealed.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let first = self.tls.take_outgoing();
        if !first.is_empty() {
            self.sealed.extend_from_slice(&first);
        }
        while self.sent < self.sealed.len() {
            let count = ready!(Pin::new(&mut self.socket).poll_write(context, &self.sealed[self.sent..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
        }
        (self.sealed, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.read == this.plain.len() {
            (this.plain, this.read) = (Vec::new(), 0);
            if this.tls.peer_has_closed() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = [0; RECEIVE_BYTES];
            let mut received = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut this.socket).poll_read(context, &mut received))?;
            if received.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let mut incoming = this.tls.take_incoming();
            incoming.extend_from_slice(received.filled());
            if let Err(error) = this.tls.receive(incoming, &mut this.plain) {
                // Best effort: the alert goes out if the socket takes it now.
                let _ = this.poll_send(context);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
        let bytes = out.remaining().min(this.plain.len() - this.read);
        out.put_slice(&this.plain[this.read..this.read + bytes]);
        this.read += bytes;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        plain: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        // What was sealed before goes first, and only so much is held.
        ready!(this.poll_send(context))?;
        let wanted = plain.len().min(SEAL_BYTES);
        let records = 1 + wanted / reel_tls::limits::RECORD_PLAIN_BYTES_MAX;
        let mut sealed = vec![0; wanted + records * RECORD_OVERHEAD_BYTES_MAX + RECORD_OVERHEAD_BYTES_MAX];
        let (mut taken, mut bytes) = (0, 0);
        while taken < wanted {
            let (took, wrote) =
                this.tls.seal(&plain[taken..wanted], &mut sealed[bytes..]).map_err(io::Error::other)?;
            bytes += wrote;
            taken += took;
            if took == 0 {
                break;
            }
        }
        sealed.truncate(bytes);
        (this.sealed, this.sent) = (sealed, 0);
        // Taken either way: what the socket does not take now it takes at the next call.
        if let Poll::Ready(Err(error)) = this.poll_send(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.poll_send(context))?;
        let mut word = [0; 2 + RECORD_OVERHEAD_BYTES_MAX];
        let bytes = this.tls.close(&mut word);
        this.sealed.extend_from_slice(&word[..bytes]);
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.socket).poll_shutdown(context)
    }
}
