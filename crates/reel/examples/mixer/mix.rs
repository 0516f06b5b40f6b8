//! N inputs and M outputs of sound, with a gain for each pair: a mixer as in Govindan's thesis.
//!
//! Inputs are a set of poured streams that is read with one call; each output is poured. Sound is
//! linear PCM of 16 bits in network order (audio/L16, RFC 3551 section 4.5.11), one channel.

use reel_client::{Client, ClientError, PourWanted, Wanted};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What to mix.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// Names of poured streams.
    pub(crate) inputs: Vec<String>,
    /// What is made of them.
    pub(crate) outputs: Vec<Output>,
    /// Samples in a second.
    pub(crate) samples_per_s: u64,
    /// Samples that are mixed at once.
    pub(crate) frame_samples: usize,
    /// Samples of an input that are taken from the server before the others have theirs.
    pub(crate) ahead_samples: usize,
    /// How long an input is waited for when another one has come, in nanoseconds. After that it is
    /// silent until it comes.
    pub(crate) late_ns: u64,
    /// How long after its time an output is due at its listeners, in nanoseconds.
    pub(crate) delay_ns: u64,
}

/// An output.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The name under which it is poured.
    pub(crate) name: String,
    /// The gain of each input.
    pub(crate) gains: Vec<f32>,
}

/// What was mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mixed {
    /// Samples of each output.
    pub(crate) samples: u64,
    /// Samples of inputs that had not come in time.
    pub(crate) silent_samples: u64,
}

/// One input: its stream, and the samples that were not mixed yet.
struct Input {
    stream: u64,
    is_open: bool,
    samples: VecDeque<i16>,
    /// The first byte of a sample whose second one has not come yet.
    half: Option<u8>,
    /// It was waited for in vain, and has not come since.
    is_late: bool,
}

/// Mixes until all inputs have ended.
pub(crate) fn run(client: &mut Client, mix: &Mix) -> Result<Mixed, ClientError> {
    let wanted: Vec<Wanted> = mix.inputs.iter().map(|name| live(name)).collect();
    let mut inputs = Vec::new();
    for opened in client.open(&wanted)? {
        inputs.push(Input::new(opened?));
    }
    // What is ahead of the others stays with the server.
    let inputs_set: Vec<u64> = inputs.iter().map(|input| input.stream).collect();
    client.resize(&inputs_set, 2 * (mix.frame_samples + mix.ahead_samples) as u64)?;
    let mut outputs = Vec::new();
    for output in &mix.outputs {
        outputs.push(client.pour(poured(mix, output))?);
    }
    let (mut mixed, mut waiting_since) = (Mixed::default(), None);
    while inputs.iter().any(|input| input.is_open) {
        take(client, mix, &mut inputs, waiting_since.is_none())?;
        while is_ready(mix, &mut inputs, &mut waiting_since) {
            mix_frame(client, mix, &mut inputs, &outputs, &mut mixed)?;
        }
    }
    client.close(&inputs_set)?;
    for output in outputs {
        client.end_pour(output)?;
    }
    Ok(mixed)
}

fn live(name: &str) -> Wanted {
    Wanted { title: format!("live/{name}"), ..Wanted::default() }
}

/// The media type of one channel of linear sound: players know its rate from that alone.
pub(crate) fn sound_type(samples_per_s: u64) -> String {
    format!("audio/L16;rate={samples_per_s};channels=1")
}

fn poured(mix: &Mix, output: &Output) -> PourWanted {
    PourWanted {
        name: output.name.clone(),
        content_type: sound_type(mix.samples_per_s),
        bytes_per_s: 2 * mix.samples_per_s,
        workahead_bytes: 2 * (mix.frame_samples + mix.ahead_samples) as u64,
        delay_ns: mix.delay_ns,
    }
}

/// Takes what has come of all inputs but those that are ahead. Waits if nothing has: with `wait`
/// until something comes, else for a moment, since an input may be late by then.
fn take(client: &mut Client, mix: &Mix, inputs: &mut [Input], wait: bool) -> Result<(), ClientError> {
    let ahead = mix.frame_samples + mix.ahead_samples;
    let wanted = inputs.iter().filter(|input| input.is_open && !input.has(ahead));
    let set: Vec<u64> = wanted.map(|input| input.stream).collect();
    let taken = client.read(&set, wait)?;
    if taken.is_empty() && !wait {
        std::thread::sleep(Duration::from_millis(1));
    }
    for held in taken {
        let mut bytes = Vec::new();
        client.copy(&held, &mut bytes);
        client.give_back(held.stream, 1)?;
        if let Some(input) = inputs.iter_mut().find(|input| input.stream == held.stream) {
            input.push(&bytes);
        }
    }
    let all: Vec<u64> = inputs.iter().map(|input| input.stream).collect();
    for (input, state) in inputs.iter_mut().zip(client.state(&all)) {
        input.is_open = state.is_some_and(|state| state.ending.is_none());
    }
    Ok(())
}

/// Whether a frame can be mixed: all open inputs have one, or were waited for.
fn is_ready(mix: &Mix, inputs: &mut [Input], waiting_since: &mut Option<Instant>) -> bool {
    if !inputs.iter().any(|input| input.is_open) {
        // The rest, however short.
        return inputs.iter().any(|input| input.has(1));
    }
    if !inputs.iter().any(|input| input.has(mix.frame_samples)) {
        *waiting_since = None;
        return false;
    }
    let mut missing: Vec<&mut Input> =
        inputs.iter_mut().filter(|input| input.is_open && !input.has(mix.frame_samples)).collect();
    if missing.iter().any(|input| !input.is_late) {
        let since = *waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() < Duration::from_nanos(mix.late_ns) {
            return false;
        }
    }
    missing.iter_mut().for_each(|input| input.is_late = true);
    *waiting_since = None;
    true
}

fn mix_frame(
    client: &mut Client,
    mix: &Mix,
    inputs: &mut [Input],
    outputs: &[u64],
    mixed: &mut Mixed,
) -> Result<(), ClientError> {
    let longest = inputs.iter().map(|input| input.samples.len()).max().unwrap_or(0);
    let samples = mix.frame_samples.min(longest);
    let mut frames = Vec::new();
    for input in inputs {
        let there = samples.min(input.samples.len());
        if input.is_open {
            mixed.silent_samples += (samples - there) as u64;
        }
        input.is_late &= there < samples;
        let mut frame: Vec<i16> = input.samples.drain(..there).collect();
        frame.resize(samples, 0);
        frames.push(frame);
    }
    for (output, stream) in mix.outputs.iter().zip(outputs) {
        let sample = |at: usize| {
            let sum: f32 =
                frames.iter().zip(&output.gains).map(|(frame, gain)| f32::from(frame[at]) * gain).sum();
            // A cast of a float that is too large gives the largest sample.
            (sum.round() as i16).to_be_bytes()
        };
        let bytes: Vec<u8> = (0..samples).flat_map(sample).collect();
        client.put(*stream, &bytes)?;
    }
    mixed.samples += samples as u64;
    Ok(())
}

impl Input {
    fn new(stream: u64) -> Input {
        Input { stream, is_open: true, samples: VecDeque::new(), half: None, is_late: false }
    }

    fn has(&self, samples: usize) -> bool {
        self.samples.len() >= samples
    }

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match self.half.take() {
                Some(high) => self.samples.push_back(i16::from_be_bytes([high, *byte])),
                None => self.half = Some(*byte),
            }
        }
    }
}
