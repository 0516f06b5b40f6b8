//! Records after the handshake, sealed and opened with the keys that rustls derived (RFC 8446
//! section 5, RFC 5246 section 6.2).

use crate::error::TlsError;
use crate::limits::{RECORD_BODY_BYTES_MAX, RECORD_PLAIN_BYTES_MAX, RECORDS_PER_KEY_MAX};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};
use std::ops::Range;

pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const DATA: u8 = 23;

pub(crate) const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
const EXPLICIT_BYTES: usize = 8;
/// Small, so that tests reach the end of a key.
const RECORDS_PER_KEY_IN_TESTS: u64 = 8;
/// The version in every record of both versions.
const WIRE_VERSION: [u8; 2] = [3, 3];

/// The keys of one direction. A number is used for one record only: it is increased before it is
/// used, and only this type has the key.
pub(crate) struct Keys {
    key: LessSafeKey,
    iv: [u8; 12],
    next: u64,
    form: Form,
}

/// The form of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The type of its content is sealed with it.
    Tls13,
    /// A part of its nonce is sent with it (RFC 5288).
    Tls12Gcm,
    /// Its nonce is its number (RFC 7905).
    Tls12ChaCha,
}

impl Keys {
    /// Keys as rustls returns them, with the number of the next record.
    ///
    /// # Errors
    /// If the cipher is not supported, or a key or nonce has the wrong length.
    pub(crate) fn new(
        version: ProtocolVersion,
        (next, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Self, TlsError> {
        let (algorithm, key, iv, is_gcm) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, true),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, true),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, false),
            _ => return Err(TlsError::Record("the negotiated cipher is not supported")),
        };
        let form = match (version, is_gcm) {
            (ProtocolVersion::TLSv1_3, _) => Form::Tls13,
            (_, true) => Form::Tls12Gcm,
            (_, false) => Form::Tls12ChaCha,
        };
        let wrong = |_| TlsError::Record("the keys have the wrong length for their cipher");
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).map_err(wrong)?);
        let iv =
            iv.as_ref().try_into().map_err(|_| TlsError::Record("the nonce is not twelve bytes long"))?;
        Ok(Self { key, iv, next, form })
    }

    pub(crate) fn is_tls13(&self) -> bool {
        self.form == Form::Tls13
    }

    /// Bytes that a sealed record has beside its content.
    pub(crate) fn overhead_bytes(&self) -> usize {
        match self.form {
            Form::Tls13 => HEADER_BYTES + 1 + TAG_BYTES,
            Form::Tls12Gcm => HEADER_BYTES + EXPLICIT_BYTES + TAG_BYTES,
            Form::Tls12ChaCha => HEADER_BYTES + TAG_BYTES,
        }
    }

    /// Whether these keys have sealed nearly as many records as they may.
    pub(crate) fn are_used_up(&self) -> bool {
        self.next >= if cfg!(test) { RECORDS_PER_KEY_IN_TESTS } else { RECORDS_PER_KEY_MAX }
    }

    /// Seals one record of at most [`RECORD_PLAIN_BYTES_MAX`] bytes into the start of `out`, and
    /// returns the bytes it takes there. Each byte is read once and written once.
    ///
    /// # Errors
    /// If the record does not fit, or the cipher refuses it.
    pub(crate) fn seal(&mut self, kind: u8, plain: &[u8], out: &mut [u8]) -> Result<usize, TlsError> {
        let record_bytes = plain.len() + self.overhead_bytes();
        if plain.len() > RECORD_PLAIN_BYTES_MAX || out.len() < record_bytes {
            return Err(TlsError::Record("a record does not fit into the buffer"));
        }
        let number = self.next;
        self.next = number.checked_add(1).ok_or(TlsError::KeysUsedUp)?;
        let nonce = nonce(&self.iv, number);
        let (header, body) = out[..record_bytes].split_at_mut(HEADER_BYTES);
        let outer = if self.form == Form::Tls13 { DATA } else { kind };
        // A record is shorter than 2^15, so this fits.
        let body_bytes = (body.len() as u16).to_be_bytes();
        header.copy_from_slice(&[outer, WIRE_VERSION[0], WIRE_VERSION[1], body_bytes[0], body_bytes[1]]);
        let sealed = match self.form {
            Form::Tls13 => {
                let (cipher, tail) = body.split_at_mut(plain.len());
                self.key.seal_out_of_place_scatter(
                    own(nonce),
                    Aad::from(&*header),
                    plain,
                    cipher,
                    &[kind],
                    tail,
                )
            }
            Form::Tls12Gcm | Form::Tls12ChaCha => {
                let explicit = if self.form == Form::Tls12Gcm { EXPLICIT_BYTES } else { 0 };
                let (shown, rest) = body.split_at_mut(explicit);
                shown.copy_from_slice(&nonce[nonce.len() - explicit..]);
                let (cipher, tag) = rest.split_at_mut(plain.len());
                let aad = Aad::from(tls12_aad(number, kind, plain.len()));
                self.key.seal_out_of_place_scatter(own(nonce), aad, plain, cipher, &[], tag)
            }
        };
        sealed.map_err(|_| TlsError::Record("a record cannot be sealed"))?;
        Ok(record_bytes)
    }

    /// Opens one whole record in place: the type of its content, and where in `record` the content
    /// is.
    ///
    /// # Errors
    /// If the record is invalid or not of this connection.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), TlsError> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or(TlsError::KeysUsedUp)?;
        let Some((header, body)) = record.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Err(TlsError::Record("a record without a header"));
        };
        let outer = header[0];
        let explicit = if self.form == Form::Tls12Gcm { EXPLICIT_BYTES } else { 0 };
        if body.len() < explicit + TAG_BYTES {
            return Err(TlsError::NotOpened);
        }
        let mut nonce = nonce(&self.iv, number);
        if self.form == Form::Tls12Gcm {
            nonce[..4].copy_from_slice(&self.iv[..4]);
            nonce[4..].copy_from_slice(&body[..EXPLICIT_BYTES]);
        }
        let content_bytes = body.len() - explicit - TAG_BYTES;
        let sealed = &mut body[explicit..];
        let opened = if self.form == Form::Tls13 {
            if outer != DATA {
                return Err(TlsError::Record("a record in the clear on an established connection"));
            }
            self.key.open_in_place(own(nonce), Aad::from(*header), sealed)
        } else {
            let aad = Aad::from(tls12_aad(number, outer, content_bytes));
            self.key.open_in_place(own(nonce), aad, sealed)
        };
        let content = opened.map_err(|_| TlsError::NotOpened)?;
        let (kind, bytes) = if self.form == Form::Tls13 {
            // RFC 8446 section 5.4: the type is the last byte that is not zero; the zeros after it
            // are padding.
            let at = content.iter().rposition(|byte| *byte != 0);
            let at = at.ok_or(TlsError::Record("a record without a type"))?;
            (content[at], at)
        } else {
            (outer, content.len())
        };
        if bytes > RECORD_PLAIN_BYTES_MAX {
            return Err(TlsError::Record("a record is longer than 16 KiB"));
        }
        let start = HEADER_BYTES + explicit;
        Ok((kind, start..start + bytes))
    }
}

