//! What a program of `reel bench programs` does, whatever joins it with the others: it writes
//! messages, reads them, or mixes those of two inputs.
//!
//! The rival that is a workspace of its own and `reel-bench` have this file in common, so all ways
//! do the same work.

use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, BufRead, Write};
use std::thread::sleep;
use std::time::Duration;

/// Where messages go.
pub(crate) trait Output {
    /// Hands one message over; waits while there is no room.
    fn put(&mut self, message: &[u8]) -> Result<()>;

    /// No more come.
    fn end(&mut self) -> Result<()>;
}

/// Where messages come from.
pub(crate) trait Input {
    /// Waits for the next message and gives it to `take`; `false` if no more come, however often it
    /// is asked. The last one may be shorter.
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// The ends that a program has.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) inputs: Vec<Box<dyn Input>>,
    pub(crate) outputs: Vec<Box<dyn Output>>,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Write,
    Read,
    Mix,
}

/// How it is told.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) role: Role,
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Messages a second; 0 for as many as go through.
    pub(crate) per_s: u64,
    /// How long a writer writes, in milliseconds.
    pub(crate) lasts_ms: u64,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// Readers of each output.
    pub(crate) readers: usize,
}

/// Different messages that a writer writes in turn. They fit into a cache.
const MESSAGES: usize = 8;
/// Messages between two readings of the clock.
const STRIDE: u64 = 16;
/// What a message begins with when messages are paced: when it was made.
const STAMP_BYTES: usize = 8;

impl Words {
    /// `write|read|mix BYTES PER_S LASTS_MS INPUT,INPUT|- OUTPUT,OUTPUT|- READERS`.
    pub(crate) fn parse(words: &[String]) -> Result<Words> {
        let [role, bytes, per_s, lasts_ms, inputs, outputs, readers] = words else {
            bail!("usage: write|read|mix BYTES PER_S LASTS_MS INPUTS OUTPUTS READERS");
        };
        let names = |text: &str| text.split(',').filter(|name| *name != "-").map(str::to_owned).collect();
        let role = match role.as_str() {
            "write" => Role::Write,
            "read" => Role::Read,
            "mix" => Role::Mix,
            other => bail!("{other} is no role"),
        };
        Ok(Words {
            role,
            bytes: bytes.parse()?,
            per_s: per_s.parse()?,
            lasts_ms: lasts_ms.parse()?,
            inputs: names(inputs),
            outputs: names(outputs),
            readers: readers.parse()?,
        })
    }
}

/// What a program has seen.
#[derive(Default)]
struct Seen {
    messages: u64,
    bytes: u64,
    /// Sum of the bytes of what came in, and of what went out.
    sum_in: u64,
    sum_out: u64,
    delays_ns: Vec<u64>,
}

/// Does the work: says when all ends are open, begins when it is told, and prints what it has seen
/// and used, as JSON.
pub(crate) fn act(words: &Words, mut ends: Ends) -> Result<()> {
    println!("ready");
    io::stdout().flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    let (begun_ns, cpu_ns, switches) = (now_ns(), cpu_ns(), switches()?);
    let mut seen = match words.role {
        Role::Write => write(words, &mut ends)?,
        Role::Read => read(words, &mut ends)?,
        Role::Mix => mix(words, &mut ends)?,
    };
    let cpu_ns = self::cpu_ns() - cpu_ns;
    let (took_ns, switches) = (now_ns() - begun_ns, self::switches()? - switches);
    seen.delays_ns.sort_unstable();
    let Seen { messages, bytes, sum_in, sum_out, delays_ns } = seen;
    println!(
        "{{\"messages\": {messages}, \"bytes\": {bytes}, \"sum_in\": {sum_in}, \"sum_out\": {sum_out}, \"cpu_ns\": {cpu_ns}, \
         \"switches\": {switches}, \"took_ns\": {took_ns}, \"delays_ns\": {delays_ns:?}}}"
    );
    Ok(())
}

fn write(words: &Words, ends: &mut Ends) -> Result<Seen> {
    let mut messages: Vec<Vec<u8>> = (0..MESSAGES).map(|number| filled(words.bytes, number)).collect();
    let begun_ns = now_ns();
    let (mut seen, lasts_ns) = (Seen::default(), words.lasts_ms * 1_000_000);
    let sums: Vec<u64> = messages.iter().map(|message| sum(message)).collect();
    for number in 0_u64.. {
        let message = &mut messages[number as usize % MESSAGES];
        // Nothing is paced at 0 messages a second.
        if let Some(at_ns) = (number * 1_000_000_000).checked_div(words.per_s) {
            if at_ns > lasts_ns {
                break;
            }
            sleep(Duration::from_nanos((begun_ns + at_ns).saturating_sub(now_ns())));
            stamp(message, now_ns())?;
            seen.sum_out = seen.sum_out.wrapping_add(sum(message));
        } else {
            if number % STRIDE == 0 && now_ns() - begun_ns > lasts_ns {
                break;
            }
            seen.sum_out = seen.sum_out.wrapping_add(sums[number as usize % MESSAGES]);
        }
        for output in &mut ends.outputs {
            output.put(message)?;
        }
        seen.messages += 1;
        seen.bytes += message.len() as u64;
    }
    ends.outputs.iter_mut().try_for_each(|output| output.end())?;
    Ok(seen)
}

