//! Casts on the air: what members of a group receive, bit for bit. In a network name space that
//! ends with the test.

use super::promise::set_request_price;
use super::rig::{Answer, Rig};
use reel::server::PromiseConfig;
use reel_disk::Fault;
use reel_library::{IngestOptions, Input};
use reel_play::UplinkRate;
use reel_rtp::fec::{Decoder, FecOutcome, FecPacket, Geometry};
use reel_rtp::rtcp::{Compound, Control};
use reel_rtp::sdp::Session;
use reel_rtp::{MP2T, Packet};
use reel_testkit::{Rng, run_in_own_network};
use reel_volume::GeometryPreset;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const PAYLOAD_BYTES: usize = 7 * 188;

#[test]
fn members_of_a_group_receive_what_is_stored() {
    in_a_network("server::casts::inside::members");
}

#[test]
fn members_of_a_group_receive_what_is_stored_in_any_geometry() {
    in_a_network("server::casts::inside::members_of_any_geometry");
}

#[test]
fn loops_follow_each_other_without_a_gap() {
    in_a_network("server::casts::inside::loops");
}

#[test]
fn casts_end_with_a_reason() {
    in_a_network("server::casts::inside::ends");
}

#[test]
fn what_cannot_be_cast_is_refused_in_words() {
    in_a_network("server::casts::inside::refusals");
}

#[test]
fn what_does_not_fit_is_refused() {
    in_a_network("server::casts::inside::too_much");
}

#[test]
fn clients_of_a_broadcast_are_never_late_whenever_they_join() {
    in_a_network("server::casts::inside::broadcasts");
}

#[test]
fn two_casts_of_a_title_read_it_once() {
    in_a_network("server::casts::inside::twice");
}

#[test]
fn parity_is_computed_where_disks_are_short() {
    in_a_network("server::casts::inside::short_disks");
}

#[test]
fn plans_are_those_of_the_command_line() {
    in_a_network("server::casts::inside::plans");
}

