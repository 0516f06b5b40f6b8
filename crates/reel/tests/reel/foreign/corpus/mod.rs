//! A generated corpus: films of every container with every codec and many oddities, ingested,
//! served and compared in all forms with what they are expected to show.

mod damage;
mod judge;
mod making;
mod night;
mod variant;

use judge::Expected;
use making::Made;
use reel_compare::{Bounds, Decoded, Form, Served};
use std::path::Path;
use variant::{Container, Oddity, Variant, by_day};

/// Fails unless every variant is served as it is expected to be shown.
fn assert_served(variants: &[Variant]) {
    if variants.is_empty() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let made: Vec<Made> = variants.iter().map(|variant| variant.make(dir.path())).collect();
    let files: Vec<&Path> = made.iter().map(|made| made.file.as_path()).collect();
    let (served, ingests) = Served::start(Path::new(env!("CARGO_BIN_EXE_reel")), &files).unwrap();
    let mut wrong = Vec::new();
    for ((variant, made), ingest) in variants.iter().zip(&made).zip(ingests) {
        let mut add = |what: String| wrong.push(format!("{}: {what}", variant.name()));
        let ingest = match ingest {
            Ok(ingest) => ingest,
            Err(error) => {
                add(error.to_string());
                continue;
            }
        };
        if variant.is_warned_of().is_some_and(|is_warned| is_warned == ingest.warnings.is_empty()) {
            add(format!("warnings: {:?}", ingest.warnings));
        }
        let expected = Expected::of(&made.file, &made.truth).unwrap();
        for form in Form::ALL {
            match Decoded::of(&served.url(&ingest.title, form)) {
                Err(error) => add(format!("{form}: {error}")),
                Ok(decoded) => {
                    let bounds = Bounds::of(&made.file, form).unwrap();
                    if let Some(what) = expected.wrong_with(&decoded, bounds) {
                        add(format!("{form}: {what}"));
                    }
                }
            }
        }
    }
    let keep = std::env::var_os("REEL_CORPUS_KEEP").filter(|_| !wrong.is_empty());
    if keep.is_some() {
        println!("kept: {}", dir.keep().display());
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

impl Variant {
    /// Whether an ingest says that something is lost or out of place. `None` if it depends on where
    /// the file was cut.
    fn is_warned_of(&self) -> Option<bool> {
        use Oddity::*;
        match self.oddity {
            LostPackets | OverlappingParts | PartsWithGap | PartsFromZero | Garbage => Some(true),
            // Films that begin seconds after zero are moved there.
            Offset if self.container.is_mp4() => Some(true),
            // Pictures that end more than a second before the sound.
            LateSound | LongSound => Some(true),
            // Into some containers, ffmpeg writes the first picture repeatedly before it.
            LatePictures => None,
            SoundGap if self.container.is_transport_stream() => Some(true),
            CutOff | LiveCutOff | CutAnywhere => None,
            // A stream cut at an open group of pictures begins with some that cannot be decoded.
            Trimmed if self.container.is_transport_stream() => None,
            _ => Some(false),
        }
    }
}

fn of_the_day(containers: &[Container]) -> Vec<Variant> {
    by_day().into_iter().filter(|variant| containers.contains(&variant.container)).collect()
}

#[test]
fn mp4() {
    assert_served(&of_the_day(&[Container::Mp4]));
}

#[test]
fn mov() {
    assert_served(&of_the_day(&[Container::Mov]));
}

#[test]
fn fragmented_mp4() {
    assert_served(&of_the_day(&[Container::Fragmented]));
}

#[test]
fn matroska() {
    assert_served(&of_the_day(&[Container::Mkv]));
}

#[test]
fn webm() {
    assert_served(&of_the_day(&[Container::Webm]));
}

#[test]
fn transport_streams() {
    assert_served(&of_the_day(&[Container::Ts, Container::M2ts]));
}
