//! `reel check`: what an ingest of films would store, and what it would leave out.

use reel_library::{Checked, IngestOptions, Input, Progress, TitleSummary};
use serde_json::{Value, json};

use super::ingest::{Job, require_files};
use super::titles::as_json;
use crate::args::CheckArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::output::{clock_text, print};
use crate::progress::{Meter, Unit};
use crate::size::Size;

/// `reel check`. The exit code is that of the last failure, as of an ingest.
pub(super) fn run(arguments: &CheckArguments, quiet: bool) -> Result<Exit, Failure> {
    require_files(&arguments.files)?;
    let per_title = if arguments.renditions { arguments.files.len() } else { 1 };
    let mut exit = Exit::Done;
    let mut results: Vec<Value> = Vec::new();
    for files in arguments.files.chunks(per_title) {
        let job = Job { files: files.to_vec(), name: None, stream: false };
        match check(&job, quiet || arguments.json) {
            Ok(Checked { title, warnings }) if arguments.json => {
                results.push(json!({ "title": as_json(&title), "warnings": warnings }));
            }
            Ok(checked) => print(&text(&job.label(), &checked))?,
            Err(failure) if arguments.files.len() == per_title => return Err(failure),
            Err(failure) => {
                say(&failure);
                exit = failure.exit;
            }
        }
    }
    if arguments.json {
        print(&json!({ "titles": results }).to_string())?;
    }
    Ok(exit)
}

fn check(job: &Job, quiet: bool) -> Result<Checked, Failure> {
    let inputs: Vec<Input> = job.files.iter().map(Input::new).collect();
    let mut meter = Meter::new(job.label(), Unit::Bytes, quiet);
    let told = &mut |at: Progress| meter.set(at.done_bytes, at.total_bytes);
    reel_library::check(&inputs, &IngestOptions::default(), told).map_err(|error| Failure::ingest(&error))
}

fn text(label: &str, Checked { title, warnings }: &Checked) -> String {
    let mut lines = vec![format!("{label}: {}, {}", clock_text(title.duration_s), Size(title.bytes))];
    lines.extend(tracks(title).into_iter().map(|track| format!("  {track}")));
    lines.extend(warnings.iter().map(|warning| format!("  warning: {warning}")));
    lines.join("\n")
}

fn tracks(title: &TitleSummary) -> Vec<String> {
    let video = title.video.iter().map(|video| {
        let rate = (video.frame_rate * 1000.0).round() / 1000.0;
        format!("picture {}x{}, {rate} frames/s, {}", video.width, video.height, video.codec)
    });
    let named = |language: &Option<String>, name: &Option<String>| {
        [language, name].into_iter().flatten().map(|text| format!(", {text}")).collect::<String>()
    };
    let audio = title.audio.iter().map(|audio| {
        let named = named(&audio.language, &audio.name);
        let plural = if audio.channels == 1 { "" } else { "s" };
        format!("sound {}, {} channel{plural}, {} Hz{named}", audio.codec, audio.channels, audio.sample_rate)
    });
    let subtitles = title
        .subtitles
        .iter()
        .map(|subtitle| format!("subtitles{}", named(&subtitle.language, &subtitle.name)));
    let chapters = match title.chapters.len() {
        0 => None,
        count => Some(format!("{count} chapter{}", if count == 1 { "" } else { "s" })),
    };
    video.chain(audio).chain(subtitles).chain(chapters).collect()
}
