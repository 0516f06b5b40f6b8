//! Govindan's tables 7.1 and 7.2: what one step costs, here and with threads and tokio.

use crate::meter::{Calls, Measured, fifo, percentile, pin};
use crate::ring::MessageRing;
use crate::{Arguments, processes, rivals};
use lab_shared_processor::{Member, SharedProcessor};
use reel_rt::{Agenda, TaskKind, now_ns};
use serde_json::json;

/// One path within the process, done `count` times; or a path between processes.
pub(crate) fn run(arguments: &Arguments) -> Measured {
    let count = arguments.number("count", 100_000);
    pin(arguments.number("cpu", 1))?;
    let counted = arguments.number("calls", 0) == 1;
    let (system, path) = (arguments.text("system"), arguments.text("path"));
    let fifo_priority = arguments.number("fifo", 0);
    if path.starts_with("process") {
        return processes::run(arguments);
    }
    fifo(fifo_priority)?;
    let calls = Calls::begin(counted);
    let steps: Box<dyn FnOnce(u64) -> Result<Steps, String>> = match (system, path) {
        ("split", "deadline") => Box::new(deadline),
        ("split", "switch") => Box::new(switch),
        ("split", "preempt") => Box::new(preempt),
        ("split", "transfer") => Box::new(transfer),
        ("split", "message") => Box::new(message),
        ("threads", path) => rivals::threads(path, fifo_priority)?,
        ("tokio", path) => rivals::tokio(path)?,
        _ => return Err(format!("{system} has no path {path}")),
    };
    // The cost of the first step and of the return is the same for one step and for many.
    let before = calls.so_far();
    let Steps { done, each_ns } = steps(count)?;
    let made = calls.so_far().zip(before).map(|(after, before)| (after - before) as f64 / done as f64);
    Ok(json!({ "ns": each_ns, "calls": made, "count": done }))
}

/// How many steps were made, and the nanoseconds of one.
pub(crate) struct Steps {
    pub(crate) done: u64,
    pub(crate) each_ns: f64,
}

impl Steps {
    pub(crate) fn since(begun_ns: u64, done: u64) -> Steps {
        Steps { done, each_ns: (now_ns() - begun_ns) as f64 / done as f64 }
    }

    /// The median of single steps.
    pub(crate) fn median(mut each: Vec<u64>) -> Steps {
        each.sort_unstable();
        Steps { done: each.len() as u64, each_ns: percentile(&each, 0.5) as f64 }
    }
}

/// The number of streams in the largest of Govindan's experiments.
pub(crate) const STREAMS: u64 = 18;

fn member() -> Result<(Member, Agenda), String> {
    let core = SharedProcessor::create().map_err(|error| error.to_string())?;
    Ok((core.join().map_err(|error| error.to_string())?, Agenda::default()))
}

const HOUR_NS: u64 = 3_600_000_000_000;

/// The running task moves its deadline and remains the best; 17 others come later.
fn deadline(count: u64) -> Result<Steps, String> {
    let (mut member, mut agenda) = member()?;
    let begun_ns = now_ns();
    let kind = TaskKind::Deadline { delay_ns: HOUR_NS };
    for number in 1..STREAMS {
        agenda.add(kind, begun_ns + number * HOUR_NS);
    }
    let best = agenda.add(kind, 0).ok_or("no task")?;
    for message in 0..count {
        let choice = member.next(&mut agenda, |_, _| {});
        if choice.task != Some(best) {
            return Err("another task was chosen".into());
        }
        agenda.advance(best, message);
    }
    Ok(Steps::since(begun_ns, count))
}

/// 18 tasks; each moves its deadline behind those of all others.
fn switch(count: u64) -> Result<Steps, String> {
    let (mut member, mut agenda) = member()?;
    for number in 0..STREAMS {
        agenda.add(TaskKind::Deadline { delay_ns: 0 }, number);
    }
    let begun_ns = now_ns();
    let mut last = None;
    for message in 0..count {
        let choice = member.next(&mut agenda, |_, _| {});
        if choice.task == last {
            return Err("no switch".into());
        }
        last = choice.task;
        agenda.advance(choice.task.ok_or("no task")?, message + STREAMS);
    }
    Ok(Steps::since(begun_ns, count))
}

/// A background task runs and checks at its yield points. Measured from the time at which another
/// task becomes critical to the first instruction of that task.
fn preempt(count: u64) -> Result<Steps, String> {
    let (mut member, mut agenda) = member()?;
    let background = agenda.add(TaskKind::Background, 0).ok_or("no task")?;
    let mut due_ns = now_ns() + 20_000;
    let sleeper = agenda.add(TaskKind::Deadline { delay_ns: 1000 }, due_ns).ok_or("no task")?;
    let mut each = Vec::with_capacity(count as usize);
    while each.len() < count as usize {
        let choice = member.next(&mut agenda, |_, _| {});
        if choice.task == Some(sleeper) {
            let now_ns = now_ns();
            each.push(now_ns - due_ns);
            due_ns = now_ns + 20_000;
            agenda.sleep(sleeper, due_ns);
            continue;
        }
        while !member.should_yield(&choice) {}
        agenda.advance(background, 0);
    }
    Ok(Steps::median(each))
}

/// One byte into a queue and out again.
fn transfer(count: u64) -> Result<Steps, String> {
    let ring = MessageRing::default();
    let begun_ns = now_ns();
    for message in 0..count {
        if !ring.push(message as u8) || ring.pop() != Some(message as u8) {
            return Err("a message was lost".into());
        }
    }
    Ok(Steps::since(begun_ns, count))
}

/// Two tasks send one byte back and forth; each waits for the other.
fn message(count: u64) -> Result<Steps, String> {
    let (mut member, mut agenda) = member()?;
    let kind = TaskKind::Deadline { delay_ns: 0 };
    let tasks = [agenda.add(kind, 0).ok_or("no task")?, agenda.add(kind, 0).ok_or("no task")?];
    let rings = [MessageRing::default(), MessageRing::default()];
    agenda.wait(tasks[1], 1);
    rings[0].push(0);
    let begun_ns = now_ns();
    for message in 0..count {
        let choice = member.next(&mut agenda, |_, _| {});
        let me = usize::from(choice.task == Some(tasks[1]));
        let byte = rings[me].pop().ok_or("no message")?;
        rings[1 - me].push(byte.wrapping_add(1));
        // Sets the flag before the test.
        agenda.wait(tasks[me], message + 2);
        agenda.ready(tasks[1 - me]);
    }
    Ok(Steps::since(begun_ns, count))
}
