//! Paths between two processes on one processor: this one, and a partner that it starts.

use crate::Arguments;
use crate::meter::{Calls, Measured, fifo, pin};
use crate::paths::Steps;
use crate::ring::MessageRing;
use crate::rivals::sleep_until;
use lab_shared_processor::{Member, SharedProcessor};
use reel_rt::{Agenda, TaskId, TaskKind, now_ns};
use rustix::thread::futex;
use rustix::thread::sched_yield;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// How far ahead the waking side sets its time.
const AHEAD_NS: u64 = 50_000;

/// One side of two.
struct Side {
    /// 0 for the measuring side, 1 for its partner.
    number: usize,
    count: u64,
    fifo: u64,
    core: Option<SharedProcessor>,
    rings: &'static [MessageRing; 2],
}

/// A member with its tasks.
struct Joined {
    member: Member,
    agenda: Agenda,
}

impl Joined {
    /// Joins as the first member, and takes the processor.
    fn take(core: &SharedProcessor) -> Result<Joined, String> {
        let (mut member, mut agenda) = (core.join().map_err(text)?, Agenda::default());
        let task = agenda.add(TaskKind::Background, 0).ok_or("no task")?;
        member.next(&mut agenda, |_, _| {});
        agenda.remove(task);
        Ok(Joined { member, agenda })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Measured {
    let (system, path, count) =
        (arguments.text("system"), arguments.text("path"), arguments.number("count", 20_000));
    let split = system == "split";
    let core = split.then(SharedProcessor::create).transpose().map_err(|error| error.to_string())?;
    // Takes the processor before there is a partner, so that both begin together.
    let joined = core.as_ref().map(Joined::take).transpose()?;
    let memory =
        core.as_ref().map(|core| format!("/proc/{}/fd/{}", std::process::id(), core.fd().as_raw_fd()));
    let shared = format!("/dev/shm/reel-cores-{}", std::process::id());
    let rings = MessageRing::pair(&shared)?;
    let fifo_priority = arguments.number("fifo", 0);
    let mut partner = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .args(["partner", &format!("system={system}"), &format!("path={path}"), &format!("count={count}")])
        .args([format!("cpu={}", arguments.number("cpu", 1)), format!("fifo={fifo_priority}")])
        .args([format!("memory={}", memory.unwrap_or_default()), format!("rings={shared}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    // The background thread has no priority over the one that is due.
    let works = system == "threads" && path == "process-preempt";
    fifo(if works { 0 } else { fifo_priority })?;
    let side = Side { number: 0, count, fifo: fifo_priority, core, rings };
    let wanted = arguments.number("calls", 0) == 1;
    let measured = side.measure(system, path, joined, &mut partner, wanted);
    if measured.is_err() {
        let _ = partner.kill();
    }
    let report = partner.wait_with_output().map_err(|error| error.to_string());
    let _ = std::fs::remove_file(&shared);
    let (steps, calls) = measured?;
    let mut value = json!({ "ns": steps.each_ns, "calls": calls, "count": steps.done });
    if path == "process-preempt" {
        // The partner knows when it began to run.
        let report: Value = serde_json::from_slice(&report?.stdout).map_err(|error| error.to_string())?;
        value["ns"] = report["ns"].clone();
    }
    Ok(value)
}

/// The other side.
pub(crate) fn partner(arguments: &Arguments) -> Measured {
    pin(arguments.number("cpu", 1))?;
    fifo(arguments.number("fifo", 0))?;
    let core = match arguments.text("memory") {
        "" => None,
        memory => {
            let file =
                OpenOptions::new().read(true).write(true).open(memory).map_err(|error| error.to_string())?;
            Some(SharedProcessor::attach(file.into()).map_err(|error| error.to_string())?)
        }
    };
    let rings = MessageRing::pair(arguments.text("rings"))?;
    let (count, fifo) = (arguments.number("count", 0), arguments.number("fifo", 0));
    let side = Side { number: 1, count, fifo, core, rings };
    let steps = match (arguments.text("system"), arguments.text("path")) {
        ("split", path) => {
            let member = side.core.as_ref().ok_or("no shared processor")?.join().map_err(text)?;
            side.split(path, Joined { member, agenda: Agenda::default() }, || ())?
        }
        ("threads", "process-preempt") => side.sleep_and_wake()?,
        ("threads", "process-message") => side.pipes(&mut std::io::stdin(), &mut std::io::stdout())?,
        ("threads", "process-futex") => side.futexes()?,
        ("threads", _) => side.yields()?,
        _ => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (from, to) = (std::io::stdin().as_raw_fd(), std::io::stdout().as_raw_fd());
            let own =
                |fd| OpenOptions::new().read(fd == from).write(fd == to).open(format!("/proc/self/fd/{fd}"));
            let (read, write) = (own(from).map_err(text)?, own(to).map_err(text)?);
            runtime.map_err(text)?.block_on(side.tokio_pipes(read.into(), write.into()))?
        }
    };
    // In these, the pipe belongs to the measurement.
    match arguments.text("path") {
        "process-message" if arguments.text("system") != "split" => std::process::exit(0),
        _ => Ok(json!({ "ns": steps.each_ns })),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Side {
    fn measure(
        &self,
        system: &str,
        path: &str,
        joined: Option<Joined>,
        partner: &mut Child,
        wanted: bool,
    ) -> Result<(Steps, Option<f64>), String> {
        let (mut counter, mut before) = (Calls::begin(false), None);
        let mut begin = || {
            counter = Calls::begin(wanted);
            before = counter.so_far();
        };
        let steps = match (system, path) {
            ("split", path) => self.split(path, joined.ok_or("no shared processor")?, begin)?,
            ("threads", "process-preempt") => {
                begin();
                while partner.try_wait().map_err(text)?.is_none() {
                    crate::meter::work(10_000);
                }
                Steps { done: self.count, each_ns: 0.0 }
            }
            ("threads", "process-futex") => {
                begin();
                self.futexes()?
            }
            ("threads", "process-switch") if self.fifo > 0 => {
                begin();
                self.yields()?
            }
            ("threads", "process-message") => {
                let (Some(mut read), Some(mut write)) = (partner.stdout.take(), partner.stdin.take()) else {
                    return Err("no pipes".into());
                };
                begin();
                self.pipes(&mut read, &mut write)?
            }
            ("tokio", "process-message") => {
                let (Some(read), Some(write)) = (partner.stdout.take(), partner.stdin.take()) else {
                    return Err("no pipes".into());
                };
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
                begin();
                runtime.block_on(self.tokio_pipes(read.into(), write.into()))?
            }
            _ => return Err(format!("{system} has no path {path}")),
        };
        let calls = counter.so_far().zip(before).map(|(after, before)| {
            // Both sides do the same number of steps. This side's calls were counted, and its steps
            // are half of all.
            (after - before) as f64 / (steps.done as f64 / 2.0)
        });
        Ok((steps, calls))
    }

    fn split(&self, path: &str, joined: Joined, begin: impl FnOnce()) -> Result<Steps, String> {
        let core = self.core.as_ref().ok_or("no shared processor")?;
        let Joined { mut member, mut agenda } = joined;
        if self.number == 0 {
            while core.members() < 2 {
                sleep_until(now_ns() + 1_000_000);
            }
            // Until the partner has published its state and waits.
            sleep_until(now_ns() + 20_000_000);
        }
        begin();
        match path {
            "process-switch" => self.alternate(&mut member, &mut agenda),
            "process-message" => self.messages(core, &mut member, &mut agenda),
            "process-preempt" if self.number == 0 => self.work_and_yield(&mut member, &mut agenda),
            "process-preempt" => self.preempt_often(&mut member, &mut agenda),
            _ => Err(format!("no path {path}")),
        }
    }

    /// The deadlines of the two sides alternate, so the processor changes hands after every
    /// message.
    fn alternate(&self, member: &mut Member, agenda: &mut Agenda) -> Result<Steps, String> {
        let mut deadline = self.number as u64;
        let task = agenda.add(TaskKind::Deadline { delay_ns: 0 }, deadline).ok_or("no task")?;
        let begun_ns = now_ns();
        for _ in 0..self.count {
            member.next(agenda, |_, _| {});
            deadline += 2;
            agenda.advance(task, deadline);
        }
        Ok(Steps::since(begun_ns, 2 * self.count))
    }

    /// One byte back and forth through shared memory; each side waits for the other's doorbell.
    fn messages(
        &self,
        core: &SharedProcessor,
        member: &mut Member,
        agenda: &mut Agenda,
    ) -> Result<Steps, String> {
        let doorbell = core.doorbell(1 - member.slot(), 0).ok_or("no doorbell")?;
        let (mine, others) = (&self.rings[self.number], &self.rings[1 - self.number]);
        let task = agenda.add(TaskKind::Deadline { delay_ns: 0 }, 0).ok_or("no task")?;
        let begun_ns = now_ns();
        for message in 0..self.count {
            if self.number == 0 {
                others.push(message as u8);
                doorbell.ring();
            }
            receive(mine, member, agenda, task, message);
            if self.number == 1 {
                others.push(message as u8);
                doorbell.ring();
            }
        }
        Ok(Steps::since(begun_ns, 2 * self.count))
    }

    /// Works in the background and yields at its yield points until the partner says that it has
    /// finished.
    fn work_and_yield(&self, member: &mut Member, agenda: &mut Agenda) -> Result<Steps, String> {
        let task = agenda.add(TaskKind::Background, 0).ok_or("no task")?;
        while self.rings[0].waiting() == 0 {
            let choice = member.next(agenda, |_, _| {});
            while !member.should_yield(&choice) && self.rings[0].waiting() == 0 {}
            agenda.advance(task, 0);
        }
        Ok(Steps { done: self.count, each_ns: 0.0 })
    }

    /// Sleeps briefly and preempts the other side's work, repeatedly.
    fn preempt_often(&self, member: &mut Member, agenda: &mut Agenda) -> Result<Steps, String> {
        let mut due_ns = now_ns() + AHEAD_NS;
        let task = agenda.add(TaskKind::Deadline { delay_ns: 1000 }, due_ns).ok_or("no task")?;
        let mut each = Vec::with_capacity(self.count as usize);
        for _ in 0..self.count {
            member.next(agenda, |_, _| {});
            let now_ns = now_ns();
            each.push(now_ns.saturating_sub(due_ns));
            due_ns = now_ns + AHEAD_NS;
            agenda.sleep(task, due_ns);
        }
        self.rings[0].push(0);
        Ok(Steps::median(each))
    }

    fn sleep_and_wake(&self) -> Result<Steps, String> {
        let mut each = Vec::with_capacity(self.count as usize);
        for _ in 0..self.count {
            let due_ns = now_ns() + AHEAD_NS;
            sleep_until(due_ns);
            each.push(now_ns() - due_ns);
        }
        Ok(Steps::median(each))
    }

    fn pipes(&self, read: &mut impl Read, write: &mut impl Write) -> Result<Steps, String> {
        let begun_ns = now_ns();
        let mut byte = [0];
        let send = |write: &mut dyn Write, byte: &[u8]| {
            write.write_all(byte).and_then(|()| write.flush()).map_err(text)
        };
        for _ in 0..self.count {
            if self.number == 0 {
                send(write, &byte)?;
            }
            read.read_exact(&mut byte).map_err(text)?;
            if self.number == 1 {
                send(write, &byte)?;
            }
        }
        Ok(Steps::since(begun_ns, 2 * self.count))
    }

    async fn tokio_pipes(
        &self,
        read: std::os::fd::OwnedFd,
        write: std::os::fd::OwnedFd,
    ) -> Result<Steps, String> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut read = tokio::net::unix::pipe::Receiver::from_owned_fd(read).map_err(text)?;
        let mut write = tokio::net::unix::pipe::Sender::from_owned_fd(write).map_err(text)?;
        let begun_ns = now_ns();
        let mut byte = [0];
        for _ in 0..self.count {
            if self.number == 0 {
                write.write_all(&byte).await.map_err(text)?;
            }
            read.read_exact(&mut byte).await.map_err(text)?;
            if self.number == 1 {
                write.write_all(&byte).await.map_err(text)?;
            }
        }
        Ok(Steps::since(begun_ns, 2 * self.count))
    }

    /// Each side wakes the other by a futex of its own and sleeps on its own.
    fn futexes(&self) -> Result<Steps, String> {
        let words: &[AtomicU32; 2] = MessageRing::words(self.rings);
        let (mine, others) = (&words[self.number], &words[1 - self.number]);
        let wait = |word: &AtomicU32, seen: u32| {
            while word.load(Ordering::SeqCst) == seen {
                let _ = futex::wait(word, futex::Flags::empty(), seen, None);
            }
        };
        let begun_ns = now_ns();
        for turn in 0..self.count as u32 {
            if self.number == 1 {
                wait(mine, turn);
            }
            others.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(others, futex::Flags::empty(), 1);
            if self.number == 0 {
                wait(mine, turn);
            }
        }
        Ok(Steps::since(begun_ns, 2 * self.count))
    }

    /// Both yield to each other; with SCHED_FIFO of one priority, every call switches.
    fn yields(&self) -> Result<Steps, String> {
        // Begins when both sides are ready.
        self.rings[1 - self.number].push(0);
        while self.rings[self.number].waiting() == 0 {
            sched_yield();
        }
        let begun_ns = now_ns();
        for _ in 0..self.count {
            sched_yield();
        }
        Ok(Steps::since(begun_ns, 2 * self.count))
    }
}

fn receive(ring: &MessageRing, member: &mut Member, agenda: &mut Agenda, task: TaskId, message: u64) {
    loop {
        agenda.wait(task, message);
        // Sets the flag before the test.
        member.wait_on(0, agenda, task);
        if ring.waiting() > 0 {
            member.wait_no_longer(0);
            agenda.ready(task);
        }
        let choice = member.next(agenda, |agenda, _| {
            agenda.ready(task);
        });
        if choice.task == Some(task) && ring.pop().is_some() {
            return;
        }
    }
}
