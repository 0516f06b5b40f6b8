//! The numbers by which receivers know a cast again. Pure.

use reel_code::crc32c;

/// What makes a cast the same for receivers: its volume, its name, what is sent, and by which
/// schedule. A server that begins again sends the same cast from the same sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity(Vec<u8>);

impl Identity {
    /// `streams` are texts that change with the stored bytes of each title, and `schedule` is a
    /// text that changes with what is sent when.
    pub(crate) fn new(volume: [u8; 16], name: &str, streams: &[String], schedule: &str) -> Identity {
        let mut bytes = volume.to_vec();
        let texts = [name, schedule].into_iter().chain(streams.iter().map(String::as_str));
        for text in texts {
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        Identity(bytes)
    }

    /// The source (SSRC) of the media of a channel. Two channels of a cast never have the same: the
    /// checksum finds every change of 32 bits in a row.
    pub(crate) fn ssrc(&self, channel: usize) -> u32 {
        self.number(0, channel as u32)
    }

    /// The time stamp of a channel at the beginning of 1970.
    pub(crate) fn time_stamp(&self, channel: usize) -> u32 {
        self.number(1, channel as u32)
    }

    /// A number for the whole cast, of 63 bits: some receivers read those of SDP so.
    pub(crate) fn session_id(&self) -> u64 {
        (u64::from(self.number(2, 0)) << 32 | u64::from(self.number(3, 0))) >> 1
    }

    fn number(&self, kind: u8, channel: u32) -> u32 {
        // Two rounds, so that numbers of two kinds do not differ by the same bits in all casts.
        let first = crc32c(&[&[kind], self.0.as_slice()].concat());
        crc32c(&[&self.0, &first.to_be_bytes()[..], &[kind], &channel.to_be_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn identity(name: &str, stream: &str, schedule: &str) -> Identity {
        Identity::new([7; 16], name, &[stream.to_owned()], schedule)
    }

    #[test]
    fn the_same_cast_has_the_same_numbers_and_any_other_one_others() {
        let cast = identity("film", "film-1-2-3", "rfs 9 1000");
        assert_eq!(cast, identity("film", "film-1-2-3", "rfs 9 1000"));
        let casts = [
            cast,
            Identity::new([8; 16], "film", &["film-1-2-3".to_owned()], "rfs 9 1000"),
            identity("other", "film-1-2-3", "rfs 9 1000"),
            identity("film", "film-1-2-4", "rfs 9 1000"),
            identity("film", "film-1-2-3", "rfs 9 1001"),
            identity("film", "film-1-2-3", ""),
            Identity::new([7; 16], "film", &["film-1-2-3".to_owned(), String::new()], "rfs 9 1000"),
        ];
        let numbers = casts.iter().flat_map(|cast| {
            let of_channels = |channel| [cast.ssrc(channel), cast.time_stamp(channel)];
            (0..64).flat_map(of_channels).chain([cast.session_id() as u32])
        });
        let numbers: Vec<u32> = numbers.collect();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
        assert!(casts.iter().all(|cast| cast.session_id() < 1 << 63));
    }
}
