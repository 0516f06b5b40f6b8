//! What to receive.

use std::net::{IpAddr, SocketAddr};

use reel_rtp::MP2T;
use reel_rtp::fec::{Decoder, Geometry};
use reel_rtp::sdp::{Channel, RTCP_PORT_OFFSET};

use crate::limits::{HOLD_PACKETS_MIN, REORDER_NS, REORDER_PACKETS, REPAIR_WINDOW_NS, REPAIR_WINDOW_NS_MAX};
use crate::order::Hold;

/// What to receive of one channel, and how long to wait for what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The group, or an address of this machine, and the port of the media.
    pub media: SocketAddr,
    /// The payload type of the media; 33 if the description names no other.
    pub payload_type: u8,
    /// The only senders to receive from. Empty: any sender.
    pub sources: Vec<IpAddr>,
    /// The only source (SSRC) of the media to receive; `None` for any.
    pub ssrc: Option<u32>,
    /// The FEC, if there is any.
    pub fec: Option<FecPlan>,
}

/// What to receive of the FEC of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FecPlan {
    /// Its group and port.
    pub address: SocketAddr,
    /// L and D.
    pub geometry: Geometry,
    /// The longest time from a media packet to the FEC packet of its column.
    pub repair_window_ns: u64,
}

/// The ports of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Media, on an even port.
    Media,
    /// FEC, two ports above.
    Fec,
    /// Reports, one port above.
    Rtcp,
}

/// Why an address says nothing about what to receive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It is no address of RTP.
    #[error("{0:?} is no address of a cast; use one such as rtp://239.1.1.1:5000 or rtp://[ff15::1]:5000")]
    Address(String),
    /// The port has no room for RTCP after it.
    #[error("the port {0} cannot be received from; use one from 1 to 65534")]
    Port(u16),
    /// The source is of another family than the group.
    #[error("the source {0} is of another family than the group; use two of IPv4 or two of IPv6")]
    Family(IpAddr),
}

impl Plan {
    /// What the description of a channel says.
    #[must_use]
    pub fn of(channel: &Channel) -> Plan {
        let window_ns = |us: u32| u64::from(us) * 1000;
        let fec = channel.fec.map(|fec| FecPlan {
            address: SocketAddr::new(fec.address, fec.port),
            geometry: fec.geometry,
            repair_window_ns: fec.repair_window_us.map_or(REPAIR_WINDOW_NS, window_ns),
        });
        Plan {
            media: SocketAddr::new(channel.address, channel.port),
            payload_type: channel.payload_type,
            sources: channel.sources.clone(),
            ssrc: None,
            fec,
        }
    }

    /// What an address says: `rtp://GROUP:PORT`, or `rtp://SOURCE@GROUP:PORT` for one sender only.
    /// There is no FEC then, because the address does not say which.
    ///
    /// # Errors
    /// If it is no such address.
    pub fn from_url(url: &str) -> Result<Plan, PlanError> {
        let wrong = || PlanError::Address(url.to_owned());
        let rest = url.strip_prefix("rtp://").ok_or_else(wrong)?;
        let (source, rest) = rest.split_once('@').unwrap_or(("", rest));
        let media: SocketAddr = rest.trim_end_matches('/').parse().map_err(|_| wrong())?;
        if !(1..u16::MAX).contains(&media.port()) {
            return Err(PlanError::Port(media.port()));
        }
        let source = source.trim_start_matches('[').trim_end_matches(']');
        let sources: Vec<IpAddr> = match source {
            "" => Vec::new(),
            source => vec![source.parse().map_err(|_| wrong())?],
        };
        match sources.iter().find(|source| source.is_ipv4() != media.is_ipv4()) {
            Some(source) => Err(PlanError::Family(*source)),
            None => Ok(Plan { media, payload_type: MP2T, sources, ssrc: None, fec: None }),
        }
    }

