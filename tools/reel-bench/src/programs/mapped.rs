//! Programs that are joined by a running server: what one pours, others read (`reel_client`).

use super::program::{Ends, Input, Output, Words};
use anyhow::{Context, Result, bail};
use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, PourWanted, RefusalCode, Wanted};
use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a program declares about what it pours, and how it reads.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) bytes_per_s: u64,
    pub(super) workahead_bytes: u64,
    pub(super) delay_ms: u64,
    /// The class of what it reads; empty for one with deadlines.
    pub(super) class: String,
}

/// A reader that was slower than the declared rate for so long that it was cut off.
#[derive(Debug)]
pub(super) struct CutOff;

/// What a program says then.
pub(super) const CUT_OFF: &str = "cut off";

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reader was slower than the rate that its writer has declared, and was cut off")
    }
}

impl std::error::Error for CutOff {}

/// Longest wait for the other programs.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// All streams of a program: they have one connection, and one call reads the whole set.
struct Streams {
    client: Client,
    inputs: Vec<Queue>,
}

/// Bytes that have come and were not taken.
struct Queue {
    stream: u64,
    bytes: Vec<u8>,
    taken: usize,
    is_open: bool,
}

/// Opens the ends of a program. A reader waits until what it reads is poured.
pub(super) fn open_ends(socket: &Path, declared: &Declared, words: &Words) -> Result<Ends> {
    let mut client = Client::connect(socket)?;
    let mut inputs = Vec::new();
    for name in &words.inputs {
        let stream = await_stream(&mut client, name, &declared.class)?;
        inputs.push(Queue { stream, bytes: Vec::new(), taken: 0, is_open: true });
    }
    let mut outputs = Vec::new();
    for name in &words.outputs {
        outputs.push(client.pour(PourWanted {
            name: name.clone(),
            content_type: "application/octet-stream".to_owned(),
            bytes_per_s: declared.bytes_per_s,
            workahead_bytes: declared.workahead_bytes,
            delay_ns: declared.delay_ms * 1_000_000,
        })?);
    }
    let (bytes, count) = (words.bytes, inputs.len());
    let streams = Rc::new(RefCell::new(Streams { client, inputs }));
    let mut ends = Ends::default();
    for number in 0..count {
        ends.inputs.push(Box::new(Reader { streams: Rc::clone(&streams), number, bytes }));
    }
    for stream in outputs {
        ends.outputs.push(Box::new(Writer { streams: Rc::clone(&streams), stream }));
    }
    Ok(ends)
}

fn await_stream(client: &mut Client, title: &str, class: &str) -> Result<u64> {
    let (begun, wanted) =
        (Instant::now(), Wanted { title: title.to_owned(), class: class.to_owned(), from_bytes: 0 });
    loop {
        match client.open(std::slice::from_ref(&wanted))?.pop().context("no answer to an open")? {
            Ok(stream) => return Ok(stream),
            Err(ClientError::Refused { code: RefusalCode::NoSuchTitle, .. })
                if begun.elapsed() < BEGIN_MAX =>
            {
                sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error).with_context(|| format!("opening {title}")),
        }
    }
}

impl Streams {
    /// Waits until something has come for any of them.
    fn wait(&mut self) -> Result<()> {
        let set: Vec<u64> =
            self.inputs.iter().filter(|queue| queue.is_open).map(|queue| queue.stream).collect();
        for held in self.client.read(&set, true)? {
            let Some(queue) = self.inputs.iter_mut().find(|queue| queue.stream == held.stream) else {
                bail!("a message of a stream that was not opened");
            };
            queue.bytes.drain(..std::mem::take(&mut queue.taken));
            self.client.copy(&held, &mut queue.bytes);
            match self.client.give_back(held.stream, 1) {
                Err(ClientError::TakenBack(_)) => return Err(CutOff.into()),
                given => given?,
            }
        }
        for queue in self.inputs.iter_mut().filter(|queue| queue.is_open) {
            let state = self.client.state(&[queue.stream]).pop().flatten();
            let ending = state.map_or(Some(Ending::Closed), |state| state.ending);
            queue.is_open = ending.is_none();
            match ending {
                None | Some(Ending::Complete) => {}
                Some(Ending::HeldTooLong) => return Err(CutOff.into()),
                Some(other) => bail!("a stream ended: {}", other.text()),
            }
        }
        Ok(())
    }
}

struct Reader {
    streams: Rc<RefCell<Streams>>,
    number: usize,
    bytes: usize,
}

impl Input for Reader {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut streams = self.streams.borrow_mut();
        loop {
            let queue = &mut streams.inputs[self.number];
            let left = queue.bytes.len() - queue.taken;
            if left >= self.bytes || (!queue.is_open && left > 0) {
                let until = queue.taken + left.min(self.bytes);
                take(&queue.bytes[queue.taken..until]);
                queue.taken = until;
                return Ok(true);
            }
            if !queue.is_open {
                return Ok(false);
            }
            streams.wait()?;
        }
    }
}

struct Writer {
    streams: Rc<RefCell<Streams>>,
    stream: u64,
}

impl Output for Writer {
    fn put(&mut self, message: &[u8]) -> Result<()> {
        Ok(self.streams.borrow_mut().client.put(self.stream, message)?)
    }

    fn end(&mut self) -> Result<()> {
        Ok(self.streams.borrow_mut().client.end_pour(self.stream)?)
    }
}
