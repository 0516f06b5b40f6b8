//! FEC that does not fit, other senders, and senders that begin again.

use reel_rtp::fec::{Decoder, FecOutcome, FecPacket, Geometry, MediaOutcome, Rejection};

use crate::cast::Cast;
use crate::repair::take_repaired;

const GEOMETRY: (u16, u16) = (5, 4);

fn geometry() -> Geometry {
    Geometry::new(GEOMETRY.0, GEOMETRY.1).unwrap()
}

/// A decoder that has all media of the first matrices, but not packet 6 of the first one.
fn without_packet_6(cast: &Cast, matrices: usize) -> Decoder {
    let mut decoder = Decoder::new(geometry());
    for number in (0..20 * matrices).filter(|number| *number != 6) {
        cast.media_packet(number, |packet| decoder.push_media(packet));
    }
    decoder
}

/// Gives FEC of column 1 of the first matrix, with one byte changed.
fn push_changed(cast: &Cast, decoder: &mut Decoder, at: usize, change: u8) -> FecOutcome {
    let mut bytes = cast.fec_bytes(0, 1);
    bytes[at] ^= change;
    decoder.push_fec(&FecPacket::parse(&bytes).unwrap())
}

#[test]
fn a_changed_header_repairs_nothing() {
    let cast = Cast::new(geometry(), 1, 65_530, 100, 3);
    // Length, payload type, time stamp, L, D: each makes the column another one, or impossible.
    for (at, change) in [(14, 0x80), (15, 0x7f), (16, 1), (20, 0x40), (25, 1), (26, 1)] {
        let mut decoder = without_packet_6(&cast, 1);
        let outcome = push_changed(&cast, &mut decoder, at, change);
        assert!(matches!(outcome, FecOutcome::Rejected(_)), "{at}: {outcome:?}");
        assert_eq!(take_repaired(&mut decoder), []);
        assert_eq!(push_changed(&cast, &mut decoder, 0, 0), FecOutcome::Repaired, "{at}");
        assert_eq!(take_repaired(&mut decoder), [cast.media[6].clone()]);
    }
}

#[test]
fn fec_of_other_media_is_not_used_until_it_fits_again() {
    let cast = Cast::new(geometry(), 2, 100, 100, 4);
    let other = Cast::new(geometry(), 2, 100, 100, 5);
    let mut decoder = without_packet_6(&cast, 2);
    let push = |decoder: &mut Decoder, from: &Cast, column| {
        from.fec_packet(0, column, |packet| decoder.push_fec(packet))
    };
    let inconsistent = FecOutcome::Rejected(Rejection::Inconsistent);
    assert_eq!(push(&mut decoder, &other, 1), inconsistent);
    assert_eq!(push(&mut decoder, &other, 0), inconsistent);
    // The right FEC is not told from the wrong one before it fits a complete column.
    assert_eq!(push(&mut decoder, &cast, 1), inconsistent);
    assert_eq!(push(&mut decoder, &cast, 2), FecOutcome::Complete);
    assert_eq!(push(&mut decoder, &cast, 1), FecOutcome::Repaired);
    assert_eq!(take_repaired(&mut decoder), [cast.media[6].clone()]);
    assert_eq!(decoder.counts().fec_rejected, 3);
}

#[test]
fn of_two_different_fec_packets_of_a_column_neither_is_used() {
    let cast = Cast::new(geometry(), 2, 100, 100, 6);
    let mut decoder = Decoder::new(geometry());
    for number in (0..40).filter(|number| ![6, 11].contains(number)) {
        cast.media_packet(number, |packet| decoder.push_media(packet));
    }
    assert_eq!(push_changed(&cast, &mut decoder, 0, 0), FecOutcome::Waiting { missing: 2 });
    assert_eq!(push_changed(&cast, &mut decoder, 0, 0), FecOutcome::Duplicate);
    let conflicting = FecOutcome::Rejected(Rejection::Conflicting);
    assert_eq!(push_changed(&cast, &mut decoder, 30, 1), conflicting);
    cast.media_packet(11, |packet| assert_eq!(decoder.push_media(packet), MediaOutcome::Taken));
    assert_eq!(take_repaired(&mut decoder), []);
}

#[test]
fn fec_before_media_and_of_far_places_is_rejected() {
    let cast = Cast::new(geometry(), 1, 0, 100, 7);
    let far = Cast::new(geometry(), 1, 20_000, 100, 7);
    let mut decoder = Decoder::new(geometry());
    let first = cast.fec_packet(0, 0, |packet| decoder.push_fec(packet));
    assert_eq!(first, FecOutcome::Rejected(Rejection::NoMedia));
    cast.media_packet(3, |packet| decoder.push_media(packet));
    let outside = FecOutcome::Rejected(Rejection::OutsideWindow);
    assert_eq!(far.fec_packet(0, 0, |packet| decoder.push_fec(packet)), outside);
    // The receiver joined after the column had begun.
    assert_eq!(cast.fec_packet(0, 0, |packet| decoder.push_fec(packet)), outside);
}

#[test]
fn two_senders_on_one_group_are_not_mixed() {
    let cast = Cast::new(geometry(), 4, 100, 100, 8);
    let other = Cast::new(geometry(), 4, 90, 100, 9);
    let mut decoder = Decoder::new(geometry());
    // Trains of ten packets in turn.
    for train in 0..8 {
        for number in 10 * train..10 * train + 10 {
            let outcome = cast.media_packet(number, |packet| decoder.push_media(packet));
            assert!(matches!(outcome, MediaOutcome::Taken | MediaOutcome::Restarted));
        }
        for number in 10 * train..10 * train + 10 {
            let outcome = other.media_packet(number, |packet| decoder.push_media(packet));
            assert_eq!(outcome, MediaOutcome::OtherSource);
        }
    }
    assert_eq!(decoder.counts().restarts, 1);
}

