//! One program of a teleconference: it pours messages at a steady rate and reads all others as one
//! set.

use reel_client::{Client, PourWanted, Wanted};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// Messages a second (Govindan, section 7.3).
pub(crate) const PER_S: u64 = 50;
/// The time from one message to the next.
const MESSAGE_NS: u64 = 1_000_000_000 / PER_S;
/// What a message begins with: when it was made. All programs have the same clock.
const STAMP_BYTES: usize = 8;

/// How often it is looked whether another talker has begun, 10 ms apart: half a minute.
const BEGIN_LOOKS: usize = 3000;

/// What a program does.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    /// The name of the conference: streams are called `NAME-0` and so on.
    pub(crate) name: String,
    /// Which of the talkers it is.
    pub(crate) number: usize,
    pub(crate) talkers: usize,
    /// Bytes of each message, at least 8.
    pub(crate) message_bytes: usize,
    /// How many it pours.
    pub(crate) messages: u64,
    /// How long a listener may take before it is cut off.
    pub(crate) delay_ns: u64,
}

/// What it has heard of all others.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// How long each message took that came, in the order of their coming.
    pub(crate) delays_ns: Vec<u64>,
    /// Messages among them that are not what their talker has poured at this place.
    pub(crate) wrong: u64,
}

/// One of the others, and what came of it.
struct Voice {
    number: usize,
    stream: u64,
    /// Messages that came.
    messages: u64,
    /// What came of the next one.
    bytes: Vec<u8>,
}

/// Pours and reads to the ends of all streams. `all_hear` is called when this program hears all
/// others, and returns when all of them do.
pub(crate) fn talk(
    socket: &Path,
    talk: &Talk,
    all_hear: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<Heard, Box<dyn Error>> {
    let mut speaker = Client::connect(socket)?;
    let own = speaker.pour(PourWanted {
        name: format!("{}-{}", talk.name, talk.number),
        content_type: "audio/L16;rate=48000;channels=1".to_owned(),
        bytes_per_s: talk.message_bytes as u64 * PER_S,
        // After a message that was late, the next ones come before the rate has room for them.
        workahead_bytes: 5 * talk.message_bytes as u64,
        delay_ns: talk.delay_ns,
    })?;
    let mut listener = Client::connect(socket)?;
    let mut others = Vec::new();
    for number in (0..talk.talkers).filter(|other| *other != talk.number) {
        let stream = open(&mut listener, &format!("live/{}-{number}", talk.name))?;
        others.push(Voice { number, stream, messages: 0, bytes: Vec::new() });
    }
    all_hear()?;
    let message_bytes = talk.message_bytes;
    let listening = std::thread::spawn(move || listen(listener, others, message_bytes));
    let begun_ns = now_ns();
    let mut sound = vec![0; message_bytes];
    for message in 0..talk.messages {
        std::thread::sleep(Duration::from_nanos((begun_ns + message * MESSAGE_NS).saturating_sub(now_ns())));
        fill(&mut sound[STAMP_BYTES..], talk.number, message);
        sound[..STAMP_BYTES].copy_from_slice(&now_ns().to_ne_bytes());
        speaker.put(own, &sound)?;
    }
    speaker.end_pour(own)?;
    listening.join().map_err(|_| "the listener has panicked".into())
}

/// Opens the stream of another talker, which may not have begun.
fn open(listener: &mut Client, title: &str) -> Result<u64, Box<dyn Error>> {
    let wanted = || Wanted { title: title.to_owned(), ..Wanted::default() };
    let mut why = String::new();
    for _ in 0..BEGIN_LOOKS {
        match listener.open(&[wanted()])?.pop() {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(refusal)) => why = format!("{refusal:?}"),
            None => {}
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("{title} does not come: {why}").into())
}

/// Reads a set of streams to their ends, with one call for all.
fn listen(mut client: Client, mut others: Vec<Voice>, message_bytes: usize) -> Heard {
    let mut heard = Heard::default();
    let mut expected = vec![0; message_bytes - STAMP_BYTES];
    while !others.is_empty() {
        let set: Vec<u64> = others.iter().map(|voice| voice.stream).collect();
        let Ok(taken) = client.read(&set, true) else { break };
        for held in taken {
            let Some(voice) = others.iter_mut().find(|voice| voice.stream == held.stream) else { continue };
            client.copy(&held, &mut voice.bytes);
            while voice.bytes.len() >= message_bytes {
                let (stamp, sound) = voice.bytes[..message_bytes].split_at(STAMP_BYTES);
                let made_ns = u64::from_ne_bytes(stamp.try_into().unwrap_or_default());
                heard.delays_ns.push(now_ns().saturating_sub(made_ns));
                fill(&mut expected, voice.number, voice.messages);
                heard.wrong += u64::from(sound != expected);
                voice.messages += 1;
                voice.bytes.drain(..message_bytes);
            }
            if client.give_back(held.stream, 1).is_err() {
                return heard;
            }
        }
        let mut states = client.state(&set).into_iter().flatten();
        others.retain(|_| states.next().is_some_and(|state| state.ending.is_none()));
    }
    heard
}

/// The sound of a message: no two messages of a few seconds, and no two talkers, have the same.
fn fill(sound: &mut [u8], number: usize, message: u64) {
    let mut at = (number as u64) << 32 | message;
    for byte in sound {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (at >> 56) as u8;
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock of a machine that runs is positive.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
