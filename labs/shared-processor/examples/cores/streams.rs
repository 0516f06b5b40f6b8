//! Govindan's experiments E1 to E6, live: streams of messages, each with a period, a delay bound, a
//! buffer and work.
//!
//! A device (a thread on another processor) puts messages into the buffers when they are due, at
//! most as many ahead as the buffer holds. The result is the processor time of the threads that
//! take them, minus that of the work itself.

use crate::Arguments;
use crate::meter::{Calls, Measured, clock_ns, fifo, percentile, pin, rounds_of, thread_cpu_ns, work};
use crate::ring::MessageRing;
use lab_shared_processor::{Doorbell, Member, SharedProcessor};
use reel_rt::{Agenda, TaskId, TaskKind, Workahead, now_ns};
use serde_json::json;
use std::io::{PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Messages of the calibration with one thread.
const ALONE: u64 = 10_000;

/// One stream, in nanoseconds and messages.
#[derive(Clone, Copy)]
struct Stream {
    period_ns: u64,
    delay_ns: u64,
    buffer: u64,
    /// When its first message is critical.
    first_ns: u64,
    messages: u64,
}

/// What the threads that take messages used.
#[derive(Default)]
struct Taken {
    cpu_ns: u64,
    messages: u64,
    /// Late messages among those that were timed.
    late: u64,
    hand_overs: u64,
    /// How long the work of the timed messages took.
    works_ns: Vec<u64>,
}

/// How messages reach the threads that take them.
enum Slot {
    Ring(Arc<MessageRing>, Doorbell),
    Pipe(PipeWriter),
    Channel(tokio::sync::mpsc::Sender<u8>),
}

impl Stream {
    /// When a message is critical.
    fn critical_ns(&self, number: u64) -> u64 {
        self.first_ns + number * self.period_ns
    }

    /// When the device has it: as soon as its place in the buffer is free.
    fn arrives_ns(&self, number: u64) -> u64 {
        self.critical_ns(number).saturating_sub((self.buffer - 1) * self.period_ns)
    }

    fn deadline_ns(&self, number: u64) -> u64 {
        self.critical_ns(number) + self.delay_ns
    }
}

/// `streams=PERIOD:DELAY:BUFFER,...` in nanoseconds, `work` in nanoseconds, `seconds` of messages
/// in milliseconds.
pub(crate) fn run(arguments: &Arguments) -> Measured {
    let (cpu, device_cpu) = (arguments.number("cpu", 1), arguments.number("device", 2));
    let (priority, members) = (arguments.number("fifo", 0), arguments.number("members", 1));
    let duration_ns = arguments.number("ms", 1000) * 1_000_000;
    let system = arguments.text("system").to_owned();
    pin(cpu)?;
    let rounds = rounds_beside_device(arguments.number("work", 2500), device_cpu)?;
    let words: Vec<&str> = arguments.text("streams").split(',').collect();
    let floor_before_ns = alone(rounds, priority)?;
    let begins_ns = now_ns() + 100_000_000;
    let count = words.len() as u64;
    let stream = |(number, word): (usize, &&str)| -> Option<Stream> {
        let mut fields = word.split(':').map(|field| field.parse::<u64>());
        let mut next = || fields.next()?.ok();
        let (period_ns, delay_ns, buffer) = (next()?.max(1), next()?, next()?.clamp(1, 60));
        // Spread over the period, so that the streams do not coincide.
        let first_ns = begins_ns + buffer * period_ns + period_ns * number as u64 / count;
        Some(Stream { period_ns, delay_ns, buffer, first_ns, messages: duration_ns / period_ns })
    };
    let streams: Option<Vec<Stream>> = words.iter().enumerate().map(stream).collect();
    let streams =
        streams.filter(|all| !all.is_empty()).ok_or("streams=PERIOD:DELAY:BUFFER,... are needed")?;
    let calls = Calls::begin(arguments.number("calls", 0) == 1);
    let workahead =
        if arguments.text("workahead") == "global" { Workahead::Global } else { Workahead::Within };
    let (mut taken, device_ns) = match system.as_str() {
        "split" => split(&streams, rounds, members, workahead, (priority, device_cpu))?,
        "threads" => threads(&streams, rounds, (priority, device_cpu))?,
        "tokio" => tokio_tasks(&streams, rounds, device_cpu)?,
        _ => return Err(format!("unknown program {system}")),
    };
    let made = calls.so_far();
    let floor_ns = (floor_before_ns + alone(rounds, priority)?) / 2.0;
    let each_ns = mean_ns(&mut taken.works_ns) - clock_ns();
    let work_ns = (each_ns + floor_ns) * taken.messages as f64;
    let overhead_ns = (taken.cpu_ns as f64 - work_ns) / taken.messages as f64;
    Ok(json!({
        "overhead_ns": overhead_ns,
        "floor_ns": floor_ns,
        "overhead_percent": (taken.cpu_ns as f64 - work_ns) / duration_ns as f64 * 100.0,
        "work_percent": work_ns / duration_ns as f64 * 100.0,
        "late_share": taken.late as f64 / taken.works_ns.len() as f64,
        "device_ns": device_ns as f64 / taken.messages as f64,
        "hand_overs": taken.hand_overs as f64 / taken.messages as f64,
        "calls": made.map(|made| made as f64 / taken.messages as f64),
        "messages": taken.messages,
    }))
}

/// Time of the work of a message, in this run, and of one reading of the clock: the mean of one
/// message in eight. (A calibration before the run would be wrong by the effect of the machine's
/// other work on the speed of the processor, and a median by how that changes during the run.)
/// Messages that took more than twice the median were interrupted, and the interruption is not
/// their work.
fn mean_ns(samples: &mut [u64]) -> f64 {
    samples.sort_unstable();
    let longest_ns = 2 * percentile(samples, 0.5);
    let whole = &samples[..samples.partition_point(|took_ns| *took_ns <= longest_ns)];
    whole.iter().sum::<u64>() as f64 / whole.len().max(1) as f64
}

/// How many rounds of work take `work_ns` while the device's processor is busy: where both are
/// threads of one processor core, that slows the work down.
fn rounds_beside_device(work_ns: u64, device_cpu: u64) -> Result<u64, String> {
    let over = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&over);
    let busy = thread::spawn(move || -> Result<(), String> {
        pin(device_cpu)?;
        while !ending.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    });
    let rounds = rounds_of(work_ns);
    over.store(true, Ordering::Relaxed);
    busy.join().map_err(|_| "a thread died")??;
    Ok(rounds)
}