#[test]
fn a_sender_that_begins_again_is_followed() {
    let before = Cast::new(geometry(), 2, 100, 100, 10);
    let after = Cast::new(geometry(), 4, 110, 100, 11);
    let mut decoder = without_packet_6(&before, 2);
    let outcomes: Vec<MediaOutcome> = (0..40)
        .filter(|number| *number != 27)
        .map(|number| after.media_packet(number, |packet| decoder.push_media(packet)))
        .collect();
    assert!(outcomes[..15].iter().all(|outcome| *outcome == MediaOutcome::OtherSource));
    assert_eq!(outcomes[15], MediaOutcome::Restarted);
    assert!(outcomes[16..].iter().all(|outcome| *outcome == MediaOutcome::Taken));
    // FEC of the old sender for numbers that the new one uses as well.
    let old = before.fec_packet(1, 1, |packet| decoder.push_fec(packet));
    assert!(matches!(old, FecOutcome::Rejected(_)), "{old:?}");
    assert_eq!(after.fec_packet(1, 2, |packet| decoder.push_fec(packet)), FecOutcome::Repaired);
    assert_eq!(take_repaired(&mut decoder), [after.media[27].clone()]);
}

#[test]
fn one_packet_far_away_changes_nothing_and_two_in_a_row_are_a_jump() {
    let cast = Cast::new(geometry(), 2, 100, 100, 12);
    let mut far = Cast::new(geometry(), 2, 30_000, 100, 13);
    far.ssrc = cast.ssrc;
    let mut decoder = without_packet_6(&cast, 1);
    let push = |decoder: &mut Decoder, from: &Cast, number| {
        from.media_packet(number, |packet| decoder.push_media(packet))
    };
    assert_eq!(push(&mut decoder, &far, 0), MediaOutcome::OutsideWindow);
    assert_eq!(push(&mut decoder, &cast, 20), MediaOutcome::Taken);
    assert_eq!(push(&mut decoder, &far, 1), MediaOutcome::OutsideWindow);
    assert_eq!(push_changed(&cast, &mut decoder, 0, 0), FecOutcome::Repaired);
    assert_eq!(push(&mut decoder, &far, 2), MediaOutcome::Restarted);
    assert_eq!(push(&mut decoder, &far, 3), MediaOutcome::Taken);
}

/// Media of a sender that begins again, until the decoder has followed it for a matrix.
fn begin_again(decoder: &mut Decoder, after: &Cast, lost: &[usize]) {
    for number in (0..40).filter(|number| !lost.contains(number)) {
        after.media_packet(number, |packet| decoder.push_media(packet));
    }
    assert_eq!(decoder.counts().restarts, 2);
}

#[test]
fn fec_that_waits_is_forgotten_when_a_sender_begins_again() {
    let before = Cast::new(geometry(), 2, 100, 100, 14);
    let after = Cast::new(geometry(), 2, 100, 100, 15);
    let mut decoder = Decoder::new(geometry());
    for number in (0..40).filter(|number| ![21, 26].contains(number)) {
        before.media_packet(number, |packet| decoder.push_media(packet));
    }
    let waiting = FecOutcome::Waiting { missing: 2 };
    assert_eq!(before.fec_packet(1, 1, |packet| decoder.push_fec(packet)), waiting);
    begin_again(&mut decoder, &after, &[21, 26]);
    assert_eq!(decoder.counts().columns_given_up, 1);
    after.media_packet(21, |packet| decoder.push_media(packet));
    assert_eq!((take_repaired(&mut decoder), decoder.counts().fec_rejected), (vec![], 0));
    assert_eq!(after.fec_packet(1, 1, |packet| decoder.push_fec(packet)), FecOutcome::Repaired);
}

#[test]
fn wrong_fec_of_one_sender_says_nothing_of_the_next() {
    let before = Cast::new(geometry(), 2, 100, 100, 16);
    let after = Cast::new(geometry(), 2, 100, 100, 17);
    let mut decoder = without_packet_6(&before, 2);
    let wrong = after.fec_packet(0, 0, |packet| decoder.push_fec(packet));
    assert_eq!(wrong, FecOutcome::Rejected(Rejection::Inconsistent));
    begin_again(&mut decoder, &after, &[26]);
    assert_eq!(after.fec_packet(1, 1, |packet| decoder.push_fec(packet)), FecOutcome::Repaired);
    assert_eq!(take_repaired(&mut decoder), [after.media[26].clone()]);
}

#[test]
fn fec_that_waits_is_bounded() {
    let geometry = Geometry::new(1, 4).unwrap();
    let cast = Cast::new(geometry, 30, 100, 100, 18);
    let mut decoder = Decoder::new(geometry);
    for number in (0..120).step_by(3) {
        cast.media_packet(number, |packet| decoder.push_media(packet));
    }
    // A column at each place, where a sender has one at each fourth.
    let mut bytes = cast.fec_bytes(0, 0);
    for base in 100..200_u16 {
        bytes[12..14].copy_from_slice(&base.to_be_bytes());
        let outcome = decoder.push_fec(&FecPacket::parse(&bytes).unwrap());
        assert!(matches!(outcome, FecOutcome::Waiting { missing: 2 | 3 }), "{outcome:?}");
    }
    // A window of 128 packets has 32 columns.
    assert_eq!(decoder.counts().columns_given_up, 100 - 32);
}
