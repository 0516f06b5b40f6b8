//! What each part of a packet costs to make, in this process alone.

use super::{Flow, MEMORIES, PAYLOAD_BYTES, Template};
use crate::cpu::seconds_of;
use anyhow::{Result, anyhow};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use reel_code::partial_checksum;
use reel_report::{Claim, Report};
use reel_testkit::Rng;
use std::hint::black_box;
use std::net::SocketAddrV4;

pub(super) const CASE: &str = "making a packet";

const TS_BYTES: usize = 188;
const TS_SYNC: u8 = 0x47;

const BUILT: &str = "headers built";
const PATCHED: &str = "headers patched in a template";
const COMPUTED: &str = "sum computed";
const STORED: &str = "sum read";
const CUT: &str = "boundaries looked for";
const KNOWN: &str = "boundaries known";
const SEALED: &str = "sealed (SRTP, AES-128-GCM)";

/// Measures nanoseconds of processor time for a packet.
///
/// # Errors
/// If the cipher is refused.
pub(super) fn measure(report: &mut Report, quick: bool, runs: usize) -> Result<()> {
    report.note(
        "making: ns_per_packet is time of this thread for a packet of 1316 bytes; headers are those of IPv4, UDP and RTP with all their checksums, the \
         sum of the payload given; sums read are two bytes a packet, in order; boundaries looked for: the sync byte, the adaptation field and the clock \
         of each transport packet are read; known: their offsets follow from the number; sealed in place, the header of RTP authenticated",
    );
    let packets = if quick { 10_000 } else { 400_000 };
    for run in 0..runs {
        for (memory, mib) in MEMORIES {
            let mut payloads = stream(if quick { mib.min(16) } else { mib });
            let all = payloads.len() / PAYLOAD_BYTES;
            let sums: Vec<u16> = payloads.chunks_exact(PAYLOAD_BYTES).map(partial_checksum).collect();
            let costs = [
                (BUILT, built(packets)),
                (PATCHED, patched(packets)),
                (
                    COMPUTED,
                    each(packets, all, |n| {
                        black_box(partial_checksum(&payloads[n * PAYLOAD_BYTES..][..PAYLOAD_BYTES]));
                    }),
                ),
                (
                    STORED,
                    each(packets, all, |n| {
                        black_box(sums[n]);
                    }),
                ),
                (
                    CUT,
                    each(packets, all, |n| {
                        black_box(cut(&payloads[n * PAYLOAD_BYTES..][..PAYLOAD_BYTES]));
                    }),
                ),
                (
                    KNOWN,
                    each(packets, all, |n| {
                        black_box(n * PAYLOAD_BYTES);
                    }),
                ),
                (SEALED, sealed(&mut payloads, packets)?),
            ];
            for (way, seconds) in costs {
                let ns = seconds * 1e9 / packets as f64;
                let values = [("ns_per_packet", ns), ("gb_per_cpu_s", PAYLOAD_BYTES as f64 / ns)];
                report.row(CASE, &format!("{way}, {memory}"), mib as f64, run, &values);
            }
        }
    }
    claims(report);
    Ok(())
}

fn claims(report: &mut Report) {
    for (memory, mib) in MEMORIES {
        let cost =
            |way: &str| report.median_or_nan(CASE, &format!("{way}, {memory}"), mib as f64, "ns_per_packet");
        let claims =
            [(PATCHED, BUILT), (STORED, COMPUTED), (KNOWN, CUT), (COMPUTED, SEALED)].map(|(one, other)| {
                Claim::at_most(format!("{memory}: {one} / {other}"), cost(one) / cost(other), 1.0)
            });
        claims.into_iter().for_each(|claim| report.claim(claim));
    }
}

/// Transport packets of chance, each with its sync byte.
pub(super) fn stream(mib: usize) -> Vec<u8> {
    let packets = (mib << 20) / PAYLOAD_BYTES;
    let mut bytes = Rng::new(9).bytes(packets * PAYLOAD_BYTES);
    bytes.chunks_exact_mut(TS_BYTES).for_each(|packet| packet[0] = TS_SYNC);
    bytes
}

/// Seconds for so many packets, in turn of all that there are.
fn each(packets: usize, all: usize, mut make: impl FnMut(usize)) -> f64 {
    seconds_of(|| (0..packets).for_each(|number| make(number % all)))
}

fn flow() -> Flow {
    let at = |address: [u8; 4]| SocketAddrV4::new(address.into(), 5000);
    Flow { from: at([10, 1, 1, 1]), to: at([239, 1, 1, 1]) }
}

fn built(packets: usize) -> f64 {
    let flow = black_box(flow());
    each(packets, packets, |number| {
        let fields = (number as u16, number as u32 * 30);
        black_box(flow.build(7, fields, PAYLOAD_BYTES, black_box(number as u16)));
    })
}

fn patched(packets: usize) -> f64 {
    let template = black_box(Template::new(&flow(), 7, PAYLOAD_BYTES));
    each(packets, packets, |number| {
        black_box(template.patch(number as u16, number as u32 * 30, Some(black_box(number as u16))));
    })
}

/// Reads what has to be known of each transport packet to send it in time: whether it is one, and
/// its clock reference.
fn cut(payload: &[u8]) -> (usize, u64) {
    let (mut packets, mut clock) = (0, 0);
    for packet in payload.chunks_exact(TS_BYTES) {
        packets += usize::from(packet[0] == TS_SYNC);
        let has_clock = packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0;
        if has_clock {
            clock = packet[6..12].iter().fold(0, |clock, byte| clock << 8 | u64::from(*byte));
        }
    }
    (packets, clock)
}

fn sealed(payloads: &mut [u8], packets: usize) -> Result<f64> {
    let key = UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| anyhow!("no AES-128-GCM"))?;
    let key = LessSafeKey::new(key);
    let all = payloads.len() / PAYLOAD_BYTES;
    let mut failed = 0;
    let seconds = each(packets, all, |number| {
        let payload = &mut payloads[number * PAYLOAD_BYTES..][..PAYLOAD_BYTES];
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&(number as u64).to_be_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&[0x80; 12]), payload);
        failed += usize::from(black_box(tag).is_err());
    });
    if failed > 0 { Err(anyhow!("{failed} packets were not sealed")) } else { Ok(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_and_clocks_are_found() {
        let mut payload = stream(1)[..PAYLOAD_BYTES].to_vec();
        payload.chunks_exact_mut(TS_BYTES).for_each(|packet| packet[3] = 0x10);
        assert_eq!(cut(&payload), (7, 0));
        payload[TS_BYTES + 3..TS_BYTES + 12].copy_from_slice(&[0x30, 7, 0x10, 0, 0, 0, 0, 1, 2]);
        assert_eq!(cut(&payload), (7, 0x102));
        assert!(sealed(&mut payload, 3).expect("sealed") >= 0.0);
    }
}
