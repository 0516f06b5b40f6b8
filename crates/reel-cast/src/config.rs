//! What an operator asks for, and why it is refused.

use crate::broadcast::BroadcastConfig;
use crate::limits::{CAST_NAME_BYTES_MAX, CAST_TITLES_MAX, CAST_TTL, CASTS_MAX};
use reel_admit::OpenRefused;
use reel_library::LibraryError;
use reel_rtp::PacketError;
use reel_udp::{DestinationError, Family, MulticastOptions, OpenError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A cast that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CastConfig {
    /// Its name, a part of addresses; `None` for that of the title.
    pub name: Option<String>,
    /// The id of the title.
    pub title: String,
    /// The ids of titles that follow it, in order. They are sent to one group without a gap.
    pub then: Vec<String>,
    /// The group and the port of its media, an even one. RTCP is sent to the next port, FEC to the
    /// port after that, and RTCP of the FEC to the one behind it.
    pub group: SocketAddr,
    /// Whether it begins again at its end.
    pub is_looped: bool,
    /// Whether FEC is sent.
    pub fec: CastFec,
    /// How many networks its packets may cross.
    pub ttl: u8,
    /// The mark of its packets (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// The network interface; `None` for that of the routing table.
    pub interface: Option<String>,
    /// Whether it is announced to receivers that look for casts (SAP, RFC 2974).
    pub is_announced: bool,
    /// Whether the next server begins it again, so that it says no goodbye when this one stops.
    pub is_permanent: bool,
    /// How it is sent to several groups; `None` sends it to one, as its clock says.
    pub broadcast: Option<BroadcastConfig>,
}

/// Whether a cast is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CastFec {
    /// By FEC that SMPTE ST 2022-1 allows, or by a matrix that only some receivers take if the
    /// geometry of the volume gives no other.
    #[default]
    Any,
    /// By FEC that SMPTE ST 2022-1 allows, and refused if the volume gives no such.
    Strict,
    /// No FEC is sent.
    Off,
}

/// Why a title is not cast.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CastRefused {
    /// The name cannot be a part of an address.
    #[error(
        "a name has 1 to {CAST_NAME_BYTES_MAX} of the characters a-z, A-Z, 0-9, '-', '_' and '.', not {0:?}"
    )]
    Name(String),
    /// There is a cast of this name.
    #[error("there is a cast {0:?} already; stop it (reel cast stop {0}), or give this one another name")]
    NameTaken(String),
    /// The ports of another cast.
    #[error(
        "the cast {other:?} sends to {group} already; each cast needs a group of its own, or a port that is 6 or more away"
    )]
    GroupTaken {
        /// That cast.
        other: String,
        /// Its group.
        group: SocketAddr,
    },
    /// An outlet of a session sends there.
    #[error(
        "a session of this server is played to {0}, which this cast needs; end that outlet, or choose another group or port"
    )]
    SentTo(SocketAddr),
    /// The port is odd or leaves no room.
    #[error(
        "the port of the media has to be even and at most 65530, because RTCP and FEC use the next ones; {0} is not"
    )]
    Port(u16),
    /// The group cannot be sent to.
    #[error(transparent)]
    Group(#[from] DestinationError),
    /// A channel of a schedule has an address that cannot be sent to.
    #[error(
        "channel {number} of {channels} would be sent to {to}, which is no group that can be used ({error}); begin with a lower \
         address, or allow a longer wait"
    )]
    Channel {
        /// Its number, from 1.
        number: usize,
        /// How many there are.
        channels: usize,
        /// Its address.
        to: SocketAddr,
        /// What is wrong with it.
        error: DestinationError,
    },
    /// The socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] OpenError),
    /// Too many casts.
    #[error("there are {CASTS_MAX} casts, the most there may be; stop one of them")]
    TooMany,
    /// The title is not there, has no form `ts`, or cannot be read.
    #[error(transparent)]
    Title(#[from] LibraryError),
    /// The geometry of the volume gives no FEC that strict receivers take.
    #[error(
        "the volume has matrices of L = {columns} columns and D = {rows} rows, and SMPTE ST 2022-1 allows L and D up to 20, D of 4 or \
         more, and L x D up to 100; leave `strict` out for receivers that take any matrix (GStreamer), or use a volume that was \
         created with `--geometry ts`"
    )]
    NotStrict {
        /// L.
        columns: usize,
        /// D.
        rows: usize,
    },
    /// The matrix is larger than a receiver keeps.
    #[error("the volume's matrices cannot be FEC: {0}; cast it without (--no-fec)")]
    Matrix(PacketError),
    /// It is longer than a day.
    #[error("this title is longer than a day, the longest time that can be reserved ahead")]
    TooLong,
    /// Its deadlines cannot be promised.
    #[error(transparent)]
    NotAdmitted(#[from] OpenRefused),
    /// It cannot be sent by such a schedule; the text says why.
    #[error("{0}")]
    Schedule(String),
    /// Several titles in a schedule.
    #[error("a schedule has one title; leave out the scheme for titles that follow each other in one group")]
    ScheduleOfMany,
    /// Too many titles.
    #[error("{0} titles are more than the {CAST_TITLES_MAX} that a cast may have")]
    TooManyTitles(usize),
    /// The server stops.
    #[error("the server is shutting down")]
    Stopping,
}

