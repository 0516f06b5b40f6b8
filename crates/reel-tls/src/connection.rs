//! One connection, server side: bytes from the socket in, bytes for the socket out.

use crate::acceptor::{Acceptor, HTTP2, Protocol};
use crate::error::TlsError;
use crate::limits::{
    EMPTY_RECORDS_MAX, HANDSHAKE_BYTES_MAX, KEY_UPDATES_MAX, RECORD_BODY_BYTES_MAX, RECORD_PLAIN_BYTES_MAX,
};
use crate::records::{ALERT, CHANGE_CIPHER_SPEC, DATA, HANDSHAKE, HEADER_BYTES, Keys, record_bytes};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use std::sync::Arc;

/// A connection in one of its phases: handshake, then records, then ended.
///
/// It can be moved to another thread at any time, and does not refer to the socket.
pub struct Connection {
    phase: Phase,
    /// Received bytes that are not a whole record yet.
    incoming: Vec<u8>,
    /// Bytes to be sent before anything that is sealed later.
    outgoing: Vec<u8>,
    protocol: Protocol,
    peer_has_closed: bool,
    has_closed: bool,
}

enum Phase {
    Handshake(Box<Handshake>),
    Records(Box<Records>),
    Over,
}

struct Handshake {
    rustls: UnbufferedServerConnection,
    /// The bytes at the start of `incoming` that rustls may read. They grow by one record at a
    /// time, so that rustls reads none after the end of the handshake: it would keep the answer to
    /// a request for new keys, and that answer would be lost when the keys are handed over.
    shown_bytes: usize,
}

struct Records {
    /// Derives the next keys.
    kernel: KernelConnection<ServerConnectionData>,
    seal: Keys,
    open: Keys,
    key_updates: u32,
    empty_records: u32,
}

const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const KEY_UPDATE: u8 = 24;

impl Connection {
    /// A connection that waits for the peer's first bytes.
    ///
    /// # Errors
    /// If rustls refuses its configuration.
    pub fn new(acceptor: &Acceptor) -> Result<Self, TlsError> {
        let rustls =
            UnbufferedServerConnection::new(Arc::clone(&acceptor.config)).map_err(TlsError::Handshake)?;
        Ok(Self {
            phase: Phase::Handshake(Box::new(Handshake { rustls, shown_bytes: 0 })),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            protocol: Protocol::Http1,
            peer_has_closed: false,
            has_closed: false,
        })
    }

