//! A gain for linear PCM of 16 bits in network order (audio/L16, RFC 3551 section 4.5.11).

/// A gain, and what it needs from one message to the next.
pub(crate) struct Gain {
    factor: f32,
    /// The first byte of a sample whose second one has not come yet.
    half: Option<u8>,
}

impl Gain {
    pub(crate) fn new(factor: f32) -> Gain {
        Gain { factor, half: None }
    }

    /// The samples that these bytes complete, louder or quieter.
    pub(crate) fn of(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = self.half.take().into_iter().chain(sound.iter().copied());
        let mut louder = Vec::with_capacity(sound.len() + 1);
        while let Some(first) = bytes.next() {
            let Some(second) = bytes.next() else {
                self.half = Some(first);
                break;
            };
            let sample = f32::from(i16::from_be_bytes([first, second])) * self.factor;
            // A cast of a float that is too large gives the largest sample.
            louder.extend((sample.round() as i16).to_be_bytes());
        }
        louder
    }
}
