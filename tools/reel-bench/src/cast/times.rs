//! How far packets are from their schedules.

use super::capture::Sent;
use reel_report::spread;

/// Ticks of the clock of a transport stream in a second, and of RTP time stamps.
const PCR_HZ: f64 = 27e6;
const STAMP_HZ: f64 = 9e4;

/// How far the packets of one stream were from its schedule, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deviation {
    /// From the median, early or late: of half of the packets, and of 99 in a hundred.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// How far packets were from the times that the clock references of their own stream give them.
/// Between two references, a packet is due by its place. `None` without two references.
pub(super) fn deviation(packets: &[Sent]) -> Option<Deviation> {
    let mut references: Vec<(f64, f64)> = Vec::new();
    let (mut place, mut places) = (0, Vec::with_capacity(packets.len()));
    for packet in packets {
        places.push(place as f64);
        if let Some((pcr, within)) = packet.pcr {
            references.push(((place + within) as f64, pcr as f64 / PCR_HZ));
        }
        place += packet.ts_packets;
    }
    let base_ns = packets.first()?.at_ns;
    let mut off_ms = Vec::with_capacity(packets.len());
    let mut segment = 0;
    for (packet, place) in packets.iter().zip(places) {
        while references.get(segment + 1).is_some_and(|(next, _)| *next <= place) {
            segment += 1;
        }
        let (Some(from), Some(to)) = (references.get(segment), references.get(segment + 1)) else { break };
        if place < from.0 {
            continue;
        }
        let due_s = from.1 + (to.1 - from.1) * (place - from.0) / (to.0 - from.0);
        off_ms.push(((packet.at_ns - base_ns) as f64 / 1e9 - due_s) * 1e3);
    }
    let (_, median, _) = spread(&mut off_ms);
    let mut distances: Vec<f64> = off_ms.iter().map(|off| (off - median).abs()).collect();
    Some(Deviation { p50_ms: percentile(&mut distances, 50.0)?, p99_ms: percentile(&mut distances, 99.0)? })
}

/// A moment of the day, in nanoseconds since 1970, and the time stamp of what is due then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) unix_ns: u64,
    pub(super) stamp: u32,
}

/// How late each train of a stream left, in milliseconds; negative if it left early. A train is due
/// when its first packet is, and leaves up to a millisecond before with trains that are due. Time
/// stamps begin again every 13 hours, so less than half of that is late or early.
pub(super) fn late_trains_ms(packets: &[Sent], due: Due) -> Vec<f64> {
    let round_s = 2_f64.powi(32) / STAMP_HZ;
    let late_ms = |packet: &Sent| {
        let due_s = f64::from(packet.stamp.wrapping_sub(due.stamp)) / STAMP_HZ;
        let late_s = (packet.at_ns as f64 - due.unix_ns as f64) / 1e9 - due_s;
        (late_s - (late_s / round_s).round() * round_s) * 1e3
    };
    packets.iter().filter(|packet| packet.begins_train).map(late_ms).collect()
}

/// A percentile; `None` of no values.
pub(super) fn percentile(values: &mut [f64], percent: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * percent / 100.0).ceil() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: Due = Due { unix_ns: 5_000_000_000, stamp: 77 };

    /// Packets of seven transport packets, one each millisecond, each with its clock reference.
    fn on_time() -> Vec<Sent> {
        let packet = |number: u64| Sent {
            at_ns: 5_000_000_000 + number * 1_000_000,
            begins_train: number.is_multiple_of(10),
            stamp: 77 + number as u32 * 90,
            ts_packets: 7,
            pcr: Some((number * 27_000, 0)),
        };
        (0..1000).map(packet).collect()
    }

    #[test]
    fn what_leaves_by_its_clock_deviates_by_nothing() {
        let found = deviation(&on_time()).expect("references");
        assert!(found.p99_ms < 1e-6, "{found:?}");
        assert!(late_trains_ms(&on_time(), DUE).iter().all(|late| late.abs() < 1e-3));
    }

    #[test]
    fn what_leaves_in_bursts_deviates_by_half_a_burst() {
        let mut packets = on_time();
        for burst in packets.chunks_mut(10) {
            let at_ns = burst[0].at_ns;
            burst.iter_mut().for_each(|packet| packet.at_ns = at_ns);
        }
        let found = deviation(&packets).expect("references");
        assert!((4.0..=5.5).contains(&found.p99_ms), "{found:?}");
        assert!(late_trains_ms(&packets, DUE).iter().all(|late| late.abs() < 1e-3), "trains begin in time");
    }

    /// Slots are counted from 1970.
    #[test]
    fn a_moment_long_ago_tells_what_is_due_now() {
        let (days_s, late_ms) = (20_000 * 86_400, 3.0);
        let stamp = 77_u64.wrapping_add(days_s * 90_000) as u32;
        let at_ns = days_s * 1_000_000_000 + 3_000_000;
        let packet = Sent { at_ns, begins_train: true, stamp, ts_packets: 7, pcr: None };
        let late = late_trains_ms(&[packet], Due { unix_ns: 0, stamp: 77 });
        assert!((late[0] - late_ms).abs() < 1e-2, "{late:?}");
    }

    #[test]
    fn a_late_train_is_seen() {
        let mut packets = on_time();
        packets[500..510].iter_mut().for_each(|packet| packet.at_ns += 3_000_000);
        let mut late = late_trains_ms(&packets, DUE);
        assert_eq!(late.len(), 100);
        assert!((percentile(&mut late, 100.0).expect("trains") - 3.0).abs() < 1e-3);
    }
}
