//! Descriptions: what Reel writes, what other senders write, and what is refused.

use std::net::IpAddr;

use proptest::prelude::*;
use reel_rtp::NtpTime;
use reel_rtp::fec::Geometry;
use reel_rtp::limits::{SDP_BYTES_MAX, SDP_LINES_MAX, SDP_MEDIA_MAX};
use reel_rtp::sdp::{Channel, Description, FecChannel, FecDescription, SdpError, Session, SlotSchedule};

/// What ffmpeg writes for `-f rtp_mpegts rtp://239.1.1.1:5000`.
const FFMPEG: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 239.1.1.1/16\r\nt=0 0\r\n\
                      a=tool:libavformat 59.27.100\r\nm=video 5000 RTP/AVP 33\r\n";

fn channels(text: &str) -> Vec<Channel> {
    Session::parse(text).unwrap().channels
}

fn refused(text: &str) -> String {
    Session::parse(text).unwrap_err().to_string()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A description with these lines about media.
fn with(lines: &[&str]) -> String {
    let head = ["v=0", "o=- 1 1 IN IP4 192.0.2.1", "s=-", "c=IN IP4 239.1.1.1/8", "t=0 0"];
    [&head[..], lines].concat().join("\n")
}

/// Media and FEC, with these attributes of FEC.
fn with_fec(lines: &[&str]) -> String {
    let media = ["m=video 5000 RTP/AVP 33", "m=application 5002 RTP/AVP 96"];
    with(&[&media[..], lines].concat())
}

const PARITY: &str = "a=rtpmap:96 1d-interleaved-parityfec/90000";

#[test]
fn what_other_senders_write_is_read() {
    let plain = Channel {
        address: address("239.1.1.1"),
        port: 5000,
        payload_type: 33,
        sources: vec![],
        fec: None,
        fec_fault: None,
    };
    assert_eq!(channels(FFMPEG), std::slice::from_ref(&plain));
    // The address belongs to the medium; a dynamic payload type; lines that end with LF.
    let text = "v=0\ns= A  film \nm=audio 4000 RTP/AVP 0\nc=IN IP4 239.9.9.9\nm=video 5000/2 RTP/AVPF 98 99\n\
                c=IN IP4 239.1.1.1/16/3\ni=x\na=rtpmap:98 mp2t/90000\na=sendonly";
    // Three groups, one address after another (RFC 8866, section 5.7).
    let of_group = |group| Channel { payload_type: 98, address: address(group), ..plain.clone() };
    assert_eq!(channels(text), ["239.1.1.1", "239.1.1.2", "239.1.1.3"].map(of_group));
    assert_eq!(Session::parse(text).unwrap().name, "A  film");
    let text = with(&["a=source-filter: incl IN IP4 * 192.0.2.1 192.0.2.2", "m=video 5000 RTP/AVP 33"]);
    let sources = vec![address("192.0.2.1"), address("192.0.2.2")];
    assert_eq!(channels(&text), [Channel { sources, ..plain.clone() }]);
    for (line, rate_kbps) in [("b=AS:5300", Some(5300)), ("b=TIAS:5300", None), ("b=AS:x", None)] {
        let text = with(&[line, "m=video 5000 RTP/AVP 33", "b=AS:1"]);
        assert_eq!(Session::parse(&text).unwrap().rate_kbps, rate_kbps, "{line}");
    }
    let text = with(&["m=video 5000 RTP/AVP 33", "a=source-filter:excl IN IP4 239.1.1.1 192.0.2.1"]);
    assert_eq!(channels(&text), [plain]);
}

#[test]
fn fec_is_that_of_its_group() {
    let expected = FecChannel {
        address: address("239.1.1.1"),
        port: 5002,
        geometry: Geometry::new(20, 4).unwrap(),
        repair_window_us: Some(200_000),
    };
    for parameters in [
        "L=20;D=4;repair-window=200000",
        "L:20; D:4; repair-window: 200000;",
        "d=4 ; l=20; x; repair-window=200000",
    ] {
        let text = with_fec(&[PARITY, &format!("a=fmtp:96 {parameters}")]);
        assert_eq!(channels(&text)[0].fec, Some(expected), "{parameters}");
    }
    let text = with(&[
        "a=group:FEC-FR S2 R2",
        "a=group:FEC S1 R1",
        "m=video 5000 RTP/AVP 33",
        "a=mid:S1",
        "m=video 6000 RTP/AVP 33",
        "a=mid:S2",
        "m=application 6002 RTP/AVP 96",
        PARITY,
        "a=fmtp:96 L=5;D=5",
        "a=mid:R2",
        "m=application 5002 RTP/AVP 96",
        "c=IN IP4 239.1.1.2",
        PARITY,
        "a=fmtp:96 L=20;D=4;repair-window=200000",
        "a=mid:R1",
        "m=video 7000 RTP/AVP 33",
    ]);
    let read = channels(&text);
    assert_eq!(read[0].fec, Some(FecChannel { address: address("239.1.1.2"), ..expected }));
    assert_eq!(read[1].fec.map(|fec| (fec.port, fec.repair_window_us)), Some((6002, None)));
    assert_eq!((read[2].port, read[2].fec, read[2].fec_fault), (7000, None, None));
}

#[test]
fn fec_that_cannot_be_used_is_named() {
    let fault = |lines: &[&str]| {
        let read = channels(&with_fec(lines));
        assert_eq!(read[0].fec, None, "{lines:?}");
        read[0].fec_fault.unwrap_or_default()
    };
    assert!(fault(&[PARITY]).contains("L or D"));
    assert!(fault(&[PARITY, "a=fmtp:96 L=20"]).contains("L or D"));
    assert!(fault(&[PARITY, "a=fmtp:96 L=x;D=4"]).contains("L or D"));
    assert!(fault(&[PARITY, "a=fmtp:97 L=20;D=4"]).contains("L or D"));
    assert!(fault(&[PARITY, "a=fmtp:96 L=1020;D=4"]).contains("matrices"));
    assert!(fault(&[PARITY, "a=fmtp:96 L=0;D=4"]).contains("matrices"));
    assert!(fault(&[PARITY, "a=fmtp:96 L=20;D=4", "c=IN IP6 ff15::1"]).contains("family"));
    assert_eq!(fault(&["a=rtpmap:96 raptorfec/90000"]), "");
    let other = with(&[
        "m=video 5000 RTP/AVP 33",
        "m=application 5002 RTP/AVP 97",
        "a=rtpmap:97 1d-interleaved-parityfec/90000",
    ]);
    assert!(channels(&other)[0].fec_fault.unwrap().contains("33 and 96"));
}

#[test]
fn what_cannot_be_received_is_refused_in_words() {
    for text in ["", "v=0", "v=0\nm=video 5000 RTP/AVP 33", &with(&["m=audio 5000 RTP/AVP 0"])] {
        assert_eq!(Session::parse(text), Err(SdpError::NoStream), "{text}");
    }
    for medium in [
        "m=video 0 RTP/AVP 33",
        "m=video 65535 RTP/AVP 33",
        "m=video 5000 udp 33",
        "m=video 5000 RTP/SAVP 33",
    ] {
        assert!(refused(&with(&[medium])).contains("m=video 5000 RTP/AVP 33"), "{medium}");
    }
    for (line, words) in [
        ("x", "line 6 of the description (SDP) cannot be used: it is not of the form"),
        ("c=IN IP4 host.example", "names of machines are not looked up"),
        ("c=IN IP6 239.1.1.1", "its family"),
        ("c=IN IP4", "IN IP4 address"),
        ("m=video", "needs a kind"),
        ("m=video 65536 RTP/AVP 33", "port"),
        ("m=video 5000 RTP/AVP 128", "payload type"),
        ("a=source-filter:incl IN IP4 239.1.1.1", "no source"),
        (
            "a=source-filter:incl IN IP4 * 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1",
            "too many",
        ),
        ("a=source-filter:incl", "incl IN IP4 group source"),
        ("a=source-filter:incl IN IP4 * x", "looked up"),
    ] {
        assert!(refused(&with(&[line])).contains(words), "{line}: {}", refused(&with(&[line])));
    }
    assert!(refused("<html>").contains("line 1"));
    assert!(refused("s=x\nv=0").contains("begins with v=0"));
    assert!(refused(&" ".repeat(SDP_BYTES_MAX + 1)).contains("65537 bytes"));
    assert!(refused(&with(&vec!["a=x"; SDP_LINES_MAX])).contains("too many lines"));
    for groups in ["IP4 239.1.1.1/1/0", "IP4 239.1.1.1/1/129", "IP4 239.1.1.1/1/x", "IP4 10.0.0.1/1/2"] {
        let text = with(&["m=video 5000 RTP/AVP 33", &format!("c=IN {groups}")]);
        assert!(refused(&text).contains("too many, or some that are no groups"), "{groups}");
    }
    let text = with(&["m=video 5000 RTP/AVP 33", "c=IN IP4 239.255.255.255/1/2"]);
    assert!(refused(&text).contains("some that are no groups"));
    let many = [["m=video 5000 RTP/AVP 33", "c=IN IP6 ff15::1/100"]; 2].concat();
    assert!(refused(&with(&many)).contains("more than 128 groups"));
    assert!(refused(&with(&vec!["m=video 5000 RTP/AVP 33"; SDP_MEDIA_MAX + 1])).contains("too many media"));
}

prop_compose! {
    fn sides()(columns in 1..=255_u16)(columns in Just(columns), rows in 1..=(1024 / columns).min(255)) -> Geometry {
        Geometry::new(columns, rows).unwrap()
    }
}

proptest! {
    #[test]
    fn what_reel_writes_is_read(
        name in "\\PC{0,40}",
        (group, host) in prop_oneof![
            any::<(u16, u8)>().prop_map(|(low, host)| (
                IpAddr::from([239, 1, (low >> 8) as u8, low as u8]), IpAddr::from([10, 0, 0, host])
            )),
            any::<(u16, u16)>().prop_map(|(low, host)| (
                IpAddr::from([0xff15, 0, 0, 0, 0, 0, 1, low]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 1, host])
            )),
        ],
        has_source: bool,
        port in 1..30_000_u16,
        fec in proptest::option::of((sides(), any::<u32>())),
    ) {
        let source = Some(host).filter(|_| has_source);
        let port = 2 * port;
        let fec = fec.map(|(geometry, repair_window_us)| FecDescription { geometry, repair_window_us });
        let description =
            Description {
                name: &name, session_id: 1, version: 2, origin: host, group, port, ttl: 8, source, rate_kbps: 0, fec,
                channels: 1, url: None, attributes: &[],
            };
        let read = Session::parse(&description.write().unwrap()).unwrap();
        prop_assert!(!read.name.is_empty());
        let fec = fec.map(|fec| FecChannel {
            address: group,
            port: port + 2,
            geometry: fec.geometry,
            repair_window_us: Some(fec.repair_window_us),
        });
        let sources = source.into_iter().collect();
        let channel = Channel { address: group, port, payload_type: 33, sources, fec, fec_fault: None };
        prop_assert_eq!(read.channels, vec![channel]);
    }

    #[test]
    fn any_text_is_a_description_or_an_error(
        lines in proptest::collection::vec("[vscmat]=(IN IP4 |video |fmtp:96 |group:FEC |mid:)?\\PC{0,20}", 0..20)
    ) {
        let _ = Session::parse(&lines.join("\n"));
        let _ = Session::parse(&with_fec(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
    }
}

#[test]
fn a_broadcast_is_read_as_it_was_written() {
    let schedule = SlotSchedule {
        scheme: "rfs".to_owned(),
        slot_ns: 2_500_000_000,
        epoch: NtpTime::from_unix_ns(1_900_000_000_123_456_789),
        matrix_packets: 80,
        packets: 100_000,
        sources: vec![7, 0x8000_0000, 9],
        time_stamps: vec![0, 1, u32::MAX],
        first_matrices: vec![0, 60, 119],
        first_slot: 760_000_000,
    };
    let group = |last| IpAddr::from([239, 1, 1, last]);
    let geometry = Geometry::new(20, 4).unwrap();
    let attributes = schedule.attributes();
    let description = Description {
        name: "film",
        session_id: 1,
        version: 1,
        origin: IpAddr::from([10, 0, 0, 1]),
        group: group(1),
        port: 5000,
        ttl: 1,
        source: None,
        rate_kbps: 0,
        fec: Some(FecDescription { geometry, repair_window_us: 9 }),
        channels: 3,
        url: None,
        attributes: &attributes,
    };
    let text = description.write().unwrap();
    let read = Session::parse(&text).unwrap();
    assert_eq!((read.rate_kbps, read.schedule), (None, Some(schedule.clone())));
    assert_eq!(read.channels.len(), 3);
    for (number, channel) in (1..).zip(&read.channels) {
        assert_eq!((channel.address, channel.fec.unwrap().address), (group(number), group(number)));
    }
    // No group is said twice.
    assert_eq!(text.matches("c=IN IP4 239.1.1.1/1/3\r\n").count(), 2);
    assert!(!text.contains("239.1.1.2"), "{text}");
    assert_eq!((schedule.segment(1), schedule.segment(3)), (Some(0..61), Some(119..179)));
    assert_eq!((schedule.segment(0), schedule.segment(4)), (None, None));
    // What contradicts itself is refused.
    for (from, to) in [
        ("2500000000", "0"),
        // Slots of a nanosecond and of a day.
        ("2500000000", "1"),
        ("2500000000", "99999999"),
        ("2500000000", "21600000000001"),
        ("2500000000", "86400000000000"),
        // A title of more packets than a receiver has bits for.
        (" 100000", " 7600000000"),
        ("x-reel-sources", "x-reel-source"),
        ("x-reel-from:7", "x-reel-from:-7"),
        (",80000000,", ","),
        (" 80 ", " 0 "),
        (" 100000", " 0"),
        ("0,60,119", "0,119,60"),
        ("0,60,119", "1,60"),
        ("0,60,119", "0,900"),
        (",00000001,", ","),
        ("rfs 2500000000", "2500000000"),
    ] {
        let wrong = text.replace(from, to);
        assert!(wrong != text, "{from}");
        assert!(matches!(Session::parse(&wrong), Err(SdpError::Schedule(_))), "{from} -> {to}");
    }
}
