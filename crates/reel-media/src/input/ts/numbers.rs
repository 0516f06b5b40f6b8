//! Numbers of H.264 pictures (ITU-T H.264 section 7.4.3, frame_num): each picture has that of the
//! reference picture before it or the next one, so a gap shows that pictures are missing.

use crate::codec::h264::Sps;

/// Steps by one that show that the encoder numbers them as the standard says.
const PROOF: u32 = 8;

/// What a picture states about its place among the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered {
    /// frame_num.
    pub(super) number: u32,
    /// Numbers begin again here.
    pub(super) idr: bool,
    /// Others may refer to it.
    pub(super) reference: bool,
}

/// The numbers of a stream.
#[derive(Debug, Default)]
pub(super) struct FrameNumbers {
    /// That of the latest reference picture.
    last: Option<u32>,
    /// Steps by one so far.
    steps: u32,
}

impl FrameNumbers {
    /// What comes next need not follow.
    pub(super) fn begin_again(&mut self) {
        self.last = None;
    }

    /// Takes the next picture; returns whether others are missing before it.
    pub(super) fn take(&mut self, picture: Numbered, sps: &Sps) -> bool {
        let Numbered { number, idr, reference } = picture;
        let last = if idr { None } else { self.last };
        if reference || idr {
            self.last = Some(number);
        }
        // A picture may have set the numbers back to zero (memory_management_control_operation 5).
        let follows = |last: u32| number <= 1 || [last, sps.next_frame_num(last)].contains(&number);
        match last {
            _ if sps.gaps_allowed => false,
            Some(last) if !follows(last) => std::mem::take(&mut self.steps) >= PROOF,
            _ => {
                self.steps += u32::from(last.is_some_and(|last| number == sps.next_frame_num(last)));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// frame_num in 4 bits.
    const SPS: &[u8] = &[
        0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x41, 0x43, 0x3f, 0x26, 0x04, 0xdc, 0x04, 0x04, 0x05, 0x00, 0x00,
        0x03, 0x03, 0xe9, 0x00, 0x00, 0xea, 0x60, 0x1f, 0x14, 0x29, 0x96,
    ];

    fn gaps(numbers: &[u32]) -> Vec<usize> {
        let sps = Sps::parse(SPS).unwrap();
        let mut known = FrameNumbers::default();
        let taken = numbers.iter().enumerate().filter(|(_, number)| {
            known.take(Numbered { number: **number, idr: false, reference: true }, &sps)
        });
        taken.map(|(place, _)| place).collect()
    }

    #[test]
    fn gaps_after_proof() {
        let wrap = Sps::parse(SPS).unwrap().next_frame_num(15);
        assert_eq!(wrap, 0);
        let order: Vec<u32> = (0..40).map(|number| number % 16).collect();
        assert_eq!(gaps(&order), [0usize; 0]);
        assert_eq!(gaps(&[&order[..12], &order[14..]].concat()), [12]);
        assert_eq!(gaps(&[2, 5, 2, 7, 2, 5, 9, 4, 2, 7, 9]), [0usize; 0], "no order at all");
        assert_eq!(gaps(&[&order[..12], &[0, 1, 2, 3]].concat()), [0usize; 0], "set back");
        assert_eq!(gaps(&[&[0; 20][..], &[4; 20]].concat()), [0usize; 0], "numbers that stand still");
    }
}
