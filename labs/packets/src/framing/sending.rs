//! What a packet costs a processor on its way to a device, by who makes its checksum.

use super::making::stream;
use super::{BATCH, Flow, HEADERS_BYTES, MEMORIES, PAYLOAD_BYTES, RawSocket, Template};
use crate::cpu::seconds_of;
use anyhow::{Context, Result};
use reel_code::partial_checksum;
use reel_report::{Claim, Report, example, output, output_json};
use reel_wire::space::{Space, ip};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

const CASE: &str = "sending a packet";
const DEVICE: &str = "frame0";
const FLOW: Flow = Flow {
    from: SocketAddrV4::new(Ipv4Addr::new(10, 72, 1, 1), 7000),
    to: SocketAddrV4::new(Ipv4Addr::new(10, 72, 1, 2), 7000),
};

const ALL: &str = "trains, device cuts and sums";
const SUMMED: &str = "trains, kernel cuts, device sums";
const NONE: &str = "trains, kernel cuts and sums";
/// Which offloads the device has: `ethtool -K`.
const OFFLOADS: [(&str, [&str; 2]); 3] =
    [(ALL, ["on", "on"]), (SUMMED, ["off", "on"]), (NONE, ["off", "off"])];

/// Who makes the sum of a packet that is sent by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    Stored,
    Computed,
    Absent,
}

const BY_ITSELF: [(&str, Sum); 3] = [
    ("raw packets, sum stored", Sum::Stored),
    ("raw packets, sum computed", Sum::Computed),
    ("raw packets, no sum", Sum::Absent),
];

/// Measures microseconds of processor time for a packet, to a device that drops it.
///
/// # Errors
/// Without root, `ethtool` or the example `trains` of reel-ring.
pub(super) fn measure(report: &mut Report, quick: bool, runs: usize) -> Result<()> {
    report.note(format!(
        "sending: us_per_packet is time of the sending thread with what the kernel did in its name, {BATCH} packets of {PAYLOAD_BYTES} bytes a call, to an \
         ifb, which drops them; trains: UDP segmentation by sendmsg (example trains of reel-ring), its offloads switched by ethtool -K; raw: sendmmsg of whole \
         packets by a raw socket of IPv4 with headers patched in a template, which the kernel copies and does not sum; a packet socket (AF_PACKET) \
         was not measured: no safe crate names its interface"
    ));
    let trains = example("reel-ring", "trains")?;
    let space = Space::make()?;
    space.inside(|| {
        ip(&["link", "set", "lo", "up"])?;
        ip(&["link", "add", DEVICE, "type", "ifb"])?;
        ip(&["link", "set", DEVICE, "up"])?;
        ip(&["addr", "add", "10.72.1.1/24", "dev", DEVICE])?;
        ip(&["neigh", "add", "10.72.1.2", "lladdr", "02:00:00:00:00:02", "dev", DEVICE])
    })?;
    let seconds = if quick { 0.02 } else { 0.3 };
    for run in 0..runs {
        for (memory, mib) in MEMORIES {
            let mib = if quick { mib.min(16) } else { mib };
            for (way, [segments, sums]) in OFFLOADS {
                let words = [
                    "send".to_owned(),
                    "way=sendmsg".to_owned(),
                    format!("packets={BATCH}"),
                    format!("seconds={seconds}"),
                    format!("memory={mib}"),
                    format!("from={}:0", FLOW.from.ip()),
                    format!("to={}", FLOW.to),
                ];
                let said = space.inside(|| {
                    let offloads = ["tx-udp-segmentation", segments, "tx-checksum-ip-generic", sums];
                    output(Command::new("ethtool").args(["-K", DEVICE]).args(offloads))
                        .context("is ethtool installed? (apt install ethtool)")?;
                    output_json(Command::new(&trains).args(&words))
                })?;
                let of = |name: &str| said[name].as_f64().unwrap_or(f64::NAN);
                let values = [
                    ("us_per_packet", of("cpu_s") * 1e6 / of("packets")),
                    ("packets", of("packets")),
                    ("refused", of("refused")),
                ];
                report.row(CASE, &format!("{way}, {memory}"), BATCH as f64, run, &values);
            }
            raw_packets(report, &space, (memory, mib), quick, run)?;
        }
    }
    claims(report);
    Ok(())
}

fn raw_packets(
    report: &mut Report,
    space: &Space,
    (memory, mib): (&str, usize),
    quick: bool,
    run: usize,
) -> Result<()> {
    let payloads = stream(mib);
    let sums: Vec<u16> = payloads.chunks_exact(PAYLOAD_BYTES).map(partial_checksum).collect();
    let batches = if quick { 50 } else { 6_000 };
    for (way, sum) in BY_ITSELF {
        let cpu_s = space.inside(|| raw(&payloads, &sums, sum, batches))?;
        let packets = (batches * BATCH) as f64;
        let values = [("us_per_packet", cpu_s * 1e6 / packets), ("packets", packets)];
        report.row(CASE, &format!("{way}, {memory}"), BATCH as f64, run, &values);
    }
    Ok(())
}

/// Seconds of processor time for so many batches.
fn raw(payloads: &[u8], sums: &[u16], sum: Sum, batches: usize) -> Result<f64> {
    let (socket, template) = (RawSocket::open(FLOW.to)?, Template::new(&FLOW, 7, PAYLOAD_BYTES));
    let mut sent = Ok(());
    let cpu_s = seconds_of(|| {
        let mut number = 0;
        for _ in 0..batches {
            let packets: [([u8; HEADERS_BYTES], &[u8]); BATCH] = std::array::from_fn(|_| {
                let at = number % sums.len();
                let payload = &payloads[at * PAYLOAD_BYTES..][..PAYLOAD_BYTES];
                let payload_sum = match sum {
                    Sum::Stored => Some(sums[at]),
                    Sum::Computed => Some(partial_checksum(payload)),
                    Sum::Absent => None,
                };
                let headers = template.patch(number as u16, number as u32 * 30, payload_sum);
                number += 1;
                (headers, payload)
            });
            sent = socket.send_batch(&packets);
            if sent.is_err() {
                break;
            }
        }
    });
    sent.map(|()| cpu_s)
}

fn claims(report: &mut Report) {
    for (memory, _) in MEMORIES {
        let cost = |way: &str| {
            report.median_or_nan(CASE, &format!("{way}, {memory}"), BATCH as f64, "us_per_packet")
        };
        let [stored, computed, _] = BY_ITSELF.map(|(way, _)| cost(way));
        let claims = [
            (format!("{memory}: raw packets, sum stored / computed"), stored / computed),
            (
                format!("{memory}: raw packets with a stored sum / trains without offloads"),
                stored / cost(NONE),
            ),
            (
                format!("{memory}: raw packets with a stored sum / trains with all offloads"),
                stored / cost(ALL),
            ),
        ];
        claims.into_iter().for_each(|(name, ratio)| report.claim(Claim::at_most(name, ratio, 1.0)));
    }
}