/// The machine's share of the processor time of a message whose work is done by a thread that waits
/// for nothing: the tick, the host's work, and the clock readings. It grows with the work, and does
/// not depend on the way of waiting.
fn alone(rounds: u64, priority: u64) -> Result<f64, String> {
    let stream = Stream { period_ns: 1, delay_ns: 0, buffer: 1, first_ns: 0, messages: ALONE };
    let worker = thread::spawn(move || -> Result<Taken, String> {
        fifo(priority)?;
        let (mut taken, begun_ns) = (Taken::default(), thread_cpu_ns());
        (0..ALONE).for_each(|message| taken.message(&stream, message, rounds));
        taken.cpu_ns = thread_cpu_ns() - begun_ns;
        Ok(taken)
    });
    let mut taken = worker.join().map_err(|_| "a thread died")??;
    Ok(taken.cpu_ns as f64 / ALONE as f64 - mean_ns(&mut taken.works_ns) + clock_ns())
}

/// The device: messages in order of arrival, each at its time, or at once if the device is behind.
fn device(streams: &[Stream], mut slots: Vec<Slot>, cpu: u64) -> Result<u64, String> {
    pin(cpu)?;
    // Hardware does not wait for a processor. Without the permission the device may be late, which
    // the result then shows.
    let _ = fifo(60);
    let mut all: Vec<(u64, usize, u64)> = Vec::new();
    for (number, stream) in streams.iter().enumerate() {
        all.extend((0..stream.messages).map(|message| (stream.arrives_ns(message), number, message)));
    }
    all.sort_unstable();
    let mut used_ns = 0;
    for (at_ns, number, message) in all {
        while now_ns() < at_ns {
            std::hint::spin_loop();
        }
        let begun_ns = now_ns();
        match &mut slots[number] {
            Slot::Ring(ring, doorbell) => {
                while !ring.push(message as u8) {
                    std::hint::spin_loop();
                }
                doorbell.ring();
            }
            Slot::Pipe(pipe) => pipe.write_all(&[message as u8]).map_err(|error| error.to_string())?,
            Slot::Channel(send) => send.blocking_send(message as u8).map_err(|error| error.to_string())?,
        }
        used_ns += now_ns() - begun_ns;
    }
    Ok(used_ns)
}

