//! Tasks of a core: their order, what follows each section, and that messages are handled between
//! them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_ring::{Chunk, Done, DriverChoice, Op, Ring, RingConfig};
use reel_rt::limits::TURN_SEND_BYTES;
use reel_rt::{
    Core, CoreConfig, Mailbox, Next, Service, TaskId, TaskKind, UpcallCounts, UpcallSpec, now_ns, spawn,
};
use reel_testkit::ring_or_skip;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);
const HOUR_NS: u64 = 3_600_000_000_000;

fn config() -> CoreConfig {
    ring_or_skip(Ring::new(RingConfig { entries: 1, driver: DriverChoice::Uring }, None));
    let ring = RingConfig { entries: 8, driver: DriverChoice::Auto };
    CoreConfig { name: "test-tasks".into(), cpu: None, ring, arena: None }
}

/// Reports which task ran. Each task follows its script.
struct Scripted {
    reports: Sender<String>,
    names: HashMap<TaskId, &'static str>,
    scripts: HashMap<&'static str, Vec<Next>>,
    waiting: Option<TaskId>,
}

impl Service for Scripted {
    type Message = &'static str;

    fn message(&mut self, core: &mut Core, message: &'static str) {
        let _ = self.reports.send(message.to_owned());
        match message {
            "end" => core.stop(),
            _ => drop(self.waiting.take().map(|task| core.tasks.ready(task))),
        }
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, _token: u64) {}

    fn task(&mut self, _core: &mut Core, task: TaskId) -> Next {
        let name = self.names[&task];
        let _ = self.reports.send(name.to_owned());
        let next = self.scripts.get_mut(name).and_then(Vec::pop).unwrap_or(Next::Done);
        if matches!(next, Next::Wait { .. }) {
            self.waiting = Some(task);
        }
        next
    }
}

/// A core with these tasks: name, kind, critical time, and the results of their sections, the last
/// one first.
fn scripted(
    tasks: Vec<(&'static str, TaskKind, u64, Vec<Next>)>,
) -> (reel_rt::CoreHandle<&'static str>, std::sync::mpsc::Receiver<String>) {
    let (reports, reported) = channel();
    let core = spawn(config(), move |core, _| {
        let (mut names, mut scripts) = (HashMap::new(), HashMap::new());
        for (name, kind, critical_ns, script) in tasks {
            names.insert(core.tasks.add(kind, critical_ns).unwrap(), name);
            scripts.insert(name, script);
        }
        Scripted { reports, names, scripts, waiting: None }
    });
    (core.unwrap(), reported)
}

/// The order of all kinds is tested beside [`reel_rt::Tasks`], in simulated time: a task without
/// deadlines gets a section when it has waited for 10 ms.
#[test]
fn sections_of_a_core_are_run_in_the_order_of_their_deadlines() {
    let now_ns = now_ns();
    let deadline = |delay_ns| TaskKind::Deadline { delay_ns };
    let ahead = |critical_ns| vec![Next::Done, Next::Advance { critical_ns }];
    let (core, reported) = scripted(vec![
        ("background", TaskKind::Background, 0, vec![Next::Done, Next::Yield]),
        ("early", deadline(2 * HOUR_NS), now_ns, ahead(now_ns + 5 * HOUR_NS)),
        ("late", deadline(HOUR_NS), now_ns, ahead(now_ns + 7 * HOUR_NS)),
        ("interactive", TaskKind::Interactive, 0, vec![]),
    ]);
    let received: Vec<String> = (0..7).map(|_| reported.recv_timeout(LONG).unwrap()).collect();
    let (timed, others): (Vec<&str>, Vec<&str>) =
        received.iter().map(String::as_str).partition(|name| ["early", "late"].contains(name));
    // Critical: late is due in one hour, early in two. Ahead of their time: early is due in 7
    // hours, late in 8.
    assert_eq!(timed, ["late", "early", "early", "late"], "{received:?}");
    let background = others.iter().filter(|name| **name == "background").count();
    assert_eq!((others.len(), background), (3, 2), "{received:?}");
    core.mailbox().post("end");
    core.join().unwrap();
}

#[test]
fn a_task_that_never_ends_leaves_room_for_messages() {
    let forever = vec![Next::Yield; 1_000_000];
    let (core, reported) = scripted(vec![
        ("busy", TaskKind::Background, 0, forever),
        ("waits", TaskKind::Interactive, 0, vec![Next::Done, Next::Wait { critical_ns: 0 }]),
    ]);
    assert_eq!(reported.recv_timeout(LONG).unwrap(), "waits");
    core.mailbox().post("come");
    let received: Vec<String> = reported.iter().skip_while(|said| said != "come").take(2).collect();
    assert_eq!(
        received,
        ["come", "waits"],
        "the message that the task waits for has arrived, and the task is not background work"
    );
    core.mailbox().post("end");
    core.join().unwrap();
}

/// Downloads that always have something to send, and a stream whose critical bytes arrive now and
/// then.
struct Downloads {
    /// Gets the number of download sections between the message and the stream's section.
    reports: Sender<u64>,
    own: Mailbox<()>,
    stream: TaskId,
    socket: Arc<OwnedFd>,
    send_bytes: usize,
    sections: u64,
    /// How many download sections had run when the unanswered message was sent.
    asked: Option<u64>,
}

impl Downloads {
    /// A message for the stream is sent after this many sections.
    const MESSAGE_EVERY: u64 = 1_234;
}

impl Service for Downloads {
    type Message = ();

    fn message(&mut self, core: &mut Core, (): ()) {
        core.tasks.ready(self.stream);
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, _token: u64) {}

    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        if task == self.stream {
            if let Some(asked) = self.asked.take()
                && self.reports.send(self.sections - asked).is_err()
            {
                core.stop();
            }
            return Next::Wait { critical_ns: 0 };
        }
        self.sections += 1;
        let chunks = vec![Chunk::from(vec![0; self.send_bytes])];
        core.ring.push(self.sections, Op::Send { socket: Arc::clone(&self.socket), chunks });
        if self.sections.is_multiple_of(Downloads::MESSAGE_EVERY) && self.asked.is_none() {
            self.asked = Some(self.sections);
            self.own.post(());
        }
        Next::Yield
    }
}

