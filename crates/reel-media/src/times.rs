//! Times and counts in warnings, always written alike.

use crate::subtitle::webvtt;

/// A place in the film.
pub(crate) fn at(ticks: i64, rate: u32) -> String {
    let ms = i128::from(ticks.max(0)) * 1000 / i128::from(rate.max(1));
    webvtt::time(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// A length of media.
pub(crate) fn lasting(ticks: i64, rate: u32) -> String {
    let tenths = i128::from(ticks.max(0)) * 10 / i128::from(rate.max(1));
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// How many there are of what has this name.
pub(crate) fn counted(count: u64, name: &str) -> String {
    if count == 1 { format!("one {name}") } else { format!("{count} {name}s") }
}

/// Places of one kind in a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// How many there are.
    pub(crate) count: u64,
    /// Where the first is, if that is known.
    pub(crate) first: Option<i64>,
}

impl Places {
    /// Adds one.
    pub(crate) fn add(&mut self, at: Option<i64>) {
        if self.count == 0 {
            self.first = at;
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_lengths() {
        assert_eq!(at(90_000 * 3725 + 18_000, 90_000), "01:02:05.200");
        assert_eq!(at(-5, 48_000), "00:00:00.000");
        assert_eq!(lasting(48_000 * 3 / 2, 48_000), "1.5 s");
        assert_eq!((counted(1, "place"), counted(3, "place")), ("one place".into(), "3 places".into()));
    }
}
