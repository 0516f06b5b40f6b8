//! Services of `reel-rt` whose cores share a processor.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use lab_shared_processor::SharedProcessor;
use reel_ring::{Done, DriverChoice, RingConfig};
use reel_rt::{Core, CoreConfig, Next, Service, TaskId, TaskKind, spawn};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);
const SECTIONS: u32 = 101;

/// A service with one task of `SECTIONS` sections, which reports each of them.
struct OneTask {
    reports: Sender<()>,
    sections: u32,
}

impl Service for OneTask {
    type Message = ();

    fn message(&mut self, core: &mut Core, (): ()) {
        core.stop();
    }

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, _core: &mut Core, _token: u64) {}

    fn task(&mut self, _core: &mut Core, _task: TaskId) -> Next {
        let _ = self.reports.send(());
        self.sections += 1;
        if self.sections == SECTIONS { Next::Done } else { Next::Yield }
    }
}

#[test]
fn cores_that_share_a_processor_both_make_progress() {
    let shared = SharedProcessor::create().unwrap();
    let cores: Vec<_> = (0..2)
        .map(|_| {
            let (reports, reported) = channel();
            let shared = shared.clone();
            let ring = RingConfig { entries: 8, driver: DriverChoice::Auto };
            let config = CoreConfig { name: "test-shared".into(), cpu: None, ring, arena: None };
            let core = spawn(config, move |core, _| {
                core.tasks.share(shared.join().unwrap());
                core.tasks.add(TaskKind::Deadline { delay_ns: 1_000_000 }, 0).unwrap();
                OneTask { reports, sections: 0 }
            });
            (core.unwrap(), reported)
        })
        .collect();
    for (core, reported) in cores {
        for _ in 0..SECTIONS {
            reported.recv_timeout(LONG).unwrap();
        }
        core.mailbox().post(());
        core.join().unwrap();
    }
}
