//! `programs`: what it costs to hand messages to other programs through the server, beside pipes,
//! Unix sockets and iceoryx2 (Govindan 7.3 and 9.4); and whether viewers notice.

mod beside;
mod conference;
mod kernel_ways;
mod mapped;
#[path = "../rivals/iceoryx2/src/program.rs"]
mod program;
mod run;
mod site;
#[path = "../../../crates/reel/examples/conference/talk.rs"]
mod talk;

use anyhow::{Context, Result, bail};
use kernel_ways::KernelWay;
use mapped::{CUT_OFF, CutOff, Declared};
use program::{Words, act};
use reel_report::{Chart, Claim, CommonOptions, Report};
use run::{Case, PROMPT_MS, Pace, Way, run as run_case};
use site::Site;
use std::path::Path;

/// The options of `programs`.
#[derive(clap::Args)]
pub(crate) struct ProgramsArguments {
    /// `--runs` is the number of rounds in which all ways take turns.
    #[command(flatten)]
    common: CommonOptions,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Cost, Part::Delay, Part::Beside, Part::Conference])]
    parts: Vec<Part>,
    /// The rival's program (tools/reel-bench/rivals/iceoryx2); default: `reel-rival-iceoryx2`
    /// beside this one.
    #[arg(long)]
    iceoryx2: Option<std::path::PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Processor time of a message, as many as go through.
    Cost,
    /// How long messages take, 50 of them a second.
    Delay,
    /// Viewers as many as are admitted, beside all of it.
    Beside,
    /// Four programs that hear each other, alone and beside busy loops.
    Conference,
}

/// How a program of the experiment is started.
#[derive(clap::Args)]
pub(crate) struct ProgramArguments {
    #[arg(allow_hyphen_values = true)]
    words: Vec<String>,
}

/// The thesis's byte; 20 ms of telephone sound; 20 ms of one channel of 48 kHz; a part of a
/// picture; the longest message of a poured stream.
const SIZES: [usize; 5] = [1, 160, 1920, 16 << 10, 64 << 10];
/// Sizes that are paced, and mixed: they have samples of 16 bits and a time.
const PACED: [usize; 2] = [160, 1920];
/// What the server hands over of a film: a row.
const ROW_BYTES: usize = 44 << 10;
/// Messages a second, of each writer (the thesis's rate).
const PER_S: u64 = 50;
const REEL: [Way; 2] = [Way::Reel { prompt: false }, Way::Reel { prompt: true }];
const RIVALS: [Way; 5] = [
    Way::Kernel(KernelWay::Pipe),
    Way::Kernel(KernelWay::Stream),
    Way::Kernel(KernelWay::Seqpacket),
    Way::Iceoryx2 { polls: false },
    Way::Iceoryx2 { polls: true },
];
/// Delay that a teleconference allows (Govindan, section 1.4: 100 to 200 ms).
const CONFERENCE_MS: f64 = 100.0;

/// How much is measured.
struct Size {
    rounds: usize,
    /// Milliseconds of a run as many as go through, and of one that is paced.
    lasts_ms: u64,
    paced_ms: u64,
    ways: Vec<Way>,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &ProgramsArguments) -> Result<()> {
    let mut report = Report::new("programs");
    report.charts = [Case::Pour, Case::Tee]
        .map(|case| Chart { case: case.name(), at: "bytes", value: "cpu_ns" })
        .to_vec();
    report.fill(&arguments.common, |report| measure(arguments, report))
}

