//! Casts of several titles, one after another in one group. In a network name space that ends with
//! the test.

use super::casts::{
    PAYLOAD_BYTES, Receiver, add, ask, await_state, in_a_network, make_stream_with, payload_of, rig,
};
use super::rig::Rig;
use reel_library::{IngestOptions, Input};
use reel_rtp::Packet;
use reel_rtp::sdp::Session;
use reel_volume::GeometryPreset;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

#[test]
fn titles_of_a_playlist_follow_each_other_without_a_gap() {
    in_a_network("server::playlists::inside::in_order");
}

#[test]
fn a_playlist_leaves_out_titles_that_were_removed() {
    in_a_network("server::playlists::inside::removed");
}

/// Stores a stream of so many seconds, and returns its bytes. No two ids have the same pictures.
fn stored(rig: &Rig, id: &str, seconds: u32) -> Vec<u8> {
    let file = rig.path(&format!("{id}.ts"));
    let width = if id == "one" { 60 } else { 80 };
    make_stream_with(&file, seconds, &["-vf", &format!("drawbox=w={width}:h=90:color=red:t=fill")]);
    let options = IngestOptions { stream: true, ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(file.clone())], &options, &mut |_| {}).expect("taken");
    std::fs::read(file).expect("there")
}

/// What is sent of streams: each up to the end of a matrix.
fn payloads(streams: &[&[u8]], matrix: usize) -> Vec<Vec<u8>> {
    let of = |stream: &&[u8]| {
        let packets = stream.len().div_ceil(PAYLOAD_BYTES).next_multiple_of(matrix);
        let stream = stream.to_vec();
        (0..packets).map(move |number| payload_of(&stream, number).into_owned()).collect::<Vec<_>>()
    };
    streams.iter().flat_map(of).collect()
}

mod inside {
    use super::*;

    /// The second title comes twice.
    #[test]
    #[ignore = "child of titles_of_a_playlist_follow_each_other_without_a_gap, in a name space of its own"]
    fn in_order() {
        let rig = rig(GeometryPreset::Ts);
        let (one, two) = (stored(&rig, "one", 1), stored(&rig, "two", 2));
        let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, 1), 5000);
        let wanted = r#"{"title":"one","then":["two","one","two"],"group":"239.1.1.1:5000","name":"list","scheme":"linear"}"#;
        let cast = add(&rig, wanted);
        assert_eq!(cast["playlist"], serde_json::json!(["one", "two", "one", "two"]));
        let sdp = rig.connect().ask("GET /casts/list.sdp", "");
        let sdp = String::from_utf8(sdp.body).expect("text");
        assert!(sdp.contains("s=list") && Session::parse(&sdp).is_ok(), "{sdp}");
        await_state(&rig, "list", "on-air");
        let received = receiver.until_goodbye();
        let ended = rig.connect().ask("GET /api/v1/casts/list", "").json();
        assert_eq!((&ended["reason"], &ended["lost_packets"]), (&"it was sent to its end".into(), &0.into()));
        let media = received.media_in_order();
        let expected = payloads(&[&one, &two, &one, &two], 80);
        assert_eq!(media.len(), expected.len());
        for (number, (packet, payload)) in media.iter().zip(&expected).enumerate() {
            assert!(packet[12..] == payload[..], "packet {number}");
        }
        // Time stamps of 90 kHz run on: no step is longer than the longest within a title.
        let stamps: Vec<u32> = media.iter().map(|packet| Packet::parse(packet).unwrap().time_stamp).collect();
        let steps: Vec<u32> = stamps.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert!(steps.iter().all(|step| *step < 9000), "{:?} ticks", steps.iter().max());
        let length_s = f64::from(stamps[stamps.len() - 1].wrapping_sub(stamps[0])) / 90_000.0;
        assert!((5.7..7.5).contains(&length_s), "{length_s} s");
        assert_eq!(received.fec.len() * 4, media.len(), "and so does FEC");
    }

    #[test]
    #[ignore = "child of a_playlist_leaves_out_titles_that_were_removed, in a name space of its own"]
    fn removed() {
        let rig = rig(GeometryPreset::Ts);
        let (one, two) = (stored(&rig, "one", 1), stored(&rig, "two", 1));
        for (body, status) in [
            (r#"{"title":"one","then":["none"],"group":"239.1.1.1:5000"}"#, 404),
            (r#"{"title":"one","then":["two"],"group":"239.1.1.1:5000","scheme":"rfs","wait_s":1}"#, 422),
            (r#"{"title":"one","group":"239.1.1.1:5000","scheme":"linear","wait_s":1}"#, 422),
        ] {
            let refused = ask(&rig, body);
            assert_eq!(refused.status, status, "{body}: {}", String::from_utf8_lossy(&refused.body));
        }
        let many = vec!["\"one\""; 256].join(",");
        let many = format!(r#"{{"title":"one","then":[{many}],"group":"239.1.1.1:5000"}}"#);
        assert_eq!(ask(&rig, &many).status, 422);
        let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, 1), 5000);
        add(&rig, r#"{"title":"one","then":["two"],"group":"239.1.1.1:5000","loop":true,"name":"list"}"#);
        await_title(&rig, "two");
        assert_eq!(rig.connect().ask("DELETE /api/v1/titles/two", "").status, 204);
        await_title(&rig, "one");
        std::thread::sleep(Duration::from_secs(4));
        assert_eq!(rig.connect().ask("DELETE /api/v1/titles/one", "").status, 204);
        let ended = await_state(&rig, "list", "ended");
        assert_eq!(ended["reason"], "its titles were removed", "{ended}");
        let received = receiver.until_goodbye();
        let passes = [payloads(&[&one], 80), payloads(&[&two], 80)];
        let mut of_title = Vec::new();
        let mut at = 0;
        let media = received.media_in_order();
        while at < media.len() {
            let is_next = |pass: &Vec<Vec<u8>>| media[at + pass.len() / 2][12..] == pass[pass.len() / 2][..];
            let title = passes.iter().position(is_next).expect("one of the titles");
            assert!(passes[title].iter().enumerate().all(|(n, payload)| media[at + n][12..] == payload[..]));
            at += passes[title].len();
            of_title.push(title);
        }
        let last_of_two = of_title.iter().rposition(|title| *title == 1).expect("sent");
        assert!(last_of_two <= 3 && of_title.len() > last_of_two + 2, "{of_title:?}");
    }
}

/// Waits until a cast of two titles sends this one.
fn await_title(rig: &Rig, id: &str) {
    let from = Instant::now();
    loop {
        let cast = rig.connect().ask("GET /api/v1/casts/list", "").json();
        let place = cast["playlist_place"].as_u64().expect("a number") as usize;
        assert_eq!(cast["playlist"][place], cast["title"], "{cast}");
        if cast["title"] == id {
            return;
        }
        assert!(from.elapsed() < Duration::from_secs(120), "{id} is not sent");
        std::thread::sleep(Duration::from_millis(20));
    }
}
