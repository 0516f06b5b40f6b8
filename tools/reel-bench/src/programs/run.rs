//! One run: programs of a case, joined by one way, and what they and the server have used.

use super::kernel_ways::KernelWay;
use super::mapped::{CUT_OFF, CutOff, Declared};
use super::program::waits_of;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What joins the programs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The server. `prompt`: writers declare so little delay that they ring with each message.
    Reel {
        prompt: bool,
    },
    Kernel(KernelWay),
    /// A program of its own, `reel-rival-iceoryx2`.
    Iceoryx2 {
        polls: bool,
    },
}

/// What programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// One reads a film of the server; of rivals, what lies in a writer's memory.
    Tap,
    /// One writes, another reads.
    Pour,
    /// Two write, a third one adds their samples, a fourth one reads.
    Mixer,
    /// One writes, four read.
    Tee,
}

/// How programs write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) bytes: usize,
    /// Messages a second; 0 for as many as go through.
    pub(super) per_s: u64,
    pub(super) lasts_ms: u64,
}

/// Where programs find each other.
pub(super) struct Place {
    /// A directory for pipes and sockets.
    pub(super) dir: PathBuf,
    /// The server's socket, and its process.
    pub(super) socket: PathBuf,
    pub(super) server: u32,
    /// The rival's program.
    pub(super) iceoryx2: PathBuf,
    /// A film of the server, for [`Case::Tap`].
    pub(super) film: String,
    /// A name, and a number of the run: no two streams have the same.
    pub(super) name: String,
    pub(super) run: u32,
}

impl Place {
    /// Another place of the same server, whose runs can be beside those of this one.
    pub(super) fn another(&self, name: &str) -> Place {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Place {
            dir: self.dir.with_extension(&name),
            socket: self.socket.clone(),
            server: self.server,
            iceoryx2: self.iceoryx2.clone(),
            film: self.film.clone(),
            name,
            run: 0,
        }
    }
}

/// What a run has shown. What is a message's is divided by the messages that the first reader read.
pub(super) struct Shown {
    pub(super) messages: u64,
    pub(super) mb_per_s: f64,
    /// What writers declared to the server; 0 of rivals.
    pub(super) declared_mb_per_s: f64,
    /// Of all processes together, of the programs, and of the server.
    pub(super) cpu_ns: f64,
    pub(super) programs_ns: f64,
    pub(super) server_ns: f64,
    /// Voluntary context switches of all processes, a message.
    pub(super) switches: f64,
    /// Of all readers, in order.
    pub(super) delays_ns: Vec<u64>,
}

/// The memory that windows of poured streams may take together, less some for rounding.
const WINDOWS_BYTES: u64 = 60 << 20;
/// The most that a stream may declare.
const RATE_MAX: u64 = 250_000_000;
/// The least that is tried.
const RATE_MIN: u64 = 1_000_000;
const WORKAHEAD_MAX: u64 = 4 << 20;
/// A delay of viewers with which messages are taken at once, and one with which they are looked for
/// 50 times a second.
pub(super) const PROMPT_MS: u64 = 100;
const PATIENT_MS: u64 = 600;
/// The same of paced messages: as `reel pour` has it.
const PACED_PATIENT_MS: u64 = 2000;
/// Messages that may come before their time, of those that are paced.
const PACED_WORKAHEAD: u64 = 5;
/// Readers of [`Case::Tee`].
const TEE: usize = 4;
/// Longest wait for something that programs do.
const PATIENCE: Duration = Duration::from_secs(60);

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Reel { prompt: false } => "reel",
            Way::Reel { prompt: true } => "reel, prompt",
            Way::Kernel(KernelWay::Pipe) => "pipe",
            Way::Kernel(KernelWay::Stream) => "unix stream",
            Way::Kernel(KernelWay::Seqpacket) => "unix seqpacket",
            Way::Iceoryx2 { polls: false } => "iceoryx2 sleeps",
            Way::Iceoryx2 { polls: true } => "iceoryx2 polls",
        }
    }

    fn is_reel(self) -> bool {
        matches!(self, Way::Reel { .. })
    }

    /// The name by which the `reader`-th reader of a stream finds it.
    fn reads(self, name: &str, reader: usize) -> String {
        match self {
            Way::Reel { .. } => format!("live/{name}"),
            Way::Kernel(_) => format!("{name}-{reader}"),
            Way::Iceoryx2 { .. } => name.to_owned(),
        }
    }

    fn declared(self, case: Case, pace: &Pace) -> Declared {
        let prompt = self == Way::Reel { prompt: true };
        let bytes = pace.bytes as u64;
        if pace.per_s > 0 {
            return Declared {
                // What comes late is made up for.
                bytes_per_s: (bytes * pace.per_s * 11 / 10).max(100),
                workahead_bytes: PACED_WORKAHEAD * bytes,
                delay_ms: if prompt { PROMPT_MS } else { PACED_PATIENT_MS },
                class: String::new(),
            };
        }
        let streams = if case == Case::Mixer { 3 } else { 1 };
        let delay_ms = if prompt { PROMPT_MS } else { PATIENT_MS };
        // A window has the workahead and what comes within twice the delay.
        let rate = (WINDOWS_BYTES / streams - WORKAHEAD_MAX) * 1000 / (2 * delay_ms);
        Declared {
            bytes_per_s: rate.min(RATE_MAX),
            workahead_bytes: WORKAHEAD_MAX,
            delay_ms,
            class: "aperiodic".to_owned(),
        }
    }
}