/// One program of a run: `reel SOCKET RATE WORKAHEAD DELAY_MS CLASS WORDS`,
/// `pipe|stream|seqpacket PLACE WORDS`, `conference SOCKET NAME NUMBER BYTES MESSAGES` or `busy`.
pub(crate) fn program(arguments: &ProgramArguments) -> Result<()> {
    if arguments.words == ["busy"] {
        conference::be_busy();
        return Ok(());
    }
    let [way, place, rest @ ..] = &arguments.words[..] else { bail!("a way, a place, and words") };
    let place = Path::new(place);
    if way == "conference" {
        return conference::act(place, rest);
    }
    let kernel = match way.as_str() {
        "reel" => None,
        "pipe" => Some(KernelWay::Pipe),
        "stream" => Some(KernelWay::Stream),
        "seqpacket" => Some(KernelWay::Seqpacket),
        other => bail!("{other} is no way"),
    };
    if let Some(kernel) = kernel {
        let words = Words::parse(rest)?;
        return act(&words, kernel_ways::open_ends(kernel, place, &words)?);
    }
    let [rate, workahead, delay, class, rest @ ..] = rest else { bail!("what is declared, and words") };
    let declared = Declared {
        bytes_per_s: rate.parse()?,
        workahead_bytes: workahead.parse()?,
        delay_ms: delay.parse()?,
        class: if class == "-" { String::new() } else { class.clone() },
    };
    let words = Words::parse(rest)?;
    match mapped::open_ends(place, &declared, &words).and_then(|ends| act(&words, ends)) {
        Err(error) if error.is::<CutOff>() => {
            println!("{CUT_OFF}");
            Ok(())
        }
        acted => acted,
    }
}

fn measure(arguments: &ProgramsArguments, report: &mut Report) -> Result<()> {
    let common = &arguments.common;
    let mut site = Site::make(common, arguments.iceoryx2.as_deref())?;
    let mut ways: Vec<Way> = REEL.into_iter().chain(RIVALS).collect();
    if !site.place.iceoryx2.exists() {
        ways.retain(|way| !matches!(way, Way::Iceoryx2 { .. }));
        report.note(format!(
            "skipped: iceoryx2: {} does not exist; cargo build --release --locked --manifest-path tools/reel-bench/rivals/iceoryx2/Cargo.toml \
             --target-dir target/rivals builds it",
            site.place.iceoryx2.display()
        ));
    }
    let quick = common.quick;
    let size = Size {
        rounds: common.runs.unwrap_or(if quick { 1 } else { 5 }),
        lasts_ms: if quick { 30 } else { 300 },
        paced_ms: if quick { 100 } else { common.seconds.unwrap_or(10) * 1000 },
        ways,
    };
    report.note(format!(
        "ways take turns, {} rounds; a writer hands over each message as it is made and a reader reads every byte; Reel's processor time is that of \
         the programs and of the whole server; without messages the server takes {:.2} ms of processor time a second",
        size.rounds,
        site.idle_ms_per_s()?
    ));
    if arguments.parts.contains(&Part::Cost) {
        cost(&size, quick, &mut site, report)?;
    }
    if arguments.parts.contains(&Part::Delay) {
        delay(&size, &mut site, report)?;
    }
    if arguments.parts.contains(&Part::Beside) {
        beside::measure(quick, &mut site, report)?;
    }
    if arguments.parts.contains(&Part::Conference) {
        conference::measure(if quick { 1 } else { common.seconds.unwrap_or(20) }, &site.place, report)?;
    }
    Ok(())
}

fn cost(size: &Size, quick: bool, site: &mut Site, report: &mut Report) -> Result<()> {
    let sizes = if quick { &SIZES[1..3] } else { &SIZES[..] };
    let mut cases: Vec<(Case, usize)> = vec![(Case::Tap, ROW_BYTES)];
    cases.extend(sizes.iter().map(|bytes| (Case::Pour, *bytes)));
    cases.extend(sizes.iter().filter(|bytes| **bytes > 1).map(|bytes| (Case::Mixer, *bytes)));
    cases.extend(sizes.iter().map(|bytes| (Case::Tee, *bytes)));
    for round in 0..size.rounds {
        for &(case, bytes) in &cases {
            for &way in &size.ways {
                if case == Case::Tap && way == (Way::Reel { prompt: true }) {
                    continue;
                }
                let pace = Pace { bytes, per_s: 0, lasts_ms: size.lasts_ms };
                one(case, way, &pace, round, site, report)?;
            }
        }
    }
    for &(case, bytes) in &cases {
        claim_cost(case.name(), bytes, report);
    }
    Ok(())
}

