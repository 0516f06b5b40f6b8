//! Times of day as NTP writes them.

/// Seconds from 1900, where era 0 of NTP begins, to 1970 (RFC 5905, section 6).
const UNIX_EPOCH_S: u64 = 2_208_988_800;

const S: u64 = 1_000_000_000;

/// A time of day in the 64 bits of RFC 3550, section 4: seconds since 1900 modulo 2^32, and 2^-32
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// The time that is `ns` after the beginning of 1970. Correct to a nanosecond from 1970 to
    /// 2104, where [`Self::to_unix_ns`] begins again at 1968.
    #[must_use]
    pub fn from_unix_ns(ns: u64) -> Self {
        let seconds = (ns / S + UNIX_EPOCH_S) & u64::from(u32::MAX);
        let fraction = (((ns % S) << 32) + S / 2) / S;
        Self((seconds << 32) + fraction)
    }

    /// Nanoseconds after the beginning of 1970, to the nearest one. Seconds below 2^31 are those
    /// from 2036 on (RFC 4330, section 3), and times before 1970 become 1970.
    #[must_use]
    pub fn to_unix_ns(self) -> u64 {
        let seconds = self.0 >> 32;
        let era = if seconds < 1 << 31 { 1 << 32 } else { 0 };
        let fraction_ns = ((self.0 & u64::from(u32::MAX)) * S + (1 << 31)) >> 32;
        match (era + seconds).checked_sub(UNIX_EPOCH_S) {
            Some(seconds) => seconds * S + fraction_ns,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        assert_eq!(NtpTime::from_unix_ns(0), NtpTime(0x83aa_7e80_0000_0000));
        assert_eq!(NtpTime::from_unix_ns(S / 2), NtpTime(0x83aa_7e80_8000_0000));
        // 2036-02-07 06:28:16, where era 1 begins.
        assert_eq!(NtpTime::from_unix_ns(2_085_978_496 * S), NtpTime(0));
        assert_eq!(NtpTime(0).to_unix_ns(), 2_085_978_496 * S);
        assert_eq!(NtpTime(0x83aa_7e7f_ffff_ffff).to_unix_ns(), 0);
    }

    proptest! {
        #[test]
        fn every_nanosecond_until_2104_survives(ns in 0..4_233_000_000 * S) {
            prop_assert_eq!(NtpTime::from_unix_ns(ns).to_unix_ns(), ns);
        }

        #[test]
        fn any_bits_are_a_time(bits: u64) {
            let ns = NtpTime(bits).to_unix_ns();
            prop_assert!(ns < 4_234_000_000 * S);
        }
    }
}
