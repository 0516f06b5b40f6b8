//! The bytes of synthetic pictures and sound: headers that can be read, then the number of the
//! frame.

/// A picture of 320 by 192 in H.264 Main profile, without rates.
pub(crate) fn sps() -> Vec<u8> {
    let mut bits = Bits(vec![0x67, 77, 0, 30], 0);
    for (value, count) in [(0, 1), (0, 1), (0, 1), (4, 1), (2, 1)] {
        (0..count).for_each(|_| bits.exp_golomb(value));
    }
    bits.push(0, 1);
    bits.exp_golomb(19);
    bits.exp_golomb(11);
    // Frames only, direct inference, no cropping, no VUI; then the stop bit.
    [1, 1, 0, 0, 1].into_iter().for_each(|bit| bits.push(bit, 1));
    bits.0
}

/// Its picture parameter set.
pub(crate) const PPS: [u8; 4] = [0x68, 0xce, 0x3c, 0x80];

struct Bits(Vec<u8>, u32);

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for place in (0..count).rev() {
            if self.1 == 0 {
                self.0.push(0);
            }
            let last = self.0.len() - 1;
            self.0[last] |= (((value >> place) & 1) as u8) << (7 - self.1);
            self.1 = (self.1 + 1) % 8;
        }
    }

    fn exp_golomb(&mut self, value: u32) {
        let length = 32 - (value + 1).leading_zeros();
        self.push(0, length - 1);
        self.push(value + 1, length);
    }
}

/// The number, in bytes that begin neither a unit nor a frame.
fn number(id: u32) -> [u8; 5] {
    std::array::from_fn(|at| 0x80 | (id >> (6 * at)) as u8 & 0x3f)
}

fn filled(head: &[u8], id: u32, bytes: usize) -> Vec<u8> {
    let mut frame = [head, &number(id)].concat();
    frame.resize(frame.len() + bytes, 0x85);
    frame
}

/// The number of a frame in its bytes, which end with `number` and filling.
pub(crate) fn number_of(data: &[u8]) -> u32 {
    let end = data.iter().rposition(|byte| *byte != 0x85).map_or(0, |last| last + 1);
    // The number may end like the filling.
    let marker = (0..data.len().min(end + 5)).rev().find(|at| data[..*at].ends_with(&MARK));
    let digits = &data[marker.expect("a frame of this test")..][..5];
    digits.iter().rev().fold(0, |id, digit| id << 6 | u32::from(digit & 0x3f))
}

/// Stands before the number.
const MARK: [u8; 4] = [0x91, 0x92, 0x93, 0x94];

/// One slice: an IDR picture, or one that others may refer to.
pub(crate) fn slice(key: bool, id: u32) -> Vec<u8> {
    // First macroblock 0, slice type 7 (I) or 5 (P), parameter set 0.
    let head: &[u8] = if key { &[0x65, 0x88, 0x84] } else { &[0x41, 0x9a, 0x84] };
    filled(&[head, &MARK].concat(), id, 20 + id as usize % 500)
}

/// A unit with its length before it.
pub(crate) fn sized(unit: &[u8]) -> Vec<u8> {
    [&(unit.len() as u32).to_be_bytes(), unit].concat()
}

/// Sound without a header, as MP4 and Matroska store it.
pub(crate) fn sound(id: u32) -> Vec<u8> {
    filled(&[&[0xa1][..], &MARK].concat(), id, 20 + id as usize % 90)
}

/// Sound with a header (ISO 13818-7): AAC-LC, 48 kHz, stereo.
pub(crate) fn adts(id: u32) -> Vec<u8> {
    let body = sound(id);
    let length = body.len() + 7;
    let head = [
        0xff,
        0xf1,
        0x4c,
        0x80 | (length >> 11) as u8,
        (length >> 3) as u8,
        ((length & 7) << 5) as u8 | 0x1f,
        0xfc,
    ];
    [&head[..], &body].concat()
}

/// `avcC` of the pictures.
pub(crate) fn avcc() -> Vec<u8> {
    let sps = sps();
    let head = [1, sps[1], sps[2], sps[3], 0xff, 0xe1];
    let length = |set: &[u8]| (set.len() as u16).to_be_bytes();
    [&head[..], &length(&sps), &sps, &[1], &length(&PPS), &PPS].concat()
}

#[test]
fn numbers_are_read_back() {
    for id in [0, 1, 5, 63, 64, 0x85, 4096, 100_000, 1_000_000] {
        assert_eq!((number_of(&slice(true, id)), number_of(&adts(id))), (id, id));
    }
}
