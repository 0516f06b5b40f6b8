//! `dOps` (Encapsulation of Opus in ISO Base Media File Format, 4.3.2).

use super::{ConfigError, Sound, split};

const NAME: &str = "dOps";

/// Checks the box and reads its channels; Opus always decodes to 48 kHz.
pub(crate) fn parse(mut body: &[u8]) -> Result<Sound, ConfigError> {
    let error = |what| ConfigError { name: NAME, what };
    let [version, channels, _, _, _, _, _, _, _, _, family] = *split::<11>(&mut body, NAME)?;
    if version != 0 {
        return Err(error("has an unknown version"));
    }
    if channels == 0 {
        return Err(error("states no channels"));
    }
    if family == 0 && channels > 2 {
        return Err(error("states more than two channels without a mapping"));
    }
    if family != 0 && body.len() < 2 + usize::from(channels) {
        return Err(error("has a channel mapping that ends early"));
    }
    Ok(Sound { channels: u16::from(channels), sample_rate: 48_000, sample_bits: 16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_mapped() {
        let mut body = vec![0, 2, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0];
        assert_eq!(parse(&body).map(|s| s.channels), Ok(2));
        body[1] = 6;
        assert!(parse(&body).is_err());
        body[10] = 1;
        assert!(parse(&body).is_err());
        body.extend([4, 2, 0, 4, 1, 2, 3, 5]);
        assert_eq!(parse(&body).map(|s| s.channels), Ok(6));
        body[0] = 1;
        assert!(parse(&body).is_err());
    }
}
