//! The description of a cast for receivers, in SDP (RFC 8866).

mod lines;
mod parse;
mod schedule;

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::CLOCK_HZ;
use crate::error::{PacketError, check_range};
use crate::fec::{FEC_PAYLOAD_TYPE, Geometry};
use crate::limits::{SDP_MEDIA_MAX, SESSION_NAME_BYTES_MAX};
use crate::rtp::MP2T;

pub use parse::{Channel, FecChannel, SdpError, Session};
pub use schedule::SlotSchedule;

/// FEC is sent to the port of the media and this (ST 2022-1).
pub const FEC_PORT_OFFSET: u16 = 2;

/// The attribute with the name by which the sender knows a cast. It is in the name that receivers
/// show only if that would not tell the cast from others.
pub const CAST_ATTRIBUTE: &str = "x-reel-cast";

/// The attribute of a description that leaves out a schedule. The whole one is at its URL.
pub const ABRIDGED_ATTRIBUTE: &str = "x-reel-abridged";

/// RTCP is sent to the port of its packets and this (RFC 3550, section 11).
pub const RTCP_PORT_OFFSET: u16 = 1;

/// What receivers need to know of a cast.
#[derive(Debug, Clone)]
pub struct Description<'a> {
    /// The name that receivers show: the title, any text.
    pub name: &'a str,
    /// A number that this server gives to no other cast.
    pub session_id: u64,
    /// A number that grows when the description changes.
    pub version: u64,
    /// The address of the server.
    pub origin: IpAddr,
    /// The group that the cast is sent to.
    pub group: IpAddr,
    /// The port of the media, an even one.
    pub port: u16,
    /// The time to live of packets to an IPv4 group; SDP has none for IPv6.
    pub ttl: u8,
    /// The only sender that receivers are to join the group for (RFC 4607).
    pub source: Option<IpAddr>,
    /// What all of it takes on average in kilobits per second, with headers; 0 if that is not said.
    pub rate_kbps: u64,
    /// The FEC, if there is any.
    pub fec: Option<FecDescription>,
    /// How many channels there are, each in a group of its own with the same ports and its own FEC.
    /// Their groups follow each other, from `group` on.
    pub channels: u16,
    /// Where more is said of it (RFC 8866, section 5.5).
    pub url: Option<&'a str>,
    /// Attributes of the session, each without `a=` and without control characters.
    pub attributes: &'a [String],
}

/// What receivers need to know of the FEC of a cast.
#[derive(Debug, Clone, Copy)]
pub struct FecDescription {
    /// L and D.
    pub geometry: Geometry,
    /// The longest time from a media packet to the FEC packet of its column, in microseconds.
    pub repair_window_us: u32,
}

