//! `dac3` and `dec3` (ETSI TS 102 366, annex F).

use super::{ConfigError, Sound, split};

const RATES: [u32; 3] = [48_000, 44_100, 32_000];
/// Channels without the low-frequency one, by acmod (table 4.3).
const CHANNELS: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
/// Channels that each bit of chan_loc adds, from the lowest bit (F.6.2.13): Lc/Rc, Lrs/Rrs, Cs, Ts,
/// Lsd/Rsd, Lw/Rw, Lvh/Rvh, Cvh, LFE2.
const LOCATIONS: [u16; 9] = [2, 2, 1, 1, 2, 2, 2, 1, 1];

/// AC3SpecificBox, F.4.
pub(crate) fn dac3(mut body: &[u8]) -> Result<Sound, ConfigError> {
    let name = "dac3";
    let [a, b, _] = *split::<3>(&mut body, name)?;
    sound(name, a >> 6, b >> 3 & 7, b >> 2 & 1)
}

/// EC3SpecificBox, F.6: its first independent substream, with the channels that the dependent ones
/// add.
pub(crate) fn dec3(mut body: &[u8]) -> Result<Sound, ConfigError> {
    let name = "dec3";
    split::<2>(&mut body, name)?;
    let [a, b, c] = *split::<3>(&mut body, name)?;
    let mut sound = sound(name, a >> 6, b >> 1 & 7, b & 1)?;
    if c >> 1 & 0xf != 0 {
        let [low] = *split::<1>(&mut body, name)?;
        let locations = u16::from(c & 1) << 8 | u16::from(low);
        let added: u16 = (0..9).filter(|bit| locations >> bit & 1 == 1).map(|bit| LOCATIONS[bit]).sum();
        sound.channels += added;
    }
    Ok(sound)
}

fn sound(name: &'static str, rate: u8, mode: u8, low: u8) -> Result<Sound, ConfigError> {
    let sample_rate =
        *RATES.get(usize::from(rate)).ok_or(ConfigError { name, what: "names a reserved sample rate" })?;
    Ok(Sound { channels: CHANNELS[usize::from(mode)] + u16::from(low), sample_rate, sample_bits: 16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surround() {
        assert_eq!(dac3(&[0x10, 0x3d, 0xe0]).map(|s| (s.channels, s.sample_rate)), Ok((6, 48_000)));
        assert_eq!(
            dec3(&[0x0c, 0x00, 0x20, 0x0f, 0x00]).map(|s| (s.channels, s.sample_rate)),
            Ok((6, 48_000))
        );
        // A dependent substream with the rear pair makes 7.1.
        assert_eq!(dec3(&[0x18, 0x00, 0x20, 0x0f, 0x02, 0x02]).map(|s| s.channels), Ok(8));
        assert!(dac3(&[0xc0, 0, 0]).is_err());
        assert!(dec3(&[0, 0, 0]).is_err());
    }
}