impl Case {
    pub(super) fn name(self) -> &'static str {
        match self {
            Case::Tap => "tap",
            Case::Pour => "pour",
            Case::Mixer => "mixer",
            Case::Tee => "tee of four",
        }
    }

    /// Role, inputs, outputs and readers of each output of every program; the readers last.
    fn programs(self, way: Way, place: &Place) -> Vec<(&'static str, String, String, usize)> {
        let Place { name: own, run, .. } = place;
        let stream = |name: &str| format!("{own}{run}{name}");
        let none = || "-".to_owned();
        let write = |name: &str, readers| ("write", none(), stream(name), readers);
        let read = |name: &str, reader| ("read", way.reads(&stream(name), reader), none(), 1);
        match self {
            Case::Tap if way.is_reel() => vec![("read", place.film.clone(), none(), 1)],
            Case::Tap | Case::Pour => vec![write("a", 1), read("a", 0)],
            Case::Mixer => {
                let inputs = [way.reads(&stream("a"), 0), way.reads(&stream("b"), 0)].join(",");
                vec![write("a", 1), write("b", 1), ("mix", inputs, stream("c"), 1), read("c", 0)]
            }
            Case::Tee => {
                let readers = (0..TEE).map(|reader| read("a", reader));
                [write("a", TEE)].into_iter().chain(readers).collect()
            }
        }
    }
}

