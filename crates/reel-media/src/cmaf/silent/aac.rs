//! AAC-LC with frames of 1024 samples (ISO 14496-3).

use super::bits::Bits;

/// Samples of a frame.
pub(super) const FRAME_SAMPLES: u64 = 1024;
/// Sound of a lower rate may have more in its frames than its configuration says (spectral band
/// replication), and then frames of silence of another kind.
const LEAST_RATE: u64 = 32_000;
const RATES: [u64; 6] = [96_000, 88_200, 64_000, 48_000, 44_100, LEAST_RATE];

/// A channelConfiguration (table 1.19) that has a frame of silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout(u8);

impl Layout {
    /// The layout and the sampling rate of an AudioSpecificConfig.
    pub(super) fn of(config: &[u8]) -> Option<(Layout, u64)> {
        let is_plain = match config {
            [_, _] => true,
            // Spectral band replication is said to be absent.
            [_, _, 0x56, 0xe5, present, ..] => present & 0x80 == 0,
            _ => false,
        };
        if !is_plain {
            return None;
        }
        let (first, second) = (config[0], config[1]);
        let rate = *RATES.get(usize::from((first & 7) << 1 | second >> 7))?;
        // AAC-LC, with frames of 1024 samples and no extension.
        if first >> 3 != 2 || second & 7 != 0 {
            return None;
        }
        let layout = second >> 3 & 0xf;
        elements(layout).map(|_| (Layout(layout), rate))
    }

    /// A frame of silence.
    pub(super) fn silence(self) -> Vec<u8> {
        silent_frame(elements(self.0).unwrap_or_default())
    }
}

/// Channel elements (table 4.85), with their numbers of three bits.
#[derive(Clone, Copy)]
enum Element {
    /// single_channel_element.
    One = 0,
    /// channel_pair_element.
    Pair = 1,
    /// lfe_channel_element.
    Low = 3,
}

use Element::{Low, One, Pair};

/// Ends the frame: ID_END.
const END: u64 = 7;

/// The elements of a layout. `None` for more channels than six, and for layouts that each frame
/// describes itself.
fn elements(layout: u8) -> Option<&'static [Element]> {
    let elements: &[Element] = match layout {
        1 => &[One],
        2 => &[Pair],
        3 => &[One, Pair],
        4 => &[One, Pair, One],
        5 => &[One, Pair, Pair],
        6 => &[One, Pair, Pair, Low],
        _ => return None,
    };
    Some(elements)
}

fn silent_frame(elements: &[Element]) -> Vec<u8> {
    let mut frame = Bits::default();
    for (n, element) in elements.iter().enumerate() {
        let same = |other: &&Element| **other as u8 == *element as u8;
        let tag = elements[..n].iter().filter(same).count();
        frame.put(*element as u64, 3);
        frame.put(tag as u64, 4);
        element.put_channels(&mut frame);
    }
    frame.put(END, 3);
    frame.bytes
}

impl Element {
    /// Channels with a long window and no scale factor band (sections 4.4.2.1 and 4.4.2.7).
    fn put_channels(self, frame: &mut Bits) {
        let put_window = |frame: &mut Bits| frame.skip(1 + 2 + 1 + 6 + 1);
        let put_gain = |frame: &mut Bits| frame.skip(8);
        // Neither pulses nor temporal noise shaping nor gain control.
        let put_tools = |frame: &mut Bits| frame.skip(3);
        if let Pair = self {
            // The window of both, without a mask for middle and side.
            frame.put(1, 1);
            put_window(frame);
            frame.skip(2);
            for _ in 0..2 {
                put_gain(frame);
                put_tools(frame);
            }
        } else {
            put_gain(frame);
            put_window(frame);
            put_tools(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_behind_the_elements_of_their_layout() {
        assert_eq!(Layout(1).silence(), [0, 0, 0, 7]);
        assert_eq!(Layout(2).silence(), [0x21, 0, 0, 0, 0, 0x1c]);
        let bits = [0, 32, 46, 75, 104, 118, 147];
        for (layout, bits) in (0..).zip(bits).skip(1) {
            assert_eq!(Layout(layout).silence().len(), usize::div_ceil(bits, 8));
        }
    }

    #[test]
    fn layouts_and_rates_of_configurations() {
        let of = |config: &[u8]| Layout::of(config).map(|(layout, rate)| (layout.0, rate));
        assert_eq!(of(&[0x11, 0x90]), Some((2, 48_000)));
        assert_eq!(of(&[0x11, 0x90, 0x56, 0xe5, 0]), Some((2, 48_000)));
        assert_eq!(of(&[0x12, 0x08]), Some((1, 44_100)));
        for config in [
            &[0x2b, 0x11, 0x88, 0][..],
            &[0x13, 0x10],
            &[0x11, 0x90, 0x56, 0xe5, 0x80],
            &[0x11, 0x80],
            &[0x11, 0xb8],
        ] {
            assert_eq!(of(config), None, "{config:x?}");
        }
    }
}
