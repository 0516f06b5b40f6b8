//! `reel probe`: measures the members of a volume, or one file or device.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use reel_disk::{OpenMode, Probe, ProbeError, Profile, open_plain, probe};
use reel_ring::DriverChoice;
use reel_volume::{GeometryFields, Output, ensure_output};
use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use super::profiles::{disturbance_text, now_unix_s, path_of, spread_text, store};
use super::{Access, open_library};
use crate::args::ProbeArguments;
use crate::failure::{Exit, Failure, with_help};
use crate::limits::{PROBE_S_ALL, PROBE_S_EACH};
use crate::logging::say;
use crate::output::{columns, print};
use crate::progress::{Meter, Unit};

/// `reel probe`.
pub(super) fn run(arguments: &ProbeArguments, quiet: bool) -> Result<Exit, Failure> {
    let path = &arguments.path;
    let metadata = std::fs::metadata(path).map_err(|error| Failure::path("measure", path, &error))?;
    if metadata.is_dir() { volume(arguments, quiet) } else { bare(arguments, quiet) }
}

/// One member of a volume and the result of measuring it.
struct Outcome {
    member: usize,
    path: PathBuf,
    result: Result<Profile, Unmeasured>,
}

/// Why a member has no profile, and what to do about it.
struct Unmeasured {
    what: String,
    help: Option<String>,
}

impl Unmeasured {
    fn new(what: String) -> Self {
        Self { what, help: None }
    }
}

impl From<ProbeError> for Unmeasured {
    fn from(error: ProbeError) -> Self {
        Self { what: error.to_string(), help: error.help().map(Cow::into_owned) }
    }
}

impl fmt::Display for Unmeasured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&with_help(&self.what, self.help.as_deref()))
    }
}

fn volume(arguments: &ProbeArguments, quiet: bool) -> Result<Exit, Failure> {
    if arguments.out.is_some() {
        return Err(Failure::usage("--out is for a single file or device")
            .help("the profiles of a volume are in its directory, as profile-0.toml and so on"));
    }
    let dir = &arguments.path;
    // Held open during the measurement: no program writes to it, and a server that uses it is
    // reported, not disturbed.
    let library = open_library(dir, Access::Read)?;
    let findings = library.volume().findings();
    let (present, absent): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.state.in_use());
    let paths: Vec<PathBuf> = present.iter().map(|finding| finding.path.clone()).collect();
    let results = measure(arguments, &paths, library.volume().geometry().unit_bytes(), quiet);
    let mut outcomes = Vec::new();
    for (finding, result) in present.iter().zip(results) {
        let target = path_of(dir, finding.member);
        let stored = result.and_then(|profile| {
            let stored = store(&target, &profile);
            stored
                .map(|()| profile)
                .map_err(|error| Unmeasured::new(format!("cannot write {}: {error}", target.display())))
        });
        outcomes.push(Outcome { member: finding.member, path: finding.path.clone(), result: stored });
    }
    for finding in absent {
        let result = Err(Unmeasured::new(format!("member {} is {}", finding.member, finding.state.name())));
        outcomes.push(Outcome { member: finding.member, path: finding.path.clone(), result });
    }
    outcomes.sort_by_key(|outcome| outcome.member);
    if arguments.json {
        print(&json!({ "members": outcomes.iter().map(as_json).collect::<Vec<_>>() }).to_string())?;
    } else {
        print(&table(&outcomes))?;
        for Outcome { member, result, .. } in &outcomes {
            if let Some(disturbance) = result.as_ref().ok().and_then(disturbance_text) {
                print(&format!("member {member}: {disturbance}"))?;
            }
        }
    }
    let failed: Vec<&Unmeasured> =
        outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err()).collect();
    match failed.as_slice() {
        [] => Ok(Exit::Done),
        [only] => Err(Failure::failed(&only.what).help_if_any(only.help.as_ref())),
        [first, others @ ..] => {
            let what = format!("{} members were not measured: {}", 1 + others.len(), first.what);
            Err(Failure::failed(what).help_if_any(first.help.as_ref()))
        }
    }
}