type Played = Result<(Taken, u64), String>;

/// Tasks of one member, or of several members, each a thread of its own on the same processor.
fn split(
    streams: &[Stream],
    rounds: u64,
    members: u64,
    workahead: Workahead,
    (priority, device_cpu): (u64, u64),
) -> Played {
    let core = SharedProcessor::create().map_err(|error| error.to_string())?;
    let mut slots: Vec<Option<Slot>> = streams.iter().map(|_| None).collect();
    let mut players = Vec::new();
    for number in 0..members {
        let member = core.join().map_err(|error| error.to_string())?;
        let mut mine = Vec::new();
        for (index, stream) in
            streams.iter().enumerate().filter(|(index, _)| *index as u64 % members == number)
        {
            let ring = Arc::new(MessageRing::default());
            let doorbell = member.doorbell(mine.len()).ok_or("more streams than a member has doorbells")?;
            slots[index] = Some(Slot::Ring(Arc::clone(&ring), doorbell));
            mine.push((*stream, ring));
        }
        players.push(thread::spawn(move || -> Result<Taken, String> {
            fifo(priority)?;
            play(member, Agenda::new(workahead), &mine, rounds)
        }));
    }
    let (all, slots) = (streams.to_vec(), slots.into_iter().flatten().collect());
    let device = thread::spawn(move || device(&all, slots, device_cpu));
    let mut taken = Taken::default();
    for player in players {
        taken.add(player.join().map_err(|_| "a member died")??);
    }
    taken.hand_overs = core.counts().hand_overs;
    Ok((taken, device.join().map_err(|_| "the device died")??))
}

fn play(
    mut member: Member,
    mut agenda: Agenda,
    streams: &[(Stream, Arc<MessageRing>)],
    rounds: u64,
) -> Result<Taken, String> {
    let mut tasks: Vec<TaskId> = Vec::new();
    for (line, (stream, _)) in streams.iter().enumerate() {
        let kind = TaskKind::Deadline { delay_ns: stream.delay_ns };
        let task = agenda.add(kind, stream.first_ns).ok_or("no task")?;
        agenda.wait(task, stream.first_ns);
        member.wait_on(line, &agenda, task);
        tasks.push(task);
    }
    let mut done = vec![0_u64; streams.len()];
    let (mut left, mut taken) = (streams.len(), Taken::default());
    while left > 0 {
        let choice = member.next(&mut agenda, |agenda, line| {
            agenda.ready(tasks[line]);
        });
        let Some(task) = choice.task else { continue };
        let line = task.index();
        let (stream, ring) = &streams[line];
        while ring.pop().is_some() {
            taken.message(stream, done[line], rounds);
            done[line] += 1;
            if !member.takes_more(&choice) {
                break;
            }
        }
        let critical_ns = stream.critical_ns(done[line]);
        if done[line] == stream.messages {
            agenda.remove(task);
            left -= 1;
        } else if ring.waiting() > 0 {
            agenda.advance(task, critical_ns);
        } else {
            agenda.wait(task, critical_ns);
            // Sets the flag before the test.
            member.wait_on(line, &agenda, task);
            if ring.waiting() > 0 {
                member.wait_no_longer(line);
                agenda.ready(task);
            }
        }
    }
    taken.cpu_ns = thread_cpu_ns();
    Ok(taken)
}

