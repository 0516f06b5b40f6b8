//! The example of a teleconference: what its programs hear of each other.

use crate::server::rig::Rig;
use std::sync::mpsc::channel;
use std::time::Duration;
use talk::{Heard, Talk, talk};

#[path = "../../../examples/conference/talk.rs"]
mod talk;

const TALKERS: usize = 4;
/// Two seconds of sound.
const MESSAGES: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// All hear each other before the first one speaks, and hear all that the others say.
fn confer(rig: &Rig, message_bytes: usize, delay_ns: u64) -> Vec<Heard> {
    let (ready, all_ready) = channel();
    let (mut go, mut talkers) = (Vec::new(), Vec::new());
    for number in 0..TALKERS {
        let (name, socket) = (format!("talk-{message_bytes}"), rig.socket());
        let words = Talk { name, number, talkers: TALKERS, message_bytes, messages: MESSAGES, delay_ns };
        let (ready, (begin, begins)) = (ready.clone(), channel::<()>());
        go.push(begin);
        talkers.push(std::thread::spawn(move || {
            let all_hear = || {
                ready.send(())?;
                Ok(begins.recv_timeout(PATIENCE)?)
            };
            talk(&socket, &words, all_hear).map_err(|error| error.to_string())
        }));
    }
    drop(ready);
    let ready = (0..TALKERS).filter(|_| all_ready.recv_timeout(PATIENCE).is_ok()).count();
    if ready == TALKERS {
        go.iter().for_each(|begin| begin.send(()).expect("it waits"));
    }
    // Those that wait end with an error if one has not come.
    drop(go);
    talkers.into_iter().map(|talker| talker.join().expect("ended").expect("talked")).collect()
}

/// Twelve poured streams are read at once on a server whose memory has room for fewer windows of
/// titles: nothing of poured streams is in it.
#[test]
fn all_hear_every_message_of_a_conference() {
    let rig = Rig::new(|_| {});
    let second_ns = 1_000_000_000;
    // 20 ms of telephone sound, of one channel of 48 kHz, and of two (Govindan, section 1.4). With
    // the first delay, programs ring with each message, and the window holds all of them; the
    // others are longer than all of it takes. So no listener is cut off on a slow machine.
    for (message_bytes, delay_ns) in [(160, second_ns / 2), (1920, 10 * second_ns), (3840, 10 * second_ns)] {
        for (number, heard) in confer(&rig, message_bytes, delay_ns).into_iter().enumerate() {
            let messages = (TALKERS as u64 - 1) * MESSAGES;
            let came = (heard.delays_ns.len() as u64, heard.wrong);
            assert_eq!(came, (messages, 0), "{number}: {message_bytes} B");
        }
        rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
    }
    assert_eq!(rig.metric("reel_program_streams_cut_total"), 0.0);
}