/// A program that runs. It ends with this value.
pub(super) struct Program {
    role: &'static str,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

#[derive(Deserialize)]
struct Said {
    messages: u64,
    bytes: u64,
    sum_in: u64,
    sum_out: u64,
    cpu_ns: u64,
    switches: u64,
    took_ns: u64,
    delays_ns: Vec<u64>,
}

/// Runs a case. Where a reader is slower than what is declared, and is cut off, the rate is halved.
pub(super) fn run(case: Case, way: Way, pace: &Pace, place: &mut Place) -> Result<Shown> {
    let what = || format!("{} of {} B by {}", case.name(), pace.bytes, way.name());
    let mut declared = way.declared(case, pace);
    loop {
        place.run += 1;
        match run_once(case, way, (pace, &declared), place) {
            Err(error) if error.is::<CutOff>() && declared.bytes_per_s > RATE_MIN && pace.per_s == 0 => {
                declared.bytes_per_s /= 2;
            }
            ran => return ran.with_context(what),
        }
    }
}

fn run_once(case: Case, way: Way, (pace, declared): (&Pace, &Declared), place: &Place) -> Result<Shown> {
    if place.dir.exists() {
        fs::remove_dir_all(&place.dir)?;
    }
    fs::create_dir_all(&place.dir)?;
    let mut programs = Vec::new();
    for (role, inputs, outputs, readers) in case.programs(way, place) {
        let Pace { bytes, per_s, lasts_ms } = pace;
        let words = format!("{role} {bytes} {per_s} {lasts_ms} {inputs} {outputs} {readers}");
        let mut command = command(way, declared, place)?;
        command.args(words.split(' '));
        programs.push(Program::start(role, command)?);
    }
    programs.iter().try_for_each(|program| program.line().map(drop))?;
    let before = Used::of(place.server)?;
    programs.iter_mut().try_for_each(Program::go)?;
    let mut said: Vec<(&str, Said)> = Vec::new();
    for program in &programs {
        said.push((program.role, serde_json::from_str(&program.line()?)?));
    }
    let server = Used::of(place.server)?.since(&before);
    programs.iter_mut().try_for_each(Program::has_ended)?;
    match way.is_reel() {
        true => {
            let declares = if case == Case::Tap { 0 } else { declared.bytes_per_s };
            let declared_mb_per_s = declares as f64 / 1e6;
            Ok(Shown { declared_mb_per_s, ..shown(&said, server)? })
        }
        false => shown(&said, Used::default()),
    }
}

fn shown(said: &[(&str, Said)], server: Used) -> Result<Shown> {
    let mut sources = said.iter().filter(|(role, _)| *role != "read");
    let written = sources.next_back().map(|(_, said)| (said.messages, said.sum_out));
    let readers: Vec<&Said> = said.iter().filter(|(role, _)| *role == "read").map(|(_, said)| said).collect();
    for reader in &readers {
        let read = (reader.messages, reader.sum_in);
        ensure!(written.is_none_or(|written| written == read), "{written:?} was written and {read:?} read");
    }
    let first = readers.first().context("a case has a reader")?;
    ensure!(first.messages > 0, "nothing was read");
    let messages = first.messages as f64;
    let (cpu_ns, switches) =
        said.iter().fold((0, 0), |sum, (_, said)| (sum.0 + said.cpu_ns, sum.1 + said.switches));
    let mut delays_ns: Vec<u64> =
        readers.iter().flat_map(|reader| reader.delays_ns.iter().copied()).collect();
    delays_ns.sort_unstable();
    Ok(Shown {
        messages: first.messages,
        mb_per_s: first.bytes as f64 * 1000.0 / first.took_ns.max(1) as f64,
        declared_mb_per_s: 0.0,
        cpu_ns: (cpu_ns + server.cpu_ns) as f64 / messages,
        programs_ns: cpu_ns as f64 / messages,
        server_ns: server.cpu_ns as f64 / messages,
        switches: (switches + server.switches) as f64 / messages,
        delays_ns,
    })
}

fn command(way: Way, declared: &Declared, place: &Place) -> Result<Command> {
    let mut command = match way {
        Way::Iceoryx2 { .. } => Command::new(&place.iceoryx2),
        _ => Command::new(std::env::current_exe()?),
    };
    match way {
        Way::Reel { .. } => {
            let Declared { bytes_per_s, workahead_bytes, delay_ms, class } = declared;
            let class = if class.is_empty() { "-" } else { class };
            command.args(["program", "reel"]).arg(&place.socket);
            command.args([bytes_per_s, workahead_bytes, delay_ms].map(u64::to_string)).arg(class);
        }
        Way::Kernel(kernel) => {
            let kernel = match kernel {
                KernelWay::Pipe => "pipe",
                KernelWay::Stream => "stream",
                KernelWay::Seqpacket => "seqpacket",
            };
            command.args(["program", kernel]).arg(&place.dir);
        }
        Way::Iceoryx2 { polls } => {
            let own = format!("reel-bench-{}", std::process::id());
            command.arg(if polls { "polls" } else { "sleeps" }).arg(own);
        }
    }
    Ok(command)
}

impl Program {
    pub(super) fn start(role: &'static str, mut command: Command) -> Result<Program> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("starting {command:?}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.context("its output is a pipe")?;
        let (sends, lines) = channel();
        // It ends with the program.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sends.send(line))
        });
        Ok(Program { role, child, input: input.context("its input is a pipe")?, lines })
    }

    /// Lets it begin.
    pub(super) fn go(&mut self) -> Result<()> {
        Ok(self.input.write_all(b"go\n")?)
    }

    /// Waits for its end.
    pub(super) fn has_ended(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "a program ended with {status}");
        Ok(())
    }

    /// Its next line.
    pub(super) fn line(&self) -> Result<String> {
        self.line_within(Duration::ZERO)
    }

    /// The next line of a program that takes so long for it.
    pub(super) fn line_within(&self, lasts: Duration) -> Result<String> {
        let line = self.lines.recv_timeout(PATIENCE + lasts);
        let line =
            line.map_err(|error| anyhow!("a program that is to {} says nothing: {error}", self.role))?;
        if line == CUT_OFF {
            return Err(CutOff.into());
        }
        Ok(line)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, unless the run has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) cpu_ns: u64,
    switches: u64,
}

