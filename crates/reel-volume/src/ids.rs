//! Random ids of volumes and members.

use std::fmt;

use crate::error::VolumeError;

/// The id of a volume: 16 random bytes, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VolumeId(pub [u8; 16]);

/// The id of one member of one volume: 16 random bytes. A disk that replaces another gets a new id,
/// so that the old disk is recognised if it is attached again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberId(pub [u8; 16]);

/// A secret that every server of a volume has and no client: 32 random bytes. What is derived from
/// it means the same on each of them. It is never written to a log. Volumes that were made before
/// there were secrets have zeros.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeSecret(pub [u8; 32]);

impl VolumeSecret {
    /// A new secret.
    ///
    /// # Errors
    /// [`VolumeError::Random`] if the kernel provides no random bytes.
    pub fn random() -> Result<VolumeSecret, VolumeError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| VolumeError::Random { reason: e.to_string() })?;
        Ok(VolumeSecret(bytes))
    }
}

impl fmt::Debug for VolumeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeSecret(..)")
    }
}

impl VolumeId {
    /// A new id.
    ///
    /// # Errors
    /// [`VolumeError::Random`] if the kernel provides no random bytes.
    pub fn random() -> Result<VolumeId, VolumeError> {
        random_bytes().map(VolumeId)
    }

    /// The id that is written as 32 hexadecimal digits; `None` if `text` is anything else.
    pub fn parse(text: &str) -> Option<VolumeId> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(VolumeId(bytes))
    }
}

impl MemberId {
    /// A new id.
    ///
    /// # Errors
    /// [`VolumeError::Random`] if the kernel provides no random bytes.
    pub fn random() -> Result<MemberId, VolumeError> {
        random_bytes().map(MemberId)
    }
}

/// Sixteen random bytes from the kernel.
fn random_bytes() -> Result<[u8; 16], VolumeError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| VolumeError::Random { reason: e.to_string() })?;
    Ok(bytes)
}

/// The id of one opening of a volume.
pub(crate) fn random_session() -> Result<[u8; 16], VolumeError> {
    random_bytes()
}

/// Eight random bytes from the kernel, to distinguish two epochs of one number.
pub(crate) fn random_u64() -> Result<u64, VolumeError> {
    getrandom::u64().map_err(|e| VolumeError::Random { reason: e.to_string() })
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

fn hexadecimal(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
