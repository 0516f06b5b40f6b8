//! RTCP (RFC 3550, section 6): the reports and the end of a sender, in compound packets.

use crate::NtpTime;
use crate::error::{PacketError, check_range, split};
use crate::limits::{CNAME_BYTES_MAX, RTCP_BYTES_MAX};

const VERSION: u8 = 2 << 6;
const VERSION_MASK: u8 = 3 << 6;
const PADDING: u8 = 1 << 5;
const COUNT: u8 = 0x1f;

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;

/// The item of a source description that every source sends (RFC 3550, section 6.5.1).
const CNAME: u8 = 1;

/// Bytes of one report about a received source, of which a sender report may have up to 31.
const BLOCK_BYTES: usize = 24;

/// The name of a source that stays when its SSRC changes (RFC 3550, section 6.5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cname(String);

impl Cname {
    /// A name of 1 to 255 bytes, for example `cast@server`.
    ///
    /// # Errors
    /// [`PacketError::Range`] if it is empty or too long, and [`PacketError::Unusable`] if it has
    /// control characters.
    pub fn new(name: &str) -> Result<Self, PacketError> {
        check_range("the length of the CNAME", name.len() as u64, 1, CNAME_BYTES_MAX as u64)?;
        if name.chars().any(char::is_control) {
            let why = "it has control characters; use a name such as cast@server";
            return Err(PacketError::Unusable { what: "CNAME", why });
        }
        Ok(Self(name.to_owned()))
    }
}

/// What a source has sent, and which time of day its time stamps are (RFC 3550, section 6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderReport {
    /// The source.
    pub ssrc: u32,
    /// The time of day of the report.
    pub time: NtpTime,
    /// The same moment as a time stamp of the source's packets.
    pub time_stamp: u32,
    /// Packets sent, modulo 2^32.
    pub packets: u32,
    /// Bytes of payload sent, modulo 2^32.
    pub payload_bytes: u32,
}

/// Appends a compound packet of a sender report and the source's CNAME.
pub fn write_report(report: &SenderReport, cname: &Cname, target: &mut Vec<u8>) {
    target.extend([VERSION, SENDER_REPORT, 0, 6]);
    target.extend(report.ssrc.to_be_bytes());
    target.extend(report.time.0.to_be_bytes());
    for field in [report.time_stamp, report.packets, report.payload_bytes] {
        target.extend(field.to_be_bytes());
    }
    write_source_description(report.ssrc, cname, target);
}

/// Appends a compound packet that ends a source: its last report, its CNAME, and a BYE (RFC 3550,
/// section 6.6).
pub fn write_goodbye(report: &SenderReport, cname: &Cname, target: &mut Vec<u8>) {
    write_report(report, cname, target);
    target.extend([VERSION | 1, GOODBYE, 0, 1]);
    target.extend(report.ssrc.to_be_bytes());
}

/// One chunk with one item, filled with zeros to whole words; at least one zero ends the list of
/// items (RFC 3550, section 6.5).
fn write_source_description(ssrc: u32, cname: &Cname, target: &mut Vec<u8>) {
    let name = cname.0.as_bytes();
    let items_words = (2 + name.len()) / 4 + 1;
    target.extend([VERSION | 1, SOURCE_DESCRIPTION, 0, (1 + items_words) as u8]);
    target.extend(ssrc.to_be_bytes());
    let items_start = target.len();
    target.extend([CNAME, name.len() as u8]);
    target.extend(name);
    target.resize(items_start + 4 * items_words, 0);
}

/// A received compound packet, checked as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Compound<'a>(&'a [u8]);

/// One packet of a compound packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control<'a> {
    /// What a sender reports; what it reports about others is left out.
    Report(SenderReport),
    /// Sources that have ended.
    Goodbye(Sources<'a>),
    /// A packet of another type, which a receiver of casts does not need.
    Other(u8),
}

/// The sources that a BYE names, 31 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources<'a>(&'a [u8]);

impl Sources<'_> {
    /// Each source.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.as_chunks::<4>().0.iter().map(|source| u32::from_be_bytes(*source))
    }
}