impl Used {
    /// All threads of a process (proc(5): `schedstat`, `status`).
    pub(super) fn of(process: u32) -> Result<Used> {
        let mut used = Used::default();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let path = thread?.path();
            // A thread may have ended since.
            let Ok(scheduled) = fs::read_to_string(path.join("schedstat")) else { continue };
            let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
            let ns = scheduled.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
            used.cpu_ns += ns.context("no time in a schedstat of /proc")?;
            used.switches += waits_of(&status).context("no switches in a status of /proc")?;
        }
        if used.cpu_ns == 0 {
            bail!("the kernel does not say what process {process} has used");
        }
        Ok(used)
    }

    pub(super) fn since(self, before: &Used) -> Used {
        // Threads that have ended are not counted any more.
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(messages: u64, sum_in: u64, sum_out: u64) -> Said {
        let delays_ns = vec![messages];
        Said {
            messages,
            bytes: 8 * messages,
            sum_in,
            sum_out,
            cpu_ns: 1000,
            switches: 2,
            took_ns: 8000,
            delays_ns,
        }
    }

    #[test]
    fn what_all_have_used_is_divided_by_the_messages_of_a_reader() {
        let used = Used { cpu_ns: 500, switches: 4 };
        let all = [("write", said(10, 0, 7)), ("read", said(10, 7, 0)), ("read", said(10, 7, 0))];
        let shown = shown(&all, used).unwrap();
        assert_eq!((shown.cpu_ns, shown.programs_ns, shown.server_ns), (350.0, 300.0, 50.0));
        assert_eq!((shown.switches, shown.mb_per_s, shown.delays_ns), (1.0, 10.0, vec![10, 10]));
    }

    #[test]
    fn what_was_lost_or_changed_is_an_error() {
        for reader in [said(9, 7, 0), said(10, 8, 0), said(0, 0, 0)] {
            assert!(shown(&[("write", said(10, 0, 7)), ("read", reader)], Used::default()).is_err());
        }
        // The mixer's output counts, not its inputs.
        let all = [("write", said(10, 0, 7)), ("mix", said(10, 0, 3)), ("read", said(10, 3, 0))];
        assert!(shown(&all, Used::default()).is_ok());
    }

    #[test]
    fn windows_of_all_streams_fit() {
        let pace = Pace { bytes: 160, per_s: 0, lasts_ms: 1 };
        for prompt in [false, true] {
            for (case, streams) in [(Case::Pour, 1), (Case::Mixer, 3)] {
                let declared = Way::Reel { prompt }.declared(case, &pace);
                let window = declared.workahead_bytes + declared.bytes_per_s * declared.delay_ms * 2 / 1000;
                assert!(window * streams <= WINDOWS_BYTES && declared.bytes_per_s > 10_000_000);
            }
        }
    }

    #[test]
    fn a_process_has_used_something() {
        let used = Used::of(std::process::id()).unwrap();
        assert!(used.cpu_ns > 0 && used.since(&used).cpu_ns == 0);
    }
}
