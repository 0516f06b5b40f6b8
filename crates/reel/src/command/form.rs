//! `reel form add`: makes another form of a stored title.

use reel_library::{AddedStream, Stop};
use serde_json::json;

use super::volume::{network_use, sends_parity};
use super::{Access, open_library};
use crate::args::{AddedForm, FormAddArguments, FormCommand};
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::output::print;
use crate::progress::{Meter, Unit};
use crate::rate::Rate;
use crate::size::Size;

const NS_PER_MS: u64 = 1_000_000;

/// `reel form`.
pub(super) fn run(command: &FormCommand, quiet: bool) -> Result<Exit, Failure> {
    match command {
        FormCommand::Add(arguments) => match arguments.form {
            AddedForm::Ts => add_stream(arguments, quiet),
        },
    }
}

fn add_stream(arguments: &FormAddArguments, quiet: bool) -> Result<Exit, Failure> {
    let library = open_library(&arguments.volume, Access::Write)?;
    let id = &arguments.title;
    let mut meter = Meter::new(id.clone(), Unit::FilmMs, quiet || arguments.json);
    let mut progress = |done_ns, all_ns| meter.set(done_ns / NS_PER_MS, all_ns / NS_PER_MS);
    let added = library.add_stream(id, &Stop::default(), &mut progress);
    let added = added.map_err(|error| Failure::stream(&error))?;
    let duration_s = added.duration_s();
    let AddedStream { index, warnings } = added;
    let geometry = *library.volume().geometry();
    if arguments.json {
        let made = json!({
            "id": id,
            "form": "ts",
            "bytes": index.bytes(),
            "duration_s": duration_s,
            "average_bps": index.mean_bps(),
            "peak_bps": index.peak_bps(),
            "allows_st_2022_1": sends_parity(&geometry),
            "warnings": warnings,
        });
        print(&made.to_string())?;
        return Ok(Exit::Done);
    }
    if quiet {
        return Ok(Exit::Done);
    }
    warnings.iter().for_each(|warning| meter.note(&format!("warning: {id}: {warning}")));
    let (mean, peak) = (Rate(index.mean_bps()), Rate(index.peak_bps()));
    let size = Size(index.bytes());
    meter
        .finish(&format!("{id}: form ts, {size}, {duration_s:.1} s at {mean}, at most {peak} over a second"));
    if !sends_parity(&geometry) {
        say(network_use(&geometry));
    }
    Ok(Exit::Done)
}