    /// The handshake is done: data can be sealed.
    pub fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Records(_))
    }

    /// The peer has announced that it sends nothing more.
    pub fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// The protocol inside, once the connection is established.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The buffer to which bytes from the socket are appended, for [`Connection::receive`].
    pub fn take_incoming(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.incoming)
    }

    /// The bytes to be sent before anything sealed after this call. After an error they are an
    /// alert.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes the buffer of [`Connection::take_incoming`], with more bytes from the socket appended,
    /// and appends the data in it to `plain`. After an error nothing more can be received or
    /// sealed.
    ///
    /// # Errors
    /// If the handshake fails, a record is invalid, or the connection has ended.
    pub fn receive(&mut self, incoming: Vec<u8>, plain: &mut Vec<u8>) -> Result<(), TlsError> {
        self.incoming = incoming;
        let received = self.advance(plain);
        if let Err(error) = &received {
            self.fail(error);
        }
        received
    }

    /// Most bytes that [`Connection::seal`] adds to each [`RECORD_PLAIN_BYTES_MAX`] bytes or less.
    pub fn overhead_bytes(&self) -> usize {
        match &self.phase {
            Phase::Records(records) => records.seal.overhead_bytes(),
            _ => 0,
        }
    }

    /// Seals as much of `plain` into `out` as fits there, as one record. Returns how much of
    /// `plain`, and how much of `out`, it took. Both are zero if `out` has no room for a byte.
    ///
    /// # Errors
    /// Before the handshake is done, after an error, and when the keys of a TLS 1.2 connection are
    /// used up.
    pub fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<(usize, usize), TlsError> {
        let Phase::Records(records) = &mut self.phase else { return Err(TlsError::Over) };
        if self.has_closed {
            return Err(TlsError::Over);
        }
        let mut at = 0;
        if records.seal.are_used_up() {
            if out.len() <= records.seal.overhead_bytes() * 2 + KEY_UPDATE_BYTES {
                return Ok((0, 0));
            }
            at = records.next_seal_keys(out)?;
        }
        let room = (out.len() - at).saturating_sub(records.seal.overhead_bytes());
        let taken = plain.len().min(room).min(RECORD_PLAIN_BYTES_MAX);
        if taken == 0 {
            return Ok((0, at));
        }
        let written = records.seal.seal(DATA, &plain[..taken], &mut out[at..])?;
        Ok((taken, at + written))
    }

    /// Seals the close notification into `out`. Returns the bytes it took, 0 if there is no room or
    /// it was sealed before.
    pub fn close(&mut self, out: &mut [u8]) -> usize {
        let Phase::Records(records) = &mut self.phase else { return 0 };
        if self.has_closed || out.len() < records.seal.overhead_bytes() + 2 {
            return 0;
        }
        self.has_closed = true;
        records.seal.seal(ALERT, &[WARNING, CLOSE_NOTIFY], out).unwrap_or(0)
    }

    fn advance(&mut self, plain: &mut Vec<u8>) -> Result<(), TlsError> {
        if matches!(self.phase, Phase::Handshake(_)) {
            self.handshake()?;
        }
        self.open_records(plain)
    }

    /// Continues the handshake as far as the received bytes allow.
    fn handshake(&mut self) -> Result<(), TlsError> {
        loop {
            let Phase::Handshake(handshake) = &mut self.phase else { return Ok(()) };
            let shown = &mut self.incoming[..handshake.shown_bytes];
            let UnbufferedStatus { discard, state, .. } = handshake.rustls.process_tls_records(shown);
            let mut wants_record = false;
            let mut is_done = false;
            let result = match state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, &mut self.outgoing),
                Ok(ConnectionState::TransmitTlsData(message)) => {
                    message.done();
                    Ok(())
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    is_done = true;
                    Ok(())
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => {
                    wants_record = true;
                    Ok(())
                }
                // Reported once.
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_has_closed = true;
                    Ok(())
                }
                Ok(_) => Err(TlsError::Record("data before the end of the handshake")),
                Err(error) => Err(TlsError::Handshake(error)),
            };
            self.incoming.drain(..discard);
            handshake.shown_bytes -= discard;
            result?;
            if is_done {
                return self.establish();
            }
            if wants_record && !handshake.show_record(&self.incoming) {
                let too_much = self.incoming.len() > HANDSHAKE_BYTES_MAX;
                return if too_much {
                    Err(TlsError::Record("a handshake that does not end"))
                } else {
                    Ok(())
                };
            }
        }
    }

    /// The handshake is done: takes the keys over from rustls.
    fn establish(&mut self) -> Result<(), TlsError> {
        let Phase::Handshake(handshake) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        if handshake.rustls.alpn_protocol() == Some(HTTP2) {
            self.protocol = Protocol::Http2;
        }
        let (secrets, kernel) =
            handshake.rustls.dangerous_into_kernel_connection().map_err(TlsError::Handshake)?;
        let version = kernel.protocol_version();
        self.phase = Phase::Records(Box::new(Records {
            seal: Keys::new(version, secrets.tx)?,
            open: Keys::new(version, secrets.rx)?,
            kernel,
            key_updates: 0,
            empty_records: 0,
        }));
        Ok(())
    }

    fn open_records(&mut self, plain: &mut Vec<u8>) -> Result<(), TlsError> {
        let mut used = 0;
        let result = loop {
            let Phase::Records(records) = &mut self.phase else { break Ok(()) };
            // RFC 8446 section 6.1: everything after the peer's close is ignored.
            if self.peer_has_closed {
                used = self.incoming.len();
                break Ok(());
            }
            let rest = &mut self.incoming[used..];
            let bytes = match record_bytes(rest) {
                Ok(Some(bytes)) if bytes <= rest.len() => bytes,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            };
            used += bytes;
            match records.take(&mut rest[..bytes], plain, &mut self.outgoing) {
                Ok(closed) => self.peer_has_closed |= closed,
                Err(error) => break Err(error),
            }
        };
        self.incoming.drain(..used);
        result
    }

    /// Leaves an alert for the peer, if one can be made, and ends the connection.
    fn fail(&mut self, error: &TlsError) {
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                // rustls has the alert ready and returns it at the next call. As long as it has
                // one, it processes no received bytes; it must not, because the handshake has
                // failed.
                let Handshake { rustls, shown_bytes } = &mut **handshake;
                while rustls.wants_write() {
                    let shown = &mut self.incoming[..*shown_bytes];
                    let UnbufferedStatus { state, .. } = rustls.process_tls_records(shown);
                    let Ok(ConnectionState::EncodeTlsData(mut message)) = state else { break };
                    if encode(&mut message, &mut self.outgoing).is_err() {
                        break;
                    }
                }
            }
            Phase::Records(records) => {
                let alert = match error {
                    TlsError::Alert(_) | TlsError::Over => None,
                    TlsError::NotOpened => Some([FATAL, BAD_RECORD_MAC]),
                    TlsError::Renegotiation => Some([WARNING, NO_RENEGOTIATION]),
                    _ => Some([FATAL, UNEXPECTED_MESSAGE]),
                };
                if let Some(alert) = alert.filter(|_| !self.has_closed) {
                    // Best effort: the connection is over either way.
                    let _ = records.append(ALERT, &alert, &mut self.outgoing);
                }
            }
            Phase::Over => {}
        }
        self.phase = Phase::Over;
        self.incoming = Vec::new();
    }
}

