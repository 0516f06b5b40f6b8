//! One fast flow: the processor time for a Gbit, and how far packets are from their schedule.

use super::capture::capture;
use super::cost::Spent;
use super::rivals::Rival;
use super::site::{Casting, GROUP, PORT, Setup, Site, title_of};
use super::times::deviation;
use super::{Size, stream};
use anyhow::{Context, Result};
use reel_report::{Claim, Report};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// The rate of the stream.
const RATE_BPS: u64 = 100_000_000;
/// The most packets of a train; 0 for trains as a server sends them.
pub(super) const TRAINS: [usize; 4] = [0, 1, 5, 20];
/// A higher rate, at which the wake-ups of ffmpeg, 25 in a second, cost little beside its packets:
/// name, rate, length of the stream.
const FASTER: (&str, u64, u64) = ("one flow of 500 Mb/s", 500_000_000, 10);
/// Of what the rival needs, and of the distance of its packets from their schedule.
const BAR: f64 = 0.1;
/// Longest time of a capture: all of it is kept in memory.
const CAPTURE_S_MAX: u64 = 8;
/// Time until a cast is sent steadily.
const SETTLE: Duration = Duration::from_secs(2);

/// The stream, and where it is sent.
struct Bed<'a> {
    size: &'a Size,
    site: Site,
    stream: PathBuf,
}

/// Runs it.
pub(super) fn run(size: &Size, report: &mut Report) -> Result<()> {
    report.note(format!(
        "one flow: a transport stream of {} Mb/s from a file, the same for all; a Gbit is what the interface counts; dev_p99_ms: how far 99 \
         in a hundred packets are from the times of the stream's clock references, from the median; trains of up to {:?} packets, 0 as \
         delivered",
        RATE_BPS / 1_000_000,
        size.trains
    ));
    let bed = Bed::make(size, RATE_BPS, if size.quick { 10 } else { 40 })?;
    for run in 0..size.runs {
        for fec in [false, true] {
            let case = case(fec);
            for rival in rivals(fec) {
                bed.rival(rival, (case, run), report)?;
            }
            for &train in &size.trains {
                bed.reel(fec, (case, train, run), report)?;
            }
        }
    }
    [false, true].into_iter().for_each(|fec| claim(fec, &size.trains, report));
    drop(bed);
    if size.quick { Ok(()) } else { faster(size, report) }
}

/// The processor time alone at a higher rate: a capture would lose packets.
fn faster(size: &Size, report: &mut Report) -> Result<()> {
    let (case, rate_bps, seconds) = FASTER;
    let bed = Bed::make(size, rate_bps, seconds)?;
    for run in 0..size.runs {
        let spent = Rival::Ffmpeg.measure(&bed.site, &bed.stream, bed.time())?;
        report.row(case, Rival::Ffmpeg.name(), 0.0, run, &spent_values(&spent));
        let (spent, cast) = bed.spent(0, false)?;
        let lost = [
            ("late_packets", number(&cast, "late_packets")),
            ("lost_packets", number(&cast, "lost_packets")),
        ];
        report.row(case, "reel", 0.0, run, &[&spent_values(&spent)[..], &lost].concat());
    }
    let cost = |system: &str| report.median_or_nan(case, system, 0.0, "cpu_s_per_gbit");
    let ratio = cost("reel") / cost(Rival::Ffmpeg.name());
    report.claim(Claim::at_most(format!("{case}: processor time for a Gbit, Reel / ffmpeg"), ratio, BAR));
    Ok(())
}

fn spent_values(spent: &Spent) -> [(&'static str, f64); 2] {
    [("cpu_s_per_gbit", spent.cpu_s_per_gbit()), ("mbit_per_s", spent.mbit_per_s())]
}

fn number(cast: &Value, name: &str) -> f64 {
    cast[name].as_f64().unwrap_or(f64::NAN)
}

fn case(fec: bool) -> &'static str {
    if fec { "one flow, FEC" } else { "one flow" }
}

