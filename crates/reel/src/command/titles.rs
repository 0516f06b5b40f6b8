//! `reel titles`: lists the titles of a volume.

use reel_library::TitleSummary;
use serde_json::{Value, json};
use std::sync::Arc;

use super::{Access, open_library};
use crate::args::TitlesArguments;
use crate::failure::{Exit, Failure};
use crate::output::{clock_text, columns, print};
use crate::size::Size;

/// `reel titles`.
pub(super) fn run(arguments: &TitlesArguments) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Read)?;
    let titles = library.summaries();
    if arguments.json {
        let titles: Vec<Value> = titles.iter().map(|title| as_json(title)).collect();
        print(&json!({ "titles": titles }).to_string())?;
        return Ok(Exit::Done);
    }
    if arguments.warnings {
        return print_warnings(&titles);
    }
    let head =
        ["TITLE", "LENGTH", "SIZE", "PICTURE", "CHAPTERS", "FORMS", "NAME"].map(str::to_owned).to_vec();
    let rows = titles.iter().map(|title| as_row(title));
    print(&columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    Ok(Exit::Done)
}

/// A row for each warning.
fn print_warnings(titles: &[Arc<TitleSummary>]) -> Result<Exit, Failure> {
    let of = |title: &Arc<TitleSummary>| {
        let id = title.id.clone();
        title.warnings.clone().into_iter().map(move |warning| vec![id.clone(), warning])
    };
    let rows: Vec<Vec<String>> = titles.iter().flat_map(of).collect();
    if rows.is_empty() {
        print("no title has warnings")?;
        return Ok(Exit::Done);
    }
    let head = ["TITLE", "WARNING"].map(str::to_owned).to_vec();
    print(&columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    Ok(Exit::Done)
}

fn as_row(title: &TitleSummary) -> Vec<String> {
    let picture = match title.video.first() {
        Some(video) if title.video.len() > 1 => {
            format!("{}x{} +{}", video.width, video.height, title.video.len() - 1)
        }
        Some(video) => format!("{}x{}", video.width, video.height),
        None => "-".into(),
    };
    let name = match &title.problem {
        Some(problem) => format!("{} (cannot be played: {problem})", title.name),
        None => title.name.clone(),
    };
    let chapters = match title.chapters.len() {
        0 => "-".into(),
        count => count.to_string(),
    };
    let length = clock_text(title.duration_s);
    let forms: Vec<&str> = title.forms.iter().map(|form| form.form.name()).collect();
    let forms = if forms.is_empty() { "-".into() } else { forms.join("+") };
    vec![title.id.clone(), length, Size(title.bytes).to_string(), picture, chapters, forms, name]
}

pub(super) fn as_json(title: &TitleSummary) -> Value {
    let video = title.video.iter().map(|video| {
        json!({
            "track": video.track,
            "width": video.width,
            "height": video.height,
            "codec": video.codec,
            "frame_rate": video.frame_rate,
            "bitrate_bps": video.bitrate_bps,
        })
    });
    let audio = title.audio.iter().map(|audio| {
        json!({
            "track": audio.track,
            "language": audio.language,
            "name": audio.name,
            "codec": audio.codec,
            "channels": audio.channels,
            "sample_rate": audio.sample_rate,
            "default": audio.default,
        })
    });
    let subtitles = title.subtitles.iter().map(|subtitle| {
        json!({
            "track": subtitle.track,
            "language": subtitle.language,
            "name": subtitle.name,
            "forced": subtitle.forced,
        })
    });
    let chapters = title
        .chapters
        .iter()
        .map(|chapter| json!({ "start_s": chapter.start_ns as f64 / 1e9, "name": chapter.name }));
    let forms = title.forms.iter().map(|form| {
        json!({
            "form": form.form.name(),
            "bytes": form.bytes,
            "average_bps": form.average_bps,
            "peak_bps": form.peak_bps,
        })
    });
    json!({
        "id": title.id,
        "name": title.name,
        "duration_s": title.duration_s,
        "added_unix_s": title.added_unix_s,
        "bytes": title.bytes,
        "video": video.collect::<Vec<_>>(),
        "audio": audio.collect::<Vec<_>>(),
        "subtitles": subtitles.collect::<Vec<_>>(),
        "chapters": chapters.collect::<Vec<_>>(),
        "forms": forms.collect::<Vec<_>>(),
        "warnings": title.warnings,
        "problem": title.problem,
    })
}
