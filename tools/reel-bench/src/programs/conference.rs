//! A teleconference of four programs, alone and beside busy loops: how long sound takes from one to
//! another (Govindan, sections 1.3, 1.4 and 7.3).

use super::run::{Place, Program};
use super::talk::{PER_S, Talk, talk};
use super::{CONFERENCE_MS, PROMPT_MS};
use anyhow::{Context, Result, anyhow, bail, ensure};
use reel_report::{Claim, Report};
use std::io::BufRead;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Programs that talk. Each hears all others.
const TALKERS: usize = 4;
/// 20 ms of telephone sound (64 kb/s), of one channel of 48 kHz, and of DAT stereo (1.536 Mb/s):
/// the rates of sound in section 1.4.
const SIZES: [usize; 3] = [160, 1920, 3840];
/// What takes processor time meanwhile: the name of the row, busy loops, and their `nice`.
const LOADS: [(&str, usize, i32); 4] = [
    ("conference", 0, 0),
    ("conference beside 2 busy loops", 2, 0),
    ("conference beside 8 busy loops", 8, 0),
    ("conference beside 8 busy loops, nice 10", 8, 10),
];
/// A busy loop ends by itself after this time, if the experiment does not end it.
const BUSY_MAX: Duration = Duration::from_secs(600);

/// A process that only takes processor time.
struct Busy(Child);

/// Runs it with so many seconds of sound for each row.
pub(super) fn measure(seconds: u64, place: &Place, report: &mut Report) -> Result<()> {
    let messages = seconds * PER_S;
    report.note(format!(
        "conference: {TALKERS} programs pour {messages} messages each, {PER_S} a second, and read the {} others; busy loops are processes",
        TALKERS - 1
    ));
    for (case, loops, nice) in LOADS {
        for message_bytes in SIZES {
            let busy = (0..loops).map(|_| Busy::start(nice)).collect::<Result<Vec<_>>>()?;
            let name = format!("talk-{loops}-{nice}-{message_bytes}");
            let (delays_ns, wrong) = confer(&name, message_bytes, messages, place)
                .with_context(|| format!("{case}, messages of {message_bytes} B"))?;
            drop(busy);
            row(case, message_bytes, messages, (delays_ns, wrong), report);
        }
    }
    Ok(())
}

/// One conference: how long each message took that came, and how many were wrong.
fn confer(name: &str, message_bytes: usize, messages: u64, place: &Place) -> Result<(Vec<u64>, u64)> {
    let start = |number: usize| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["program", "conference"]).arg(&place.socket).arg(name);
        command.args([number.to_string(), message_bytes.to_string(), messages.to_string()]);
        Program::start("talk", command)
    };
    let mut talkers: Vec<Program> = (0..TALKERS).map(start).collect::<Result<_>>()?;
    talkers.iter().try_for_each(|talker| talker.line().map(drop))?;
    talkers.iter_mut().try_for_each(Program::go)?;
    let longest = Duration::from_secs(messages / PER_S);
    let (mut delays_ns, mut wrong) = (Vec::new(), 0);
    for talker in &talkers {
        let said = talker.line_within(longest)?;
        let (wrong_of_it, delays_of_it): (u64, Vec<u64>) = serde_json::from_str(&said)?;
        wrong += wrong_of_it;
        delays_ns.extend(delays_of_it);
    }
    talkers.iter_mut().try_for_each(Program::has_ended)?;
    Ok((delays_ns, wrong))
}

fn row(
    case: &str,
    message_bytes: usize,
    messages: u64,
    (mut delays_ns, wrong): (Vec<u64>, u64),
    report: &mut Report,
) {
    delays_ns.sort_unstable();
    let sent = (TALKERS * (TALKERS - 1)) as u64 * messages;
    let lost = sent.saturating_sub(delays_ns.len() as u64);
    // What did not come took longer than all that came.
    let at = |permille: u64| {
        let place = sent.saturating_sub(1) * permille / 1000;
        delays_ns.get(place as usize).map_or(f64::INFINITY, |ns| *ns as f64 / 1e6)
    };
    let p99_ms = at(990);
    let largest_ms = delays_ns.last().map_or(f64::INFINITY, |ns| *ns as f64 / 1e6);
    let shown = |ms: f64| if ms.is_finite() { ms } else { f64::NAN };
    let values = [
        ("messages", sent as f64),
        ("messages_lost", lost as f64),
        ("messages_wrong", wrong as f64),
        ("p50_ms", shown(at(500))),
        ("p99_ms", shown(p99_ms)),
        ("largest_ms", shown(largest_ms)),
    ];
    report.row(case, "reel", message_bytes as f64, 0, &values);
    let words = |what: &str| format!("{case}, {message_bytes} B, {PER_S} a second: {what}");
    report.claim(Claim::at_most(words("delay p99, ms"), shown(p99_ms), CONFERENCE_MS));
    report.claim(Claim::at_most(words("messages lost or wrong"), (lost + wrong) as f64, 0.0));
}

/// One talker: `program conference SOCKET NAME NUMBER BYTES MESSAGES`.
pub(super) fn act(socket: &Path, words: &[String]) -> Result<()> {
    let [name, number, message_bytes, messages] = words else {
        bail!("a name, a number, bytes and messages")
    };
    let words = Talk {
        name: name.clone(),
        number: number.parse()?,
        talkers: TALKERS,
        message_bytes: message_bytes.parse()?,
        messages: messages.parse()?,
        delay_ns: PROMPT_MS * 1_000_000,
    };
    ensure!(words.message_bytes >= 8, "a message has the time when it was made");
    let heard = talk(socket, &words, || {
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new())?;
        Ok(())
    });
    let heard = heard.map_err(|error| anyhow!("{error}"))?;
    println!("{}", serde_json::to_string(&(heard.wrong, heard.delays_ns))?);
    Ok(())
}

/// A busy loop: `program busy`.
pub(super) fn be_busy() {
    let begun = Instant::now();
    while begun.elapsed() < BUSY_MAX {
        (0..1_000_000_u64).for_each(|step| {
            std::hint::black_box(step);
        });
    }
}

impl Busy {
    fn start(nice: i32) -> Result<Busy> {
        // It is executed by `nice`, so the process is the same.
        let mut command = Command::new("nice");
        command.args(["-n", &nice.to_string()]).arg(std::env::current_exe()?).args(["program", "busy"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Busy(child.with_context(|| format!("starting {command:?}"))?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_come_is_late_and_lost() {
        const MS: u64 = 1_000_000;
        let claims = |delays_ns: Vec<u64>, wrong: u64| {
            let mut report = Report::new("test");
            row("conference", 160, 100, (delays_ns, wrong), &mut report);
            report.claims.iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(claims(vec![MS; 1200], 0), [true, true]);
        assert_eq!(claims(vec![MS; 1195], 0), [true, false], "one of a hundred may take longer");
        assert_eq!(claims(vec![MS; 1100], 0), [false, false]);
        assert_eq!(claims(vec![101 * MS; 1200], 0), [false, true]);
        assert_eq!(claims(vec![MS; 1200], 1), [true, false]);
    }
}
