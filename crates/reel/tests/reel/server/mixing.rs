//! The example of a mixer: what it makes of what others pour.

use crate::server::pours::{get, read_to_end, wanted};
use crate::server::rig::Rig;
use mix::{Mix, Mixed, Output, run};
use reel_client::{Client, PourWanted};

#[path = "../../../examples/mixer/mix.rs"]
mod mix;

/// The example of docs/programs.md: two sources and two mixes of them, sample by sample. One source
/// is shorter.
#[test]
fn a_mixer_mixes_what_others_pour() {
    const SAMPLES: [usize; 2] = [50_000, 40_000];
    let rig = Rig::new(|_| {});
    let gains = [[1.0, 0.5], [-0.25, 2.0]];
    let source = |number: usize| move |at: usize| ((at * (number + 3)) % 20_000) as i16 - 10_000;
    let sound = |name: &str| PourWanted {
        content_type: "audio/L16".to_owned(),
        bytes_per_s: 2_000_000,
        workahead_bytes: 20_000,
        ..wanted(name)
    };
    let mut sources = [0, 1].map(|number| {
        let mut client = Client::connect(&rig.socket()).expect("connected");
        let stream = client.pour(sound(["left", "right"][number])).expect("poured");
        Some((client, stream, number))
    });
    let output = |number: usize| Output { name: format!("mix-{number}"), gains: gains[number].to_vec() };
    let mix = Mix {
        inputs: vec!["left".to_owned(), "right".to_owned()],
        outputs: vec![output(0), output(1)],
        samples_per_s: 1_000_000,
        frame_samples: 480,
        ahead_samples: 2400,
        // Nothing is late in this test, however slow the machine is.
        late_ns: u64::MAX,
        delay_ns: 1_000_000_000,
    };
    let socket = rig.socket();
    let mixer = std::thread::spawn(move || run(&mut Client::connect(&socket).expect("connected"), &mix));
    rig.await_metric("reel_pours", |pours| pours == 4.0);
    let listeners = [0, 1].map(|number| read_to_end(get(&rig, &format!("mix-{number}"), "1.0")));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 4.0);
    let sources: Vec<_> = sources.iter_mut().filter_map(Option::take).collect();
    let sources = sources.into_iter().map(|(mut client, stream, number)| {
        std::thread::spawn(move || {
            let bytes: Vec<u8> =
                (0..SAMPLES[number]).flat_map(|at| source(number)(at).to_be_bytes()).collect();
            // Messages that cut samples in two.
            bytes.chunks(1999).for_each(|part| client.put(stream, part).expect("put"));
            client.end_pour(stream).expect("ended");
        })
    });
    sources.collect::<Vec<_>>().into_iter().for_each(|source| source.join().expect("poured"));
    let mixed = mixer.join().expect("ended").expect("mixed");
    assert_eq!(mixed, Mixed { samples: SAMPLES[0] as u64, silent_samples: 0 });
    for (listener, gains) in listeners.into_iter().zip(gains) {
        let (_, got) = listener.join().expect("read");
        let sample = |number: usize, at: usize| if at < SAMPLES[number] { source(number)(at) } else { 0 };
        let mixed = |at: usize| {
            let sum: f32 = (0..2).map(|number| f32::from(sample(number, at)) * gains[number]).sum();
            (sum.round() as i16).to_be_bytes()
        };
        let expected: Vec<u8> = (0..SAMPLES[0]).flat_map(mixed).collect();
        assert!(got == expected, "{gains:?}: {} of {} bytes", got.len(), expected.len());
    }
}

/// An input that has a program, and no sound, holds no other one up.
#[test]
fn an_input_that_does_not_come_is_silent() {
    const SAMPLES: usize = 48_000;
    let rig = Rig::new(|_| {});
    let mut program = Client::connect(&rig.socket()).expect("connected");
    let sound = |name: &str| PourWanted {
        content_type: "audio/L16".to_owned(),
        bytes_per_s: 2_000_000,
        workahead_bytes: 20_000,
        ..wanted(name)
    };
    let [left, right] = ["left", "right"].map(|name| program.pour(sound(name)).expect("poured"));
    let mix = Mix {
        inputs: vec!["right".to_owned(), "left".to_owned()],
        outputs: vec![Output { name: "mix".to_owned(), gains: vec![1.0, 1.0] }],
        samples_per_s: 1_000_000,
        frame_samples: 480,
        ahead_samples: 2400,
        late_ns: 0,
        delay_ns: 1_000_000_000,
    };
    let socket = rig.socket();
    let mixer = std::thread::spawn(move || run(&mut Client::connect(&socket).expect("connected"), &mix));
    rig.await_metric("reel_pours", |pours| pours == 3.0);
    let listener = read_to_end(get(&rig, "mix", "1.0"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 3.0);
    let bytes: Vec<u8> = (0..SAMPLES).flat_map(|at| (at as i16).to_be_bytes()).collect();
    bytes.chunks(1999).for_each(|part| program.put(left, part).expect("put"));
    program.end_pour(left).expect("ended");
    // All of it is mixed while the other one is open.
    rig.await_metric("reel_pour_bytes_total", |poured| poured == (2 * bytes.len()) as f64);
    program.end_pour(right).expect("ended");
    let mixed = mixer.join().expect("ended").expect("mixed");
    assert_eq!(mixed, Mixed { samples: SAMPLES as u64, silent_samples: SAMPLES as u64 });
    let (_, got) = listener.join().expect("read");
    assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
}

/// Linear sound says of itself only by its media type how fast it is.
#[test]
fn an_ordinary_player_knows_the_rate_of_what_a_mixer_pours() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let sound =
        PourWanted { content_type: mix::sound_type(44_100), bytes_per_s: 2_000_000, ..wanted("mix-1") };
    let stream = client.pour(sound).expect("poured");
    let url = format!("http://{}/live/mix-1", rig.address());
    let probe = std::process::Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-show_entries",
            "stream=codec_name,sample_rate,channels",
            "-of",
            "csv=p=0",
            &url,
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("ffprobe is installed");
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    client.put(stream, &[1; 400_000]).expect("put");
    client.end_pour(stream).expect("ended");
    let output = probe.wait_with_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "pcm_s16be,44100,1");
}