impl CastConfig {
    /// A cast of a title to a group, once, with FEC, in the first network.
    pub fn new(title: impl Into<String>, group: SocketAddr) -> CastConfig {
        CastConfig {
            name: None,
            title: title.into(),
            then: Vec::new(),
            group,
            is_looped: false,
            fec: CastFec::Any,
            ttl: CAST_TTL,
            dscp: 0,
            interface: None,
            is_announced: true,
            is_permanent: false,
            broadcast: None,
        }
    }

    /// The socket that it needs.
    pub(crate) fn socket(&self) -> MulticastOptions {
        MulticastOptions {
            interface: self.interface.clone(),
            ttl: self.ttl,
            dscp: self.dscp,
            ..MulticastOptions::new(if self.group.is_ipv4() { Family::V4 } else { Family::V6 })
        }
    }

    /// The address of a port above that of the media of a channel. Channels have one address after
    /// another.
    pub(crate) fn port_above(&self, channel: usize, ports: u16) -> SocketAddr {
        let group = match self.group.ip() {
            IpAddr::V4(first) => {
                IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().wrapping_add(channel as u32)))
            }
            IpAddr::V6(first) => {
                IpAddr::V6(Ipv6Addr::from_bits(first.to_bits().wrapping_add(channel as u128)))
            }
        };
        // Fits: the port was checked.
        SocketAddr::new(group, self.group.port().saturating_add(ports))
    }

    /// Checks the name and the port.
    pub(crate) fn check(&self) -> Result<(), CastRefused> {
        if let Some(name) = &self.name
            && !is_name(name)
        {
            return Err(CastRefused::Name(name.clone()));
        }
        if self.broadcast.is_some() && !self.then.is_empty() {
            return Err(CastRefused::ScheduleOfMany);
        }
        if self.then.len() >= CAST_TITLES_MAX {
            return Err(CastRefused::TooManyTitles(self.then.len() + 1));
        }
        let port = self.group.port();
        if port % 2 == 1 || port == 0 || port > u16::MAX - 5 {
            return Err(CastRefused::Port(port));
        }
        Ok(())
    }

    /// Whether one of so many channels of it sends to this address.
    pub(crate) fn sends_to(&self, channels: usize, to: SocketAddr) -> bool {
        let ((family, first), (other_family, address)) = (number_of(self.group.ip()), number_of(to.ip()));
        let ports = to.port().checked_sub(self.group.port());
        family == other_family
            && address.checked_sub(first).is_some_and(|above| above < channels as u128)
            && ports.is_some_and(|above| above < PORTS)
    }

    /// Whether packets of so many channels of it and of another cast would meet. Each uses ports up
    /// to that of RTCP for row FEC.
    pub(crate) fn meets(&self, channels: usize, other: &CastConfig, other_channels: usize) -> bool {
        let ((family, one), (other_family, two)) = (number_of(self.group.ip()), number_of(other.group.ip()));
        family == other_family
            && one < two.saturating_add(other_channels as u128)
            && two < one.saturating_add(channels as u128)
            && self.group.port().abs_diff(other.group.port()) < PORTS
    }
}

/// An address as a number, and whether it is one of IPv6.
fn number_of(address: IpAddr) -> (bool, u128) {
    match address.to_canonical() {
        IpAddr::V4(address) => (false, u128::from(address.to_bits())),
        IpAddr::V6(address) => (true, address.to_bits()),
    }
}

/// Ports from that of the media to that of RTCP for row FEC (ST 2022-1).
const PORTS: u16 = 6;

/// Whether a text can be the name of a cast.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=CAST_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_allowed) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(group: &str) -> CastConfig {
        CastConfig::new("film", group.parse().expect("an address"))
    }

    #[test]
    fn names_and_ports_are_checked() {
        assert!(at("239.1.1.1:5000").check().is_ok());
        for group in ["239.1.1.1:5001", "239.1.1.1:0", "239.1.1.1:65534"] {
            assert!(matches!(at(group).check(), Err(CastRefused::Port(_))), "{group}");
        }
        for name in ["", ".", "a/b", "a b", "ä", &"a".repeat(65)] {
            let config = CastConfig { name: Some(name.to_owned()), ..at("239.1.1.1:5000") };
            assert!(matches!(config.check(), Err(CastRefused::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn casts_meet_if_one_would_send_to_a_port_of_the_other() {
        let one = at("239.1.1.1:5000");
        assert!(one.meets(1, &at("239.1.1.1:5004"), 1) && at("239.1.1.1:4996").meets(1, &one, 1));
        assert!(!one.meets(1, &at("239.1.1.1:5006"), 1) && !one.meets(1, &at("239.1.1.2:5000"), 1));
        // Channels take the next addresses.
        assert!(one.meets(3, &at("239.1.1.3:5000"), 1) && !one.meets(2, &at("239.1.1.3:5000"), 1));
        // Other senders of the server are told which addresses are taken.
        let is_sent = |channels, to: &str| one.sends_to(channels, to.parse().expect("an address"));
        assert!(is_sent(1, "239.1.1.1:5000") && is_sent(1, "239.1.1.1:5005") && is_sent(3, "239.1.1.3:5002"));
        assert!(is_sent(1, "[::ffff:239.1.1.1]:5000") && !is_sent(1, "[ff15::1]:5000"));
        for free in ["239.1.1.1:4999", "239.1.1.1:5006", "239.1.1.0:5000", "239.1.1.4:5000"] {
            assert!(!is_sent(3, free), "{free}");
        }
        assert_eq!(one.port_above(300, 2), "239.1.2.45:5002".parse().expect("an address"));
    }
}
