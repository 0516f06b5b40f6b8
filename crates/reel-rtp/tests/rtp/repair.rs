//! Losses that FEC repairs, and losses that it does not.

use std::collections::BTreeSet;

use proptest::prelude::*;
use reel_rtp::fec::{Decoder, FecOutcome, Geometry, MediaOutcome, Repaired};
use reel_testkit::Rng;

use crate::cast::{Cast, Sent};

fn sent(repaired: Repaired) -> Sent {
    let Repaired { sequence, time_stamp, marker, payload } = repaired;
    Sent { sequence, time_stamp, marker, payload }
}

/// Everything that was repaired.
pub(crate) fn take_repaired(decoder: &mut Decoder) -> Vec<Sent> {
    std::iter::from_fn(|| decoder.next_repaired()).map(sent).collect()
}

/// Sends the cast, without some media packets; FEC of a matrix is spread over the next one.
/// Returns what was repaired, and how often a FEC packet could not repair.
fn send(cast: &Cast, decoder: &mut Decoder, lost: &BTreeSet<usize>) -> (Vec<Sent>, usize) {
    let (packets, rows) = (usize::from(cast.geometry.packets()), usize::from(cast.geometry.rows()));
    let mut waiting = 0;
    for number in 0..cast.media.len() + packets {
        if number < cast.media.len() && !lost.contains(&number) {
            let outcome = cast.media_packet(number, |packet| decoder.push_media(packet));
            assert!(matches!(outcome, MediaOutcome::Taken | MediaOutcome::Restarted), "{outcome:?}");
        }
        if number >= packets && number % rows == 0 {
            let (matrix, column) = (number / packets - 1, number % packets / rows);
            let outcome = cast.fec_packet(matrix, column, |packet| decoder.push_fec(packet));
            waiting += usize::from(matches!(outcome, FecOutcome::Waiting { .. }));
        }
    }
    (take_repaired(decoder), waiting)
}

