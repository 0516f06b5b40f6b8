//! Flipped bits: packets of a cast that are damaged on their way are rejected by the checksum of
//! UDP and repaired by FEC, so that a damaged packet is a lost one.

use super::cast_rig::{CastRig, GROUP, PORT, stream};
use crate::reel;
use anyhow::{Context, Result, ensure};
use lab_packets::{Flow, RawSocket};
use reel_report::{Claim, CommonOptions, Report, output};
use reel_testkit::Rng;
use reel_wire::space::{Space, ip};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const CASE: &str = "flipped bits";
const NAME: &str = "flipped";
/// The way from the server to the damage, and from there to the receiver.
const FIRST: &str = "fec1";
const SECOND: &str = "fec2";
const DAMAGE: Ipv4Addr = Ipv4Addr::new(10, 73, 1, 2);
/// Packets of a matrix. One media packet of so many is damaged, so FEC can repair all of them.
const MATRIX_PACKETS: u64 = 80;
/// Bits of the RTP header, which are not flipped: what is damaged is the film.
const HEADER_BITS: u64 = 12 * 8;

/// Damages packets between a server and a receiver, and compares what the receiver writes with what
/// was stored.
pub(super) fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let dir = arguments.make_dir()?;
    let reel = reel::binary(arguments.reel.as_deref())?;
    let (seconds, rate_mbps) = if arguments.quick { (2, 8) } else { (20, 20) };
    let stream = stream(&dir, seconds, rate_mbps)?;
    report.note(format!(
        "flipped bits: a cast of {seconds} s at {rate_mbps} Mb/s passes a process that flips one bit of the payload of one media packet in each {MATRIX_PACKETS} \
         and keeps its checksum, to reel receive behind a cable whose ends have no offload of checksums; rejected is UdpInCsumErrors of the receiver's name space"
    ));
    let (middle, home) = (Space::make()?, Space::make()?);
    let holder = middle.holder().to_string();
    let rig = CastRig::make(&reel, &dir, &stream, || {
        ip(&["link", "add", FIRST, "type", "veth", "peer", "name", FIRST, "netns", &holder])?;
        up(FIRST, "10.73.1.1/24", true)
    })?;
    cable(&middle, &home)?;
    let out = dir.join("flipped.ts");
    let end = AtomicBool::new(false);
    rig.begin(NAME, true)?;
    let description = dir.join("flipped.sdp");
    fs::write(&description, rig.description(NAME)?)?;
    let (flipped, said) = thread::scope(|scope| -> Result<(u64, String)> {
        let damaging = scope.spawn(|| middle.inside(|| Damage::new()?.run(&end)));
        let received = home.inside(|| receive(&reel, &description, &out, seconds + 40));
        end.store(true, Ordering::Relaxed);
        let flipped = damaging.join().expect("damaging does not panic")?;
        Ok((flipped, received?))
    })?;
    let cast = rig.until_end(NAME, Duration::from_secs(seconds + 30))?;
    report.note(format!("flipped bits: reel receive said: {said}"));
    let rejected = home.inside(lab_packets::rejected)?;
    let is_identical = is_the_stream(&fs::read(&out)?, &fs::read(&stream)?);
    fs::remove_file(&out)?;
    fs::remove_file(&description)?;
    let of = |name: &str| cast[name].as_f64().unwrap_or(f64::NAN);
    let repaired = count(&said, "repaired")?;
    let values = [
        ("packets", of("packets")),
        ("fec_packets", of("fec_packets")),
        ("flipped", flipped as f64),
        ("rejected", rejected as f64),
        ("repaired", repaired),
        ("unrepaired", count(&said, "unrepaired")?),
        ("is_identical", f64::from(u8::from(is_identical))),
    ];
    report.row(CASE, "reel receive", rate_mbps as f64, 0, &values);
    ensure!(flipped > 0, "no packet was damaged");
    let share = |part: f64| part / flipped as f64;
    for (name, value) in [
        ("packets with a flipped bit: share that was rejected", share(rejected as f64)),
        ("packets with a flipped bit: share that was repaired", share(repaired)),
        ("packets with a flipped bit: output is bit-identical", f64::from(u8::from(is_identical))),
    ] {
        report.claim(Claim::within(name.to_owned(), value, 1.0, 0.0));
    }
    Ok(())
}

/// Whether a cast was received as it was stored; null packets fill its last matrix.
fn is_the_stream(received: &[u8], stored: &[u8]) -> bool {
    let is_null = |packet: &[u8]| packet[..3] == [0x47, 0x1f, 0xff];
    received.len() >= stored.len()
        && received[..stored.len()] == *stored
        && received[stored.len()..].chunks(188).all(is_null)
}

/// A number in the line that `reel receive` prints at its end.
fn count(said: &str, name: &str) -> Result<f64> {
    let prefix = format!("{name} ");
    let part = said.split(", ").find_map(|part| part.strip_prefix(&prefix));
    Ok(part.with_context(|| format!("no {name} in {said:?}"))?.trim().parse()?)
}

fn up(device: &str, address: &str, has_groups: bool) -> Result<()> {
    ip(&["addr", "add", address, "dev", device])?;
    ip(&["link", "set", device, "up"])?;
    if has_groups {
        ip(&["route", "add", "224.0.0.0/4", "dev", device])?;
    }
    Ok(())
}

