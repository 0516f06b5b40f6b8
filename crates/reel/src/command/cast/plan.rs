//! `reel cast plan`: what a broadcast costs.

use std::io::{self, Write};
use std::path::Path;

use reel::plans::{SchemePlan, Subject};
use reel_broadcast::limits::JOIN_NS;
use reel_broadcast::{BroadcastError, CautiousHarmonic, Scheme, Stream};
use reel_cast::BroadcastBound;

use super::drawing::draw;
use super::subject::{subject_of, told};
use super::table::{HarmonicRow, Row, Table};
use crate::args::CastPlanArguments;
use crate::failure::{Exit, Failure};
use crate::new_file::NewFile;
use crate::output::print;
use crate::rate::Rate;
use crate::span::Span;

/// What is given, and what follows.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// The longest wait.
    Wait(Span),
    /// The most bandwidth.
    Bandwidth(Rate),
}

/// `reel cast plan`.
pub(super) fn run(arguments: &CastPlanArguments) -> Result<Exit, Failure> {
    let bound = match (arguments.wait, arguments.bandwidth) {
        (Some(wait), _) => Bound::Wait(wait),
        (None, Some(bandwidth)) => Bound::Bandwidth(bandwidth),
        (None, None) => {
            return Err(Failure::usage("neither --wait nor --bandwidth was given")
                .help("use --wait 30s, or --bandwidth 20M"));
        }
    };
    let refused = |error: BroadcastError| Failure::advised(Exit::Usage, &error.to_string());
    let (subject, plans) = match told(arguments, bound)? {
        Some(told) => told,
        None => {
            let subject = subject_of(arguments)?;
            let plans = subject.plans(bound.of_cast(), arguments.scheme).map_err(refused)?;
            (subject, plans)
        }
    };
    let table = compare((subject, plans), bound, arguments.scheme).map_err(refused)?;
    if let Some(path) = &arguments.svg {
        let scheme = arguments.scheme.unwrap_or(Scheme::RecursiveFrequencySplitting);
        let plans = table.rows.iter().map(|row| &row.0.plan);
        // All schemes are compared, or this one.
        if let Some(plan) = plans.into_iter().find(|plan| plan.schedule.scheme() == scheme) {
            write(path, arguments.force, &draw(plan))?;
        }
    }
    print(&if arguments.json { table.as_json().to_string() } else { table.text() })?;
    Ok(Exit::Done)
}

fn compare(
    (subject, plans): (Subject, Vec<SchemePlan>),
    bound: Bound,
    only: Option<Scheme>,
) -> Result<Table, BroadcastError> {
    let mut notes = subject.notes.clone();
    for note in plans.iter().filter_map(|plan| plan.problem.as_ref()) {
        // Schemes with equally many segments have the same difficulty.
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let harmonic = match only {
        Some(_) => Vec::new(),
        None => [true, false]
            .into_iter()
            .map(|of_paper| harmonic(subject.stream, bound, of_paper))
            .collect::<Result<_, _>>()?,
    };
    let rows = plans.into_iter().map(Row).collect();
    Ok(Table { subject, bound, rows, harmonic, notes })
}

impl Bound {
    fn of_cast(self) -> BroadcastBound {
        match self {
            Bound::Wait(wait) => BroadcastBound::Wait(wait.ns),
            Bound::Bandwidth(bandwidth) => BroadcastBound::Bandwidth(bandwidth.0),
        }
    }
}

/// As the paper has it, with a wait of one slot; or as the other rows, with two and the time to
/// join.
fn harmonic(stream: Stream, bound: Bound, of_paper: bool) -> Result<HarmonicRow, BroadcastError> {
    let scheme = match bound {
        Bound::Wait(wait) if of_paper => CautiousHarmonic::for_wait(stream, wait.ns, 1)?,
        Bound::Wait(wait) => CautiousHarmonic::for_wait(stream, wait.ns.saturating_sub(JOIN_NS), 2)?,
        Bound::Bandwidth(bandwidth) => CautiousHarmonic::for_bandwidth(stream, bandwidth.0)?,
    };
    Ok(HarmonicRow { scheme, of_paper })
}

fn write(path: &Path, replace: bool, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::path("write", path, &error);
    let mut file = NewFile::at_users_path(path, replace)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.publish().map_err(failed)
}