    /// The ports to receive from, with their addresses.
    #[must_use]
    pub fn ports(&self) -> Vec<(Port, SocketAddr)> {
        let mut rtcp = self.media;
        // The port of the media is below 65535.
        rtcp.set_port(self.media.port().saturating_add(RTCP_PORT_OFFSET));
        let fec = self.fec.map(|fec| (Port::Fec, fec.address));
        [(Port::Media, self.media), (Port::Rtcp, rtcp)].into_iter().chain(fec).collect()
    }

    /// Whether packets of an address are to be received.
    pub(crate) fn allows(&self, from: IpAddr) -> bool {
        self.sources.is_empty() || self.sources.contains(&from)
    }

    pub(crate) fn decoder(&self) -> Option<Decoder> {
        self.fec.map(|fec| Decoder::new(fec.geometry))
    }

    /// How long a missing packet is waited for. The FEC packets of a matrix are sent until the end
    /// of the next one; a quarter of a matrix is for packets that arrive out of order.
    pub(crate) fn hold(&self) -> Hold {
        let (Some(fec), Some(decoder)) = (self.fec, self.decoder()) else {
            return Hold { window_packets: REORDER_PACKETS, packets: REORDER_PACKETS / 2, ns: REORDER_NS };
        };
        let matrix = u64::from(fec.geometry.packets());
        Hold {
            window_packets: decoder.window_packets(),
            packets: (2 * matrix + matrix / 4).max(HOLD_PACKETS_MIN),
            ns: fec.repair_window_ns.min(REPAIR_WINDOW_NS_MAX) + REORDER_NS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let plan = Plan::from_url("rtp://239.1.1.1:5000").expect("an address");
        assert_eq!(plan.media, "239.1.1.1:5000".parse().expect("an address"));
        assert_eq!((plan.sources.len(), plan.fec, plan.payload_type), (0, None, 33));
        assert_eq!(Plan::from_url("rtp://@239.1.1.1:5000/"), Ok(plan));
        let plan = Plan::from_url("rtp://192.0.2.1@232.1.1.1:5000").expect("an address");
        assert_eq!(plan.sources, [IpAddr::from([192, 0, 2, 1])]);
        assert!(plan.allows([192, 0, 2, 1].into()) && !plan.allows([192, 0, 2, 2].into()));
        let plan = Plan::from_url("rtp://[2001:db8::1]@[ff3e::8000:1]:5000").expect("an address");
        assert_eq!(plan.ports()[1].1.to_string(), "[ff3e::8000:1]:5001");
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        for (url, words) in [
            ("udp://239.1.1.1:5000", "rtp://239.1.1.1:5000"),
            ("rtp://239.1.1.1", "is no address"),
            ("rtp://host:5000", "is no address"),
            ("rtp://x@239.1.1.1:5000", "is no address"),
            ("rtp://239.1.1.1:0", "port 0"),
            ("rtp://239.1.1.1:65535", "port 65535"),
            ("rtp://2001:db8::1@239.1.1.1:5000", "another family"),
        ] {
            let said = Plan::from_url(url).expect_err(url).to_string();
            assert!(said.contains(words), "{url}: {said}");
        }
    }

    #[test]
    fn a_missing_packet_is_held_for_two_matrices() {
        let fec = |columns, rows, repair_window_ns| {
            let geometry = Geometry::new(columns, rows).expect("valid");
            let mut plan = Plan::from_url("rtp://239.1.1.1:5000").expect("an address");
            plan.fec = Some(FecPlan { address: plan.media, geometry, repair_window_ns });
            plan.hold()
        };
        let hold = fec(20, 4, 420_000_000);
        assert_eq!((hold.window_packets, hold.packets, hold.ns), (256, 180, 520_000_000));
        for (columns, rows) in [(1, 1), (1, 4), (5, 4), (20, 5), (32, 4), (32, 32), (255, 4)] {
            let hold = fec(columns, rows, u64::MAX);
            assert!(hold.packets < hold.window_packets, "{hold:?}");
            assert_eq!(hold.ns, REPAIR_WINDOW_NS_MAX + REORDER_NS);
        }
    }
}