impl Description<'_> {
    /// Writes the description. Control characters and separators of lines in the name become
    /// spaces, and a name of more than 255 bytes is cut.
    ///
    /// # Errors
    /// [`PacketError::Unusable`] if the group is no multicast address, or one that needs a source
    /// and has none; if the source is of another family than the group; if the source or the origin
    /// is no address of one machine; or if the port is odd. [`PacketError::Range`] if the port is 0
    /// or leaves no room for those of RTCP and FEC, or the TTL is 0.
    pub fn write(&self) -> Result<String, PacketError> {
        self.check()?;
        let mut text = String::from("v=0\r\n");
        self.write_session(&mut text);
        self.write_media(&mut text);
        Ok(text)
    }

    fn check(&self) -> Result<(), PacketError> {
        let unusable = |what, why| Err(PacketError::Unusable { what, why });
        let last_offset = RTCP_PORT_OFFSET + self.fec.map_or(0, |_| FEC_PORT_OFFSET);
        check_range("the port of the media", self.port.into(), 2, (u16::MAX - last_offset).into())?;
        check_range("the TTL", self.ttl.into(), 1, u8::MAX.into())?;
        check_range("the number of channels", self.channels.into(), 1, SDP_MEDIA_MAX as u64)?;
        if !self.port.is_multiple_of(2) {
            return unusable("port of the media", "it is odd, and odd ports are for RTCP; use an even one");
        }
        if !self.group.is_multicast() {
            let why = "it is no multicast address; use one of 224.0.0.0/4 or ff00::/8";
            return unusable("group", why);
        }
        if group_above(self.group, self.channels - 1).is_none() {
            let why = "the groups of its channels go beyond the multicast addresses; use a lower one";
            return unusable("group", why);
        }
        if self.source.is_none() && is_source_specific(self.group) {
            let why = "it is source-specific, and no source is given; name the address of the sender";
            return unusable("group", why);
        }
        for (what, address) in [("origin", Some(self.origin)), ("source", self.source)] {
            let Some(address) = address else { continue };
            if address.is_multicast() || address.is_unspecified() || address == IpAddr::from([255; 4]) {
                return unusable(what, "it is no address of one machine; use that of the sender");
            }
        }
        if self.source.is_some_and(|source| source.is_ipv4() != self.group.is_ipv4()) {
            let why = "it is of another family than the group; use two of IPv4 or two of IPv6";
            return unusable("source", why);
        }
        Ok(())
    }

    fn write_session(&self, text: &mut String) {
        line(text, format_args!("o=- {} {} IN {}", self.session_id, self.version, address(self.origin)));
        line(text, format_args!("s={}", session_name(self.name)));
        if let Some(url) = self.url {
            line(text, format_args!("u={}", one_line(url)));
        }
        // RFC 8866, section 5.7: several addresses are those of a medium, not of a session.
        if self.channels == 1 {
            self.write_groups(text);
        }
        if self.rate_kbps > 0 {
            // RFC 8866, section 5.8: the bandwidth of the session, as its sender sees it.
            line(text, format_args!("b=AS:{}", self.rate_kbps));
        }
        line(text, format_args!("t=0 0"));
        line(text, format_args!("a=recvonly"));
        if let Some(source) = self.source {
            // RFC 4570, section 3: the group, and the only source to receive it from.
            line(text, format_args!("a=source-filter: incl IN {} {source}", address(self.group)));
        }
        if self.fec.is_some() {
            line(text, format_args!("a=group:FEC-FR S1 R1"));
        }
        for attribute in self.attributes {
            line(text, format_args!("a={}", one_line(attribute)));
        }
    }

    /// The group, or that of the first channel and how many follow.
    fn write_groups(&self, text: &mut String) {
        let count = if self.channels == 1 { String::new() } else { format!("/{}", self.channels) };
        match self.group {
            IpAddr::V4(group) => line(text, format_args!("c=IN IP4 {group}/{}{count}", self.ttl)),
            IpAddr::V6(group) => line(text, format_args!("c=IN IP6 {group}{count}")),
        }
    }

    /// The media of all channels.
    fn write_media(&self, text: &mut String) {
        let write_groups = |text: &mut String| {
            if self.channels > 1 {
                self.write_groups(text);
            }
        };
        line(text, format_args!("m=video {} RTP/AVP {MP2T}", self.port));
        write_groups(text);
        line(text, format_args!("a=rtpmap:{MP2T} MP2T/{CLOCK_HZ}"));
        let Some(FecDescription { geometry, repair_window_us }) = self.fec else { return };
        line(text, format_args!("a=mid:S1"));
        // RFC 5956, section 4 (grouping) and RFC 6015, section 5 (format).
        line(text, format_args!("m=application {} RTP/AVP {FEC_PAYLOAD_TYPE}", self.port + FEC_PORT_OFFSET));
        write_groups(text);
        line(text, format_args!("a=rtpmap:{FEC_PAYLOAD_TYPE} 1d-interleaved-parityfec/{CLOCK_HZ}"));
        let (columns, rows) = (geometry.columns(), geometry.rows());
        line(
            text,
            format_args!("a=fmtp:{FEC_PAYLOAD_TYPE} L={columns};D={rows};repair-window={repair_window_us}"),
        );
        line(text, format_args!("a=mid:R1"));
    }
}

/// The group so many addresses above another one; `None` if it is none.
pub(crate) fn group_above(group: IpAddr, channel: u16) -> Option<IpAddr> {
    let above = match group {
        IpAddr::V4(group) => Ipv4Addr::from_bits(group.to_bits().checked_add(channel.into())?).into(),
        IpAddr::V6(group) => Ipv6Addr::from_bits(group.to_bits().checked_add(channel.into())?).into(),
    };
    IpAddr::is_multicast(&above).then_some(above)
}

/// Without what would end a line.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    write!(text, "{content}\r\n").expect("a string takes everything");
}

/// The address with its family, as SDP writes it.
fn address(address: IpAddr) -> String {
    format!("{} {address}", if address.is_ipv4() { "IP4" } else { "IP6" })
}

/// Whether receivers can join the group for one source only: 232/8 and ff3x::/32 (RFC 4607).
pub fn is_source_specific(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.octets()[0] == 232,
        IpAddr::V6(group) => {
            let [first, second, ..] = Ipv6Addr::segments(&group);
            first & 0xfff0 == 0xff30 && second == 0
        }
    }
}