/// A thread for each stream, with a pipe.
fn threads(streams: &[Stream], rounds: u64, (priority, device_cpu): (u64, u64)) -> Played {
    let (mut slots, mut players) = (Vec::new(), Vec::new());
    // With fixed priorities, a shorter delay bound has a higher priority.
    let mut delays: Vec<u64> = streams.iter().map(|stream| stream.delay_ns).collect();
    delays.sort_unstable();
    delays.dedup();
    for stream in streams.iter().copied() {
        let (mut read, write) = std::io::pipe().map_err(|error| error.to_string())?;
        slots.push(Slot::Pipe(write));
        let rank = delays.iter().filter(|delay| **delay >= stream.delay_ns).count() as u64;
        let priority = if priority > 0 { priority + rank } else { 0 };
        players.push(thread::spawn(move || -> Result<Taken, String> {
            fifo(priority)?;
            let mut taken = Taken::default();
            let mut byte = [0];
            for message in 0..stream.messages {
                read.read_exact(&mut byte).map_err(|error| error.to_string())?;
                taken.message(&stream, message, rounds);
            }
            taken.cpu_ns = thread_cpu_ns();
            Ok(taken)
        }));
    }
    let all = streams.to_vec();
    let device = thread::spawn(move || device(&all, slots, device_cpu));
    let mut taken = Taken::default();
    for player in players {
        taken.add(player.join().map_err(|_| "a thread died")??);
    }
    Ok((taken, device.join().map_err(|_| "the device died")??))
}

/// A task for each stream on tokio's runtime of one thread, with a channel.
fn tokio_tasks(streams: &[Stream], rounds: u64, device_cpu: u64) -> Played {
    let (mut slots, mut receivers) = (Vec::new(), Vec::new());
    for stream in streams.iter().copied() {
        let (send, receive) = tokio::sync::mpsc::channel(64);
        slots.push(Slot::Channel(send));
        receivers.push((stream, receive));
    }
    let all = streams.to_vec();
    let device = thread::spawn(move || device(&all, slots, device_cpu));
    let player = thread::spawn(move || -> Result<Taken, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut taken = runtime.map_err(|error| error.to_string())?.block_on(async move {
            let tasks: Vec<_> = receivers
                .into_iter()
                .map(|(stream, mut receive)| {
                    tokio::spawn(async move {
                        let mut taken = Taken::default();
                        while receive.recv().await.is_some() {
                            taken.message(&stream, taken.messages, rounds);
                        }
                        taken
                    })
                })
                .collect();
            let mut all = Taken::default();
            for task in tasks {
                all.add(task.await.map_err(|error| error.to_string())?);
            }
            Ok::<Taken, String>(all)
        })?;
        taken.cpu_ns = thread_cpu_ns();
        Ok(taken)
    });
    let taken = player.join().map_err(|_| "the runtime died")??;
    Ok((taken, device.join().map_err(|_| "the device died")??))
}

impl Taken {
    /// Does the work of a message. One in eight is timed, so that the timing itself does not
    /// dominate.
    fn message(&mut self, stream: &Stream, number: u64, rounds: u64) {
        if number.is_multiple_of(8) {
            let begun_ns = now_ns();
            work(rounds);
            let ended_ns = now_ns();
            self.works_ns.push(ended_ns - begun_ns);
            self.late += u64::from(ended_ns > stream.deadline_ns(number));
        } else {
            work(rounds);
        }
        self.messages += 1;
    }

    fn add(&mut self, other: Taken) {
        self.cpu_ns += other.cpu_ns;
        self.messages += other.messages;
        self.late += other.late;
        self.works_ns.extend(other.works_ns);
    }
}