fn delay(size: &Size, site: &mut Site, report: &mut Report) -> Result<()> {
    for case in [Case::Pour, Case::Mixer, Case::Tee] {
        for bytes in PACED {
            for &way in size.ways.iter().filter(|way| **way != Way::Iceoryx2 { polls: true }) {
                let pace = Pace { bytes, per_s: PER_S, lasts_ms: size.paced_ms };
                one(case, way, &pace, 0, site, report)?;
            }
            let at = bytes as f64;
            let system = Way::Reel { prompt: true }.name();
            let p99 = report.median_or_nan(&paced_name(case), system, at, "p99_ms");
            let words = format!("{}, {bytes} B, {PER_S} a second: delay p99, ms, {system}", case.name());
            report.claim(Claim::at_most(words, p99, CONFERENCE_MS));
            claim_cost(&paced_name(case), bytes, report);
        }
    }
    Ok(())
}

/// What rows of paced messages are called.
fn paced_name(case: Case) -> String {
    format!("{}, {PER_S} a second", case.name())
}

fn one(case: Case, way: Way, pace: &Pace, round: usize, site: &mut Site, report: &mut Report) -> Result<()> {
    let shown = match run_case(case, way, pace, &mut site.place) {
        Err(error) if error.is::<CutOff>() => {
            report.note(format!("no figure: {error:#}"));
            return Ok(());
        }
        shown => shown?,
    };
    let mut values = vec![
        ("messages", shown.messages as f64),
        ("mb_per_s", shown.mb_per_s),
        ("declared_mb_per_s", shown.declared_mb_per_s),
        ("cpu_ns", shown.cpu_ns),
        ("programs_cpu_ns", shown.programs_ns),
        ("server_cpu_ns", shown.server_ns),
        ("switches", shown.switches),
    ];
    let mut name = case.name().to_owned();
    if pace.per_s > 0 {
        name = paced_name(case);
        let last = shown.delays_ns.len().checked_sub(1).context("no delays of paced messages")?;
        let at = |permille: usize| shown.delays_ns[last * permille / 1000] as f64 / 1e6;
        values.extend([("p50_ms", at(500)), ("p99_ms", at(990)), ("largest_ms", at(1000))]);
    }
    report.row(&name, way.name(), pace.bytes as f64, round, &values);
    Ok(())
}

/// The cheaper of Reel's two ways beside the cheapest of pipe and sockets, and of iceoryx2's.
fn claim_cost(case: &str, bytes: usize, report: &mut Report) {
    let least = |ways: &[Way]| {
        let medians = ways.iter().filter_map(|way| report.median(case, way.name(), bytes as f64, "cpu_ns"));
        medians.min_by(f64::total_cmp)
    };
    let Some(ours) = least(&REEL) else { return };
    let mut claims = Vec::new();
    for (name, ways) in [("the best of pipe and Unix sockets", &RIVALS[..3]), ("iceoryx2", &RIVALS[3..])] {
        let Some(theirs) = least(ways) else { continue };
        let words = format!("{case}, {bytes} B: CPU ns a message: reel {ours:.0} / {name} {theirs:.0}");
        claims.push(Claim::at_most(words, ours / theirs, 1.0));
    }
    claims.into_iter().for_each(|claim| report.claim(claim));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_compare_the_best_ways() {
        let mut report = Report::new("test");
        for (system, ns) in [
            ("reel", 300.0),
            ("reel, prompt", 500.0),
            ("pipe", 200.0),
            ("unix stream", 600.0),
            ("iceoryx2 polls", 400.0),
            ("iceoryx2 sleeps", 900.0),
        ] {
            report.row("pour", system, 160.0, 0, &[("cpu_ns", ns)]);
        }
        claim_cost("pour", 160, &mut report);
        claim_cost("tee of four", 160, &mut report);
        let claims: Vec<(f64, bool)> = report.claims.iter().map(|claim| (claim.value, claim.holds)).collect();
        assert_eq!(claims, [(1.5, false), (0.75, true)]);
    }
}