impl<'a> Compound<'a> {
    /// Reads the bytes of a datagram, by the rules of RFC 3550, appendix A.2.
    ///
    /// # Errors
    /// [`PacketError::Range`] if the datagram is longer than any that a sender of casts needs.
    /// [`PacketError::Short`] if a packet, a report or a list of sources is cut short.
    /// [`PacketError::Malformed`] if the first packet is no report, a version is not 2, or there is
    /// padding elsewhere than at the end.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        check_range("the length of the RTCP packet", bytes.len() as u64, 8, RTCP_BYTES_MAX as u64)?;
        if !matches!(bytes[1], SENDER_REPORT | RECEIVER_REPORT) {
            let why = "it begins with no report";
            return Err(PacketError::Malformed { what: "compound RTCP packet", why });
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = next(rest)?;
        }
        Ok(Self(bytes))
    }

    /// Its packets, in order.
    pub fn packets(&self) -> impl Iterator<Item = Control<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            // All of them were read once without an error.
            let (control, after) = next(rest).ok()?;
            rest = after;
            Some(control)
        })
    }
}

/// The first packet, and the bytes after it.
fn next(bytes: &[u8]) -> Result<(Control<'_>, &[u8]), PacketError> {
    let (&[flags, kind, high, low], after) = split(bytes, "RTCP header")?;
    if flags & VERSION_MASK != VERSION {
        return Err(PacketError::Malformed { what: "RTCP header", why: "its version is not 2" });
    }
    let needed = 4 * usize::from(u16::from_be_bytes([high, low]));
    let Some((mut body, rest)) = after.split_at_checked(needed) else {
        return Err(PacketError::Short { what: "RTCP packet", bytes: after.len(), needed });
    };
    if flags & PADDING != 0 {
        body = without_padding(body, rest)?;
    }
    let count = usize::from(flags & COUNT);
    let control = match kind {
        SENDER_REPORT => Control::Report(sender_report(body, count)?),
        GOODBYE => match body.get(..4 * count) {
            Some(sources) => Control::Goodbye(Sources(sources)),
            None => {
                return Err(PacketError::Short { what: "BYE", bytes: body.len(), needed: 4 * count });
            }
        },
        other => Control::Other(other),
    };
    Ok((control, rest))
}

/// Padding is whole words at the end of the last packet (RFC 3550, section 6.4.1).
fn without_padding<'a>(body: &'a [u8], rest: &[u8]) -> Result<&'a [u8], PacketError> {
    let padding = usize::from(*body.last().unwrap_or(&0));
    match body.len().checked_sub(padding) {
        Some(end) if padding > 0 && padding % 4 == 0 && rest.is_empty() => Ok(&body[..end]),
        _ => Err(PacketError::Malformed {
            what: "RTCP padding",
            why: "it is not at the end, or not whole words of the last packet",
        }),
    }
}

