//! Casts are announced (SAP) as long as they are sent. In a network name space that ends with the
//! test.

use super::casts::{add, await_state, in_a_network, rig, stored};
use super::rig::Rig;
use reel_rtp::sap::{Announcement, SAP_PORT};
use reel_rtp::sdp::Session;
use reel_volume::GeometryPreset;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

#[test]
fn casts_are_announced_until_they_end() {
    in_a_network("server::announcements::inside::announced");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of casts_are_announced_until_they_end, in a name space of its own"]
    fn announced() {
        let rig = rig(GeometryPreset::Ts);
        stored(&rig, 1);
        let [everywhere, local] = [[224, 2, 127, 254], [239, 255, 255, 255]].map(listen);
        add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000","name":"a","loop":true}"#);
        add(&rig, r#"{"title":"stream","group":"239.255.1.1:5000","name":"b","loop":true}"#);
        add(&rig, r#"{"title":"stream","group":"239.1.1.2:5000","name":"c","loop":true,"announce":false}"#);
        let first = heard(&everywhere);
        let read = Announcement::parse(&first).expect("an announcement");
        assert_eq!((read.is_deletion, read.source), (false, Ipv4Addr::LOCALHOST.into()));
        let sdp = rig.connect().ask("GET /casts/a.sdp", "");
        assert_eq!(read.text.as_bytes(), sdp.body);
        // The name of the title alone is that of a cast without a name of its own.
        assert!(read.text.contains("s=stream (a)\r\n") && read.text.contains("a=x-reel-cast:a\r\n"));
        add(&rig, r#"{"title":"stream","group":"239.1.1.3:5000","loop":true,"announce":false}"#);
        assert!(String::from_utf8(description(&rig, "stream")).expect("text").contains("s=stream\r\n"));
        let told = Session::parse(read.text).expect("a description");
        // What is stored, FEC of a fourth, and headers.
        assert!((500..20_000).contains(&told.rate_kbps.expect("said")), "{told:?}");
        assert_eq!(Announcement::parse(&heard(&local)).expect("one").text.as_bytes(), description(&rig, "b"));
        // The same again.
        assert_eq!(heard(&everywhere), first);
        for name in ["a", "b", "c"] {
            await_state(&rig, name, "on-air");
            let counted = rig.metric(&format!("reel_cast_announcements_total{{cast=\"{name}\"}}"));
            assert_eq!(counted > 0.0, name != "c", "{name}: {counted}");
            assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/casts/{name}"), "").status, 204);
        }
        let last = heard(&everywhere);
        let deleted = Announcement::parse(&last).expect("a deletion");
        assert!(deleted.is_deletion && deleted.hash == read.hash && deleted.origin() == read.origin());
        everywhere.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
        assert!(everywhere.recv(&mut [0; 2000]).is_err(), "nothing else");
    }
}

fn listen(group: [u8; 4]) -> UdpSocket {
    let group = Ipv4Addr::from(group);
    let socket = UdpSocket::bind((group, SAP_PORT)).expect("a socket");
    socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).expect("joined");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    socket
}

fn heard(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2000];
    let count = socket.recv(&mut bytes).expect("an announcement");
    bytes[..count].to_vec()
}

fn description(rig: &Rig, name: &str) -> Vec<u8> {
    rig.connect().ask(&format!("GET /casts/{name}.sdp"), "").body
}
