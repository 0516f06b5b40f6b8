//! Announcements of casts (SAP, RFC 2974): a description in one datagram, sent to a group that
//! receivers listen to.
//!
//! Reel writes and reads announcements in the clear. They are not authenticated: who can send to
//! the group can announce anything, or delete what others announce.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::{PacketError, check_range, split};
use crate::limits::{SAP_BYTES_MAX, SAP_READ_BYTES_MAX, SAP_TYPE_BYTES_MAX};

/// The port of announcements (RFC 2974, section 3).
pub const SAP_PORT: u16 = 9875;

/// The format of the descriptions.
const SDP_TYPE: &str = "application/sdp";

/// The first byte (RFC 2974, section 6): the version, and bits for what follows.
const VERSION: u8 = 1 << 5;
const VERSION_MASK: u8 = 7 << 5;
const IS_IPV6: u8 = 1 << 4;
const IS_DELETION: u8 = 1 << 2;
const IS_ENCRYPTED: u8 = 1 << 1;
const IS_COMPRESSED: u8 = 1;

/// A cast that is announced, or one that is announced no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// Whether the cast has ended.
    pub is_deletion: bool,
    /// Changes when the description does. A deletion has that of the last announcement.
    pub hash: u16,
    /// The address of the sender.
    pub source: IpAddr,
    /// The description (SDP). A deletion may have its origin line alone.
    pub text: &'a str,
}

