//! Pictures that are decoded and not seen: the first shown picture depends on them.
//!
//! Browsers drop all pictures before zero from a source buffer, and with them all that follow up to
//! the next key frame (W3C Media Source Extensions, coded frame processing). ffmpeg and GStreamer
//! know no edit list of fragments. So such pictures get the last ticks before zero, one each, in a
//! clock so fine that all of them together are not seen, and a CMAF track is late by these ticks:
//! its presentation begins with the first of them. This is the whole rule; demuxers ask
//! [`clock_factor`], and the packager asks [`delay`].

/// The ticks that are wanted for a second for each picture: half a millisecond for all together.
const TICKS_PER_PICTURE: u64 = 2000;
/// Finest clock that is made, in ticks per second: that of browsers. A pause of an hour still fits
/// the 32 bits of a sample's duration.
const FINEST_TIMESCALE: u32 = 1_000_000;
/// All pictures together take at most this part of a second, as a divisor: less than one picture.
const PARTS: u64 = 100;
/// 200 s at 50 pictures a second, longer than groups of pictures are.
pub(crate) const PICTURES_MAX: usize = 10_000;

/// How much finer the clock of a track must be for `count` pictures to be unseen. `None` if they
/// are too many.
pub(crate) fn clock_factor(count: u64, timescale: u32) -> Option<u32> {
    let finest = FINEST_TIMESCALE / timescale;
    let wanted = count.saturating_mul(TICKS_PER_PICTURE).div_ceil(u64::from(timescale));
    let factor = u32::try_from(wanted).unwrap_or(finest).min(finest).max(1);
    let fine = u64::from(timescale) * u64::from(factor);
    (count <= PICTURES_MAX as u64 && is_unseen(count, fine)).then_some(factor)
}

/// Ticks by which the presentation of a track is late whose earliest picture has this time, so that
/// it begins with that picture. 0 if the delay could be noticed.
pub(crate) fn delay(earliest: i64, timescale: u32) -> i64 {
    let is_before_zero = earliest < 0;
    if is_before_zero && is_unseen(earliest.unsigned_abs(), timescale.into()) { -earliest } else { 0 }
}

/// Whether a picture with the first time is replaced by one with the second before it is seen.
pub(crate) fn is_unseen_between(from: i64, to: i64, timescale: i64) -> bool {
    is_unseen(to.abs_diff(from), timescale.unsigned_abs())
}

fn is_unseen(ticks: u64, timescale: u64) -> bool {
    ticks.saturating_mul(PARTS) <= timescale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gets_a_clock_is_delayed_by_it() {
        for timescale in [1000, 12_800, 90_000, 999_999, 1_000_000, 10_000_000] {
            for count in [1, 2, 500, 501, 2500, 9900] {
                let factor =
                    clock_factor(count, timescale).unwrap_or_else(|| panic!("{count} at {timescale}"));
                let fine = timescale * factor;
                assert!(fine <= FINEST_TIMESCALE.max(timescale));
                assert_eq!(delay(-(count as i64), fine), count as i64, "{count} at {timescale}");
            }
            assert_eq!(clock_factor(PICTURES_MAX as u64 + 1, timescale), None);
        }
        assert_eq!((clock_factor(3, 1000), clock_factor(2500, 1000)), (Some(6), Some(1000)));
    }

    #[test]
    fn what_could_be_noticed_is_not_delayed() {
        assert_eq!((delay(0, 1000), delay(40, 1000)), (0, 0));
        assert_eq!((delay(-10, 1000), delay(-11, 1000)), (10, 0));
        assert_eq!(delay(i64::MIN, 1000), 0);
    }
}