#[test]
fn critical_work_runs_next_however_many_downloads_are_ready() {
    for driver in [DriverChoice::Auto, DriverChoice::Portable] {
        for send_bytes in [TURN_SEND_BYTES, TURN_SEND_BYTES / 8] {
            let (reports, reported) = channel();
            // Nothing reads the other end, so most sends take nothing. Only that they were pushed
            // counts.
            let (socket, _peer) = UnixStream::pair().unwrap();
            socket.set_nonblocking(true).unwrap();
            let config = CoreConfig { ring: RingConfig { entries: 64, driver }, ..config() };
            let core = spawn(config, move |core, own| {
                for _ in 0..500 {
                    core.tasks.add(TaskKind::Background, 0).unwrap();
                }
                let stream = core.tasks.add(TaskKind::Deadline { delay_ns: HOUR_NS }, 0).unwrap();
                let socket = Arc::new(socket.into());
                Downloads { reports, own, stream, socket, send_bytes, sections: 0, asked: None }
            })
            .unwrap();
            for _ in 0..5 {
                let before = reported.recv_timeout(LONG).unwrap();
                // The section that sent the message is the only one, or one of as many as enter the
                // ring together.
                let most = TURN_SEND_BYTES / send_bytes - 1;
                assert!(before <= most as u64, "{before} sections of downloads first, of {send_bytes} bytes");
            }
            drop(reported);
            core.join().unwrap();
        }
    }
}

/// An upcall, and a message that stops the core.
struct Periodic {
    reports: Sender<UpcallCounts>,
    task: TaskId,
}

impl Service for Periodic {
    type Message = ();

    fn message(&mut self, core: &mut Core, (): ()) {
        core.stop();
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, _token: u64) {}

    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        assert_eq!(task, self.task);
        let now_ns = now_ns();
        assert!(core.tasks.upcall_due_ns(task).unwrap() <= now_ns, "never early");
        let _ = self.reports.send(core.tasks.upcall_counts(task).unwrap());
        Next::Done
    }
}

#[test]
fn every_period_is_called_or_counted_as_skipped() {
    let spec = UpcallSpec { period_ns: 1_000_000, budget_ns: HOUR_NS, delay_ns: 1_000_000 };
    let (reports, reported) = channel();
    let begun_ns = now_ns();
    let core = spawn(config(), move |core, _| {
        let task = core.tasks.add_upcall(spec, begun_ns).unwrap();
        Periodic { reports, task }
    })
    .unwrap();
    let mut last = UpcallCounts::default();
    for _ in 0..20 {
        last = reported.recv_timeout(LONG).unwrap();
    }
    assert_eq!(last.calls, 19, "reported at the beginning of each call");
    assert_eq!(last.overruns, 0);
    // 20 calls on a grid of 1 ms from the beginning, at most one in each period.
    assert!(now_ns() - begun_ns >= (last.calls + last.skipped) * spec.period_ns);
    core.mailbox().post(());
    core.join().unwrap();
}