/// Runs an ignored test in a network that carries groups.
pub(crate) fn in_a_network(test: &str) {
    let setup = "ip link set lo up && ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo";
    run_in_own_network(setup, test);
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of members_of_a_group_receive_what_is_stored, in a name space of its own"]
    fn members() {
        receive(GeometryPreset::Ts, true);
    }

    #[test]
    #[ignore = "child of members_of_a_group_receive_what_is_stored_in_any_geometry, in a name space of its own"]
    fn members_of_any_geometry() {
        receive(GeometryPreset::Cmaf, false);
    }

    #[test]
    #[ignore = "child of loops_follow_each_other_without_a_gap, in a name space of its own"]
    fn loops() {
        let rig = rig(GeometryPreset::Ts);
        let stream = stored(&rig, 1);
        let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, 2), 5000);
        add(&rig, r#"{"title":"stream","group":"239.1.1.2:5000","loop":true,"name":"loop"}"#);
        std::thread::sleep(Duration::from_secs(7));
        let stopped = rig.connect().ask("DELETE /api/v1/casts/loop", "");
        assert_eq!(stopped.status, 204);
        let received = receiver.until_goodbye();
        // Each pass ends with a matrix.
        let pass = stream.len().div_ceil(PAYLOAD_BYTES).next_multiple_of(80);
        let media = received.media_in_order();
        assert!(media.len() > 3 * pass, "{} packets of passes of {pass}", media.len());
        for (number, packet) in media.iter().enumerate() {
            assert_eq!(packet[12..], *payload_of(&stream, number % pass), "packet {number}");
        }
        let stamps: Vec<u32> = media.iter().map(|packet| Packet::parse(packet).unwrap().time_stamp).collect();
        let steps: Vec<u32> = stamps.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        let longest = steps.iter().max().unwrap();
        // The longest within a pass, and no more where one follows the other.
        assert!(steps[..pass - 1].iter().max().unwrap() >= longest, "{longest} ticks");
    }

    /// The title is as large as all media memory. Half of that is left to readers, so the title
    /// does not stay there by itself.
    #[test]
    #[ignore = "child of two_casts_of_a_title_read_it_once, in a name space of its own"]
    fn twice() {
        let rig = Rig::with_volume(GeometryPreset::Ts, 160 << 20, 40 << 20, |config| {
            config.promise = PromiseConfig { start_wait_s: 0, ..PromiseConfig::default() };
        });
        let file = rig.path("stream.ts");
        // Null packets make it large.
        make_stream_with(&file, 20, &["-muxrate", "16M"]);
        let bytes = store(&rig, &file).len() as f64;
        let memory = rig.metric("reel_arena_size_bytes");
        assert!(bytes > 0.9 * memory, "{bytes} bytes of media, {memory} of memory");
        let before = rig.metric("reel_member_read_bytes_total");
        add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000","name":"first","fec":"off"}"#);
        std::thread::sleep(Duration::from_secs(4));
        add(&rig, r#"{"title":"stream","group":"239.1.1.2:5000","name":"second","fec":"off"}"#);
        await_state(&rig, "second", "ended");
        let read = rig.metric("reel_member_read_bytes_total") - before;
        assert!(read < 1.1 * bytes, "{read} bytes were read of {bytes}");
    }

    /// With disks that a cast just fits on, its FEC is computed from the rows that are sent, and is
    /// the same. With others it is read as it is stored.
    #[test]
    #[ignore = "child of parity_is_computed_where_disks_are_short, in a name space of its own"]
    fn short_disks() {
        let mut rig = rig(GeometryPreset::Ts);
        let file = rig.path("stream.ts");
        // So many stripes that most are read after the ledger has told how much is promised.
        make_stream_with(&file, 8, &["-muxrate", "12M"]);
        let stream = store(&rig, &file);
        let cast_once = |rig: &Rig, group: u8| {
            let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, group), 5000);
            let before = rig.metric("reel_member_read_bytes_total");
            let asked =
                format!(r#"{{"title":"stream","group":"239.1.1.{group}:5000","name":"cast-{group}"}}"#);
            let answer = ask(rig, &asked);
            if answer.status == 503 {
                return None;
            }
            assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
            let cast = answer.json();
            let received = receiver.until_goodbye();
            received.check(&stream, &cast["fec"]);
            received.repair(&cast["fec"], 5);
            Some(rig.metric("reel_member_read_bytes_total") - before)
        };
        let stored_bytes = cast_once(&rig, 1).expect("there is room");
        // The dearest disks that have room for it.
        let computed_bytes = (1..10).rev().find_map(|part: u64| {
            rig.stop();
            set_request_price(&rig, part * 20_000_000);
            rig.start();
            cast_once(&rig, 10 + part as u8)
        });
        let computed_bytes = computed_bytes.expect("there is room at some price");
        // All is read in the first second, before the ledger has told, and up to a fifth less then.
        assert!(computed_bytes < stored_bytes * 0.96, "{computed_bytes} of {stored_bytes} bytes were read");
    }

    /// The network has room for one cast of 1.6 Mb/s with its FEC and headers, and not for two.
    #[test]
    #[ignore = "child of what_does_not_fit_is_refused, in a name space of its own"]
    fn too_much() {
        let rig = Rig::with_geometry(GeometryPreset::Ts, 64 << 20, |config| {
            config.promise = PromiseConfig { start_wait_s: 0, ..PromiseConfig::default() };
            config.promise.network_bps = Some(4_000_000);
            config.promise.uplink = UplinkRate::Known(4_000_000);
        });
        stored(&rig, 20);
        let first = add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000","name":"first"}"#);
        assert_eq!(first["state"], "starting", "{first}");
        let second = ask(&rig, r#"{"title":"stream","group":"239.1.1.2:5000","name":"second"}"#);
        assert_eq!(second.status, 503);
        let why = second.json();
        assert_eq!((&why["resource"], &why["status"]), (&"network".into(), &503.into()), "{why}");
        // What was not admitted holds nothing: neither its name nor its group, nor time.
        assert_eq!(rig.connect().ask("GET /api/v1/casts/second", "").status, 404);
        assert_eq!(rig.connect().ask("DELETE /api/v1/casts/first", "").status, 204);
        let from = Instant::now();
        while ask(&rig, r#"{"title":"stream","group":"239.1.1.2:5000","name":"second"}"#).status != 201 {
            assert!(from.elapsed() < Duration::from_secs(120), "it stays full");
            std::thread::sleep(Duration::from_millis(100));
        }
        // Only the sender may be joined of such a group, and receivers are told so.
        let specific = r#"{"title":"stream","group":"232.1.1.1:5000","name":"specific"}"#;
        rig.connect().ask("DELETE /api/v1/casts/second", "");
        while ask(&rig, specific).status != 201 {
            assert!(from.elapsed() < Duration::from_secs(240), "it stays full");
            std::thread::sleep(Duration::from_millis(100));
        }
        let sdp = rig.connect().ask("GET /casts/specific.sdp", "");
        let sdp = Session::parse(&String::from_utf8(sdp.body).unwrap()).expect("read");
        assert_eq!(sdp.channels[0].sources, [Ipv4Addr::LOCALHOST]);
    }

    #[test]
    #[ignore = "child of clients_of_a_broadcast_are_never_late_whenever_they_join, in a name space of its own"]
    fn broadcasts() {
        const FILM_S: u64 = 7;
        // Two slots of a second, and the time to join.
        const WAIT_S: f64 = 2.5;
        let rig = rig(GeometryPreset::Cmaf);
        let stream = stored(&rig, FILM_S as u32);
        let receivers: Vec<Receiver> =
            (7..10).map(|group| Receiver::join(Ipv4Addr::new(239, 1, 1, group), 5000)).collect();
        let wanted = format!(
            r#"{{"title":"stream","group":"239.1.1.7:5000","scheme":"fast","wait_s":{WAIT_S},"name":"b"}}"#
        );
        let cast = add(&rig, &wanted);
        assert_eq!(cast["schedule"]["channels"], 3, "{cast}");
        let slot_s = cast["schedule"]["slot_s"].as_f64().expect("a number");
        assert!((0.9..=1.1).contains(&slot_s), "{cast}");
        // A client that joins three slots after the first one still gets all of it.
        std::thread::sleep(Duration::from_secs(FILM_S + 3 + 4 + 1));
        let state = rig.connect().ask("GET /api/v1/casts/b", "").json();
        assert_eq!((&state["state"], &state["lost_packets"]), (&"on-air".into(), &0.into()), "{state}");
        let now_slot = check_slots(&rig, FILM_S);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let sdp = rig.connect().ask("GET /casts/b.sdp", "");
        let sdp = Session::parse(&String::from_utf8(sdp.body).unwrap()).expect("read");
        // Slots are counted from 1970 on.
        assert_eq!(sdp.schedule.as_ref().expect("of a broadcast").epoch.to_unix_ns(), 0);
        let passed = now.as_nanos() as f64 / 1e9 / slot_s;
        assert!((-0.1..2.0).contains(&(passed - now_slot)), "{passed} and {now_slot} slots");
        rig.connect().ask("DELETE /api/v1/casts/b", "");
        let received: Vec<Received> = receivers.into_iter().map(Receiver::until_goodbye).collect();
        let told = sdp.schedule.expect("of a broadcast");
        // The first packets are those of a slot, and of the sources that are told.
        let slot_of = |received: &Received, stamp: u32| {
            let first = Packet::parse(&received.media[0]).expect("RTP").time_stamp.wrapping_sub(stamp);
            let near = now.as_nanos() as u64 / told.slot_ns - 60;
            let ticks = |slot: u64| (u128::from(slot) * u128::from(told.slot_ns) * 9 / 100_000) as u32;
            (near..near + 120).find(|slot| ticks(*slot) == first).expect("the beginning of a slot")
        };
        let slots: Vec<u64> = received
            .iter()
            .zip(&told.time_stamps)
            .map(|(received, stamp)| slot_of(received, *stamp))
            .collect();
        assert!(slots.iter().all(|slot| *slot == slots[0]), "{slots:?}");
        for ((channel, received), source) in sdp.channels.iter().zip(&received).zip(&told.sources) {
            let ssrc = |packet: &Vec<u8>| Packet::parse(packet).expect("RTP").ssrc;
            assert!(received.media.iter().all(|packet| ssrc(packet) == *source));
            assert_eq!(channel.port, 5000);
        }
        for first_slot in 0..3 {
            play(&received, &stream, FILM_S as f64, slot_s, first_slot);
        }
        for channel in &received {
            channel.repair(&cast["fec"], 1);
        }
    }

    #[test]
    #[ignore = "child of plans_are_those_of_the_command_line, in a name space of its own"]
    fn plans() {
        let rig = rig(GeometryPreset::Cmaf);
        stored(&rig, 20);
        let ask = |query: &str| rig.connect().ask(&format!("GET /api/v1/cast-plans?{query}"), "");
        let all = ask("title=stream&wait_s=10").json();
        let schemes = all["plans"].as_array().expect("a list");
        let schemes: Vec<_> = schemes.iter().map(|plan| plan["scheme"].as_str().unwrap()).collect();
        assert_eq!(schemes, ["staggered", "fast", "skyscraper-12", "skyscraper-52", "rfs"]);
        assert_eq!((&all["notes"][0], &all["fec_permille"]), (&SENT_AS_STORED.into(), &250.into()));
        // What is planned is what is cast.
        let plan = &ask("title=stream&wait_s=10&scheme=fast").json()["plans"][0];
        let cast = add(
            &rig,
            r#"{"title":"stream","group":"239.1.1.7:5000","scheme":"fast","wait_s":10,"name":"planned"}"#,
        );
        for field in ["scheme", "segments", "channels", "bandwidth_bps", "wait_s"] {
            assert_eq!(plan[field], cast["schedule"][field], "{field}");
        }
        assert_eq!((&plan["problem"], plan["peak_bps"].is_u64()), (&Value::Null, true), "{plan}");
        // A title of which no transport stream is stored is estimated.
        let film = ask("title=film").json();
        assert!(film["notes"][0].as_str().unwrap().contains("no form ts"), "{film}");
        assert_eq!(film["plans"], serde_json::json!([]));
        // Key frames are half a second apart, and a cast has 64 channels.
        let short = ask("title=stream&wait_s=0.7&scheme=staggered").json();
        assert!(short["plans"][0]["problem"].as_str().unwrap().contains("at most 64"), "{short}");
        let short = ask("title=stream&wait_s=0.8&scheme=rfs").json();
        assert!(short["plans"][0]["problem"].as_str().unwrap().contains("key frames"), "{short}");
        for (query, status, words) in [
            ("title=none&wait_s=10", 404, "none"),
            ("title=stream&wait_s=NaN", 422, "above 0 s"),
            ("title=stream&wait_s=inf", 422, "above 0 s"),
            ("title=stream&wait_s=-1", 422, "above 0 s"),
            ("title=stream&wait_s=1e-9", 422, "too short"),
            ("title=stream&wait_s=0.501", 422, "segments"),
            ("title=stream&wait_s=1e300", 422, "at most a day"),
            ("title=stream&wait_s=10&bandwidth_bps=4", 422, "either"),
            ("title=stream&bandwidth_bps=0", 422, "b/s"),
            ("title=stream&scheme=rfs", 422, "either"),
            ("title=stream&scheme=harmonic&wait_s=10", 422, "harmonic"),
            ("title=stream&scheme=linear&wait_s=10", 422, "linear"),
            ("title=stream&bandwidth_bps=18446744073709551616", 400, "bandwidth_bps"),
        ] {
            let refused = ask(query);
            let text = String::from_utf8_lossy(&refused.body).into_owned();
            assert_eq!(refused.status, status, "{query}: {text}");
            assert!(text.contains(words), "{query}: {text}");
        }
        assert!(ask("title=stream&bandwidth_bps=18446744073709551615").status < 500);
    }

    #[test]
    #[ignore = "child of casts_end_with_a_reason, in a name space of its own"]
    fn ends() {
        let mut rig = rig(GeometryPreset::Ts);
        // Its title is removed: the pass is sent to its end.
        let stream = stored(&rig, 2);
        let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, 3), 5000);
        add(&rig, r#"{"title":"stream","group":"239.1.1.3:5000","name":"removed","loop":true}"#);
        await_state(&rig, "removed", "on-air");
        assert_eq!(rig.connect().ask("DELETE /api/v1/titles/stream", "").status, 204);
        let ended = await_state(&rig, "removed", "ended");
        assert!(ended["reason"].as_str().unwrap().contains("removed"), "{ended}");
        let received = receiver.until_goodbye();
        let pass = stream.len().div_ceil(PAYLOAD_BYTES).next_multiple_of(80);
        assert_eq!(received.media_in_order().len() % pass, 0, "whole passes");
        // The server stops: receivers are told.
        stored(&rig, 30);
        let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, 4), 5000);
        add(&rig, r#"{"title":"stream","group":"239.1.1.4:5000","name":"stopped"}"#);
        await_state(&rig, "stopped", "on-air");
        // Until FEC is sent, too.
        std::thread::sleep(Duration::from_secs(2));
        rig.stop();
        let received = receiver.until_goodbye();
        assert!(!received.media.is_empty());
        rig.reopen();
    }

    #[test]
    #[ignore = "child of what_cannot_be_cast_is_refused_in_words, in a name space of its own"]
    fn refusals() {
        let rig = rig(GeometryPreset::Cmaf);
        stored(&rig, 2);
        add(&rig, r#"{"title":"stream","group":"239.1.1.5:5000"}"#);
        for (body, status, words) in [
            (r#"{"title":"none","group":"239.1.1.6:5000"}"#, 404, "no title"),
            (r#"{"title":"film","group":"239.1.1.6:5000"}"#, 422, "form ts"),
            (r#"{"title":"stream","group":"239.1.1.5:5004"}"#, 409, "group of its own"),
            (r#"{"title":"stream","group":"239.1.1.6:5000","name":"stream"}"#, 409, "another name"),
            (r#"{"title":"stream","group":"239.1.1.6:5001"}"#, 422, "even"),
            (r#"{"title":"stream","group":"10.0.0.1:5000"}"#, 422, "needs a group"),
            (r#"{"title":"stream","group":"224.0.0.1:5000"}"#, 422, "protocols"),
            (
                r#"{"title":"stream","group":"239.1.1.6:5000","interface":"none0"}"#,
                422,
                "no network interface",
            ),
            (r#"{"title":"stream","group":"239.1.1.6:5000","dscp":64}"#, 422, "0 to 63"),
            (r#"{"title":"stream","group":"239.1.1.6:5000","fec":"strict"}"#, 422, "ST 2022-1"),
            (r#"{"title":"stream","group":"239.1.1.6:5000","name":"a/b"}"#, 422, "characters"),
        ] {
            let refused = ask(&rig, body);
            let text = String::from_utf8_lossy(&refused.body).into_owned();
            assert_eq!(refused.status, status, "{body}: {text}");
            assert!(text.contains(words), "{body}: {text}");
        }
    }
}

const SENT_AS_STORED: &str = "rates are those of the stored stream; the peak is what the network carries, with FEC and headers \
                              of packets, and a bandwidth bounds the peak";

/// The slots of a `fast` cast `b` of so many segments, and what a client that joins now is sent.
/// Returns the present slot.
fn check_slots(rig: &Rig, segments: u64) -> f64 {
    let ask = |query: &str| rig.connect().ask(&format!("GET /api/v1/casts/b/schedule{query}"), "");
    // Slot 0 was in 1970.
    let listed = ask("?from=4&slots=6").json();
    assert_eq!((&listed["first_slot"], &listed["segments"]), (&4.into(), &segments.into()), "{listed}");
    let sent: Vec<&Value> = (0..3).map(|channel| &listed["channels"][channel]["segments"]).collect();
    let looped = [[1, 1, 1, 1, 1, 1], [2, 3, 2, 3, 2, 3], [4, 5, 6, 7, 4, 5]];
    assert_eq!(sent, looped.map(|row| serde_json::json!(row)).iter().collect::<Vec<_>>(), "{listed}");
    assert_eq!(listed["channels"][2]["group"], "239.1.1.9:5000");
    // Around the present slot.
    let listed = ask("?slots=200").json();
    let now_slot = listed["now_slot"].as_f64().expect("a number");
    let arrival = listed["client"]["arrival_slot"].as_u64().expect("a number");
    assert_eq!(arrival, now_slot.ceil() as u64);
    let received = listed["client"]["segments"].as_array().expect("a list");
    assert_eq!(received.len() as u64, segments);
    let first_slot = listed["first_slot"].as_u64().expect("a number");
    for (number, times) in (0..).zip(received) {
        let slot = times["received_slot"].as_u64().expect("a number");
        let channel = times["channel"].as_u64().expect("a number") as usize;
        let place = (slot - first_slot) as usize;
        assert_eq!(listed["channels"][channel]["segments"][place], times["segment"], "{times}");
        assert_eq!(times["played_slot"], arrival + 1 + number, "{times}");
        assert!(arrival <= slot && times["played_slot"].as_u64() > Some(slot), "{times}");
    }
    for (query, status) in [("?slots=201", 400), ("?from=18446744073709551615", 400), ("?slots=NaN", 400)] {
        assert_eq!(ask(query).status, status, "{query}");
    }
    // The last slots that can be asked for.
    assert_eq!(ask("?from=9007199254740992&slots=200").status, 200);
    now_slot
}

/// With all members of the volume, and with one that fails on the way. FEC packets repair what is
/// lost of both ports.
fn receive(preset: GeometryPreset, strict: bool) {
    for fails in [false, true] {
        let rig = rig(preset);
        let stream = stored(&rig, 3);
        let group = Ipv4Addr::new(239, 1, 1, 1);
        let receiver = Receiver::join(group, 5000);
        let cast = add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000"}"#);
        assert_eq!(cast["fec"]["is_strict"], strict, "{cast}");
        if fails {
            std::thread::sleep(Duration::from_secs(3));
            rig.faults.inject(1, Fault::Vanish);
        }
        let received = receiver.until_goodbye();
        let state = rig.connect().ask("GET /api/v1/casts/stream", "").json();
        assert_eq!(state["state"], "ended", "{state}");
        assert_eq!(state["lost_packets"], 0, "{state}");
        received.check(&stream, &cast["fec"]);
        for percent in [1, 5] {
            received.repair(&cast["fec"], percent);
        }
    }
}

/// A server whose promises are kept, over a volume of this geometry.
pub(crate) fn rig(preset: GeometryPreset) -> Rig {
    Rig::with_geometry(preset, 64 << 20, |config| {
        config.promise = PromiseConfig { start_wait_s: 0, ..PromiseConfig::default() };
    })
}

/// Stores a transport stream of so many seconds as `stream`, and returns its bytes.
pub(crate) fn stored(rig: &Rig, seconds: u32) -> Vec<u8> {
    let file = rig.path("stream.ts");
    make_stream(&file, seconds);
    store(rig, &file)
}

/// Stores a transport stream whose file is `stream.ts`, and returns its bytes.
pub(crate) fn store(rig: &Rig, file: &Path) -> Vec<u8> {
    let options = IngestOptions { stream: true, ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(file.to_owned())], &options, &mut |_| {}).expect("taken");
    std::fs::read(file).expect("there")
}

fn make_stream(file: &Path, seconds: u32) {
    make_stream_with(file, seconds, &[]);
}

pub(crate) fn make_stream_with(file: &Path, seconds: u32, more: &[&str]) {
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i"])
        .arg(format!("testsrc2=s=320x180:r=25:d={seconds}"))
        .args(["-c:v", "mpeg2video", "-b:v", "1500k", "-maxrate", "1500k", "-bufsize", "500k", "-g", "12"])
        .args(["-pat_period", "0.04", "-f", "mpegts"])
        .args(more)
        .arg(file)
        .status()
        .expect("ffmpeg runs");
    assert!(status.success());
}

pub(crate) fn ask(rig: &Rig, body: &str) -> Answer {
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    rig.connect().ask_with("POST /api/v1/casts", &fields, body)
}

pub(crate) fn add(rig: &Rig, body: &str) -> Value {
    let answer = ask(rig, body);
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

pub(crate) fn await_state(rig: &Rig, name: &str, wanted: &str) -> Value {
    let from = Instant::now();
    loop {
        let cast = rig.connect().ask(&format!("GET /api/v1/casts/{name}"), "").json();
        if cast["state"] == wanted {
            return cast;
        }
        assert!(from.elapsed() < Duration::from_secs(120), "{cast}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Plays a broadcast one slot behind, from the first packets of a slot on: everything is there when
/// it is played. The time stamps of packets are the times at which they were sent.
fn play(received: &[Received], stream: &[u8], film_s: f64, slot_s: f64, first_slot: u32) {
    let symbols = stream.len().div_ceil(PAYLOAD_BYTES);
    let number_of: BTreeMap<Vec<u8>, usize> =
        (0..symbols).map(|number| (payload_of(stream, number).into_owned(), number)).collect();
    let joined_s = f64::from(first_slot) * slot_s;
    let mut came_s = vec![f64::INFINITY; symbols];
    for channel in received {
        let first = Packet::parse(&channel.media[0]).expect("RTP").time_stamp;
        for packet in channel.media_in_order() {
            let packet = Packet::parse(packet).expect("RTP");
            let sent_s = f64::from(packet.time_stamp.wrapping_sub(first)) / 90_000.0;
            // Null packets after the end have no number.
            let Some(&number) = number_of.get(packet.payload) else { continue };
            if sent_s + 0.001 >= joined_s {
                came_s[number] = came_s[number].min(sent_s);
            }
        }
    }
    for (number, came_s) in came_s.into_iter().enumerate() {
        // The stream has a nearly constant rate, and a key frame in each half second.
        let shown_s = number as f64 / symbols as f64 * film_s;
        let played_s = joined_s + slot_s + shown_s + 0.5;
        assert!(came_s <= played_s, "symbol {number} came at {came_s} s and is played at {played_s} s");
    }
}

/// What packet `number` of a pass carries.
pub(crate) fn payload_of(stream: &[u8], number: usize) -> std::borrow::Cow<'_, [u8]> {
    let at = (number * PAYLOAD_BYTES).min(stream.len());
    let bytes = &stream[at..(at + PAYLOAD_BYTES).min(stream.len())];
    if bytes.len() == PAYLOAD_BYTES {
        return bytes.into();
    }
    let mut filled = bytes.to_vec();
    while filled.len() < PAYLOAD_BYTES {
        filled.extend_from_slice(&reel_media::transport::NULL_PACKET);
    }
    filled.into()
}

/// The ports of a cast, until its sender says goodbye.
pub(crate) struct Receiver {
    media: JoinHandle<Vec<Vec<u8>>>,
    fec: JoinHandle<Vec<Vec<u8>>>,
    rtcp: JoinHandle<Vec<Vec<u8>>>,
    fec_rtcp: JoinHandle<Vec<Vec<u8>>>,
}

/// What arrived, in the order in which it arrived.
pub(crate) struct Received {
    pub(crate) media: Vec<Vec<u8>>,
    pub(crate) fec: Vec<Vec<u8>>,
    pub(crate) rtcp: Vec<Vec<u8>>,
}

impl Receiver {
    pub(crate) fn join(group: Ipv4Addr, port: u16) -> Receiver {
        Receiver::forward(group, port, |_| {}, |_| {})
    }

    /// The same, which gives each packet of media and FEC to a function as it arrives.
    pub(crate) fn forward(
        group: Ipv4Addr,
        port: u16,
        media: impl FnMut(&[u8]) + Send + 'static,
        fec: impl FnMut(&[u8]) + Send + 'static,
    ) -> Receiver {
        let is_over = Arc::new(AtomicBool::new(false));
        let quiet = || {
            let is_over = Arc::clone(&is_over);
            // What is sent before the goodbye may arrive a little later.
            move |_: &[Vec<u8>], silent: Duration| {
                is_over.load(Ordering::Relaxed) && silent > Duration::from_secs(1)
            }
        };
        let media = listen(group, port, quiet(), media);
        let fec = listen(group, port + 2, quiet(), fec);
        let has_ended = |packets: &[Vec<u8>]| packets.last().is_some_and(|last| is_goodbye(last));
        let ends = move |packets: &[Vec<u8>], _| {
            is_over.store(has_ended(packets), Ordering::Relaxed);
            has_ended(packets)
        };
        let rtcp = listen(group, port + 1, ends, |_| {});
        let fec_rtcp = listen(group, port + 3, move |packets, _| has_ended(packets), |_| {});
        Receiver { media, fec, rtcp, fec_rtcp }
    }

    pub(crate) fn until_goodbye(self) -> Received {
        let rtcp = self.rtcp.join().expect("a goodbye");
        assert!(rtcp.len() > 1, "reports before the goodbye");
        assert_eq!(self.fec_rtcp.join().expect("a goodbye of the FEC").len(), 1);
        Received { media: self.media.join().expect("media"), fec: self.fec.join().expect("FEC"), rtcp }
    }
}

fn is_goodbye(bytes: &[u8]) -> bool {
    let compound = Compound::parse(bytes).expect("RTCP");
    compound.packets().any(|packet| matches!(packet, Control::Goodbye(_)))
}

fn listen(
    group: Ipv4Addr,
    port: u16,
    ends: impl Fn(&[Vec<u8>], Duration) -> bool + Send + 'static,
    mut each: impl FnMut(&[u8]) + Send + 'static,
) -> JoinHandle<Vec<Vec<u8>>> {
    let socket = UdpSocket::bind((group, port)).expect("the port");
    socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).expect("a member");
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20).expect("root may");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    std::thread::spawn(move || {
        let (mut packets, mut bytes, mut last) = (Vec::new(), [0; 2000], Instant::now());
        let from = Instant::now();
        while !ends(&packets, last.elapsed()) {
            assert!(from.elapsed() < Duration::from_secs(120), "{} packets came", packets.len());
            if let Ok(count) = socket.recv(&mut bytes) {
                each(&bytes[..count]);
                packets.push(bytes[..count].to_vec());
                last = Instant::now();
            }
        }
        packets
    })
}

impl Received {
    /// The media packets, which arrived in order.
    pub(crate) fn media_in_order(&self) -> &[Vec<u8>] {
        let numbers: Vec<u16> =
            self.media.iter().map(|packet| Packet::parse(packet).expect("RTP").sequence).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "packets are missing");
        &self.media
    }

    /// All of the stream, and a FEC packet for each column.
    fn check(&self, stream: &[u8], fec: &Value) {
        let side = |name: &str| fec[name].as_u64().expect("a number") as usize;
        let matrix = side("columns") * side("rows");
        let media = self.media_in_order();
        assert_eq!(media.len(), stream.len().div_ceil(PAYLOAD_BYTES).next_multiple_of(matrix));
        assert_eq!(self.fec.len() * side("rows"), media.len());
        for (number, packet) in media.iter().enumerate() {
            let packet = Packet::parse(packet).expect("RTP");
            assert_eq!((packet.payload_type, packet.is_plain), (MP2T, true));
            assert_eq!(packet.payload, &*payload_of(stream, number), "packet {number}");
        }
    }

    /// Loses packets of both ports, and has them repaired: each column that lost one packet, and
    /// whose FEC packet came.
    fn repair(&self, fec: &Value, percent: u64) {
        let side = |name: &str| fec[name].as_u64().expect("a number") as u16;
        let (columns, rows) = (side("columns"), side("rows"));
        let mut random = Rng::new(u64::from(columns) + percent);
        let mut lost = |packet: &&Vec<u8>| random.below(100) >= percent && !packet.is_empty();
        let first = Packet::parse(&self.media[0]).expect("RTP").sequence;
        let number = |sequence: u16| usize::from(sequence.wrapping_sub(first));
        let kept: BTreeMap<usize, &Vec<u8>> =
            self.media.iter().enumerate().filter(|(_, packet)| lost(packet)).collect();
        let fec: Vec<&Vec<u8>> = self.fec.iter().filter(|packet| lost(packet)).collect();
        let mut expected = 0;
        for packet in &fec {
            let base = number(FecPacket::parse(packet).expect("FEC").header.base);
            let column = (0..usize::from(rows)).map(|row| base + row * usize::from(columns));
            expected += usize::from(column.filter(|at| !kept.contains_key(at)).count() == 1);
        }
        let mut decoder = Decoder::new(Geometry::new(columns, rows).expect("valid"));
        let matrix = usize::from(columns * rows);
        let (mut repaired, mut next_fec) = (0, 0);
        for start in (0..self.media.len() + matrix).step_by(matrix) {
            for (_, packet) in kept.range(start..start + matrix) {
                decoder.push_media(&Packet::parse(packet).expect("RTP"));
            }
            while let Some(packet) = fec.get(next_fec) {
                let packet = FecPacket::parse(packet).expect("FEC");
                if number(packet.header.base) >= start + matrix {
                    break;
                }
                assert!(!matches!(decoder.push_fec(&packet), FecOutcome::Rejected(_)));
                next_fec += 1;
            }
            while let Some(back) = decoder.next_repaired() {
                let sent = Packet::parse(&self.media[number(back.sequence)]).expect("RTP");
                assert_eq!((&back.payload[..], back.time_stamp), (sent.payload, sent.time_stamp));
                repaired += 1;
            }
        }
        let lost = self.media.len() - kept.len();
        println!("figures: {columns} x {rows}, {percent} %: {repaired} of {lost} lost packets came back");
        assert_eq!(repaired, expected);
        assert!(repaired * 2 > lost, "{repaired} of {lost}");
    }
}