impl<'a> Announcement<'a> {
    /// Announces a description.
    #[must_use]
    pub fn new(description: &'a str, source: IpAddr) -> Announcement<'a> {
        Announcement { is_deletion: false, hash: hash_of(description), source, text: description }
    }

    /// Takes back the announcement of a description.
    #[must_use]
    pub fn deletion(description: &'a str, source: IpAddr) -> Announcement<'a> {
        // RFC 2974, section 6: the payload is the origin field.
        let text = origin_line(description).unwrap_or(description);
        Announcement { is_deletion: true, hash: hash_of(description), source, text }
    }

    /// Writes the datagram.
    ///
    /// # Errors
    /// [`PacketError::Range`] if the description is too long for one datagram that is not
    /// fragmented.
    pub fn write(&self) -> Result<Vec<u8>, PacketError> {
        let mut first = VERSION;
        if self.source.is_ipv6() {
            first |= IS_IPV6;
        }
        if self.is_deletion {
            first |= IS_DELETION;
        }
        // No authentication data.
        let mut bytes = vec![first, 0];
        bytes.extend(self.hash.to_be_bytes());
        match self.source {
            IpAddr::V4(source) => bytes.extend(source.octets()),
            IpAddr::V6(source) => bytes.extend(source.octets()),
        }
        bytes.extend(SDP_TYPE.as_bytes());
        bytes.push(0);
        bytes.extend(self.text.as_bytes());
        let count = bytes.len() as u64;
        check_range("the length of the announcement in bytes", count, 1, SAP_BYTES_MAX as u64)?;
        Ok(bytes)
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// [`PacketError`] if it is no announcement of a description in the clear.
    pub fn parse(bytes: &'a [u8]) -> Result<Announcement<'a>, PacketError> {
        let count = bytes.len() as u64;
        check_range("the length of the announcement in bytes", count, 1, SAP_READ_BYTES_MAX as u64)?;
        let ([first, authentication_words, hash @ ..], rest) = split::<4>(bytes, HEADER)?;
        if first & VERSION_MASK != VERSION {
            return Err(PacketError::Unsupported("other versions of announcements (SAP) than 1"));
        }
        if first & IS_ENCRYPTED != 0 {
            return Err(PacketError::Unsupported("encrypted announcements (SAP)"));
        }
        if first & IS_COMPRESSED != 0 {
            return Err(PacketError::Unsupported("compressed announcements (SAP)"));
        }
        if *authentication_words != 0 {
            return Err(PacketError::Unsupported("authenticated announcements (SAP)"));
        }
        let (source, payload): (IpAddr, &[u8]) = if first & IS_IPV6 == 0 {
            let (source, payload) = split::<4>(rest, HEADER)?;
            ((*source).into(), payload)
        } else {
            let (source, payload) = split::<16>(rest, HEADER)?;
            ((*source).into(), payload)
        };
        let is_deletion = first & IS_DELETION != 0;
        let text = text_of(payload, is_deletion)?;
        Ok(Announcement { is_deletion, hash: u16::from_be_bytes(*hash), source, text })
    }

    /// Which cast it is about.
    #[must_use]
    pub fn origin(&self) -> Option<Origin<'a>> {
        Origin::of(self.text)
    }
}

const HEADER: &str = "header of the announcement (SAP)";

/// Behind the header: the type of the description, which may be missing, and the description.
fn text_of(payload: &[u8], is_deletion: bool) -> Result<&str, PacketError> {
    let malformed = |why| PacketError::Malformed { what: "announcement (SAP)", why };
    let is_without_type = payload.starts_with(b"v=0") || (is_deletion && payload.starts_with(b"o="));
    let text = if is_without_type {
        payload
    } else {
        let end = payload.iter().take(SAP_TYPE_BYTES_MAX).position(|byte| *byte == 0);
        let (kind, text) = payload.split_at(end.ok_or(malformed("the type of its description has no end"))?);
        if !kind.eq_ignore_ascii_case(SDP_TYPE.as_bytes()) {
            return Err(PacketError::Unsupported("announcements (SAP) of other descriptions than SDP"));
        }
        &text[1..]
    };
    // Some senders end the description like a string of C.
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    str::from_utf8(text).map_err(|_| malformed("its description is no text in UTF-8"))
}

/// What tells a cast from all others: the origin field without the version (RFC 8866, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin<'a> {
    /// The name of the user, often `-`.
    pub user: &'a str,
    /// The number of the session.
    pub session: &'a str,
    /// The address of the sender, as it is written.
    pub address: &'a str,
}

impl<'a> Origin<'a> {
    /// That of a description, or of an origin line alone.
    fn of(text: &'a str) -> Option<Origin<'a>> {
        let mut words = origin_line(text)?.strip_prefix("o=")?.split_ascii_whitespace();
        let (user, session) = (words.next()?, words.next()?);
        let address = words.nth(3)?;
        Some(Origin { user, session, address })
    }
}

/// The origin is the second line of a description.
fn origin_line(text: &str) -> Option<&str> {
    text.lines().take(2).map(str::trim_end).find(|line| line.starts_with("o="))
}

/// A hash of the description (FNV-1a, folded). It is never 0, which says nothing (RFC 2974, section
/// 6).
fn hash_of(text: &str) -> u16 {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (((hash >> 16) ^ hash) as u16).max(1)
}

/// Where a cast to this group is announced (RFC 2974, section 3): in the scope of the group.
#[must_use]
pub fn announced_at(group: IpAddr) -> SocketAddr {
    let address: IpAddr = match group {
        IpAddr::V4(group) => match group.octets() {
            // RFC 2365: the local scope and that of the organization; the highest address of each.
            [239, 255, ..] => SAP_LOCAL.into(),
            [239, 192..=195, ..] => SAP_ORGANIZATION.into(),
            _ => SAP_GLOBAL.into(),
        },
        IpAddr::V6(group) => sap_group_v6(group.octets()[1] & 0x0f).into(),
    };
    SocketAddr::new(address, SAP_PORT)
}

const SAP_GLOBAL: Ipv4Addr = Ipv4Addr::new(224, 2, 127, 254);
const SAP_LOCAL: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 255);
const SAP_ORGANIZATION: Ipv4Addr = Ipv4Addr::new(239, 195, 255, 255);

/// ff0X::2:7ffe, where X is the scope.
fn sap_group_v6(scope: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xff00 | u16::from(scope), 0, 0, 0, 0, 0, 2, 0x7ffe)
}

/// Where receivers listen for announcements: in each scope of IPv4, and in the scopes of IPv6 that
/// networks use (link, site, organization, all).
#[must_use]
pub fn announcement_groups() -> Vec<SocketAddr> {
    let v4 = [SAP_GLOBAL, SAP_LOCAL, SAP_ORGANIZATION].map(IpAddr::from);
    let v6 = [2, 5, 8, 14].map(|scope| IpAddr::from(sap_group_v6(scope)));
    v4.into_iter().chain(v6).map(|group| SocketAddr::new(group, SAP_PORT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "v=0\r\no=- 17 3 IN IP4 192.0.2.1\r\ns=A title\r\n";

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_announcement_byte_by_byte() {
        let bytes = Announcement::new(TEXT, address("192.0.2.1")).write().unwrap();
        let hash = hash_of(TEXT).to_be_bytes();
        assert_eq!(bytes[..8], [0x20, 0, hash[0], hash[1], 192, 0, 2, 1]);
        assert_eq!(&bytes[8..24], b"application/sdp\0");
        assert_eq!(&bytes[24..], TEXT.as_bytes());
    }

    #[test]
    fn a_deletion_names_the_origin() {
        let source = address("2001:db8::1");
        let bytes = Announcement::deletion(TEXT, source).write().unwrap();
        assert_eq!((bytes[0], bytes.len()), (0x34, 4 + 16 + 16 + 25));
        let read = Announcement::parse(&bytes).unwrap();
        let announced = Announcement::new(TEXT, source);
        assert_eq!((read.is_deletion, read.text), (true, "o=- 17 3 IN IP4 192.0.2.1"));
        assert_eq!((read.hash, read.origin()), (announced.hash, announced.origin()));
        let origin = read.origin().unwrap();
        assert_eq!((origin.user, origin.session, origin.address), ("-", "17", "192.0.2.1"));
    }

    #[test]
    fn what_others_send_is_read_or_refused_in_words() {
        let with = |first: u8, words: u8, payload: &[u8]| {
            let bytes = [&[first, words, 0, 9, 192, 0, 2, 1], payload].concat();
            Announcement::parse(&bytes).map(|read| read.text.to_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(with(0x20, 0, b"v=0\r\ns=x\0"), Ok("v=0\r\ns=x".to_owned()));
        assert_eq!(with(0x24, 0, b"o=- 1 1 IN IP4 192.0.2.1"), Ok("o=- 1 1 IN IP4 192.0.2.1".to_owned()));
        assert_eq!(with(0x20, 0, b"Application/SDP\0v=0"), Ok("v=0".to_owned()));
        for (first, words, payload, said) in [
            (0x00, 0, &b"v=0"[..], "other versions"),
            (0x40, 0, b"v=0", "other versions"),
            (0x22, 0, b"v=0", "encrypted"),
            (0x21, 0, b"v=0", "compressed"),
            (0x20, 1, b"v=0", "authenticated"),
            (0x20, 0, b"text/plain\0v=0", "than SDP"),
            (0x20, 0, b"application/sdp", "has no end"),
            (0x20, 0, &[b'x'; 200], "has no end"),
            (0x20, 0, b"v=0\xff", "UTF-8"),
            (0x30, 0, b"v=0", "cut short"),
            (0x20, 0, &[b'v'; SAP_READ_BYTES_MAX], "may be 1 to"),
        ] {
            let refused = with(first, words, payload).unwrap_err();
            assert!(refused.contains(said), "{said}: {refused}");
        }
        assert!(Announcement::parse(&[]).is_err() && Announcement::parse(&[0x20, 0, 0]).is_err());
    }

    #[test]
    fn a_description_that_needs_fragments_is_refused() {
        let long = format!("{TEXT}{}", "a=x\r\n".repeat(300));
        let refused = Announcement::new(&long, address("192.0.2.1")).write().unwrap_err();
        assert!(refused.to_string().contains("1400"), "{refused}");
    }

    #[test]
    fn each_scope_has_its_group() {
        for (group, announced) in [
            ("239.1.1.1", "224.2.127.254:9875"),
            ("232.1.1.1", "224.2.127.254:9875"),
            ("239.255.7.1", "239.255.255.255:9875"),
            ("239.192.0.1", "239.195.255.255:9875"),
            ("239.196.0.1", "224.2.127.254:9875"),
            ("ff15::1", "[ff05::2:7ffe]:9875"),
            ("ff3e::8000:1", "[ff0e::2:7ffe]:9875"),
            ("ff12::1", "[ff02::2:7ffe]:9875"),
        ] {
            let at = announced_at(address(group));
            assert_eq!(at, announced.parse().unwrap(), "{group}");
            assert!(announcement_groups().contains(&at), "{group}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(text in "v=0\\PC{0,200}", source: [u8; 16], is_v4: bool) {
            let source =
                if is_v4 { IpAddr::from([source[0], 1, 2, 3]) } else { IpAddr::from(source) };
            let announcement = Announcement::new(&text, source);
            let bytes = announcement.write().unwrap();
            prop_assert_eq!(Announcement::parse(&bytes).unwrap(), announcement);
        }
    }
}
