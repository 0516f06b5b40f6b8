//! A frame of AAC-LC that decodes to silence.

/// Channel elements (ISO 14496-3 table 4.85), with their numbers of three bits.
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
const END: u8 = 7;

/// A frame for a channelConfiguration (ISO 14496-3 table 1.19). `None` for more channels than
/// six, and for layouts that each frame describes itself.
pub(super) fn silent_frame(layout: u8) -> Option<Vec<u8>> {
    let elements: &[Element] = match layout {
        1 => &[One],
        2 => &[Pair],
        3 => &[One, Pair],
        4 => &[One, Pair, One],
        5 => &[One, Pair, Pair],
        6 => &[One, Pair, Pair, Low],
        _ => return None,
    };
    let mut frame = Bits::default();
    for (n, element) in elements.iter().enumerate() {
        let same = |other: &&Element| **other as u8 == *element as u8;
        let tag = elements[..n].iter().filter(same).count();
        frame.put(*element as u8, 3);
        frame.put(tag as u8, 4);
        element.put_channels(&mut frame);
    }
    frame.put(END, 3);
    Some(frame.bytes)
}

impl Element {
    /// Channels with a long window and no scale factor band (ISO 14496-3 sections 4.4.2.1 and
    /// 4.4.2.7).
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

/// Bits of which the first is the highest of the first byte.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, value: u8, count: u32) {
        for place in (0..count).rev() {
            self.skip(1);
            let at = self.count - 1;
            self.bytes[at / 8] |= (value >> place & 1) << (7 - at % 8);
        }
    }

    /// Bits that are zero.
    fn skip(&mut self, count: usize) {
        self.count += count;
        self.bytes.resize(self.count.div_ceil(8), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_behind_the_elements_of_their_layout() {
        assert_eq!(silent_frame(1), Some(vec![0, 0, 0, 7]));
        assert_eq!(silent_frame(2), Some(vec![0x21, 0, 0, 0, 0, 0x1c]));
        let bits = [0, 32, 46, 75, 104, 118, 147];
        for (layout, bits) in (0..).zip(bits).skip(1) {
            assert_eq!(silent_frame(layout).map(|frame| frame.len()), Some(usize::div_ceil(bits, 8)));
        }
        assert_eq!(silent_frame(0), None);
        assert_eq!(silent_frame(7), None);
    }
}
