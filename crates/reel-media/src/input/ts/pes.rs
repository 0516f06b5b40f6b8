//! PES packets (ISO 13818-1 section 2.4.3.6): the payload and its time stamps, as they arrive
//! packet by packet.

/// Bytes up to and including PES_header_data_length.
const FIXED_BYTES: usize = 9;
const PREFIX: [u8; 3] = [0, 0, 1];

/// Time stamps of a PES packet, 33 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// Presentation.
    pub(crate) pts: i64,
    /// Decoding; the same as presentation if the packet states only one.
    pub(crate) dts: i64,
}

/// What a payload contributed to a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Nothing yet.
    Nothing,
    /// The packet is encrypted.
    Scrambled,
    /// Payload; with the stamps of the packet if it is the packet's first.
    Payload(Option<Stamps>, &'a [u8]),
}

/// Puts PES packets of one stream together.
#[derive(Debug, Default)]
pub(crate) struct Pes {
    state: State,
    /// The latest packet that stated its length had it.
    was_whole: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Waiting for the start of a packet.
    #[default]
    Idle,
    /// Collecting the header.
    Head(Vec<u8>),
    /// Payload; bytes left if the packet says how many.
    Body(Option<usize>),
}

impl Pes {
    /// Packets are missing: how many bytes belong to the PES packet is not known any more.
    pub(crate) fn lose(&mut self) {
        self.state = match self.state {
            State::Body(_) => State::Body(None),
            _ => State::Idle,
        };
    }

    /// Whether bytes are missing that the PES packet has announced.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.state, State::Head(_) | State::Body(Some(1..)))
    }

    /// Whether a payload, which begins a packet if `start` says so, shows that others are missing
    /// before it: the packet has less or more than it has announced, and the one before had not.
    pub(crate) fn shows_loss(&self, payload: &[u8], start: bool) -> bool {
        let is_over = !start && matches!(self.state, State::Body(Some(0))) && !payload.is_empty();
        self.was_whole && (start && self.is_short() || is_over)
    }

    /// Takes the payload of one transport packet.
    pub(crate) fn push<'a>(&mut self, payload: &'a [u8], start: bool) -> Piece<'a> {
        if start {
            self.was_whole = match self.state {
                State::Body(None) | State::Idle => self.was_whole,
                State::Body(Some(left)) => left == 0,
                State::Head(_) => false,
            };
            self.state = State::Head(Vec::new());
        }
        let (stamps, payload) = match &mut self.state {
            State::Idle => return Piece::Nothing,
            State::Body(_) => (None, payload),
            State::Head(head) => {
                let before = head.len();
                head.extend_from_slice(payload);
                match Head::parse(head) {
                    Parsed::More => return Piece::Nothing,
                    Parsed::Foreign => {
                        self.state = State::Idle;
                        return Piece::Nothing;
                    }
                    Parsed::Head(head) if head.scrambled => {
                        self.state = State::Idle;
                        return Piece::Scrambled;
                    }
                    Parsed::Head(head) => {
                        self.state = State::Body(head.payload_bytes);
                        // The header ends in this piece, because it was not complete before.
                        (head.stamps, &payload[head.bytes - before..])
                    }
                }
            }
        };
        let State::Body(left) = &mut self.state else { return Piece::Nothing };
        let taken = left.map_or(payload.len(), |left| left.min(payload.len()));
        if let Some(left) = left {
            *left -= taken;
        }
        Piece::Payload(stamps, &payload[..taken])
    }
}

struct Head {
    bytes: usize,
    payload_bytes: Option<usize>,
    scrambled: bool,
    stamps: Option<Stamps>,
}

enum Parsed {
    More,
    Foreign,
    Head(Head),
}

impl Head {
    fn parse(bytes: &[u8]) -> Parsed {
        if !bytes.iter().zip(PREFIX).all(|(byte, prefix)| *byte == prefix) {
            return Parsed::Foreign;
        }
        let Some(fixed) = bytes.get(..FIXED_BYTES) else { return Parsed::More };
        // Streams whose packets have no such header (table 2-21): maps, padding, private 2,
        // directories and the like.
        if matches!(fixed[3], 0xbc | 0xbe | 0xbf | 0xf0..=0xf2 | 0xf8 | 0xff) || fixed[6] & 0xc0 != 0x80 {
            return Parsed::Foreign;
        }
        let header_bytes = FIXED_BYTES + usize::from(fixed[8]);
        let Some(fields) = bytes.get(FIXED_BYTES..header_bytes) else { return Parsed::More };
        let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let stamps = match fixed[7] >> 6 {
            2 => stamp(fields).map(|pts| Stamps { pts, dts: pts }),
            3 => stamp(fields).zip(fields.get(5..).and_then(stamp)).map(|(pts, dts)| Stamps { pts, dts }),
            _ => None,
        };
        Parsed::Head(Self {
            bytes: header_bytes,
            payload_bytes: (length > 0).then(|| (length + 6).saturating_sub(header_bytes)),
            scrambled: fixed[6] & 0x30 != 0,
            stamps,
        })
    }
}

fn stamp(bytes: &[u8]) -> Option<i64> {
    let &[a, b, c, d, e] = bytes.first_chunk()?;
    Some(
        (i64::from(a >> 1 & 7) << 30)
            | (i64::from(b) << 22)
            | (i64::from(c >> 1) << 15)
            | (i64::from(d) << 7)
            | i64::from(e >> 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; 19] =
        [0, 0, 1, 0xe0, 0, 15, 0x80, 0xc0, 10, 0x31, 0, 7, 0xd8, 0x61, 0x11, 0, 7, 0xd8, 0x61];

    #[test]
    fn a_packet_in_one_piece_and_in_many() {
        let mut whole = HEAD.to_vec();
        whole.extend([1, 2, 9, 9]);
        let stamps = Some(Stamps { pts: 126_000, dts: 126_000 });
        assert_eq!(Pes::default().push(&whole, true), Piece::Payload(stamps, &[1, 2]), "15 + 6 bytes in all");
        let mut pes = Pes::default();
        for (index, byte) in whole[..18].iter().enumerate() {
            assert_eq!(pes.push(std::slice::from_ref(byte), index == 0), Piece::Nothing);
        }
        assert_eq!(pes.push(&whole[18..20], false), Piece::Payload(stamps, &[1]));
        assert!(pes.is_short());
        assert_eq!(pes.push(&whole[20..], false), Piece::Payload(None, &[2]));
        assert!(!pes.is_short());
    }

    #[test]
    fn foreign_and_scrambled_packets() {
        let mut head = HEAD;
        head[3] = 0xbe;
        assert_eq!(Pes::default().push(&head, true), Piece::Nothing);
        let mut head = HEAD;
        head[6] = 0xa0;
        assert_eq!(Pes::default().push(&head, true), Piece::Scrambled);
        assert_eq!(Pes::default().push(&HEAD, false), Piece::Nothing, "no start");
    }
}