/// The length of the first record of `bytes`, header included; `None` while it is not known.
///
/// # Errors
/// If the bytes are not a record, or the record is too long.
pub(crate) fn record_bytes(bytes: &[u8]) -> Result<Option<usize>, TlsError> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    if !(CHANGE_CIPHER_SPEC..=DATA).contains(&header[0]) || header[1..3] != WIRE_VERSION {
        return Err(TlsError::Record("the received bytes are not a TLS record"));
    }
    let body_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if body_bytes > RECORD_BODY_BYTES_MAX {
        return Err(TlsError::Record("a record is longer than 16 KiB"));
    }
    Ok(Some(HEADER_BYTES + body_bytes))
}

/// RFC 8446 section 5.3. Nonces for TLS 1.2 are made the same way, so that no two are alike.
fn nonce(iv: &[u8; 12], number: u64) -> [u8; 12] {
    let mut nonce = *iv;
    for (byte, digit) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
        *byte ^= digit;
    }
    nonce
}

fn own(nonce: [u8; 12]) -> Nonce {
    Nonce::assume_unique_for_key(nonce)
}

/// RFC 5246 section 6.2.3.3.
fn tls12_aad(number: u64, kind: u8, content_bytes: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&number.to_be_bytes());
    aad[8] = kind;
    aad[9..11].copy_from_slice(&WIRE_VERSION);
    // A record is shorter than 2^15, so this fits.
    aad[11..].copy_from_slice(&(content_bytes as u16).to_be_bytes());
    aad
}
