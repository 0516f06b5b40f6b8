//! A mixer for poured sound: `mixer reel.sock INPUT,INPUT OUTPUT=GAIN,GAIN...` (docs/programs.md).

mod mix;

use mix::{Mix, Output, run};
use reel_client::Client;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, inputs, outputs @ ..] = &arguments[..] else {
        return Err("usage: mixer SOCKET INPUT[,INPUT...] OUTPUT=GAIN[,GAIN...]...".into());
    };
    let output = |text: &String| -> Result<Output, Box<dyn Error>> {
        let (name, gains) = text.split_once('=').ok_or("an output is NAME=GAIN,GAIN...")?;
        let gains: Result<_, _> = gains.split(',').map(str::parse).collect();
        Ok(Output { name: name.to_owned(), gains: gains? })
    };
    let mix = Mix {
        inputs: inputs.split(',').map(str::to_owned).collect(),
        outputs: outputs.iter().map(output).collect::<Result<_, _>>()?,
        samples_per_s: 48_000,
        frame_samples: 480,
        ahead_samples: 2400,
        late_ns: 50_000_000,
        delay_ns: 200_000_000,
    };
    if mix.outputs.is_empty() || mix.outputs.iter().any(|output| output.gains.len() != mix.inputs.len()) {
        return Err("each output needs a gain for each input".into());
    }
    let mixed = run(&mut Client::connect(socket.as_ref())?, &mix)?;
    println!("{} samples; {} of inputs had not come in time", mixed.samples, mixed.silent_samples);
    Ok(())
}
