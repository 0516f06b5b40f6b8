//! `dfLa` (Encapsulation of FLAC in ISO Base Media File Format, 3.3.2) and STREAMINFO (RFC 9639,
//! 8.2).

use super::{ConfigError, Sound, split};
use crate::codec::flac::StreamInfo;

const NAME: &str = "dfLa";

/// Checks the chain of metadata blocks and reads the first, which must be STREAMINFO.
pub(crate) fn parse(mut body: &[u8]) -> Result<Sound, ConfigError> {
    let error = |what| ConfigError { name: NAME, what };
    if split::<4>(&mut body, NAME)?[0] != 0 {
        return Err(error("has an unknown version"));
    }
    let mut sound = None;
    loop {
        let [head, length @ ..] = *split::<4>(&mut body, NAME)?;
        let bytes = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (block, rest) =
            body.split_at_checked(bytes).ok_or(error("has a metadata block that ends early"))?;
        body = rest;
        if sound.is_none() {
            if head & 0x7f != 0 {
                return Err(error("does not begin with STREAMINFO"));
            }
            let info = StreamInfo::parse(block).ok_or(error("has a damaged STREAMINFO"))?;
            let StreamInfo { channels, sample_rate, sample_bits, .. } = info;
            sound = Some(Sound { channels, sample_rate, sample_bits });
        }
        if head & 0x80 != 0 {
            break;
        }
    }
    sound.ok_or(error("has no STREAMINFO"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_info_is_read() {
        let mut body = vec![0, 0, 0, 0, 0x80, 0, 0, 34];
        body.extend([0; 10]);
        body.extend((44_100u32 << 12 | 1 << 9 | 23 << 4).to_be_bytes());
        body.extend([0; 20]);
        assert_eq!(parse(&body), Ok(Sound { channels: 2, sample_rate: 44_100, sample_bits: 24 }));
        for cut in 0..body.len() {
            assert!(parse(&body[..cut]).is_err());
        }
        body[4] = 0x84;
        assert!(parse(&body).is_err());
    }
}
