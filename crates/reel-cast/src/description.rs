//! What receivers are told of a cast.

use crate::identity::Identity;
use crate::on_air::OnAir;
use reel_media::transport::SYMBOL_PAYLOAD_BYTES;
use reel_rtp::fec::FEC_HEADERS_BYTES;
use reel_rtp::sdp::{
    ABRIDGED_ATTRIBUTE, CAST_ATTRIBUTE, Description, FecDescription, SlotSchedule, is_source_specific,
};
use reel_rtp::{HEADER_BYTES, PacketError};
use reel_udp::MulticastSocket;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// What receivers are told of a cast.
pub(crate) struct Described {
    /// The SDP.
    pub(crate) text: String,
    /// The SDP without a schedule, with the address of the whole one; `None` if it has no schedule,
    /// or receivers cannot ask this server.
    pub(crate) abridged: Option<String>,
    /// The address of this machine in it.
    pub(crate) origin: IpAddr,
}

/// Describes a cast.
pub(crate) fn describe(cast: &OnAir) -> Result<Described, PacketError> {
    let name = cast.label();
    let group = cast.config.group;
    let schedule = cast.broadcast.as_ref().map(|broadcast| {
        let numbers = |of: fn(&Identity, usize) -> u32| {
            (0..cast.channels()).map(|channel| of(&cast.identity, channel)).collect()
        };
        broadcast.described(numbers(Identity::ssrc), numbers(Identity::time_stamp), cast.first_place)
    });
    let own_name = format!("{CAST_ATTRIBUTE}:{}", cast.name);
    let mut attributes = vec![own_name.clone()];
    attributes.extend(schedule.iter().flat_map(SlotSchedule::attributes));
    let fec = cast.fec.map(|geometry| FecDescription { geometry, repair_window_us: repair_window_us(cast) });
    let origin = own_address(cast);
    let description = Description {
        name: &name,
        session_id: cast.identity.session_id(),
        version: cast.added_unix_ns / 1_000_000_000,
        origin,
        group: group.ip(),
        port: group.port(),
        ttl: cast.config.ttl.max(1),
        source: is_source_specific(group.ip()).then_some(origin),
        rate_kbps: rate_kbps(cast),
        fec,
        // At most CAST_CHANNELS_MAX.
        channels: u16::try_from(cast.channels()).unwrap_or(u16::MAX),
        url: None,
        attributes: &attributes,
    };
    let url = cast.url().filter(|_| schedule.is_some());
    let abridged = url.map(|url| {
        let attributes = [own_name, ABRIDGED_ATTRIBUTE.to_owned()];
        Description { url: Some(&url), attributes: &attributes, ..description.clone() }.write()
    });
    Ok(Described { text: description.write()?, abridged: abridged.transpose()?, origin })
}

/// What all groups of a cast take on average, with FEC and headers; of several titles, the most.
fn rate_kbps(cast: &OnAir) -> u64 {
    let media_bps = match &cast.broadcast {
        Some(broadcast) => broadcast.plan().bandwidth_bps(),
        None => cast.playlist.streams().map(|pushed| pushed.stream.index.mean_bps()).max().unwrap_or(0),
    };
    let headers = if cast.config.group.is_ipv4() { IPV4_UDP_BYTES } else { IPV6_UDP_BYTES };
    let payload = SYMBOL_PAYLOAD_BYTES as u64;
    let packet_bytes = |rtp_bytes: usize| headers + rtp_bytes as u64 + payload;
    // Of so many media packets, one FEC packet.
    let fec_bytes = cast.fec.map_or(0, |fec| packet_bytes(FEC_HEADERS_BYTES) / u64::from(fec.rows()));
    media_bps.saturating_mul(packet_bytes(HEADER_BYTES) + fec_bytes) / payload / 1000
}

/// Bytes of the headers of IPv4 and UDP, and of IPv6 and UDP.
const IPV4_UDP_BYTES: u64 = 28;
const IPV6_UDP_BYTES: u64 = 48;

/// The time from a media packet to the FEC packet of its column, at most.
pub(crate) fn repair_window_us(cast: &OnAir) -> u32 {
    *cast.repair_window_us.get_or_init(|| two_matrices_us(cast))
}

/// The FEC packets of a matrix are sent until the end of the next one.
fn two_matrices_us(cast: &OnAir) -> u32 {
    let Some(geometry) = cast.fec else { return 0 };
    if let Some(broadcast) = &cast.broadcast {
        return u32::try_from(broadcast.longest_matrices_ns() / 1000).unwrap_or(u32::MAX);
    }
    let matrix = u64::from(geometry.packets());
    let longest_ns = cast.playlist.streams().flat_map(|pushed| {
        let due_ns = |number: u64| pushed.times.due_ns(number * matrix);
        (0..pushed.times.symbols() / matrix).map(move |number| due_ns(number + 2) - due_ns(number))
    });
    u32::try_from(longest_ns.max().unwrap_or(0) / 1000).unwrap_or(u32::MAX)
}

/// The address from which this machine sends a cast now, by its interface if it names one.
pub(crate) fn own_address(cast: &OnAir) -> IpAddr {
    let none: IpAddr = match cast.config.group.is_ipv4() {
        true => Ipv4Addr::LOCALHOST.into(),
        false => Ipv6Addr::LOCALHOST.into(),
    };
    let address = || {
        let socket = MulticastSocket::open(&cast.options).ok()?.socket();
        let socket = UdpSocket::from(socket.try_clone().ok()?);
        // Sends nothing: the kernel only chooses the route.
        socket.connect(cast.config.group).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let address = address().filter(|address| !address.is_unspecified()).unwrap_or(none);
    cast.is_sent_from(address);
    address
}
