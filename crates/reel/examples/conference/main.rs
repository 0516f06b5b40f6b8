//! A teleconference of local programs, and how long sound takes from one to another:
//! `conference reel.sock [SECONDS]` (docs/programs.md).
//!
//! Four processes pour 50 messages a second, each with 20 ms of sound, and read the three others as
//! one set (Govindan, sections 1.3 and 7.3: 50 messages a second; 100 to 200 ms for a conference).
//! A message says when it was made. All processes have the same clock.

use reel_client::{Client, PourWanted, Wanted};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Duration;

const TALKERS: usize = 4;
const MESSAGE_NS: u64 = 20_000_000;
/// 20 ms of one channel, 48 kHz, 16 bits.
const MESSAGE_BYTES: usize = 1920;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, rest) = arguments.split_first().ok_or("usage: conference SOCKET [SECONDS]")?;
    let seconds: u64 = rest.first().map_or(Ok(10), |seconds| seconds.parse())?;
    if let Some(number) = rest.get(1) {
        return talk(socket, number.parse()?, seconds);
    }
    let start = |number: usize| {
        let arguments = [socket.clone(), seconds.to_string(), number.to_string()];
        Command::new(std::env::current_exe()?).args(arguments).stdout(Stdio::piped()).spawn()
    };
    let talkers: Vec<_> = (0..TALKERS).map(start).collect::<Result<_, _>>()?;
    let mut delays_ns: Vec<u64> = Vec::new();
    for talker in talkers {
        let said = talker.wait_with_output()?;
        delays_ns.extend(String::from_utf8(said.stdout)?.lines().filter_map(|line| line.parse::<u64>().ok()));
    }
    delays_ns.sort_unstable();
    let at = |permille: usize| {
        let place = delays_ns.len().saturating_sub(1) * permille / 1000;
        delays_ns.get(place).copied().unwrap_or(0) as f64 / 1e6
    };
    let sent = TALKERS as u64 * (TALKERS as u64 - 1) * (seconds * 1_000_000_000 / MESSAGE_NS);
    println!(
        "{} of {sent} messages arrived; delay p50 {:.1} ms, p99 {:.1} ms, largest {:.1} ms",
        delays_ns.len(),
        at(500),
        at(990),
        at(1000)
    );
    Ok(())
}

/// Pours and reads for some seconds, and writes how long each message has taken.
fn talk(socket: &str, number: usize, seconds: u64) -> Result<(), Box<dyn Error>> {
    let mut speaker = Client::connect(socket.as_ref())?;
    let voice = speaker.pour(PourWanted {
        name: format!("talker-{number}"),
        content_type: "audio/L16;rate=48000;channels=1".to_owned(),
        bytes_per_s: MESSAGE_BYTES as u64 * 50,
        // After a message that was late, the next ones come before the rate has room for them.
        workahead_bytes: 5 * MESSAGE_BYTES as u64,
        delay_ns: 100_000_000,
    })?;
    let others: Vec<usize> = (0..TALKERS).filter(|other| *other != number).collect();
    let mut listener = Client::connect(socket.as_ref())?;
    let wanted = |other: &usize| Wanted { title: format!("live/talker-{other}"), ..Wanted::default() };
    let mut set = Vec::new();
    for other in &others {
        // The other one may not have begun.
        let stream = (0..1000).find_map(|_| {
            let opened = listener.open(&[wanted(other)]).ok()?.pop()?.ok();
            opened.or_else(|| {
                std::thread::sleep(Duration::from_millis(10));
                None
            })
        });
        set.push(stream.ok_or("another talker does not come")?);
    }
    // All of them hear each other before the first one speaks.
    std::thread::sleep(Duration::from_secs(2));
    let listening = std::thread::spawn(move || listen(listener, set));
    let begun_ns = now_ns();
    for message in 0..seconds * 1_000_000_000 / MESSAGE_NS {
        std::thread::sleep(Duration::from_nanos((begun_ns + message * MESSAGE_NS).saturating_sub(now_ns())));
        let mut sound = [0; MESSAGE_BYTES];
        sound[..8].copy_from_slice(&now_ns().to_ne_bytes());
        speaker.put(voice, &sound)?;
    }
    speaker.end_pour(voice)?;
    let delays_ns = listening.join().map_err(|_| "the listener has panicked")?;
    delays_ns.iter().for_each(|delay_ns| println!("{delay_ns}"));
    Ok(())
}

/// Reads a set of streams to their ends, with one call for all.
fn listen(mut client: Client, mut set: Vec<u64>) -> Vec<u64> {
    let (mut delays_ns, mut sound) = (Vec::new(), std::collections::HashMap::<u64, Vec<u8>>::new());
    while !set.is_empty() {
        let Ok(taken) = client.read(&set, true) else { break };
        for held in taken {
            let bytes = sound.entry(held.stream).or_default();
            client.copy(&held, bytes);
            while bytes.len() >= MESSAGE_BYTES {
                let mut made_ns = [0; 8];
                made_ns.copy_from_slice(&bytes[..8]);
                delays_ns.push(now_ns().saturating_sub(u64::from_ne_bytes(made_ns)));
                bytes.drain(..MESSAGE_BYTES);
            }
            if client.give_back(held.stream, 1).is_err() {
                return delays_ns;
            }
        }
        let states = client.state(&set);
        let mut states = states.into_iter().flatten();
        set.retain(|_| states.next().is_some_and(|state| state.ending.is_none()));
    }
    delays_ns
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock of a machine that runs is positive.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