fn rivals(fec: bool) -> impl Iterator<Item = Rival> {
    Rival::ALL.into_iter().filter(move |rival| rival.sends_fec() == fec)
}

fn claim(fec: bool, trains: &[usize], report: &mut Report) {
    let case = case(fec);
    for rival in rivals(fec) {
        for &train in trains {
            let ratio = |value: &str| {
                let theirs = report.median_or_nan(case, rival.name(), 0.0, value);
                report.median_or_nan(case, "reel", train as f64, value) / theirs
            };
            let values = [
                ("processor time for a Gbit", ratio("cpu_s_per_gbit")),
                ("p99 distance from the schedule", ratio("dev_p99_ms")),
            ];
            let trains = match train {
                0 => "trains as delivered".to_owned(),
                train => format!("trains of {train}"),
            };
            for (what, ratio) in values {
                let claim = format!("{case}, {trains}: {what}, Reel / {}", rival.name());
                report.claim(Claim::at_most(claim, ratio, BAR));
            }
        }
    }
}

impl<'a> Bed<'a> {
    fn make(size: &'a Size, rate_bps: u64, seconds: u64) -> Result<Bed<'a>> {
        let stream = stream::make(&size.dir, seconds, rate_bps)?;
        let site = Site::make(size, "flow", std::slice::from_ref(&stream))?;
        Ok(Bed { size, site, stream })
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.size.seconds)
    }

    fn capture_time(&self) -> Duration {
        Duration::from_secs(self.size.seconds.min(CAPTURE_S_MAX))
    }

    fn rival(&self, rival: Rival, (case, run): (&str, usize), report: &mut Report) -> Result<()> {
        let spent = rival.measure(&self.site, &self.stream, self.time())?;
        let packets = rival.capture(&self.site, &self.stream, self.capture_time())?;
        let deviation = deviation(&packets).context("no clock references in what was captured")?;
        let more = [("dev_p50_ms", deviation.p50_ms), ("dev_p99_ms", deviation.p99_ms)];
        report.row(case, rival.name(), 0.0, run, &[&spent_values(&spent)[..], &more].concat());
        Ok(())
    }

    /// The cast of the stream by a server that begins with nothing in memory.
    fn casting(&self, train: usize, fec: bool) -> Result<Casting<'_>> {
        let casting = self.site.serve(&Setup { train_packets: train, ..Setup::default() })?;
        let fec = if fec { "any" } else { "off" };
        casting.add(&title_of(&self.stream), &format!("{GROUP}:{PORT}"), &json!({ "fec": fec }))?;
        casting.await_all()?;
        sleep(SETTLE);
        Ok(casting)
    }

    /// What a cast costs, and the cast after that.
    fn spent(&self, train: usize, fec: bool) -> Result<(Spent, Value)> {
        let casting = self.casting(train, fec)?;
        let before = casting.meter()?;
        sleep(self.time());
        let spent = casting.meter()?.since(&before);
        Ok((spent, casting.casts()?.pop().context("no cast")?))
    }

    fn reel(&self, fec: bool, (case, train, run): (&str, usize, usize), report: &mut Report) -> Result<()> {
        let (spent, cast) = self.spent(train, fec)?;
        // The kernel copies what is captured, so that is another run.
        let casting = self.casting(train, fec)?;
        let groups = capture(&self.site, &[format!("{GROUP}/32")], PORT, self.capture_time())?;
        drop(casting);
        let packets = groups.into_values().next().context("Reel sent nothing")?;
        let deviation = deviation(&packets).context("no clock references in what was captured")?;
        let trains = packets.iter().filter(|packet| packet.begins_train).count();
        let more = [
            ("dev_p50_ms", deviation.p50_ms),
            ("dev_p99_ms", deviation.p99_ms),
            ("packets_of_a_train", packets.len() as f64 / trains as f64),
            ("late_packets", number(&cast, "late_packets")),
            ("lost_packets", number(&cast, "lost_packets")),
        ];
        report.row(case, "reel", train as f64, run, &[&spent_values(&spent)[..], &more].concat());
        Ok(())
    }
}
