//! Cores, as other threads see them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_ring::{Done, DriverChoice, RingConfig};
use reel_rt::{Core, CoreConfig, RtError, Service, spawn};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

struct Echo {
    reports: Sender<String>,
}

enum Command {
    Say(u32),
    Timers(Vec<u64>),
    Panic,
    Stop,
}

impl Service for Echo {
    type Message = Command;

    fn message(&mut self, core: &mut Core, message: Command) {
        match message {
            Command::Say(number) => self.reports.send(format!("said {number}")).expect("the test listens"),
            Command::Timers(all) => {
                let now_ns = core.now_ns();
                all.iter().for_each(|after_ns| core.at(now_ns + after_ns, *after_ns));
            }
            Command::Panic => panic!("on command"),
            Command::Stop => core.stop(),
        }
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, token: u64) {
        self.reports.send(format!("timer {token}")).expect("the test listens");
    }
}

fn config(driver: DriverChoice) -> CoreConfig {
    CoreConfig {
        name: "test-core".into(),
        cpu: Some(0),
        ring: RingConfig { entries: 8, driver },
        arena: None,
    }
}

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Auto, DriverChoice::Portable];
const LONG: Duration = Duration::from_secs(120);

#[test]
fn messages_of_one_sender_arrive_in_order_and_none_is_lost() {
    for driver in DRIVERS {
        let (reports, reported) = channel();
        let core = spawn(config(driver), |_, _| Echo { reports }).unwrap();
        let mailbox = core.mailbox();
        for number in 0..2_000 {
            mailbox.post(Command::Say(number));
            if number % 100 == 0 {
                // Lets the core fall asleep, so that waking it is tested too.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for number in 0..2_000 {
            assert_eq!(reported.recv_timeout(LONG).unwrap(), format!("said {number}"));
        }
        mailbox.post(Command::Stop);
        core.join().unwrap();
    }
}

#[test]
fn many_senders_wake_one_core() {
    for driver in DRIVERS {
        let (reports, reported) = channel();
        let core = spawn(config(driver), |_, _| Echo { reports }).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mailbox = core.mailbox();
                scope.spawn(move || (0..500).for_each(|number| mailbox.post(Command::Say(number))));
            }
        });
        for _ in 0..2_000 {
            reported.recv_timeout(LONG).expect("no message is lost");
        }
        core.stop();
        core.join().unwrap();
    }
}

#[test]
fn timers_fire_in_order() {
    for driver in DRIVERS {
        let (reports, reported) = channel();
        let core = spawn(config(driver), |_, _| Echo { reports }).unwrap();
        core.mailbox().post(Command::Timers(vec![20_000_000, 1_000_000, 10_000_000]));
        for after_ns in [1_000_000, 10_000_000, 20_000_000] {
            assert_eq!(reported.recv_timeout(LONG).unwrap(), format!("timer {after_ns}"));
        }
        core.stop();
        core.join().unwrap();
    }
}

#[test]
fn join_reports_a_panic() {
    let (reports, _hears) = channel();
    let core = spawn(config(DriverChoice::Auto), |_, _| Echo { reports }).unwrap();
    core.mailbox().post(Command::Panic);
    let error = core.join().unwrap_err();
    assert!(matches!(&error, RtError::Panicked { reason, .. } if reason == "on command"), "{error}");
}
