//! What left by the interface, packet by packet, with the times that the kernel gave it.

use super::site::{DEVICE, Site};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Bytes of a packet of a transport stream.
const TS_BYTES: usize = 188;
/// Bytes of an RTP header, and of a media packet with it.
const RTP_BYTES: usize = 12;
const MEDIA_BYTES: usize = RTP_BYTES + 7 * TS_BYTES;
/// The kernel's buffer of the capture, in MiB.
const BUFFER_MIB: &str = "64";

/// A media packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// When the kernel handed it to the interface.
    pub(super) at_ns: u64,
    /// Whether it is the first one of a train.
    pub(super) begins_train: bool,
    /// The time stamp of its RTP header.
    pub(super) stamp: u32,
    /// Its transport packets.
    pub(super) ts_packets: u64,
    /// A clock reference (27 MHz), and which of its transport packets has it.
    pub(super) pcr: Option<(u64, u64)>,
}

/// The media packets of each group, in the order in which they were sent.
pub(super) type Groups = BTreeMap<Ipv4Addr, Vec<Sent>>;

/// Captures what is sent to a port of some networks of groups, for a time.
///
/// # Errors
/// Without dumpcap, and if the capture lost packets.
pub(super) fn capture(site: &Site, networks: &[String], port: u16, time: Duration) -> Result<Groups> {
    let file = site.file("pcap");
    let nets: Vec<String> = networks.iter().map(|network| format!("dst net {network}")).collect();
    let filter = format!("udp dst port {port} and ({})", nets.join(" or "));
    let mut dumpcap = Command::new("dumpcap");
    dumpcap.args(["-P", "-i", DEVICE, "-B", BUFFER_MIB, "-f", &filter, "-a"]);
    dumpcap.arg(format!("duration:{}", time.as_secs())).arg("-w").arg(&file);
    let said = site.space.inside(|| Ok(dumpcap.output()?));
    let said = said.context("is dumpcap installed? (apt install wireshark-common)")?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.status.success(), "dumpcap failed: {text}");
    let lost = text.rsplit_once("on interface").and_then(|(_, rest)| rest.split_once('/')?.1.split_once(' '));
    ensure!(lost.is_none_or(|(lost, _)| lost == "0"), "the capture lost packets: {text}");
    let groups = read(&file, port);
    fs::remove_file(&file)?;
    groups
}

/// Reads a capture file of libpcap.
fn read(file: &Path, port: u16) -> Result<Groups> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_le_bytes).context("a capture that is cut off")
    };
    let unit_ns = if word(0)? == 0xa1b2_3c4d { 1 } else { 1000 };
    let (mut groups, mut at) = (Groups::new(), 24);
    while at < bytes.len() {
        let at_ns = u64::from(word(at)?) * 1_000_000_000 + u64::from(word(at + 4)?) * unit_ns;
        let length = word(at + 8)? as usize;
        let frame = bytes.get(at + 16..at + 16 + length).context("a capture that is cut off")?;
        at += 16 + length;
        if let Some((group, payload)) = datagram(frame, port) {
            add(groups.entry(group).or_default(), payload, at_ns);
        }
    }
    Ok(groups)
}

/// Destination and payload of a datagram to a port. A train is one datagram here, too.
fn datagram(frame: &[u8], port: u16) -> Option<(Ipv4Addr, &[u8])> {
    let ip = frame.get(14..)?;
    let header = usize::from(ip.first()? & 15) * 4;
    let group = Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(16..20)?).ok()?);
    let udp = ip.get(header..)?;
    (udp.get(2..4)? == port.to_be_bytes()).then_some((group, udp.get(8..)?))
}

/// Takes the packets of a train.
fn add(packets: &mut Vec<Sent>, train: &[u8], at_ns: u64) {
    for (number, packet) in train.chunks(MEDIA_BYTES).enumerate() {
        let Some((header, payload)) = packet.split_at_checked(RTP_BYTES) else { continue };
        let stamp = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let pcr = payload.chunks(TS_BYTES).zip(0..).find_map(|(ts, place)| Some((pcr(ts)?, place)));
        let ts_packets = (payload.len() / TS_BYTES) as u64;
        packets.push(Sent { at_ns, begins_train: number == 0, stamp, ts_packets, pcr });
    }
}

/// The clock reference of a transport packet (ISO/IEC 13818-1, section 2.4.3.4).
fn pcr(ts: &[u8]) -> Option<u64> {
    let has_field = ts.get(3)? & 0x20 != 0 && *ts.get(4)? > 6 && ts.get(5)? & 0x10 != 0;
    if !has_field {
        return None;
    }
    let bytes: [u8; 6] = ts.get(6..12)?.try_into().ok()?;
    let all = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    Some((all >> 15) * 300 + (all & 0x1ff))
}