fn bare(arguments: &ProbeArguments, quiet: bool) -> Result<Exit, Failure> {
    let path = &arguments.path;
    let file =
        open_plain(path, OpenMode::ReadOnly).map_err(|error| Failure::path("measure", path, &error))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return Err(Failure::failed(format!("{} is in use by another program", path.display()))
            .help("stop that program first: it would distort the measurement, and be delayed by it"));
    }
    if let Some(out) = &arguments.out {
        ensure_output(out, Output::File, true).map_err(Failure::volume)?;
    }
    // The unit size of a volume that is created with the default options.
    let fields = GeometryFields::cmaf(5);
    let unit_bytes = fields.symbol_bytes * fields.row_symbols * fields.unit_rows;
    let profile = measure(arguments, std::slice::from_ref(path), unit_bytes, quiet)
        .remove(0)
        .map_err(|error| Failure::failed(error.what).help_if_any(error.help))?;
    if let Some(out) = &arguments.out {
        store(out, &profile).map_err(|error| Failure::path("write", out, &error))?;
    }
    match (arguments.json, &arguments.out) {
        (true, _) => print(&profile_json(path, &profile).to_string())?,
        (false, None) => print(profile.to_text().trim_end())?,
        (false, Some(_)) => print(&format!(
            "{}: a read takes {}, over {}",
            path.display(),
            profile.price().read_text(),
            spread_text(&profile)
        ))?,
    }
    if let Some(disturbance) = disturbance_text(&profile).filter(|_| !arguments.json) {
        say(format!("{}: {disturbance}", path.display()));
    }
    Ok(Exit::Done)
}

fn measure(
    arguments: &ProbeArguments,
    paths: &[PathBuf],
    unit_bytes: usize,
    quiet: bool,
) -> Vec<Result<Profile, Unmeasured>> {
    let seconds =
        arguments.seconds.unwrap_or(PROBE_S_EACH.saturating_mul(paths.len() as u32).min(PROBE_S_ALL));
    let how = Probe {
        time_ns: u64::from(seconds) * 1_000_000_000,
        quick: false,
        writes: arguments.write,
        unit_bytes,
        driver: DriverChoice::Auto,
        huge_pages: !arguments.small_pages,
    };
    let mut meter = Meter::new("measuring", Unit::Ms, quiet || arguments.json);
    let results = probe(paths, &how, now_unix_s(), &mut |done_ns, total_ns| {
        meter.set(done_ns / 1_000_000, total_ns / 1_000_000);
        true
    });
    let done = results.iter().filter(|result| result.is_ok()).count();
    meter.finish(&format!("measured {done} of {}", results.len()));
    results.into_iter().map(|result| result.map_err(Unmeasured::from)).collect()
}

fn table(outcomes: &[Outcome]) -> String {
    let row = |outcome: &Outcome| {
        let text = match &outcome.result {
            Ok(profile) => {
                let writes =
                    if profile.has_writes() { "" } else { " (writes are assumed to cost twice that)" };
                let price = profile.price().read_text();
                format!("a read takes {price}, over {}{writes}", spread_text(profile))
            }
            Err(_) => "not measured".to_owned(),
        };
        vec![format!("member {}", outcome.member), outcome.path.display().to_string(), text]
    };
    columns(&outcomes.iter().map(row).collect::<Vec<_>>())
}

fn as_json(outcome: &Outcome) -> Value {
    let mut value = match &outcome.result {
        Ok(profile) => profile_json(&outcome.path, profile),
        Err(error) => json!({ "path": outcome.path.display().to_string(), "error": error.to_string() }),
    };
    value["member"] = json!(outcome.member);
    value
}

fn profile_json(path: &Path, profile: &Profile) -> Value {
    json!({ "path": path.display().to_string(), "profile": profile })
}