/// Any L and D of ST 2022-1, also those whose product it does not allow.
fn geometries() -> impl Strategy<Value = Geometry> {
    (1..=20_u16, 4..=20_u16).prop_map(|(columns, rows)| Geometry::new(columns, rows).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_single_loss_of_a_column_is_repaired(
        geometry in geometries(),
        first in prop_oneof![any::<u16>(), 65_000..=u16::MAX],
        seed in any::<u64>(),
    ) {
        let cast = Cast::new(geometry, 3, first, 64, seed);
        let mut random = Rng::new(seed);
        let columns = (0..3).flat_map(|matrix| (0..usize::from(geometry.columns())).map(move |c| (matrix, c)));
        let lost: BTreeSet<usize> = columns
            .map(|(matrix, column)| {
                let row = random.below(geometry.rows().into()) as usize;
                cast.column(matrix, column).nth(row).unwrap()
            })
            .filter(|number| *number > 0)
            .collect();
        let mut decoder = Decoder::new(geometry);
        let (mut repaired, waiting) = send(&cast, &mut decoder, &lost);
        repaired.sort_by_key(|sent| sent.sequence.wrapping_sub(first));
        let expected: Vec<Sent> = lost.iter().map(|number| cast.media[*number].clone()).collect();
        prop_assert_eq!(repaired, expected);
        prop_assert_eq!(waiting, 0);
        prop_assert_eq!(decoder.counts().repaired, lost.len() as u64);
    }

    #[test]
    fn two_losses_of_a_column_are_not_repaired(
        geometry in geometries(),
        first in any::<u16>(),
        seed in any::<u64>(),
    ) {
        let cast = Cast::new(geometry, 6, first, 64, seed);
        let mut random = Rng::new(seed);
        let column = random.below(geometry.columns().into()) as usize;
        let mut rows: Vec<usize> = cast.column(1, column).collect();
        while rows.len() > 2 {
            rows.swap_remove(random.below(rows.len() as u64) as usize);
        }
        let mut decoder = Decoder::new(geometry);
        let (repaired, waiting) = send(&cast, &mut decoder, &rows.into_iter().collect());
        prop_assert_eq!((repaired, waiting), (vec![], 1));
        // The window is a power of two, and the last packet passes the column of a small matrix
        // only if it is a window away.
        let packets = u64::from(geometry.packets());
        let window = (3 * packets).max(128).next_power_of_two();
        let is_passed = packets + column as u64 + window < 6 * packets;
        prop_assert_eq!(decoder.counts().columns_given_up, u64::from(is_passed));
    }

    #[test]
    fn whatever_is_lost_and_reordered_nothing_wrong_is_given_out(
        geometry in geometries(),
        first in any::<u16>(),
        seed in any::<u64>(),
        loss_percent in 0..40_u64,
    ) {
        let cast = Cast::new(geometry, 4, first, 32, seed);
        let mut random = Rng::new(seed);
        let mut decoder = Decoder::new(geometry);
        let packets = usize::from(geometry.packets());
        // Each packet is delayed by up to a matrix, and so is FEC, which may precede its media.
        let mut arrivals: Vec<(u64, Option<usize>, usize, usize)> = Vec::new();
        for number in 0..cast.media.len() {
            arrivals.push((number as u64 + random.below(packets as u64), Some(number), 0, 0));
        }
        for matrix in 0..4 {
            for column in 0..usize::from(geometry.columns()) {
                let at = (matrix * packets) as u64 + random.below(2 * packets as u64);
                arrivals.push((at, None, matrix, column));
            }
        }
        arrivals.retain(|_| random.below(100) >= loss_percent);
        arrivals.sort_unstable();
        let mut received = BTreeSet::new();
        let mut repaired = Vec::new();
        for (_, media, matrix, column) in arrivals {
            if let Some(number) = media {
                if cast.media_packet(number, |packet| decoder.push_media(packet)) == MediaOutcome::Taken {
                    received.insert(cast.media[number].sequence);
                }
            } else {
                cast.fec_packet(matrix, column, |packet| decoder.push_fec(packet));
            }
            for sent in take_repaired(&mut decoder) {
                prop_assert!(!received.contains(&sent.sequence), "repaired what was there");
                repaired.push(sent);
            }
        }
        for sent in repaired {
            prop_assert!(cast.media.contains(&sent), "{:?}", sent);
        }
    }
}

#[test]
fn a_late_packet_makes_a_column_repairable() {
    let geometry = Geometry::new(4, 4).unwrap();
    let cast = Cast::new(geometry, 2, 65_530, 100, 1);
    let mut decoder = Decoder::new(geometry);
    let (repaired, waiting) = send(&cast, &mut decoder, &[1, 5].into());
    assert_eq!((repaired, waiting), (vec![], 1));
    cast.media_packet(5, |packet| assert_eq!(decoder.push_media(packet), MediaOutcome::Taken));
    assert_eq!(take_repaired(&mut decoder), [cast.media[1].clone()]);
    cast.media_packet(1, |packet| assert_eq!(decoder.push_media(packet), MediaOutcome::Duplicate));
}

#[test]
fn default_volumes_and_the_largest_matrix_are_repaired() {
    for (columns, rows) in [(32, 4), (255, 4), (4, 255), (32, 32), (1, 2)] {
        let geometry = Geometry::new(columns, rows).unwrap();
        let cast = Cast::new(geometry, 2, 60_000, 1316, 1);
        let lost = usize::from(columns);
        let mut decoder = Decoder::new(geometry);
        let (repaired, _) = send(&cast, &mut decoder, &[lost].into());
        assert_eq!(repaired, [cast.media[lost].clone()], "{columns} x {rows}");
    }
}

#[test]
fn the_zeros_after_a_stored_symbol_are_no_payload() {
    let geometry = Geometry::new(1, 4).unwrap();
    let mut cast = Cast::new(geometry, 1, 7, 100, 1);
    cast.media.iter_mut().for_each(|sent| sent.payload.resize(100, 5));
    let mut decoder = Decoder::new(geometry);
    for number in [0, 1, 3] {
        cast.media_packet(number, |packet| decoder.push_media(packet));
    }
    let mut bytes = cast.fec_bytes(0, 0);
    bytes.extend([0; 92]);
    let packet = reel_rtp::fec::FecPacket::parse(&bytes).unwrap();
    // Lengths of an even number of equal packets cancel out, and with one of them lost do not.
    assert_eq!(packet.header.recovery.length, 0);
    assert_eq!(decoder.push_fec(&packet), FecOutcome::Repaired);
    assert_eq!(take_repaired(&mut decoder), [cast.media[2].clone()]);
}
