//! Opus (RFC 6716): frames of 20 ms that decode to silence.
//!
//! CELT and SILK state loudness as a difference from the frame before. Behind silence in its own
//! mode, sound fades in for a tenth of a second. A decoder starts afresh where the mode changes
//! (section 4.5.2). So silence before the first frame is in the other mode: what follows is decoded
//! as if nothing were before it. Silence between two frames is in CELT. A fresh start there could
//! be too loud, since the encoder had no fresh start.

/// Samples of a frame.
pub(super) const FRAME_SAMPLES: u64 = 960;

/// A frame of silence of one channel, which decoders of two channels take too.
#[derive(Clone, Copy, Debug)]
struct Silent {
    /// Configuration of table 2, and one frame in the packet.
    toc: u8,
    /// Whether the packet says how many channels its stream has. SILK needs more bytes for two.
    is_stereo_told: bool,
    frame: &'static [u8],
}

/// In full band. The first symbol of a frame of CELT, with a probability of 1/32768, is silence
/// (section 4.3).
const OF_CELT: Silent = Silent { toc: 31 << 3, is_stereo_told: true, frame: &[0xff, 0xfe] };
/// In narrow band: no voice, the lowest gain, no excitation. Samples decode to 1 at most.
const OF_SILK: Silent = Silent { toc: 1 << 3, is_stereo_told: false, frame: &[0x08, 0xac, 0xb3, 0x0e, 0xc6] };
/// Two channels.
const STEREO: u8 = 4;
/// The first configuration of CELT alone; those before are SILK with and without CELT.
const FIRST_OF_CELT: u8 = 16;

/// The streams of a packet (RFC 7845 section 5.1.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    count: u8,
    /// How many of them, the first ones, have two channels.
    coupled: u8,
    silent: Silent,
}

impl Streams {
    /// The streams of a `dOps` box.
    pub(super) fn of(config: &[u8]) -> Option<Streams> {
        let (channels, family) = (*config.get(1)?, *config.get(10)?);
        let (count, coupled) = match family {
            0 => (1, u8::from(channels == 2)),
            _ => (*config.get(11)?, *config.get(12)?),
        };
        (count > 0 && coupled <= count).then_some(Streams { count, coupled, silent: OF_CELT })
    }

    /// The same, with silence that comes before the first packet of sound.
    pub(super) fn before(self, packet: &[u8]) -> Streams {
        let is_celt = packet.first().is_some_and(|toc| toc >> 3 >= FIRST_OF_CELT);
        Streams { silent: if is_celt { OF_SILK } else { OF_CELT }, ..self }
    }

    /// A packet of silence. All frames except the last are delimited (RFC 6716, appendix B).
    pub(super) fn silence(self) -> Vec<u8> {
        let Silent { toc, is_stereo_told, frame } = self.silent;
        let mut packet = Vec::new();
        for stream in 0..self.count {
            packet.push(toc | if is_stereo_told && stream < self.coupled { STEREO } else { 0 });
            if stream + 1 < self.count {
                packet.push(frame.len() as u8);
            }
            packet.extend(frame);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_and_several_streams() {
        let silence = |config: &[u8]| Streams::of(config).map(Streams::silence);
        let plain = |channels| [0, channels, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0];
        assert_eq!(silence(&plain(1)), Some(vec![0xf8, 0xff, 0xfe]));
        assert_eq!(silence(&plain(2)), Some(vec![0xfc, 0xff, 0xfe]));
        let mapped = [0, 3, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 1, 2, 1, 0, 1, 2];
        assert_eq!(silence(&mapped), Some(vec![0xfc, 2, 0xff, 0xfe, 0xf8, 0xff, 0xfe]));
        assert_eq!(silence(&mapped[..11]), None);
        assert_eq!(silence(&[0, 3, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 1, 1, 2]), None);
    }
    #[test]
    fn silence_before_the_first_packet_is_in_the_other_mode() {
        let streams = Streams::of(&[0, 2, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0]).unwrap();
        let before = |configuration: u8| streams.before(&[configuration << 3, 1, 2]).silence();
        let (silk, celt) = (vec![0x08, 0x08, 0xac, 0xb3, 0x0e, 0xc6], vec![0xfc, 0xff, 0xfe]);
        assert_eq!([0, 11, 12, 15].map(before), [&celt; 4].map(Clone::clone));
        assert_eq!([16, 31].map(before), [&silk; 2].map(Clone::clone));
        assert_eq!(streams.before(&[]).silence(), celt);
    }
}