fn read(words: &Words, ends: &mut Ends) -> Result<Seen> {
    let input = ends.inputs.first_mut().context("a reader has an input")?;
    let (mut seen, is_paced) = (Seen::default(), words.per_s > 0);
    while input.next(&mut |message| {
        seen.messages += 1;
        seen.bytes += message.len() as u64;
        if let Some(made_ns) = stamped(message).filter(|_| is_paced) {
            seen.delays_ns.push(now_ns().saturating_sub(made_ns));
        }
        // Every byte is read, as a program that does something with it would.
        seen.sum_in = seen.sum_in.wrapping_add(sum(message));
    })? {}
    Ok(seen)
}

/// Adds the samples of two inputs, message by message, until one of them ends.
fn mix(words: &Words, ends: &mut Ends) -> Result<Seen> {
    let [one, other] = &mut ends.inputs[..] else { bail!("a mixer has two inputs") };
    let output = ends.outputs.first_mut().context("a mixer has an output")?;
    let (mut seen, mut mixed) = (Seen::default(), Vec::with_capacity(words.bytes));
    loop {
        mixed.clear();
        let has_one = one.next(&mut |message| mixed.extend_from_slice(message))?;
        let made_ns = stamped(&mixed).filter(|_| words.per_s > 0);
        let has_other = other.next(&mut |message| add(&mut mixed, message))?;
        if !(has_one && has_other) {
            break;
        }
        if let Some(made_ns) = made_ns {
            stamp(&mut mixed, made_ns)?;
        }
        output.put(&mixed)?;
        seen.messages += 1;
        seen.bytes += mixed.len() as u64;
        seen.sum_out = seen.sum_out.wrapping_add(sum(&mixed));
    }
    // What is left of the other one, so that its writer does not wait.
    while one.next(&mut |_| {})? {}
    while other.next(&mut |_| {})? {}
    output.end()?;
    Ok(seen)
}

/// Adds linear PCM of 16 bits in network order (RFC 3551, section 4.5.11).
fn add(mixed: &mut [u8], message: &[u8]) {
    for (sample, other) in mixed.chunks_exact_mut(2).zip(message.chunks_exact(2)) {
        let one = i16::from_be_bytes([sample[0], sample[1]]);
        let both = one.saturating_add(i16::from_be_bytes([other[0], other[1]]));
        sample.copy_from_slice(&both.to_be_bytes());
    }
}

fn filled(bytes: usize, number: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + number * 7) as u8).collect()
}

/// The sum of the 64-bit words of a message, and of the bytes after them.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word)).fold(0, u64::wrapping_add);
    rest.iter().fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

fn stamp(message: &mut [u8], made_ns: u64) -> Result<()> {
    ensure!(message.len() >= STAMP_BYTES, "a message that is paced has at least {STAMP_BYTES} bytes");
    message[..STAMP_BYTES].copy_from_slice(&made_ns.to_ne_bytes());
    Ok(())
}

fn stamped(message: &[u8]) -> Option<u64> {
    message.first_chunk().map(|made_ns| u64::from_ne_bytes(*made_ns))
}

/// A clock that all processes of a machine have in common.
fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// The user and system time of this process, in nanoseconds (`getrusage` counts the same in
/// microseconds).
fn cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // Neither is negative on a machine that runs.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How often this process has given its processor away to wait (proc(5); `ru_nvcsw`).
fn switches() -> Result<u64> {
    waits_of(&std::fs::read_to_string("/proc/self/status")?).context("no voluntary_ctxt_switches in /proc")
}

/// The line of a `status` file in /proc that says how often a thread has waited.
pub(crate) fn waits_of(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    struct Queue(Rc<RefCell<VecDeque<Vec<u8>>>>);

    impl Input for Queue {
        fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool> {
            let message = self.0.borrow_mut().pop_front();
            message.iter().for_each(|message| take(message));
            Ok(message.is_some())
        }
    }

    impl Output for Queue {
        fn put(&mut self, message: &[u8]) -> Result<()> {
            self.0.borrow_mut().push_back(message.to_vec());
            Ok(())
        }

        fn end(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn words(role: &str, per_s: u64) -> Words {
        let text = format!("{role} 10 {per_s} 40 - - 1");
        Words::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_has_the_same_sum() {
        let queue = Rc::new(RefCell::new(VecDeque::new()));
        let mut ends = Ends::default();
        ends.outputs.push(Box::new(Queue(Rc::clone(&queue))));
        ends.inputs.push(Box::new(Queue(Rc::clone(&queue))));
        let written = write(&words("write", 50), &mut ends).unwrap();
        let seen = read(&words("read", 50), &mut ends).unwrap();
        // At 0, 20 and 40 ms.
        assert_eq!((written.messages, seen.messages, seen.bytes), (3, 3, 30));
        assert_eq!((seen.sum_in, seen.delays_ns.len()), (written.sum_out, 3));
    }

    #[test]
    fn samples_are_added_and_the_first_stamp_stays() {
        let queue = |messages: &[[u8; 10]]| {
            let messages = messages.iter().map(|message| message.to_vec()).collect();
            Rc::new(RefCell::new(messages))
        };
        let one = [9, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff];
        let other = [1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let (inputs, output) = ([queue(&[one, one]), queue(&[other])], queue(&[]));
        let mut ends = Ends::default();
        for input in inputs {
            ends.inputs.push(Box::new(Queue(input)));
        }
        ends.outputs.push(Box::new(Queue(Rc::clone(&output))));
        assert_eq!(mix(&words("mix", 50), &mut ends).unwrap().messages, 1);
        assert_eq!(output.borrow()[0], one, "9 stays, and the largest sample does not wrap");
        assert!(Words::parse(&["sing".to_owned()]).is_err());
    }
}