/// Ends the first cable in the middle, and makes the second one, whose ends neither make nor trust
/// checksums.
fn cable(middle: &Space, home: &Space) -> Result<()> {
    let without_offloads = || {
        let mut ethtool = Command::new("ethtool");
        output(ethtool.args(["-K", SECOND, "tx", "off", "rx", "off", "gro", "off"]))
            .context("is ethtool installed? (apt install ethtool)")
            .map(drop)
    };
    let holder = home.holder().to_string();
    middle.inside(|| {
        up(FIRST, &format!("{DAMAGE}/24"), false)?;
        ip(&["link", "add", SECOND, "type", "veth", "peer", "name", SECOND, "netns", &holder])?;
        up(SECOND, "10.73.2.1/24", true)?;
        without_offloads()
    })?;
    home.inside(|| {
        up(SECOND, "10.73.2.2/24", true)?;
        // Groups are taken from senders to which a route leads by the same device.
        ip(&["route", "add", "10.73.1.0/24", "dev", SECOND])?;
        without_offloads()
    })
}

/// Runs `reel receive` until the cast ends; the line that it prints then.
fn receive(reel: &Path, description: &Path, out: &Path, longest_s: u64) -> Result<String> {
    let mut command = Command::new(reel);
    command.arg("receive").arg(description).arg("-o").arg(out).args(["--force", "--interface", SECOND]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut child = Ending(child);
    let from = Instant::now();
    while child.0.try_wait()?.is_none() {
        ensure!(from.elapsed() < Duration::from_secs(longest_s), "reel receive did not end");
        sleep(Duration::from_millis(100));
    }
    let mut said = String::new();
    let stderr = child.0.stderr.as_mut().context("a child without its output")?;
    std::io::Read::read_to_string(stderr, &mut said)?;
    let line = said.lines().rev().find(|line| line.contains("repaired "));
    Ok(line.with_context(|| format!("reel receive said {said:?}"))?.to_owned())
}

/// A child that does not outlive this value.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process in the middle: sockets that receive the cast, by their distance from its port.
struct Damage {
    sockets: Vec<(u16, UdpSocket)>,
    rng: Rng,
    media: u64,
    next: u64,
    flipped: u64,
}

impl Damage {
    fn new() -> Result<Self> {
        let mut sockets = Vec::new();
        for offset in 0..4 {
            let socket = UdpSocket::bind((GROUP, PORT + offset))?;
            socket.join_multicast_v4(&GROUP, &DAMAGE)?;
            socket.set_nonblocking(true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20)?;
            sockets.push((offset, socket));
        }
        Ok(Self { sockets, rng: Rng::new(11), media: 0, next: MATRIX_PACKETS / 2, flipped: 0 })
    }

    /// Passes packets on until the end; the number of those that were damaged.
    fn run(mut self, end: &AtomicBool) -> Result<u64> {
        let way = RawSocket::open(SocketAddrV4::new(GROUP, PORT))?;
        let mut bytes = vec![0; 2048];
        while !end.load(Ordering::Relaxed) {
            let mut is_idle = true;
            for at in 0..self.sockets.len() {
                let (offset, socket) = &self.sockets[at];
                let offset = *offset;
                // Nothing to receive is the only error of such a socket that comes.
                let Ok((count, SocketAddr::V4(from))) = socket.recv_from(&mut bytes) else { continue };
                is_idle = false;
                let flow = Flow { from, to: SocketAddrV4::new(GROUP, PORT + offset) };
                let mut packet = flow.datagram(&bytes[..count]);
                if offset == 0 {
                    self.damage(&mut packet, count as u64 * 8);
                }
                way.send(&packet)?;
            }
            if is_idle {
                sleep(Duration::from_micros(200));
            }
        }
        Ok(self.flipped)
    }

    /// Flips a bit of one media packet of each matrix, at a random place of both.
    fn damage(&mut self, packet: &mut [u8], payload_bits: u64) {
        if self.media == self.next {
            let start = packet.len() as u64 * 8 - payload_bits;
            let bit = start + self.rng.range(HEADER_BITS, payload_bits);
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.flipped += 1;
            let matrix = self.media / MATRIX_PACKETS + 1;
            self.next = matrix * MATRIX_PACKETS + self.rng.below(MATRIX_PACKETS);
        }
        self.media += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_streams_compared() {
        let said = "received 95, lost 5, repaired 4, unrepaired 1, delay 10.0 ms (at most 120.0 ms)";
        assert_eq!((count(said, "repaired").unwrap(), count(said, "unrepaired").unwrap()), (4.0, 1.0));
        assert!(count(said, "late").is_err());
        let mut packet = [0; 188];
        packet[..3].copy_from_slice(&[0x47, 0x1f, 0xff]);
        let stored = [0x47; 376];
        assert!(is_the_stream(&[&stored[..], &packet].concat(), &stored));
        assert!(!is_the_stream(&stored[..188], &stored));
        assert!(!is_the_stream(&[&stored[..], &[0x47; 188]].concat(), &stored));
    }
}
