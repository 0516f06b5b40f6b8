//! Programs that pour are admitted on the processors, as viewers are.

use crate::foreign::taps::{compiled, compiler};
use crate::server::misuse::promising_with;
use crate::server::pours::{get, read_to_end, wanted};
use crate::server::reclass::classes;
use crate::server::rig::{Rig, unchunked};
use reel_client::{Client, ClientError, PourWanted, RefusalCode};
use reel_play::UplinkRate;
use reel_qos::ClientShare;
use std::io::Read;
use std::process::{Command, Stdio};

/// 32 Mb/s, with a small window.
const RATE: u64 = 4_000_000;

fn poured(number: usize, bytes_per_s: u64) -> PourWanted {
    PourWanted { bytes_per_s, delay_ns: 200_000_000, ..wanted(&format!("studio-{number}")) }
}

/// The class of viewers has a fiftieth of two processors, 40 ms in each second. A MiB is assumed to
/// take 1.2 ms of the thread of programs, in the time of two threads.
fn of_few_processors(client_share: ClientShare) -> Rig {
    let mut rig = promising_with(64 << 20, 100, |config| {
        config.promise.client_share = client_share;
        config.promise.start_wait_s = 0;
    });
    rig.stop();
    rig.library.volume().disks().clone().set_classes(classes([20, 780]));
    rig.start();
    rig
}

/// The refusal of a stream that finds no room on the processors.
fn refusal(client: &mut Client, wanted: PourWanted) -> String {
    match client.pour(wanted) {
        Err(ClientError::Refused { code: RefusalCode::NotAdmitted, text, retry_after_s }) => {
            assert!(retry_after_s > 0 && text.contains("the processor"), "{text}");
            text
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// Two programs pour until the processors are fully reserved. What one of them gives back, by
/// ending a stream or by dying, is granted again; the viewer that was there before gets all.
#[test]
fn programs_pour_until_the_processors_are_fully_reserved() {
    let rig = of_few_processors(ClientShare::ALL);
    let connect = || Client::connect(&rig.socket()).expect("connected");
    let (mut first, mut second) = (connect(), connect());
    let studio = first.pour(poured(0, RATE)).expect("poured");
    let mut viewer = get(&rig, "studio-0", "1.1");
    let mut status = [0; 12];
    viewer.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 200");
    let viewer = read_to_end(viewer);
    let taken: Vec<u64> = (1..).map_while(|number| second.pour(poured(number, RATE)).ok()).collect();
    // 40 ms, less what the viewer takes of the threads of HTTP.
    assert!((5..=8).contains(&taken.len()), "{}", taken.len());
    assert_eq!(rig.metric("reel_sessions"), taken.len() as f64 + 2.0);
    let text = refusal(&mut first, poured(90, RATE));
    assert_eq!(rig.metric("reel_pours"), taken.len() as f64 + 1.0, "nothing is left of it");
    assert_eq!(rig.metric("reel_pours_refused_total"), 2.0);

    // The rate that it says can be granted is granted.
    let grantable = text.split("; ").nth(1).and_then(|rest| rest.split(" Mb/s").next());
    let mbps: f64 = grantable.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    assert!(mbps > 0.0 && mbps < 32.0, "{text}");
    let small = first.pour(poured(91, (mbps * 125_000.0) as u64)).expect("that rate is granted");
    refusal(&mut first, poured(92, RATE));
    first.end_pour(small).expect("ended");
    rig.await_metric("reel_pours", |pours| pours == taken.len() as f64 + 1.0);

    // The command says the same, and the example in C.
    let mut pours = vec![Command::new(env!("CARGO_BIN_EXE_reel"))];
    pours[0].args(["pour", "studio-93", "--rate", "32M", "--delay", "200ms", "--socket"]).arg(rig.socket());
    if let Some(compiler) = compiler() {
        pours.push(Command::new(compiled(compiler, "pour", &rig.path(""))));
        pours[1].arg(rig.socket()).args(["studio-93", "32000000", "video/mp2t"]);
    }
    for mut pour in pours {
        let output = pour.stdin(Stdio::null()).output().expect("run");
        let says = String::from_utf8_lossy(&output.stderr);
        let is_said = says.contains("the processor") && says.contains(" Mb/s could be granted now");
        assert!(!output.status.success() && is_said, "{says}");
    }

    // One that ends makes room for one.
    second.end_pour(taken[0]).expect("ended");
    rig.await_metric("reel_pours", |pours| pours == taken.len() as f64);
    first.pour(poured(94, RATE)).expect("the room of the one that has ended");
    refusal(&mut first, poured(95, RATE));

    // Those of a program that leaves without a word, and of a command that is killed (SIGKILL).
    drop(second);
    rig.await_metric("reel_pours", |pours| pours == 2.0);
    rig.await_metric("reel_sessions", |sessions| sessions == 3.0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_reel"));
    command.args(["pour", "studio-96", "--rate", "32M", "--delay", "200ms", "--socket"]).arg(rig.socket());
    let mut pour = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("run");
    rig.await_metric("reel_sessions", |sessions| sessions == 4.0);
    pour.kill().and_then(|()| pour.wait()).expect("killed");
    rig.await_metric("reel_sessions", |sessions| sessions == 3.0);
    for number in 1..taken.len() {
        first.pour(poured(100 + number, RATE)).expect("the room of those that are gone");
    }
    refusal(&mut first, poured(95, RATE));

    assert_eq!(rig.metric("reel_unpromised_total"), 0.0);
    first.put(studio, b"all of it").expect("put");
    first.end_pour(studio).expect("ended");
    assert_eq!(unchunked(&viewer.join().expect("read").1), (b"all of it".to_vec(), true));
    drop(first);
    rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
}

/// The streams that the programs of one user pour are bound by that user's share.
#[test]
fn what_a_user_pours_counts_in_the_share_of_the_user() {
    let rig = of_few_processors(ClientShare::permille(500));
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let count = (0..).map_while(|number| client.pour(poured(number, RATE)).ok()).count();
    assert!((3..=4).contains(&count), "{count}");
    let text = refusal(&mut client, poured(90, RATE));
    assert!(text.contains("the share of this client in the processor"), "{text}");
    // A viewer of another one is not refused: half is left.
    let mut viewer = get(&rig, "studio-0", "1.1");
    let mut status = [0; 12];
    viewer.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 200");
}

/// What programs read and write in memory uses nothing of the network.
#[test]
fn programs_on_this_machine_need_no_network() {
    let rig = promising_with(64 << 20, 100, |config| {
        config.promise.network_bps = Some(1000);
        config.promise.uplink = UplinkRate::Known(1000);
    });
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let stream = client.pour(poured(0, RATE)).expect("poured");
    let read =
        |title: &str| reel_client::Wanted { title: title.to_owned(), class: String::new(), from_bytes: 0 };
    let opened = client.open(&[read("live/studio-0"), read("film")]).expect("answered");
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    assert_eq!(rig.metric("reel_sessions"), 3.0);
    let (head, problem) = read_to_end(get(&rig, "studio-0", "1.1")).join().expect("read");
    let problem = String::from_utf8_lossy(&problem);
    assert!(head.starts_with("HTTP/1.1 503") && problem.contains("network"), "{head}{problem}");
    client.end_pour(stream).expect("ended");
}
