//! AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1).

use super::{ConfigError, Sound};
use crate::codec::bits::Bits;

/// Samples per second by samplingFrequencyIndex (table 1.18).
pub(crate) const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
/// Channels by channelConfiguration (table 1.19); 0 where the configuration is reserved or
/// described elsewhere.
const CHANNELS: [u16; 16] = [0, 1, 2, 3, 4, 5, 6, 8, 0, 0, 0, 7, 8, 24, 8, 0];
/// Audio object types of the AAC family (table 1.17): Main, LC, SSR, LTP, SBR, Scalable, the error
/// resilient LC, LTP, Scalable, LD, then PS, ELD and USAC (xHE-AAC).
const AAC_TYPES: [u32; 13] = [1, 2, 3, 4, 5, 6, 17, 19, 20, 23, 29, 39, 42];
/// Spectral band replication: the decoder's rate is twice the core's.
const SBR: u32 = 5;
/// Parametric stereo: one coded channel, two played.
const PS: u32 = 29;

/// What an AudioSpecificConfig says, or `None` if it describes something other than AAC (ALS, CELP,
/// ...).
pub(crate) fn parse(config: &[u8]) -> Result<Option<Sound>, ConfigError> {
    read(&mut Bits::new(config))
        .ok_or(ConfigError { name: "esds", what: "has a damaged AudioSpecificConfig" })
}

/// The audio object type of AAC-LC.
pub(crate) const LOW_COMPLEXITY: u8 = 2;

/// The two-byte AudioSpecificConfig of a plain profile (audio object types 1 to 4), for tracks that
/// have none. `None` for an unlisted rate or layout.
pub(crate) fn plain(object: u8, sample_rate: u32, channels: u16) -> Option<Vec<u8>> {
    let rate = u8::try_from(RATES.iter().position(|known| *known == sample_rate)?).ok()?;
    let layout = u8::try_from(CHANNELS.iter().position(|count| channels > 0 && *count == channels)?).ok()?;
    Some(vec![object << 3 | rate >> 1, (rate & 1) << 7 | layout << 3])
}

/// The highest core rate at which spectral band replication comes without being announced.
const UNANNOUNCED_SBR_MAX_HZ: u32 = 24_000;

/// Whether this is AAC-LC and surely without spectral band replication.
pub(crate) fn is_low_complexity_alone(config: &[u8]) -> bool {
    let bits = &mut Bits::new(config);
    let is_low_complexity = object_type(bits) == Some(LOW_COMPLEXITY.into());
    let core_hz = rate(bits);
    let Ok(Some(sound)) = parse(config) else { return false };
    is_low_complexity && core_hz == Some(sound.sample_rate) && sound.sample_rate > UNANNOUNCED_SBR_MAX_HZ
}

fn read(bits: &mut Bits<'_>) -> Option<Option<Sound>> {
    let mut object = object_type(bits)?;
    if !AAC_TYPES.contains(&object) {
        return Some(None);
    }
    let mut sample_rate = rate(bits)?;
    let layout = usize::try_from(bits.take(4)?).ok()?;
    let mut stereo = false;
    let extended = object == SBR || object == PS;
    if extended {
        stereo = object == PS;
        sample_rate = rate(bits)?;
        object = object_type(bits)?;
    }
    let mut channels = CHANNELS[layout];
    if matches!(object, 1..=4 | 6 | 17 | 19 | 20 | 23) {
        bits.take(1)?; // frameLengthFlag
        if bits.take(1)? == 1 {
            bits.take(14)?; // coreCoderDelay
        }
        bits.take(1)?; // extensionFlag
        if layout == 0 {
            channels = program_channels(bits)?;
        }
        if !extended
            && object <= 4
            && layout != 0
            && let Some((rate, ps)) = backward_compatible(bits)
        {
            sample_rate = rate;
            stereo = ps;
        }
    }
    if stereo && channels == 1 {
        channels = 2;
    }
    (sample_rate > 0).then_some(Some(Sound { channels, sample_rate, sample_bits: 16 }))
}

fn object_type(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.take(5)? {
        31 => Some(32 + bits.take(6)?),
        short => Some(short),
    }
}

fn rate(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.take(4)? {
        15 => bits.take(24),
        index => RATES.get(usize::try_from(index).ok()?).copied(),
    }
}

/// program_config_element (4.4.1.1): channels are its elements, two for each pair.
fn program_channels(bits: &mut Bits<'_>) -> Option<u16> {
    bits.take(10)?; // instance tag, object type, rate
    let [front, side, back, low] = [bits.take(4)?, bits.take(4)?, bits.take(4)?, bits.take(2)?];
    bits.take(7)?; // associated data and coupling elements
    for field in [4, 4, 3] {
        if bits.take(1)? == 1 {
            bits.take(field)?; // mono, stereo and matrix mixdown
        }
    }
    let mut channels = 0;
    for _ in 0..front + side + back {
        channels += if bits.take(1)? == 1 { 2 } else { 1 };
        bits.take(4)?;
    }
    u16::try_from(channels + low).ok()
}

/// The extension that old decoders skip: the rate with SBR, and whether there is parametric stereo.
fn backward_compatible(bits: &mut Bits<'_>) -> Option<(u32, bool)> {
    if bits.take(11)? != 0x2b7 || object_type(bits)? != SBR || bits.take(1)? != 1 {
        return None;
    }
    let rate = rate(bits)?;
    Some((rate, bits.take(11) == Some(0x548) && bits.take(1) == Some(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(channels: u16, sample_rate: u32) -> Option<Sound> {
        Some(Sound { channels, sample_rate, sample_bits: 16 })
    }

    #[test]
    fn common_configurations() {
        assert_eq!(parse(&[0x12, 0x10]), Ok(sound(2, 44_100)));
        assert_eq!(parse(&[0x11, 0xb0]), Ok(sound(6, 48_000)));
        // HE-AAC, 24 kHz core, explicit and hierarchical signalling.
        assert_eq!(parse(&[0x2b, 0x11, 0x88, 0x00]), Ok(sound(2, 48_000)));
        // HE-AAC, 24 kHz core, backward compatible signalling; the second with parametric stereo.
        assert_eq!(parse(&[0x13, 0x10, 0x56, 0xe5, 0x98]), Ok(sound(2, 48_000)));
        assert_eq!(parse(&[0x13, 0x08, 0x56, 0xe5, 0x9d, 0x48, 0x80]), Ok(sound(2, 48_000)));
    }

    #[test]
    fn other_codecs_are_recognized() {
        // ALS is object type 36 = escape 31, then 4.
        assert_eq!(parse(&[0xf8, 0x80]), Ok(None));
        assert!(parse(&[]).is_err());
        assert!(parse(&[0x12]).is_err());
    }

    #[test]
    fn a_generated_configuration_is_read_back() {
        for rate in RATES {
            for channels in [1, 2, 3, 4, 5, 6, 8] {
                for object in [1, LOW_COMPLEXITY, 3, 4] {
                    let config = plain(object, rate, channels).expect("a listed rate and layout");
                    assert_eq!(parse(&config), Ok(sound(channels, rate)));
                }
            }
        }
        assert_eq!(plain(LOW_COMPLEXITY, 12_345, 2), None);
    }
}
