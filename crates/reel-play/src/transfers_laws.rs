//! The schedule on a modelled machine, whose kernel gives every thread that wants a processor the
//! same part of them.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const MIB_NS: u64 = 400_000;

/// A machine with transfers, their clients and other programs.
struct Machine {
    processors: f64,
    /// Threads that serve. Each takes a whole processor if transfers do not pause.
    threads: u64,
    /// Clients of this machine: one for each serving thread that takes as much as it does.
    has_clients: bool,
    /// Threads of other programs that want all they can get.
    programs: u64,
    /// Those among them that have a low priority.
    low_priority: u64,
    /// What else is sent, as a part of all.
    viewers: f64,
    work: TransferWork,
    pause: TransferPause,
}

/// Parts of the processors in one look.
#[derive(Clone, Copy, Debug)]
struct Took {
    transfers: f64,
    programs: f64,
    idle: f64,
}

impl Machine {
    fn new(processors: f64, threads: u64, programs: u64) -> Self {
        let work = TransferWork { mib_ns: MIB_NS, ..TransferWork::default() };
        let pause = TransferPause::default();
        Self { processors, threads, has_clients: false, programs, low_priority: 0, viewers: 0.0, work, pause }
    }

    /// What threads that want so much get: each at most that, and the same for those that want
    /// more.
    fn share(&self, wants: &[f64]) -> Vec<f64> {
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by(|a, b| wants[*a].total_cmp(&wants[*b]));
        let (mut left, mut got) = (self.processors, vec![0.0; wants.len()]);
        for (place, thread) in order.into_iter().enumerate() {
            got[thread] = wants[thread].min(left / (wants.len() - place) as f64);
            left -= got[thread];
        }
        got
    }

    /// The time until the next look.
    fn look(&mut self, schedule: TransferSchedule) -> (Took, Option<TransferSchedule>) {
        let run_ns = RUN_CORE_NS as f64;
        let wanted = run_ns / (run_ns + schedule.pause_ns as f64);
        let mut wants = vec![wanted; self.threads as usize];
        let normal = self.programs - self.low_priority;
        wants.extend(vec![1.0; normal as usize]);
        let clients = if self.has_clients { self.threads as usize } else { 0 };
        wants.extend(vec![wanted; clients]);
        let got = self.share(&wants);
        let sum = |from: usize, count: usize| got[from..from + count].iter().sum::<f64>();
        let (own, programs) = (sum(0, self.threads as usize), sum(self.threads as usize, normal as usize));
        let clients = sum((self.threads + normal) as usize, clients);
        let free = self.processors - own - programs - clients;
        let low = free.min(self.low_priority as f64);
        let ns = |part: f64| (part * TRANSFER_LOOK_NS as f64) as u64;
        let work = &mut self.work;
        work.at_ns += TRANSFER_LOOK_NS;
        work.machine.all_ns += ns(self.processors);
        work.machine.own_ns += ns(own);
        work.machine.low_priority_ns += ns(low);
        work.machine.idle_ns += ns(free - low);
        let bytes = (ns(own) / MIB_NS) << 20;
        let transfers = bytes - (bytes as f64 * self.viewers) as u64;
        work.sent_bytes += bytes;
        work.transfer_bytes += transfers;
        work.local_bytes += if self.has_clients { transfers } else { 0 };
        let took = Took { transfers: own * (1.0 - self.viewers), programs, idle: free - low };
        (took, self.pause.update(*work))
    }

    /// The mean of the second half of so many looks, and the longest pause in it.
    fn run(&mut self, looks: usize) -> (Took, u64) {
        let mut schedule = TransferSchedule::default();
        let mut sum = Took { transfers: 0.0, programs: 0.0, idle: 0.0 };
        let mut longest_ns = 0;
        for look in 0..looks {
            let (took, next) = self.look(schedule);
            schedule = next.unwrap_or(schedule);
            if look >= looks / 2 {
                let part = 2.0 / looks as f64;
                sum.transfers += took.transfers * part;
                sum.programs += took.programs * part;
                sum.idle += took.idle * part;
                longest_ns = longest_ns.max(schedule.pause_ns);
            }
        }
        (sum, longest_ns)
    }
}

#[test]
fn transfers_alone_on_a_machine_never_pause() {
    for (threads, has_clients) in [(1, false), (2, true), (8, true)] {
        let mut machine = Machine { has_clients, ..Machine::new(2.0, threads, 0) };
        let (took, longest_ns) = machine.run(40);
        assert_eq!(longest_ns, 0, "{took:?}");
    }
}

