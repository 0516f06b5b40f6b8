//! A receiver of casts survives any datagrams, and what it counts adds up.

use std::net::SocketAddr;

use reel_receive::limits::OUTPUT_PACKETS_MAX;
use reel_receive::{FecPlan, Plan, Port, Receiver};
use reel_rtp::fec::{FEC_HEADERS_BYTES, FecHeader, Geometry, Recovery};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, MP2T};

use crate::broadcast;

const TS_BYTES: usize = 188;

/// A cast to one group, and a broadcast.
pub fn receive(bytes: &[u8]) {
    receive_cast(bytes);
    broadcast(bytes);
}

/// Reads the bytes as a script. Each step has four bytes: what arrives and from whom, milliseconds
/// since the step before, and a sequence number.
fn receive_cast(bytes: &[u8]) {
    let geometry = Geometry::new(4, 4).expect("a valid matrix");
    let mut plan = Plan::from_url("rtp://239.1.1.1:5000").expect("an address");
    plan.fec = Some(FecPlan { address: plan.media, geometry, repair_window_ns: 100_000_000 });
    let mut receiver = Receiver::new(plan);
    let (mut now_ns, mut payloads) = (0, 0);
    for step in bytes.as_chunks::<4>().0 {
        let [kind, milliseconds, high, low] = *step;
        now_ns += u64::from(milliseconds) * 1_000_000;
        let from = SocketAddr::from(([10, 0, 0, kind >> 6], 5000));
        let sequence = u16::from_be_bytes([high, low]);
        match kind % 4 {
            0 | 1 => receiver.push(Port::Media, &media(sequence, u32::from(kind >> 4 & 3)), from, now_ns),
            2 => receiver.push(Port::Fec, &fec(sequence, geometry), from, now_ns),
            _ => receiver.push(
                [Port::Media, Port::Fec, Port::Rtcp][usize::from(high % 3)],
                bytes,
                from,
                now_ns,
            ),
        }
        // A caller that takes nothing for some time.
        if kind & 8 == 0 {
            payloads += taken(&mut receiver, now_ns);
        }
    }
    receiver.finish();
    payloads += taken(&mut receiver, now_ns);
    let counts = receiver.counts();
    assert_eq!(counts.lost, counts.repaired + counts.unrepaired);
    assert_eq!(payloads, counts.delivered);
    assert_eq!(counts.delivered + counts.overrun, counts.received + counts.repaired);
    assert_eq!((receiver.due_ns().is_some(), receiver.next(now_ns)), (receiver.has_ended(u64::MAX), None));
}

fn taken(receiver: &mut Receiver, now_ns: u64) -> u64 {
    let mut count = 0;
    while let Some(payload) = receiver.next(now_ns) {
        assert!(payload.bytes.len() % TS_BYTES == 0 && payload.bytes[0] == 0x47);
        count += 1;
    }
    assert!(count <= OUTPUT_PACKETS_MAX as u64);
    count
}

/// A packet whose bytes follow from its number.
fn media(sequence: u16, ssrc: u32) -> Vec<u8> {
    let mut header = [0; HEADER_BYTES];
    HeaderTemplate::mp2t(ssrc).write(sequence, u32::from(sequence), false, &mut header);
    [&header[..], &payload(sequence)].concat()
}

fn payload(sequence: u16) -> [u8; TS_BYTES] {
    let mut payload = [sequence as u8; TS_BYTES];
    payload[0] = 0x47;
    payload
}

/// The FEC of the column that begins with this number.
fn fec(base: u16, geometry: Geometry) -> Vec<u8> {
    let (mut recovery, mut parity) = (Recovery::default(), [0; TS_BYTES]);
    for row in 0..u16::from(geometry.rows()) {
        let sequence = base.wrapping_add(row * u16::from(geometry.columns()));
        let (length, time_stamp) = (TS_BYTES as u16, u32::from(sequence));
        recovery.add(&Recovery { length, payload_type: MP2T, marker: false, time_stamp });
        parity.iter_mut().zip(payload(sequence)).for_each(|(sum, byte)| *sum ^= byte);
    }
    let mut headers = [0; FEC_HEADERS_BYTES];
    FecHeader { base, geometry, recovery }.write(base, 0, &mut headers);
    [&headers[..], &parity].concat()
}
