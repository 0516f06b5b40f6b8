//! Whether receivers that verify checksums accept packets whose checksum was made of a stored sum.

use super::making::stream;
use super::{BATCH, Flow, HEADERS_BYTES, PAYLOAD_BYTES, RawSocket, Template};
use anyhow::{Context, Result};
use reel_code::partial_checksum;
use reel_report::{Claim, Report, output};
use reel_wire::space::{Space, ip};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

const CASE: &str = "verified by the receiver";
const DEVICE: &str = "frame1";
const FLOW: Flow = Flow {
    from: SocketAddrV4::new(Ipv4Addr::new(10, 72, 2, 1), 7000),
    to: SocketAddrV4::new(Ipv4Addr::new(10, 72, 2, 2), 7000),
};
/// One stored sum of so many is wrong, where some are to be.
const WRONG_EVERY: usize = 50;

/// Sends packets with sums as they are stored, and then with some wrong ones.
///
/// # Errors
/// Without root or `ethtool`.
pub(super) fn measure(report: &mut Report, quick: bool) -> Result<()> {
    report.note(
        "verified: packets with the stored sum of their payload are sent over a cable (veth) whose two ends have no offload of checksums, to an ordinary socket, \
         so the receiving kernel sums each one; rejected is UdpInCsumErrors of its name space",
    );
    let (near, far) = cable()?;
    let packets = if quick { 2_000 } else { 200_000 };
    let payloads = stream(8);
    let right: Vec<u16> = payloads.chunks_exact(PAYLOAD_BYTES).map(partial_checksum).collect();
    let wrong_from = |number: usize| number % WRONG_EVERY == WRONG_EVERY - 1;
    for (system, has_wrong) in [("stored sums", false), ("some stored sums wrong", true)] {
        let wrong = if has_wrong { (0..packets).filter(|number| wrong_from(*number)).count() } else { 0 };
        let sum = |number: usize| {
            let sum = right[number % right.len()];
            if has_wrong && wrong_from(number) { sum ^ 0x0100 } else { sum }
        };
        let (received, intact, rejected) = exchange((&near, &far), &payloads, packets, sum)?;
        let values = [
            ("sent", packets as f64),
            ("wrong", wrong as f64),
            ("received", received as f64),
            ("received_intact", intact as f64),
            ("rejected", rejected as f64),
        ];
        report.row(CASE, system, packets as f64, 0, &values);
        let expected = (packets - wrong) as f64;
        let claims = [
            (
                format!("{system}: share of the right packets that arrived intact"),
                intact as f64 / expected,
                1.0,
            ),
            (format!("{system}: packets that were rejected"), rejected as f64, wrong as f64),
        ];
        for (name, value, bar) in claims {
            report.claim(Claim::within(name, value, bar, 0.0));
        }
    }
    Ok(())
}

/// Two name spaces with a cable between them, whose ends neither make nor trust checksums.
fn cable() -> Result<(Space, Space)> {
    let (near, far) = (Space::make()?, Space::make()?);
    let holder = far.holder().to_string();
    near.inside(|| {
        ip(&["link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", &holder])?;
        ip(&["addr", "add", "10.72.2.1/24", "dev", DEVICE])?;
        ip(&["link", "set", DEVICE, "up"])?;
        without_offloads()
    })?;
    far.inside(|| {
        ip(&["addr", "add", "10.72.2.2/24", "dev", DEVICE])?;
        ip(&["link", "set", DEVICE, "up"])?;
        without_offloads()
    })?;
    Ok((near, far))
}

fn without_offloads() -> Result<()> {
    let mut command = Command::new("ethtool");
    output(command.args(["-K", DEVICE, "tx", "off", "rx", "off", "gro", "off"]))
        .context("is ethtool installed? (apt install ethtool)")
        .map(drop)
}

/// Packets that arrived, those of them that are as they were sent, and those that were rejected.
fn exchange(
    (near, far): (&Space, &Space),
    payloads: &[u8],
    packets: usize,
    sum: impl Fn(usize) -> u16 + Sync,
) -> Result<(usize, usize, u64)> {
    let before = far.inside(rejected)?;
    let socket = far.inside(|| {
        let socket = UdpSocket::bind(FLOW.to)?;
        // More than a machine allows is not given; packets are sent slowly enough for the least.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 8 << 20)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(socket)
    })?;
    let (received, intact) = thread::scope(|scope| -> Result<(usize, usize)> {
        let receiving = scope.spawn(|| receive(&socket, payloads));
        let sent = near.inside(|| send(payloads, packets, &sum));
        let counted = receiving.join().expect("receiving does not panic");
        sent.map(|()| counted)
    })?;
    Ok((received, intact, far.inside(rejected)? - before))
}

fn send(payloads: &[u8], packets: usize, sum: &impl Fn(usize) -> u16) -> Result<()> {
    let all = payloads.len() / PAYLOAD_BYTES;
    let (socket, template) = (RawSocket::open(FLOW.to)?, Template::new(&FLOW, 7, PAYLOAD_BYTES));
    let numbers: Vec<usize> = (0..packets).collect();
    for batch in numbers.chunks(BATCH) {
        let packets: Vec<([u8; HEADERS_BYTES], &[u8])> = batch
            .iter()
            .map(|&number| {
                let headers = template.patch(number as u16, number as u32, Some(sum(number)));
                (headers, &payloads[number % all * PAYLOAD_BYTES..][..PAYLOAD_BYTES])
            })
            .collect();
        socket.send_batch(&packets)?;
        // About a GB in 10 s: no socket is overrun.
        thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

/// Counts packets until none has come for a second, or the socket fails.
fn receive(socket: &UdpSocket, payloads: &[u8]) -> (usize, usize) {
    let all = payloads.len() / PAYLOAD_BYTES;
    let (mut received, mut intact) = (0, 0);
    let mut packet = [0; 2048];
    while let Ok(bytes) = socket.recv(&mut packet) {
        received += 1;
        // The time stamp is the number of the packet.
        if let Ok(packet) = reel_rtp::Packet::parse(&packet[..bytes]) {
            let number = packet.time_stamp as usize % all;
            intact += usize::from(packet.payload == &payloads[number * PAYLOAD_BYTES..][..PAYLOAD_BYTES]);
        }
    }
    (received, intact)
}

/// Datagrams that the name space of this thread has rejected by their checksum.
///
/// # Errors
/// If the kernel does not tell.
pub fn rejected() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").context("reading the counters of UDP")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut both = names.split(' ').zip(values.split(' '));
    let value = both.find(|(name, _)| *name == "InCsumErrors").map(|(_, value)| value.parse());
    Ok(value.context("no InCsumErrors in /proc/net/snmp")??)
}