impl Handshake {
    /// Shows rustls the next record of `incoming`; `false` if it has not arrived. What can never
    /// become a record is shown at once, because rustls judges it.
    fn show_record(&mut self, incoming: &[u8]) -> bool {
        let rest = &incoming[self.shown_bytes..];
        let Some(&[kind, major, _, high, low]) = rest.first_chunk::<HEADER_BYTES>() else { return false };
        let body_bytes = usize::from(u16::from_be_bytes([high, low]));
        let is_record = (CHANGE_CIPHER_SPEC..=DATA).contains(&kind) && major == 3;
        self.shown_bytes += if !is_record || body_bytes > RECORD_BODY_BYTES_MAX {
            rest.len()
        } else if HEADER_BYTES + body_bytes <= rest.len() {
            HEADER_BYTES + body_bytes
        } else {
            return false;
        };
        true
    }
}

impl Records {
    /// Opens one record and acts on it; `true` if the peer sends nothing more.
    fn take(
        &mut self,
        record: &mut [u8],
        plain: &mut Vec<u8>,
        outgoing: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        let (kind, range) = self.open.open(record)?;
        let content = &record[range];
        match kind {
            DATA if !content.is_empty() => {
                self.empty_records = 0;
                plain.extend_from_slice(content);
                Ok(false)
            }
            DATA => self.nothing(),
            ALERT => match *content {
                [_, CLOSE_NOTIFY] => Ok(true),
                [_, USER_CANCELED] => self.nothing(),
                [_, alert] => Err(TlsError::Alert(alert)),
                _ => Err(TlsError::Record("an invalid alert")),
            },
            HANDSHAKE if !self.open.is_tls13() => Err(TlsError::Renegotiation),
            HANDSHAKE => match *content {
                [KEY_UPDATE, 0, 0, 1, request @ (0 | 1)] => {
                    self.update_keys(request == 1, outgoing).map(|()| false)
                }
                _ => Err(TlsError::Record("a message that is not allowed after the handshake")),
            },
            _ => Err(TlsError::Record("a kind of record that is not allowed after the handshake")),
        }
    }

