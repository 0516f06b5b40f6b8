//! Connections with rustls' own client: every cipher, any cuts, garbage and changed bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::client::{OTHER, Pair, acceptor, suites};
use proptest::prelude::*;
use reel_tls::limits::{KEY_UPDATES_MAX, RECORD_PLAIN_BYTES_MAX};
use reel_tls::{Connection, Protocol, TlsError};
use rustls::SupportedCipherSuite;

fn film(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn tls13() -> SupportedCipherSuite {
    *suites().iter().find(|suite| suite.tls13().is_some()).unwrap()
}

fn tls12() -> SupportedCipherSuite {
    *suites().iter().find(|suite| suite.tls13().is_none()).unwrap()
}

#[test]
fn every_cipher_works_in_both_directions() {
    let acceptor = acceptor();
    let mut spoken = 0;
    for suite in suites() {
        // The certificate is ECDSA, so suites for RSA alone cannot be negotiated.
        if format!("{suite:?}").contains("_RSA_") {
            continue;
        }
        let mut pair = Pair::established(&acceptor, *suite);
        assert!(pair.server.is_established(), "{suite:?}");
        let request = pair.client_says(b"GET / HTTP/1.1\r\n\r\n");
        pair.server_takes(&request).unwrap();
        assert_eq!(pair.received, b"GET / HTTP/1.1\r\n\r\n", "{suite:?}");
        let film = film(100_000);
        let sealed = pair.server_says(&film, 40_000);
        assert!(pair.client_takes(&sealed) == film, "{suite:?}");
        spoken += 1;
    }
    assert_eq!(spoken, 6, "three ciphers of each version");
}

#[test]
fn the_protocol_is_one_that_both_sides_support() {
    let acceptor = acceptor();
    for (offered, agreed) in [
        (vec![b"h2".as_slice(), b"http/1.1"], Protocol::Http2),
        (vec![b"http/1.1".as_slice()], Protocol::Http1),
        (vec![], Protocol::Http1),
    ] {
        let mut pair = Pair::new(&acceptor, tls13(), &offered);
        pair.shake_hands(usize::MAX);
        assert_eq!(pair.server.protocol(), agreed);
    }
    let mut pair = Pair::new(&acceptor, tls13(), &[b"smtp"]);
    let hello = pair.client_bytes();
    assert!(matches!(pair.server_takes(&hello), Err(TlsError::Handshake(_))));
    assert!(!pair.server.take_outgoing().is_empty(), "an alert says why");
}

#[test]
fn data_with_the_end_of_the_handshake_is_not_lost() {
    let acceptor = acceptor();
    for suite in [tls12(), tls13()] {
        let mut pair = Pair::new(&acceptor, suite, &[]);
        loop {
            let mut bytes = pair.client_bytes();
            if !pair.client.is_handshaking() {
                bytes.extend(pair.client_says(b"early bird"));
            }
            pair.server_takes(&bytes).unwrap();
            let answer = pair.server.take_outgoing();
            pair.client_takes(&answer);
            if pair.server.is_established() {
                break;
            }
        }
        if pair.received.is_empty() {
            let bytes = pair.client_says(b"early bird");
            pair.server_takes(&bytes).unwrap();
        }
        assert_eq!(pair.received, b"early bird");
    }
}

#[test]
fn a_request_for_new_keys_with_the_end_of_the_handshake_is_answered() {
    let mut pair = Pair::new(&acceptor(), tls13(), &[]);
    let hello = pair.client_bytes();
    pair.server_takes(&hello).unwrap();
    let answer = pair.server.take_outgoing();
    pair.client_takes(&answer);
    let mut bytes = pair.client_bytes();
    for word in [b"one", b"two"] {
        pair.client.refresh_traffic_keys().unwrap();
        bytes.extend(pair.client_says(word));
    }
    pair.server_takes(&bytes).unwrap();
    assert_eq!(pair.received, b"onetwo");
    let film = film(1000);
    let sealed = pair.server_says(&film, 2000);
    assert!(pair.client_takes(&sealed) == film, "the client opens it with the keys that follow");
}

#[test]
fn keys_change_when_the_client_asks() {
    let acceptor = acceptor();
    let mut pair = Pair::established(&acceptor, tls13());
    for round in 0..3 {
        pair.client.refresh_traffic_keys().unwrap();
        let bytes = pair.client_says(b"on");
        pair.server_takes(&bytes).unwrap();
        let film = film(1000 + round);
        let sealed = pair.server_says(&film, 2000);
        assert!(pair.client_takes(&sealed) == film);
    }
    assert_eq!(pair.received, b"ononon");
    let ended = (0..=KEY_UPDATES_MAX).find_map(|_| {
        pair.client.refresh_traffic_keys().unwrap();
        let bytes = pair.client_bytes();
        pair.server_takes(&bytes).err()
    });
    assert!(matches!(ended, Some(TlsError::Record(_))), "key changes are limited: {ended:?}");
}

#[test]
fn a_client_that_has_closed_is_still_answered() {
    let acceptor = acceptor();
    for suite in [tls12(), tls13()] {
        let mut pair = Pair::established(&acceptor, suite);
        pair.client.send_close_notify();
        let closed = pair.client_bytes();
        pair.server_takes(&closed).unwrap();
        assert!(pair.server.peer_has_closed());
        pair.server_takes(b"bytes after the close are ignored").unwrap();
        assert!(pair.received.is_empty());
        let sealed = pair.server_says(b"still answered", 100);
        assert_eq!(pair.client_takes(&sealed), b"still answered");
    }
}

/// One segment brings the end of the handshake, a request, and the close notification.
#[test]
fn a_client_that_closes_with_the_end_of_the_handshake_is_still_answered() {
    let acceptor = acceptor();
    let mut pair = Pair::new(&acceptor, tls13(), &[]);
    let hello = pair.client_bytes();
    pair.server_takes(&hello).unwrap();
    let answer = pair.server.take_outgoing();
    pair.client_takes(&answer);
    let mut bytes = pair.client_says(b"the only request");
    pair.client.send_close_notify();
    bytes.extend(pair.client_bytes());
    pair.server_takes(&bytes).unwrap();
    assert_eq!(pair.received, b"the only request");
    assert!(pair.server.peer_has_closed() && pair.server.is_established());
    let sealed = pair.server_says(b"still answered", 100);
    assert_eq!(pair.client_takes(&sealed), b"still answered");
}

#[test]
fn the_close_is_sent_once_and_understood() {
    let acceptor = acceptor();
    for suite in [tls12(), tls13()] {
        let mut pair = Pair::established(&acceptor, suite);
        let mut out = [0; 100];
        let bytes = pair.server.close(&mut out);
        assert!(bytes > 0);
        let mut word = &out[..bytes];
        pair.client.read_tls(&mut word).unwrap();
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        assert_eq!(pair.server.close(&mut out), 0);
        assert!(matches!(pair.server.seal(b"more", &mut out), Err(TlsError::Over)));
    }
}

#[test]
fn a_changed_repeated_or_lost_record_ends_the_connection() {
    let acceptor = acceptor();
    for suite in [tls12(), tls13()] {
        let record = |pair: &mut Pair| pair.client_says(b"a request");
        let mut changed = Pair::established(&acceptor, suite);
        let mut bytes = record(&mut changed);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(matches!(changed.server_takes(&bytes), Err(TlsError::NotOpened)));
        assert!(!changed.server.take_outgoing().is_empty(), "an alert says why");
        assert!(matches!(changed.server.seal(b"x", &mut [0; 99]), Err(TlsError::Over)));

        let mut repeated = Pair::established(&acceptor, suite);
        let bytes = record(&mut repeated);
        repeated.server_takes(&bytes).unwrap();
        assert!(matches!(repeated.server_takes(&bytes), Err(TlsError::NotOpened)));

        let mut lost = Pair::established(&acceptor, suite);
        record(&mut lost);
        let bytes = record(&mut lost);
        assert!(matches!(lost.server_takes(&bytes), Err(TlsError::NotOpened)));
        assert!(lost.received.is_empty());
    }
}

#[test]
fn records_in_the_clear_are_refused_after_the_handshake() {
    let acceptor = acceptor();
    for suite in [tls12(), tls13()] {
        for record in [
            b"\x15\x03\x03\x00\x02\x01\x00".as_slice(),
            b"\x14\x03\x03\x00\x01\x01",
            b"\x16\x03\x03\x00\x04\x01\x00\x00\x00",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x17\x03\x03\xff\xff",
            b"\x17\x03\x03\x00\x00",
        ] {
            let mut pair = Pair::established(&acceptor, suite);
            assert!(pair.server_takes(record).is_err(), "{record:?}");
        }
    }
}

/// Found by the fuzzer: rustls remembers where the pieces of a message are.
#[test]
fn garbage_between_the_pieces_of_a_hello_is_refused() {
    let acceptor = acceptor();
    for garbage in [
        b"\x17\x03\x03\x00\x03abc".as_slice(),
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x99\x99\x99\x99\x99\x99",
        b"\x16\x03\x03\x00\x00",
    ] {
        let mut pair = Pair::new(&acceptor, tls13(), &[]);
        let hello = pair.client_bytes();
        let half = &hello[5..hello.len() / 2];
        let mut first = vec![22, 3, 1, 0, half.len() as u8];
        assert!(half.len() < 256);
        first.extend_from_slice(half);
        pair.server_takes(&first).unwrap();
        assert!(pair.server_takes(garbage).is_err(), "{garbage:?}");
        assert!(
            pair.server_takes(garbage).is_ok() && pair.received.is_empty(),
            "later bytes are not processed"
        );
    }
}

#[test]
fn a_connection_can_move_to_another_thread() {
    let acceptor = acceptor();
    let mut pair = Pair::established(&acceptor, tls13());
    let bytes = pair.client_says(b"half a request");
    let (first, second) = bytes.split_at(bytes.len() / 2);
    pair.server_takes(first).unwrap();
    let server = std::mem::replace(&mut pair.server, Connection::new(&acceptor).unwrap());
    pair.server = std::thread::spawn(move || server).join().unwrap();
    pair.server_takes(second).unwrap();
    assert_eq!(pair.received, b"half a request");
}

#[test]
fn sessions_are_resumed_and_a_replaced_certificate_is_shown() {
    let acceptor = acceptor();
    let before = acceptor.identity();
    let other = reel_tls::Identity::from_pem(OTHER.certificate.as_bytes(), OTHER.key.as_bytes()).unwrap();
    let mut old = Pair::established(&acceptor, tls13());
    acceptor.replace(other.clone());
    let new = Pair::established(&acceptor, tls13());
    assert_eq!(old.client.peer_certificates().unwrap()[0].as_ref(), before.certificate());
    assert_eq!(new.client.peer_certificates().unwrap()[0].as_ref(), other.certificate());
    let sealed = old.server_says(b"continues", 100);
    assert_eq!(old.client_takes(&sealed), b"continues");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cuts_change_nothing(piece in 1usize..600, room in 64usize..60_000, bytes in 1usize..60_000, new in any::<bool>()) {
        let mut pair = Pair::new(&acceptor(), if new { tls13() } else { tls12() }, &[]);
        pair.shake_hands(piece);
        prop_assert!(pair.server.is_established());
        let said = film(bytes.min(5000));
        let sealed = pair.client_says(&said);
        for part in sealed.chunks(piece) {
            pair.server_takes(part).unwrap();
        }
        prop_assert!(pair.received == said);
        let film = film(bytes);
        let sealed = pair.server_says(&film, room);
        prop_assert!(pair.client_takes(&sealed) == film);
        let records = film.len().div_ceil(RECORD_PLAIN_BYTES_MAX.min(room - pair.server.overhead_bytes()));
        prop_assert_eq!(sealed.len(), film.len() + records * pair.server.overhead_bytes());
    }

    #[test]
    fn any_bytes_give_a_result(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8)) {
        let mut pair = Pair::new(&acceptor(), tls13(), &[]);
        for piece in &pieces {
            if pair.server_takes(piece).is_err() {
                break;
            }
        }
        prop_assert!(!pair.server.is_established() && pair.received.is_empty());
    }

    #[test]
    fn a_hello_with_a_changed_byte_gives_a_result(at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut pair = Pair::new(&acceptor(), tls13(), &[]);
        let mut hello = pair.client_bytes();
        let at = at.index(hello.len());
        hello[at] ^= flip;
        let _ = pair.server_takes(&hello);
        prop_assert!(!pair.server.is_established());
    }

    #[test]
    fn garbage_after_the_handshake_gives_no_data(garbage in proptest::collection::vec(any::<u8>(), 1..2000), new in any::<bool>()) {
        let mut pair = Pair::established(&acceptor(), if new { tls13() } else { tls12() });
        let _ = pair.server_takes(&garbage);
        prop_assert!(pair.received.is_empty());
    }
}
