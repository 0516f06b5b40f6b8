//! N inputs and M outputs of sound, with a gain for each pair: a mixer as in Govindan's thesis.
//!
//! Inputs are a set of poured streams that is read with one call; each output is poured. Sound is
//! linear PCM of 16 bits in network order (audio/L16, RFC 3551 section 4.5.11), one channel.

use reel_client::{Client, ClientError, PourWanted, Wanted};
use std::collections::VecDeque;

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
    /// An input that is behind another one by more samples than this is silent there.
    pub(crate) late_samples: usize,
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
}

/// Mixes until all inputs have ended.
pub(crate) fn run(client: &mut Client, mix: &Mix) -> Result<Mixed, ClientError> {
    let wanted: Vec<Wanted> = mix.inputs.iter().map(|name| live(name)).collect();
    let mut inputs = Vec::new();
    for opened in client.open(&wanted)? {
        inputs.push(Input { stream: opened?, is_open: true, samples: VecDeque::new(), half: None });
    }
    // What is ahead of the others stays with the server.
    let inputs_set: Vec<u64> = inputs.iter().map(|input| input.stream).collect();
    client.resize(&inputs_set, 2 * (mix.frame_samples + mix.late_samples) as u64)?;
    let mut outputs = Vec::new();
    for output in &mix.outputs {
        outputs.push(client.pour(poured(mix, output))?);
    }
    let mut mixed = Mixed::default();
    while inputs.iter().any(|input| input.is_open) {
        take(client, &mut inputs)?;
        while is_ready(mix, &inputs) {
            mix_frame(client, mix, &mut inputs, &outputs, &mut mixed)?;
        }
    }
    for output in outputs {
        client.end_pour(output)?;
    }
    Ok(mixed)
}

fn live(name: &str) -> Wanted {
    Wanted { title: format!("live/{name}"), ..Wanted::default() }
}

fn poured(mix: &Mix, output: &Output) -> PourWanted {
    PourWanted {
        name: output.name.clone(),
        content_type: "audio/L16".to_owned(),
        bytes_per_s: 2 * mix.samples_per_s,
        workahead_bytes: 2 * (mix.frame_samples + mix.late_samples) as u64,
        delay_ns: mix.delay_ns,
    }
}

/// Takes what has come of all inputs; waits if nothing has.
fn take(client: &mut Client, inputs: &mut [Input]) -> Result<(), ClientError> {
    let set: Vec<u64> = inputs.iter().filter(|input| input.is_open).map(|input| input.stream).collect();
    for held in client.read(&set, true)? {
        let mut bytes = Vec::new();
        client.copy(&held, &mut bytes);
        client.give_back(held.stream, 1)?;
        if let Some(input) = inputs.iter_mut().find(|input| input.stream == held.stream) {
            input.push(&bytes);
        }
    }
    for input in inputs {
        let state = client.state(&[input.stream]).pop().flatten();
        input.is_open = state.is_some_and(|state| state.ending.is_none());
    }
    Ok(())
}

/// Whether a frame can be mixed: all open inputs have one, or one of them is too far ahead.
fn is_ready(mix: &Mix, inputs: &[Input]) -> bool {
    let has = |input: &Input, samples: usize| input.samples.len() >= samples;
    let late = mix.frame_samples + mix.late_samples;
    match inputs.iter().any(|input| input.is_open) {
        true => {
            let waits = inputs.iter().any(|input| input.is_open && !has(input, mix.frame_samples));
            inputs.iter().any(|input| has(input, if waits { late } else { mix.frame_samples }))
        }
        // The rest, however short.
        false => inputs.iter().any(|input| has(input, 1)),
    }
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
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match self.half.take() {
                Some(high) => self.samples.push_back(i16::from_be_bytes([high, *byte])),
                None => self.half = Some(*byte),
            }
        }
    }
}
