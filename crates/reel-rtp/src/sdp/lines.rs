//! The lines of a description, sorted into its media. Reads the fields that a receiver of casts
//! needs, and leaves out all others.

use std::net::IpAddr;

use super::parse::SdpError;
use super::schedule::Attributes;
use super::{ABRIDGED_ATTRIBUTE, CAST_ATTRIBUTE, group_above};
use crate::limits::{SDP_BYTES_MAX, SDP_LINES_MAX, SDP_MEDIA_MAX, SDP_SOURCES_MAX};

/// A description, line by line.
#[derive(Debug, Default)]
pub(super) struct Lines<'a> {
    pub(super) name: &'a str,
    pub(super) address: Option<Addresses>,
    pub(super) sources: Vec<IpAddr>,
    /// Where more is said.
    pub(super) url: Option<&'a str>,
    /// The name by which the sender knows the cast.
    pub(super) cast: Option<&'a str>,
    /// Whether the schedule is left out.
    pub(super) is_abridged: bool,
    /// The identifiers of each group of media and its FEC.
    pub(super) groups: Vec<Vec<&'a str>>,
    pub(super) media: Vec<Media<'a>>,
    pub(super) schedule: Attributes<'a>,
    /// Kilobits per second of the session.
    pub(super) rate_kbps: Option<u64>,
}

/// An address, and how many follow it, each one above the last, with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) first: IpAddr,
    pub(super) count: u16,
}

/// One `m=` with the lines after it.
#[derive(Debug)]
pub(super) struct Media<'a> {
    pub(super) port: u16,
    /// The first payload type. Reel's have one.
    pub(super) payload_type: u8,
    pub(super) is_rtp: bool,
    pub(super) address: Option<Addresses>,
    pub(super) sources: Vec<IpAddr>,
    /// The name and the clock of the format, such as `MP2T/90000`.
    pub(super) encoding: Option<&'a str>,
    /// The parameters of the format.
    pub(super) parameters: &'a str,
    pub(super) id: Option<&'a str>,
}