/// Eight threads of transfers beside one busy program: it had two ninths of two processors.
#[test]
fn other_programs_get_as_much_as_transfers_use() {
    for (processors, threads, programs) in [(2.0, 8, 1), (2.0, 2, 1), (1.0, 4, 1), (8.0, 16, 4), (4.0, 4, 2)]
    {
        let mut machine = Machine::new(processors, threads, programs);
        let (took, _) = machine.run(200);
        let wanted = (processors / 2.0).min(programs as f64);
        assert!(took.programs > 0.85 * wanted, "{took:?} of {processors}: {programs} programs want {wanted}");
        assert!(took.idle < 0.1 * processors, "little is given away for nothing: {took:?}");
        assert!(took.transfers > 0.8 * (processors - took.programs), "{took:?}");
    }
}

#[test]
fn clients_of_this_machine_are_not_those_to_whom_time_is_given() {
    let beside = |programs| {
        let mut machine = Machine { has_clients: true, ..Machine::new(2.0, 4, programs) };
        machine.run(200)
    };
    assert_eq!(beside(0).1, 0);
    // As many threads as the program has of its own, and their clients: it had two ninths.
    let (took, _) = beside(1);
    assert!(took.programs > 0.6 && took.idle < 0.2, "{took:?}");
}

#[test]
fn programs_of_a_low_priority_get_what_is_left_over() {
    let mut machine = Machine { low_priority: 2, ..Machine::new(2.0, 2, 2) };
    let (took, longest_ns) = machine.run(40);
    assert_eq!(longest_ns, 0, "{took:?}");
}

/// A machine full of viewers leaves little to transfers: what they use is compared, not what
/// viewers do.
#[test]
fn what_viewers_take_is_not_given_back_by_transfers() {
    let mut machine = Machine { viewers: 0.9, ..Machine::new(2.0, 2, 1) };
    let (took, longest_ns) = machine.run(40);
    assert_eq!(longest_ns, 0, "{took:?}");
}

#[test]
fn the_pause_ends_soon_after_the_other_programs_have() {
    let mut machine = Machine::new(2.0, 8, 2);
    assert!(machine.run(60).1 >= RUN_CORE_NS);
    machine.programs = 0;
    let (mut schedule, mut looks) = (TransferSchedule { run_bytes: 0, pause_ns: PAUSE_MAX_NS }, 0);
    while schedule.pause_ns > 0 {
        schedule = machine.look(schedule).1.expect("a look");
        looks += 1;
    }
    assert!(looks * TRANSFER_LOOK_NS <= 10 * SECOND_NS, "{looks}");
}

#[test]
fn a_pause_has_an_end_whatever_the_machine_says() {
    let mut pause = TransferPause::default();
    let mut work = TransferWork::default();
    for step in 0..100_u64 {
        work.at_ns += TRANSFER_LOOK_NS;
        // Garbage: more was used than there was, counters that go back.
        work.machine =
            MachineTime { all_ns: u64::MAX - step, idle_ns: 0, low_priority_ns: 0, own_ns: step << 40 };
        (work.sent_bytes, work.transfer_bytes) = (step, u64::MAX / 2 + step);
        let schedule = pause.update(work).unwrap_or_default();
        assert!(schedule.pause_ns <= PAUSE_MAX_NS);
        assert!(schedule.run_bytes == 0 || RUN_SENT_BYTES.contains(&schedule.run_bytes));
    }
    assert_eq!(pause.update(work), None, "no time has passed");
}

#[test]
fn a_delivery_pauses_after_each_run() {
    let schedule = TransferSchedule { run_bytes: 1000, pause_ns: 50 };
    let mut run = RunLeft::default();
    assert_eq!(run.pauses_until(schedule, 10), None);
    run.spend(999);
    assert_eq!(run.pauses_until(schedule, 10), None);
    run.spend(500);
    assert_eq!(run.pauses_until(schedule, 10), Some(60));
    assert_eq!(run.pauses_until(schedule, 59), Some(60), "it is asked again");
    assert_eq!(run.pauses_until(schedule, 60), None, "a new run");
    run.spend(1000);
    let none = TransferSchedule { pause_ns: 0, ..schedule };
    assert_eq!(run.pauses_until(none, 61), None);
    assert_eq!(run.pauses_until(schedule, 62), None, "the run began again");
}