fn sender_report(body: &[u8], blocks: usize) -> Result<SenderReport, PacketError> {
    let (fields, rest): (&[u8; 24], _) = split(body, "sender report")?;
    if rest.len() < blocks * BLOCK_BYTES {
        let needed = blocks * BLOCK_BYTES;
        return Err(PacketError::Short { what: "list of reports", bytes: rest.len(), needed });
    }
    let words = fields.as_chunks::<4>().0;
    let word = |at: usize| u32::from_be_bytes(words[at]);
    Ok(SenderReport {
        ssrc: word(0),
        time: NtpTime(u64::from(word(1)) << 32 | u64::from(word(2))),
        time_stamp: word(3),
        packets: word(4),
        payload_bytes: word(5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPORT: SenderReport = SenderReport {
        ssrc: 0x0102_0304,
        time: NtpTime(0x83aa_7e80_8000_0000),
        time_stamp: 90_000,
        packets: 7,
        payload_bytes: 9212,
    };

    #[test]
    fn packets_by_hand() {
        let mut bytes = Vec::new();
        write_goodbye(&REPORT, &Cname::new("a@b").unwrap(), &mut bytes);
        let by_hand = [
            &[0x80, 200, 0, 6, 1, 2, 3, 4, 0x83, 0xaa, 0x7e, 0x80, 0x80, 0, 0, 0][..],
            &[0, 1, 0x5f, 0x90, 0, 0, 0, 7, 0, 0, 0x23, 0xfc],
            &[0x81, 202, 0, 3, 1, 2, 3, 4, 1, 3, b'a', b'@', b'b', 0, 0, 0],
            &[0x81, 203, 0, 1, 1, 2, 3, 4],
        ];
        assert_eq!(bytes, by_hand.concat());
        let compound = Compound::parse(&bytes).unwrap();
        let packets: Vec<_> = compound.packets().collect();
        assert_eq!(packets[0], Control::Report(REPORT));
        assert_eq!(packets[1], Control::Other(SOURCE_DESCRIPTION));
        let Control::Goodbye(sources) = packets[2] else { panic!("{packets:?}") };
        assert!(sources.iter().eq([REPORT.ssrc]) && packets.len() == 3);
    }

    #[test]
    fn a_list_of_items_ends_with_a_zero() {
        // Two bytes before the name: a name of 2 bytes ends with a word, and a word of
        // zeros follows.
        for (name, words) in [("x", 3), ("xy", 4), ("xyz", 4), ("xyzabc", 5)] {
            let mut bytes = Vec::new();
            write_source_description(1, &Cname::new(name).unwrap(), &mut bytes);
            assert_eq!((bytes.len() / 4, bytes.len() % 4), (words, 0), "{name}");
            assert_eq!((usize::from(bytes[3]) + 1, bytes.last()), (words, Some(&0)), "{name}");
        }
    }

    #[test]
    fn names_are_checked() {
        assert!(Cname::new("").is_err() && Cname::new(&"x".repeat(256)).is_err());
        assert!(Cname::new("a\r\nb").unwrap_err().to_string().contains("control characters"));
        let mut bytes = Vec::new();
        write_report(&REPORT, &Cname::new(&"x".repeat(255)).unwrap(), &mut bytes);
        assert!(Compound::parse(&bytes).is_ok());
    }

    #[test]
    fn what_a_peer_claims_is_checked() {
        let refused = |bytes: &[u8]| Compound::parse(bytes).unwrap_err().to_string();
        assert!(refused(&[]).contains("is 0"));
        assert!(refused(&[0x80; 1501]).contains("is 1501"));
        assert!(refused(&[0x80, 203, 0, 1, 0, 0, 0, 0]).contains("no report"));
        assert!(refused(&[0x40, 201, 0, 1, 0, 0, 0, 0]).contains("version"));
        assert!(refused(&[0x80, 201, 0, 2, 0, 0, 0, 0]).contains("RTCP packet needs 8 bytes and has 4"));
        assert!(refused(&[0x80, 200, 0, 1, 0, 0, 0, 0]).contains("sender report needs 24"));
        let mut claims_blocks = Vec::new();
        write_report(&REPORT, &Cname::new("a").unwrap(), &mut claims_blocks);
        claims_blocks[0] |= 1;
        assert!(refused(&claims_blocks).contains("list of reports needs 24"));
        let empty = [0x80, 201, 0, 1, 0, 0, 0, 0];
        let then = |rest: &[u8]| [&empty[..], rest].concat();
        assert!(refused(&then(&[0x9f, 203, 0, 1, 0, 0, 0, 0])).contains("BYE needs 124"));
        assert!(refused(&then(&[0x80])).contains("RTCP header needs 4"));
        for padding in [0, 3, 8] {
            assert!(refused(&then(&[0xa0, 204, 0, 1, 0, 0, 0, padding])).contains("padding"), "{padding}");
        }
        assert!(Compound::parse(&then(&[0xa0, 204, 0, 1, 0, 0, 0, 4])).is_ok());
        assert!(refused(&[0xa0, 201, 0, 1, 0, 0, 0, 4, 0x80, 204, 0, 0]).contains("padding"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (ssrc, time, time_stamp, packets, payload_bytes) in any::<(u32, u64, u32, u32, u32)>(),
            name in "[a-z@.]{1,40}",
        ) {
            let report = SenderReport { ssrc, time: NtpTime(time), time_stamp, packets, payload_bytes };
            let mut bytes = Vec::new();
            write_report(&report, &Cname::new(&name).unwrap(), &mut bytes);
            let compound = Compound::parse(&bytes).unwrap();
            let read: Vec<_> = compound.packets().collect();
            prop_assert_eq!(read, [Control::Report(report), Control::Other(SOURCE_DESCRIPTION)]);
        }

        #[test]
        fn any_bytes_are_a_compound_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let mut bytes = bytes;
            for (at, value) in [(0, 0x80), (1, 200), (2, 0), (3, 6), (28, 0x81), (30, 0)] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if let Ok(compound) = Compound::parse(&bytes) {
                prop_assert!(compound.packets().count() >= 1);
            }
        }
    }
}