impl<'a> Lines<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, SdpError> {
        if text.len() > SDP_BYTES_MAX {
            return Err(SdpError::TooLong { bytes: text.len() });
        }
        let mut lines = Lines::default();
        for (at, line) in text.lines().enumerate() {
            let wrong = |why| SdpError::Line { line: at + 1, why };
            if at >= SDP_LINES_MAX {
                return Err(wrong("there are too many lines"));
            }
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            let (kind, value) = line.split_once('=').ok_or(wrong("it is not of the form letter=value"))?;
            if at == 0 && (kind, value) != ("v", "0") {
                return Err(wrong("a description begins with v=0"));
            }
            lines.take(kind, value).map_err(wrong)?;
        }
        if text.is_empty() { Err(SdpError::NoStream) } else { Ok(lines) }
    }

    fn take(&mut self, kind: &str, value: &'a str) -> Result<(), &'static str> {
        match kind {
            "s" => self.name = value.trim(),
            "u" => self.url = Some(value.trim()),
            "c" => *self.address_mut() = address(value)?,
            "b" if self.media.is_empty() => self.rate_kbps = kbps(value).or(self.rate_kbps),
            "m" if self.media.len() >= SDP_MEDIA_MAX => return Err("there are too many media"),
            "m" => self.media.push(Media::read(value)?),
            "a" => return self.take_attribute(value),
            _ => {}
        }
        Ok(())
    }

    fn address_mut(&mut self) -> &mut Option<Addresses> {
        match self.media.last_mut() {
            Some(media) => &mut media.address,
            None => &mut self.address,
        }
    }

    fn take_attribute(&mut self, value: &'a str) -> Result<(), &'static str> {
        let (name, value) = value.split_once(':').unwrap_or((value, ""));
        match (name, self.media.last_mut()) {
            ("source-filter", Some(media)) => media.sources = sources(value)?,
            ("source-filter", None) => self.sources = sources(value)?,
            ("group", None) => self.groups.extend(group(value)),
            (CAST_ATTRIBUTE, None) => self.cast = Some(value.trim()),
            (ABRIDGED_ATTRIBUTE, None) => self.is_abridged = true,
            (name, None) => self.schedule.take(name, value),
            ("mid", Some(media)) => media.id = Some(value.trim()),
            ("rtpmap", Some(media)) => media.encoding = of_type(value, media.payload_type).or(media.encoding),
            ("fmtp", Some(media)) => {
                media.parameters = of_type(value, media.payload_type).unwrap_or(media.parameters);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Media<'_> {
    /// `video 5000 RTP/AVP 33`; the port may be followed by how many there are.
    fn read(value: &str) -> Result<Self, &'static str> {
        let mut words = value.split_ascii_whitespace();
        let (Some(_), Some(port), Some(protocol), Some(format)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("it needs a kind, a port, a protocol and a format");
        };
        let port = port.split('/').next().unwrap_or(port);
        let port = port.parse().map_err(|_| "its port is no number up to 65535")?;
        let is_rtp = matches!(protocol, "RTP/AVP" | "RTP/AVPF");
        let payload_type = match format.parse::<u8>() {
            Ok(payload_type @ 0..128) => payload_type,
            _ if is_rtp => return Err("its payload type is no number up to 127"),
            _ => 0,
        };
        Ok(Media {
            port,
            payload_type,
            is_rtp,
            address: None,
            sources: Vec::new(),
            encoding: None,
            parameters: "",
            id: None,
        })
    }
}

/// `IN IP4 239.1.1.1/16/3` or `IN IP6 ff15::1/3`: the address, a TTL, which is for senders, and how
/// many addresses there are (RFC 8866, section 5.7).
fn address(value: &str) -> Result<Option<Addresses>, &'static str> {
    let mut words = value.split_ascii_whitespace();
    let (Some("IN"), Some(family), Some(address)) = (words.next(), words.next(), words.next()) else {
        return Err("it is not of the form IN IP4 address");
    };
    let mut parts = address.split('/');
    let first: IpAddr = parts.next().unwrap_or(address).parse().map_err(|_| NO_ADDRESS)?;
    if first.is_ipv4() != (family == "IP4") {
        return Err(NO_ADDRESS);
    }
    let count = if first.is_ipv4() { parts.nth(1) } else { parts.next() };
    let count = count.map_or(Ok(1), |count| count.parse().map_err(|_| NO_COUNT))?;
    let has_room = (1..=SDP_MEDIA_MAX).contains(&usize::from(count));
    if !has_room || (count > 1 && group_above(first, count - 1).is_none()) {
        return Err(NO_COUNT);
    }
    Ok(Some(Addresses { first, count }))
}

/// `AS:5300` (RFC 8866, section 5.8). Other kinds of bandwidth are left out.
fn kbps(value: &str) -> Option<u64> {
    value.trim().strip_prefix("AS:")?.parse().ok()
}

const NO_ADDRESS: &str = "its address is none of its family; names of machines are not looked up";

const NO_COUNT: &str = "it has no addresses, too many, or some that are no groups";

/// `incl IN IP4 239.1.1.1 192.0.2.1 ...` (RFC 4570, section 3): the senders to receive from.
/// Senders that are excluded are not known to a receiver.
fn sources(value: &str) -> Result<Vec<IpAddr>, &'static str> {
    let mut words = value.split_ascii_whitespace();
    let (Some(mode), Some("IN"), Some(_), Some(_)) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("it is not of the form incl IN IP4 group source");
    };
    if mode != "incl" {
        return Ok(Vec::new());
    }
    let sources: Vec<IpAddr> = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| NO_ADDRESS)?;
    match sources.len() {
        1..=SDP_SOURCES_MAX => Ok(sources),
        0 => Err("it names no source"),
        _ => Err("it names too many sources"),
    }
}

/// `FEC-FR S1 R1` (RFC 5956, section 4.1), or the `FEC` of RFC 4756.
fn group(value: &str) -> Option<Vec<&str>> {
    let mut words = value.split_ascii_whitespace();
    matches!(words.next(), Some("FEC-FR" | "FEC")).then(|| words.collect())
}

/// What follows the payload type, if it is this one.
fn of_type(value: &str, payload_type: u8) -> Option<&str> {
    let (format, rest) = value.split_once(' ')?;
    (format.parse() == Ok(payload_type)).then(|| rest.trim())
}
