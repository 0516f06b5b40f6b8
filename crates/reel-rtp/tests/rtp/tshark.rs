//! tshark reads every header as it was meant.

use reel_rtp::fec::Geometry;
use reel_rtp::rtcp::{Cname, SenderReport, write_goodbye, write_report};
use reel_rtp::sap::{Announcement, SAP_PORT};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, NtpTime};
use reel_testkit::Capture;

use std::net::IpAddr;

use crate::cast::Cast;

const MEDIA_PORT: u16 = 5000;
const RTCP_PORT: u16 = 5001;
const FEC_PORT: u16 = 5002;

/// What tshark is asked for, of each packet. Fields that a packet does not have are empty.
const FIELDS: &str = "udp.dstport rtp.version rtp.padding rtp.ext rtp.cc rtp.marker rtp.p_type \
rtp.seq rtp.timestamp rtp.ssrc 2dparityfec.snbase_low 2dparityfec.lr 2dparityfec.e 2dparityfec.ptr \
2dparityfec.mask 2dparityfec.tsr 2dparityfec.x 2dparityfec.d 2dparityfec.type 2dparityfec.index \
2dparityfec.offset 2dparityfec.na 2dparityfec.snbase_ext 2dparityfec.payload rtcp.pt rtcp.senderssrc \
rtcp.timestamp.ntp.msw rtcp.timestamp.ntp.lsw rtcp.timestamp.rtp rtcp.sender.packetcount \
rtcp.sender.octetcount rtcp.ssrc.identifier rtcp.sdes.text rtcp.length_check _ws.malformed \
_ws.expert.message";

/// A cast of one matrix. Its payloads are null packets of a transport stream.
fn cast() -> Cast {
    let mut cast = Cast::new(Geometry::new(5, 4).unwrap(), 1, 65_530, 1, 1);
    for (number, sent) in cast.media.iter_mut().enumerate() {
        let mut packet = [number as u8; 188];
        packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        sent.payload = packet.repeat(if number == 7 { 6 } else { 7 });
    }
    cast
}

fn flag(is_set: bool) -> u8 {
    u8::from(is_set)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds media and FEC; returns what tshark is to say of each.
fn add_cast(cast: &Cast, capture: &mut Capture) -> Vec<String> {
    let template = HeaderTemplate::mp2t(cast.ssrc);
    let mut expected = Vec::new();
    for sent in &cast.media {
        let mut header = [0; HEADER_BYTES];
        template.write(sent.sequence, sent.time_stamp, sent.marker, &mut header);
        capture.add(MEDIA_PORT, &[&header[..], &sent.payload].concat());
        let (marker, sequence, time_stamp, ssrc) =
            (flag(sent.marker), sent.sequence, sent.time_stamp, cast.ssrc);
        let rtp = format!("{MEDIA_PORT}|2|0|0|0|{marker}|33|{sequence}|{time_stamp}|{ssrc:#010x}");
        expected.push(format!("{rtp}{}", "|".repeat(26)));
    }
    for column in 0..5 {
        let bytes = cast.fec_bytes(0, column);
        capture.add(FEC_PORT, &bytes);
        let sent: Vec<_> = cast.column(0, column).map(|number| &cast.media[number]).collect();
        let (base, sent_at) = (sent[0].sequence, sent[0].time_stamp);
        let marker = sent.iter().filter(|sent| sent.marker).count() % 2;
        let length = sent.iter().fold(0, |sum, sent| sum ^ sent.payload.len());
        let time_stamp = sent.iter().fold(0, |sum, sent| sum ^ sent.time_stamp);
        let mut parity = vec![0; 1316];
        for sent in sent {
            parity.iter_mut().zip(&sent.payload).for_each(|(sum, byte)| *sum ^= byte);
        }
        let rtp = format!("{FEC_PORT}|2|0|0|0|{marker}|96|{column}|{sent_at}|0x00000000");
        let recovery = format!("{base}|{length:#06x}|1|0x00|0x000000|{time_stamp:#010x}");
        let shape = format!("0|0|0|0|5|4|0|{}", hexadecimal(&parity));
        expected.push(format!("{rtp}|{recovery}|{shape}{}", "|".repeat(12)));
    }
    expected
}

/// Adds a report and the end of the source; returns what tshark is to say of both.
fn add_control(ssrc: u32, capture: &mut Capture) -> Vec<String> {
    let time = NtpTime::from_unix_ns(1_800_000_000_500_000_000);
    let report = SenderReport { ssrc, time, time_stamp: 7_000_000, packets: 20, payload_bytes: 26_132 };
    let cname = Cname::new("cast@example").unwrap();
    let fields = |kinds: &str, ssrc: &str, sources: &str| {
        // 1,800,000,000 s after 1970 are 4,008,988,800 s after 1900.
        let report = format!("{ssrc}|4008988800|2147483648|7000000|20|26132");
        format!("{RTCP_PORT}{}{kinds}|{report}|{sources}|cast@example|1||", "|".repeat(24))
    };
    let source = format!("{ssrc:#010x}");
    let mut bytes = Vec::new();
    write_report(&report, &cname, &mut bytes);
    capture.add(RTCP_PORT, &bytes);
    bytes.clear();
    write_goodbye(&report, &cname, &mut bytes);
    capture.add(RTCP_PORT, &bytes);
    vec![fields("200,202", &source, &source), fields("200,202,203", &source, &format!("{source},{source}"))]
}

#[test]
fn an_announcement_is_read_as_it_was_meant() {
    const FIELDS: &str = "sap.flags.v sap.flags.a sap.flags.t sap.flags.e sap.flags.c sap.auth.len \
                          sap.message_identifier_hash sap.originating_source sap.originating_source.ipv6 \
                          sap.payload_type sdp.owner.sessionid _ws.malformed";
    let text = "v=0\r\no=- 17 3 IN IP4 192.0.2.1\r\ns=A title\r\n";
    let mut capture = Capture::new();
    let sources = ["192.0.2.1", "2001:db8::1"].map(|source| source.parse::<IpAddr>().unwrap());
    let announcements = [Announcement::new(text, sources[0]), Announcement::deletion(text, sources[1])];
    for announcement in announcements {
        capture.add(SAP_PORT, &announcement.write().unwrap());
    }
    let Some(lines) = capture.dissect(MEDIA_PORT, FIELDS) else { return println!("skipped: no tshark") };
    let hash = format!("{:#06x}", announcements[0].hash);
    let expected = [
        format!("1|0|0|0|0|0|{hash}|192.0.2.1||application/sdp|17|"),
        format!("1|1|1|0|0|0|{hash}||2001:db8::1|application/sdp|17|"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn every_header_is_read_as_it_was_meant() {
    let cast = cast();
    let mut capture = Capture::new();
    let mut expected = add_cast(&cast, &mut capture);
    expected.extend(add_control(cast.ssrc, &mut capture));
    let Some(lines) = capture.dissect(MEDIA_PORT, FIELDS) else { return println!("skipped: no tshark") };
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
}
