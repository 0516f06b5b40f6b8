//! A teleconference of local programs, and how long sound takes from one to another:
//! `conference reel.sock [SECONDS] [BYTES]` (docs/programs.md).
//!
//! Four processes pour 50 messages a second, each with 20 ms of sound, and read the three others as
//! one set (Govindan, sections 1.3 and 7.3: 50 messages a second; 100 to 200 ms for a conference).
//! A message says when it was made. `reel-bench programs --parts conference` measures the same.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use talk::{PER_S, Talk, talk};

mod talk;

const TALKERS: usize = 4;
/// 20 ms of one channel, 48 kHz, 16 bits.
const MESSAGE_BYTES: usize = 1920;
/// What a conference allows at least (Govindan, section 1.4).
const DELAY_NS: u64 = 100_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, rest) = arguments.split_first().ok_or("usage: conference SOCKET [SECONDS] [BYTES]")?;
    let number = |place: usize, other: u64| rest.get(place).map_or(Ok(other), |word| word.parse());
    let (seconds, message_bytes) = (number(0, 10)?, number(1, MESSAGE_BYTES as u64)? as usize);
    if message_bytes < 8 {
        return Err("a message has at least 8 bytes: the time when it was made".into());
    }
    let messages = seconds * PER_S;
    if let Some(number) = rest.get(2) {
        let number = number.parse()?;
        let name = "talker".to_owned();
        let words = Talk { name, number, talkers: TALKERS, message_bytes, messages, delay_ns: DELAY_NS };
        return talk_as_told(socket.as_ref(), &words);
    }
    let start = |number: usize| {
        let numbers = [seconds, message_bytes as u64, number as u64].map(|number| number.to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(socket).args(numbers).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    let talkers: Vec<Child> = (0..TALKERS).map(start).collect::<Result<_, _>>()?;
    let (mut delays_ns, wrong) = heard_of(talkers)?;
    delays_ns.sort_unstable();
    let at = |permille: usize| {
        let place = delays_ns.len().saturating_sub(1) * permille / 1000;
        delays_ns.get(place).copied().unwrap_or(0) as f64 / 1e6
    };
    let sent = TALKERS as u64 * (TALKERS as u64 - 1) * messages;
    println!(
        "{} of {sent} messages arrived, {wrong} of them wrong; delay p50 {:.1} ms, p99 {:.1} ms, largest {:.1} ms",
        delays_ns.len(),
        at(500),
        at(990),
        at(1000)
    );
    Ok(())
}

/// Lets all begin when all hear each other, and gathers their delays and how many messages were
/// wrong.
fn heard_of(mut talkers: Vec<Child>) -> Result<(Vec<u64>, u64), Box<dyn Error>> {
    let outputs = talkers.iter_mut().map(|talker| talker.stdout.take().map(BufReader::new));
    let mut outputs: Vec<_> = outputs.collect::<Option<_>>().ok_or("an output is a pipe")?;
    for output in &mut outputs {
        let mut ready = String::new();
        if output.read_line(&mut ready)? == 0 {
            return Err("a talker has ended early".into());
        }
    }
    for talker in &mut talkers {
        talker.stdin.take().ok_or("an input is a pipe")?.write_all(b"go\n")?;
    }
    let (mut delays_ns, mut wrong) = (Vec::new(), 0);
    for mut output in outputs {
        let mut said = String::new();
        output.read_to_string(&mut said)?;
        let mut numbers = said.lines().map(str::parse::<u64>);
        wrong += numbers.next().ok_or("a talker says nothing")??;
        delays_ns.extend(numbers.collect::<Result<Vec<_>, _>>()?);
    }
    talkers.iter_mut().try_for_each(|talker| talker.wait().map(drop))?;
    Ok((delays_ns, wrong))
}

/// One of them: says that it hears all others, waits for a line, and says what it has heard.
fn talk_as_told(socket: &Path, words: &Talk) -> Result<(), Box<dyn Error>> {
    let heard = talk(socket, words, || {
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new())?;
        Ok(())
    })?;
    println!("{}", heard.wrong);
    heard.delays_ns.iter().for_each(|delay_ns| println!("{delay_ns}"));
    Ok(())
}
