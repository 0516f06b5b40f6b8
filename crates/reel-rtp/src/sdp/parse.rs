//! Reads descriptions: what Reel writes, and what other senders of transport streams write.

use std::net::IpAddr;

use super::lines::{Addresses, Lines, Media};
use super::schedule::SlotSchedule;
use super::{group_above, session_name};
use crate::CLOCK_HZ;
use crate::fec::{FEC_PAYLOAD_TYPE, Geometry};
use crate::limits::{SDP_BYTES_MAX, SDP_MEDIA_MAX};
use crate::rtp::MP2T;

/// A description that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name, in one line.
    pub name: String,
    /// Its transport streams, at least one.
    pub channels: Vec<Channel>,
    /// What all of it takes in kilobits per second, with headers, if that is said.
    pub rate_kbps: Option<u64>,
    /// The schedule by which they are sent, if they are channels of a broadcast.
    pub schedule: Option<SlotSchedule>,
    /// The name by which its sender knows it, if that is said.
    pub cast: Option<String>,
    /// Where the whole description is, if this one leaves out the schedule.
    pub whole_at: Option<String>,
}

/// A transport stream of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// The group, or the address of a single receiver.
    pub address: IpAddr,
    /// The port of the media, 65534 at most.
    pub port: u16,
    /// The payload type of the media.
    pub payload_type: u8,
    /// The only senders to receive from (RFC 4570). Empty: any sender.
    pub sources: Vec<IpAddr>,
    /// The FEC, if there is any that can be used.
    pub fec: Option<FecChannel>,
    /// Why FEC that is described cannot be used.
    pub fec_fault: Option<&'static str>,
}

/// The column FEC of a transport stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FecChannel {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// L and D.
    pub geometry: Geometry,
    /// The longest time from a media packet to the FEC packet of its column, in microseconds.
    pub repair_window_us: Option<u32>,
}

/// Why a description cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SdpError {
    /// It is too long.
    #[error("the description has {bytes} bytes, and may have {SDP_BYTES_MAX}; use that of one cast")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A line is wrong.
    #[error("line {line} of the description (SDP) cannot be used: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// There are too many channels.
    #[error("the description (SDP) has more than {SDP_MEDIA_MAX} groups; use that of one cast")]
    Channels,
    /// The schedule of a broadcast contradicts itself.
    #[error("the schedule of the description (SDP) cannot be used: {0}")]
    Schedule(&'static str),
    /// There is nothing to receive.
    #[error(
        "the description (SDP) has no transport stream over RTP with an address; it needs lines such as \
         c=IN IP4 239.1.1.1/16 and m=video 5000 RTP/AVP 33"
    )]
    NoStream,
}

impl Session {
    /// Reads a description. Unknown lines are left out.
    ///
    /// # Errors
    /// [`SdpError::TooLong`] and [`SdpError::Line`] if it is too long or a line contradicts its
    /// specification; [`SdpError::NoStream`] if there is no transport stream over RTP.
    pub fn parse(text: &str) -> Result<Session, SdpError> {
        let lines = Lines::read(text)?;
        // A medium has as many channels as it has groups.
        let channels = lines.media.iter().flat_map(|media| channels(&lines, media)).take(SDP_MEDIA_MAX + 1);
        let channels: Vec<Channel> = channels.collect();
        match channels.len() {
            0 => return Err(SdpError::NoStream),
            1..=SDP_MEDIA_MAX => {}
            _ => return Err(SdpError::Channels),
        }
        let schedule = lines.schedule.read(channels.len()).map_err(SdpError::Schedule)?;
        let whole_at = lines.url.filter(|_| lines.is_abridged).map(str::to_owned);
        let cast = lines.cast.map(str::to_owned);
        let name = session_name(lines.name);
        Ok(Session { name, channels, rate_kbps: lines.rate_kbps, schedule, cast, whole_at })
    }
}

