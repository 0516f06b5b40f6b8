//! Cores, seen from other threads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use reel_ring::{Done, DriverChoice, RingConfig};
use reel_rt::{Core, CoreConfig, RtError, Service, spawn};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

struct Echo {
    told: Sender<String>,
}

enum Told {
    Say(u32),
    Timers(Vec<u64>),
    Panic,
    Stop,
}

impl Service for Echo {
    type Message = Told;

    fn message(&mut self, core: &mut Core, message: Told) {
        match message {
            Told::Say(number) => self.told.send(format!("said {number}")).expect("the test listens"),
            Told::Timers(all) => {
                let now_ns = core.now_ns();
                all.iter().for_each(|after_ns| core.at(now_ns + after_ns, *after_ns));
            }
            Told::Panic => panic!("as told"),
            Told::Stop => core.stop(),
        }
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, token: u64) {
        self.told.send(format!("timer {token}")).expect("the test listens");
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
const LONG: Duration = Duration::from_secs(30);

#[test]
fn messages_of_one_sender_arrive_in_order_and_none_is_lost() {
    for driver in DRIVERS {
        let (told, hears) = channel();
        let core = spawn(config(driver), |_, _| Echo { told }).unwrap();
        let mailbox = core.mailbox();
        for number in 0..2_000 {
            mailbox.post(Told::Say(number));
            if number % 100 == 0 {
                // Lets the core fall asleep, so that waking it is tested as well.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for number in 0..2_000 {
            assert_eq!(hears.recv_timeout(LONG).unwrap(), format!("said {number}"));
        }
        mailbox.post(Told::Stop);
        core.join().unwrap();
    }
}

#[test]
fn many_senders_wake_one_core() {
    for driver in DRIVERS {
        let (told, hears) = channel();
        let core = spawn(config(driver), |_, _| Echo { told }).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mailbox = core.mailbox();
                scope.spawn(move || (0..500).for_each(|number| mailbox.post(Told::Say(number))));
            }
        });
        for _ in 0..2_000 {
            hears.recv_timeout(LONG).expect("no message is lost");
        }
        core.stop();
        core.join().unwrap();
    }
}

#[test]
fn timers_fire_in_order() {
    for driver in DRIVERS {
        let (told, hears) = channel();
        let core = spawn(config(driver), |_, _| Echo { told }).unwrap();
        core.mailbox().post(Told::Timers(vec![20_000_000, 1_000_000, 10_000_000]));
        for after_ns in [1_000_000, 10_000_000, 20_000_000] {
            assert_eq!(hears.recv_timeout(LONG).unwrap(), format!("timer {after_ns}"));
        }
        core.stop();
        core.join().unwrap();
    }
}

#[test]
fn a_panic_is_told_to_who_joins() {
    let (told, _hears) = channel();
    let core = spawn(config(DriverChoice::Auto), |_, _| Echo { told }).unwrap();
    core.mailbox().post(Told::Panic);
    let error = core.join().unwrap_err();
    assert!(matches!(&error, RtError::Panicked { reason, .. } if reason == "as told"), "{error}");
}