/// The name in one line, never empty (RFC 8866, section 5.3).
fn session_name(name: &str) -> String {
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let mut line: String = name.chars().map(|c| if is_break(c) { ' ' } else { c }).collect();
    line.truncate(line.floor_char_boundary(SESSION_NAME_BYTES_MAX));
    let line = line.trim();
    if line.is_empty() { "-".into() } else { line.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn description() -> Description<'static> {
        Description {
            name: "A title",
            session_id: 17,
            version: 3,
            origin: [192, 0, 2, 1].into(),
            group: [239, 1, 1, 1].into(),
            port: 5000,
            ttl: 16,
            source: None,
            rate_kbps: 0,
            fec: None,
            channels: 1,
            url: None,
            attributes: &[],
        }
    }

    fn with_fec() -> Option<FecDescription> {
        Some(FecDescription { geometry: Geometry::new(20, 4).unwrap(), repair_window_us: 1_000_000 })
    }

    #[test]
    fn an_ipv4_group_with_fec() {
        let text = Description { fec: with_fec(), rate_kbps: 5300, ..description() }.write().unwrap();
        let lines = [
            "v=0",
            "o=- 17 3 IN IP4 192.0.2.1",
            "s=A title",
            "c=IN IP4 239.1.1.1/16",
            "b=AS:5300",
            "t=0 0",
            "a=recvonly",
            "a=group:FEC-FR S1 R1",
            "m=video 5000 RTP/AVP 33",
            "a=rtpmap:33 MP2T/90000",
            "a=mid:S1",
            "m=application 5002 RTP/AVP 96",
            "a=rtpmap:96 1d-interleaved-parityfec/90000",
            "a=fmtp:96 L=20;D=4;repair-window=1000000",
            "a=mid:R1",
            "",
        ];
        assert_eq!(text, lines.join("\r\n"));
    }

    #[test]
    fn a_source_specific_ipv6_group() {
        let cast = Description {
            origin: "2001:db8::1".parse().unwrap(),
            group: "ff3e::8000:1".parse().unwrap(),
            source: Some("2001:db8::1".parse().unwrap()),
            ..description()
        };
        let text = cast.write().unwrap();
        assert!(text.contains("o=- 17 3 IN IP6 2001:db8::1\r\n"));
        assert!(text.contains("\r\nc=IN IP6 ff3e::8000:1\r\n"));
        assert!(text.contains("\r\na=source-filter: incl IN IP6 ff3e::8000:1 2001:db8::1\r\n"));
        assert!(!text.contains("FEC-FR") && !text.contains("mid:"));
    }

    #[test]
    fn what_receivers_cannot_use_is_refused() {
        let refused = |cast: Description<'_>| cast.write().unwrap_err().to_string();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let with_group = |group| Description { group: address(group), ..description() };
        assert!(refused(with_group("192.0.2.1")).contains("no multicast address"));
        assert!(refused(with_group("fe80::1")).contains("no multicast address"));
        assert!(refused(with_group("232.1.1.1")).contains("source-specific"));
        assert!(refused(with_group("ff3e::8000:1")).contains("source-specific"));
        assert!(refused(Description { port: 5001, ..description() }).contains("odd"));
        assert!(refused(Description { port: 0, ..description() }).contains("is 0"));
        assert!(Description { port: 65_534, ..description() }.write().is_ok());
        assert!(refused(Description { port: 65_534, fec: with_fec(), ..description() }).contains("65532"));
        assert!(refused(Description { ttl: 0, ..description() }).contains("TTL"));
        assert!(refused(Description { channels: 0, ..description() }).contains("channels"));
        let last = Description { channels: 2, ..with_group("239.255.255.255") };
        assert!(refused(last).contains("use a lower one"));
        for origin in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255"] {
            assert!(refused(Description { origin: address(origin), ..description() }).contains("origin"));
        }
        let source = Some(address("2001:db8::1"));
        assert!(refused(Description { source, ..description() }).contains("another family"));
        let source = Some(address("239.0.0.1"));
        assert!(refused(Description { source, ..description() }).contains("no address of one machine"));
    }

    #[test]
    fn names_stay_in_their_line() {
        assert_eq!(session_name("a\r\nm=video 1 RTP/AVP 0\u{85}\u{2028}b"), "a  m=video 1 RTP/AVP 0  b");
        assert_eq!(session_name("Amélie, 2001"), "Amélie, 2001");
        assert_eq!((session_name("\n").as_str(), session_name("").as_str()), ("-", "-"));
        assert_eq!(session_name(&"é".repeat(200)), "é".repeat(127));
    }

    proptest! {
        #[test]
        fn any_name_is_one_line(name in any::<String>()) {
            let text = Description { name: &name, fec: with_fec(), ..description() }.write().unwrap();
            prop_assert_eq!(text.split("\r\n").count(), 15);
            prop_assert_eq!(text.chars().filter(|c| c.is_control()).count(), 28);
            prop_assert!(text.lines().nth(2).unwrap().len() > 2);
        }
    }
}
