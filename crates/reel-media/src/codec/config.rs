//! Decoder configurations as in MP4: parsed only as far as needed to know that they are complete
//! and what they describe.

pub(crate) mod ac3;
pub(crate) mod audio_specific;
pub(crate) mod flac;
pub(crate) mod opus;
pub(crate) mod video;

/// Why a decoder configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {name} box {what}")]
pub(crate) struct ConfigError {
    /// The box that contained it, for example `avcC`.
    pub(crate) name: &'static str,
    /// What is wrong with it, as the end of a sentence.
    pub(crate) what: &'static str,
}

/// What a valid configuration says about the sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sound {
    /// Channels to be played.
    pub(crate) channels: u16,
    /// Samples per second after decoding.
    pub(crate) sample_rate: u32,
    /// Bits per sample where that has a meaning, else 16.
    pub(crate) sample_bits: u16,
}

/// Takes the first `N` bytes off `bytes`.
fn split<'a, const N: usize>(bytes: &mut &'a [u8], name: &'static str) -> Result<&'a [u8; N], ConfigError> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or(ConfigError { name, what: "ends early" })?;
    *bytes = tail;
    Ok(head)
}