/// The channels of a medium, one in each of its groups, if it is a transport stream.
fn channels(lines: &Lines<'_>, media: &Media<'_>) -> Vec<Channel> {
    let Some(addresses) = media.address.or(lines.address) else { return Vec::new() };
    // A port of 0 says that the stream is not sent.
    if !is_stream(media) || !(1..u16::MAX).contains(&media.port) {
        return Vec::new();
    }
    let sources = if media.sources.is_empty() { &lines.sources } else { &media.sources };
    let sources = sources.iter().copied().filter(|source| source.is_ipv4() == addresses.first.is_ipv4());
    let sources: Vec<IpAddr> = sources.collect();
    let fec = fec(lines, media);
    let of_group = |number: u16| {
        let (fec, fec_fault) = match fec {
            None => (None, None),
            Some(Ok((fec, groups))) => {
                (group_at(groups, number).map(|address| FecChannel { address, ..fec }), None)
            }
            Some(Err(fault)) => (None, Some(fault)),
        };
        let (port, payload_type) = (media.port, media.payload_type);
        let address = group_at(addresses, number)?;
        Some(Channel { address, port, payload_type, sources: sources.clone(), fec, fec_fault })
    };
    (0..addresses.count).filter_map(of_group).collect()
}

/// One of several addresses. A single one may be that of a machine.
fn group_at(addresses: Addresses, number: u16) -> Option<IpAddr> {
    if number == 0 { Some(addresses.first) } else { group_above(addresses.first, number) }
}

/// Whether a medium is a transport stream: by its static payload type (RFC 3551), or by name.
fn is_stream(media: &Media<'_>) -> bool {
    let is_named = media.encoding.map(|encoding| is_format(encoding, "MP2T"));
    media.is_rtp && is_named.unwrap_or(media.payload_type == MP2T)
}

fn is_fec(media: &Media<'_>) -> bool {
    media.is_rtp && media.encoding.is_some_and(|encoding| is_format(encoding, "1d-interleaved-parityfec"))
}

/// Whether an encoding is this one, at 90 kHz. Names of encodings have no case.
fn is_format(encoding: &str, name: &str) -> bool {
    let (encoding, clock) = encoding.split_once('/').unwrap_or((encoding, ""));
    encoding.eq_ignore_ascii_case(name) && clock.trim().parse() == Ok(CLOCK_HZ)
}

/// The FEC of a medium: what is grouped with it, or, without any groups, the only one of the only
/// stream.
fn fec(lines: &Lines<'_>, media: &Media<'_>) -> Option<Result<(FecChannel, Addresses), &'static str>> {
    let only =
        |is_kind: fn(&Media<'_>) -> bool| lines.media.iter().filter(|other| is_kind(other)).count() == 1;
    let is_grouped = |other: &Media<'_>| {
        let (Some(own), Some(id)) = (media.id, other.id) else { return false };
        lines.groups.iter().any(|group| group.contains(&own) && group.contains(&id))
    };
    let is_alone = lines.groups.is_empty() && only(is_stream) && only(is_fec);
    let found =
        lines.media.iter().filter(|other| is_fec(other)).find(|other| is_alone || is_grouped(other))?;
    Some(read_fec(lines, media, found))
}

/// The FEC in the first of its groups, and all of them.
fn read_fec(
    lines: &Lines<'_>,
    media: &Media<'_>,
    fec: &Media<'_>,
) -> Result<(FecChannel, Addresses), &'static str> {
    let addresses = fec.address.or(lines.address).ok_or("it has no address")?;
    if media.payload_type != MP2T || fec.payload_type != FEC_PAYLOAD_TYPE {
        return Err("the payload types of ST 2022-1 are 33 and 96");
    }
    let is_same =
        |own: Addresses| own.count == addresses.count && own.first.is_ipv4() == addresses.first.is_ipv4();
    if fec.port == 0 || !media.address.or(lines.address).is_some_and(is_same) {
        return Err("it has no port, an address of another family, or another number of addresses");
    }
    let (Some(columns), Some(rows)) = (parameter(fec, "L"), parameter(fec, "D")) else {
        return Err("its L or D is missing or no number");
    };
    let side = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    let geometry =
        Geometry::new(side(columns), side(rows)).map_err(|_| "its matrices are too large or empty")?;
    let repair_window_us = parameter(fec, "repair-window");
    Ok((FecChannel { address: addresses.first, port: fec.port, geometry, repair_window_us }, addresses))
}

/// A parameter of a format: `L=20; D=4` (RFC 6015), or with colons as some senders write.
fn parameter(media: &Media<'_>, name: &str) -> Option<u32> {
    let value = |part: &str| {
        let (key, value) = part.split_once(['=', ':'])?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().parse().ok())
    };
    media.parameters.split(';').find_map(value)?
}