    fn nothing(&mut self) -> Result<bool, TlsError> {
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(TlsError::Record("too many records without content"));
        }
        Ok(false)
    }

    /// RFC 8446 section 4.6.3.
    fn update_keys(&mut self, answer: bool, outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
        self.key_updates += 1;
        if self.key_updates > KEY_UPDATES_MAX {
            return Err(TlsError::Record("the peer changes its keys too often"));
        }
        let secrets = self.kernel.update_rx_secret().map_err(TlsError::Handshake)?;
        self.open = Keys::new(self.kernel.protocol_version(), secrets)?;
        if answer {
            let mut record = [0; KEY_UPDATE_BYTES + crate::limits::RECORD_OVERHEAD_BYTES_MAX];
            let bytes = self.next_seal_keys(&mut record)?;
            outgoing.extend_from_slice(&record[..bytes]);
        }
        Ok(())
    }

    /// Tells the peer that new keys follow, and switches to them.
    fn next_seal_keys(&mut self, out: &mut [u8]) -> Result<usize, TlsError> {
        if !self.seal.is_tls13() {
            return Err(TlsError::KeysUsedUp);
        }
        let written = self.seal.seal(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0], out)?;
        let secrets = self.kernel.update_tx_secret().map_err(TlsError::Handshake)?;
        self.seal = Keys::new(self.kernel.protocol_version(), secrets)?;
        Ok(written)
    }

    fn append(&mut self, kind: u8, content: &[u8], outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
        let at = outgoing.len();
        outgoing.resize(at + content.len() + self.seal.overhead_bytes(), 0);
        let sealed = self.seal.seal(kind, content, &mut outgoing[at..]);
        outgoing.truncate(at + *sealed.as_ref().unwrap_or(&0));
        sealed.map(|_| ())
    }
}

/// Content of a key update.
const KEY_UPDATE_BYTES: usize = 5;

fn encode(
    message: &mut rustls::unbuffered::EncodeTlsData<'_, ServerConnectionData>,
    outgoing: &mut Vec<u8>,
) -> Result<(), TlsError> {
    let at = outgoing.len();
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        message.encode(&mut [])
    {
        outgoing.resize(at + required_size, 0);
        let written = message.encode(&mut outgoing[at..]);
        outgoing.truncate(at + written.map_err(|_| TlsError::Record("a message of the handshake was lost"))?);
    }
    Ok(())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let phase = match self.phase {
            Phase::Handshake(_) => "handshake",
            Phase::Records(_) => "records",
            Phase::Over => "over",
        };
        f.debug_struct("Connection").field("phase", &phase).field("protocol", &self.protocol).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Pair, acceptor, suites};

    fn suite(is_tls13: bool) -> rustls::SupportedCipherSuite {
        *suites().iter().find(|suite| suite.tls13().is_some() == is_tls13).unwrap()
    }

    #[test]
    fn keys_change_before_they_are_used_up() {
        let mut pair = Pair::established(&acceptor(), suite(true));
        let film: Vec<u8> = (0..=255).collect();
        let sealed: Vec<u8> = film.chunks(1).flat_map(|byte| pair.server_says(byte, 60)).collect();
        assert_eq!(pair.client_takes(&sealed), film);
        let overhead = pair.server.overhead_bytes();
        let beside = sealed.len() - film.len() * (1 + overhead);
        // Nine records for each key: eight of data, and one that announces the next key.
        assert_eq!(beside, film.len() / 8 * (KEY_UPDATE_BYTES + overhead), "as often as that");
        // The other direction, where the client changes the keys.
        pair.client.refresh_traffic_keys().unwrap();
        let said = pair.client_says(b"on");
        pair.server_takes(&said).unwrap();
        assert_eq!(pair.received, b"on");
    }

    #[test]
    fn without_a_key_change_the_connection_ends() {
        let mut pair = Pair::established(&acceptor(), suite(false));
        let mut out = [0; 100];
        let ended = (0..20).find_map(|_| pair.server.seal(b"x", &mut out).err());
        assert!(matches!(ended, Some(TlsError::KeysUsedUp)), "{ended:?}");
    }
}
