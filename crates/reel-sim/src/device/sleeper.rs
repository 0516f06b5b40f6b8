//! A disk that stops spinning when nothing is requested of it, and spins up for the next request.

use super::{Device, Transfer};
use reel_testkit::Rng;

/// When a disk sleeps, and how long it takes to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepSpec {
    /// It stops when nothing was requested for so long.
    pub idle_ns: u64,
    /// It spins up in this time, at least and at most.
    pub spin_up_ns: (u64, u64),
}

/// A device that sleeps.
pub struct Sleeper {
    device: Box<dyn Device>,
    spec: SleepSpec,
    rng: Rng,
    /// In the device, and while it spins up.
    requests: usize,
    /// Since when nothing is requested; `None` if it has slept from the start.
    idle_since_ns: Option<u64>,
    /// It spins up until then, for these.
    spins_up: Option<(u64, Vec<(u32, Transfer)>)>,
}

impl Sleeper {
    /// A device that sleeps now.
    pub fn new(device: Box<dyn Device>, spec: SleepSpec, rng: Rng) -> Sleeper {
        Sleeper { device, spec, rng, requests: 0, idle_since_ns: None, spins_up: None }
    }

    fn sleeps(&self, now_ns: u64) -> bool {
        self.requests == 0 && self.idle_since_ns.is_none_or(|since_ns| now_ns >= since_ns + self.spec.idle_ns)
    }
}

impl Device for Sleeper {
    fn push(&mut self, id: u32, transfer: Transfer, now_ns: u64) {
        if self.sleeps(now_ns) {
            let (least_ns, most_ns) = self.spec.spin_up_ns;
            self.spins_up = Some((now_ns + self.rng.range(least_ns, most_ns), Vec::new()));
        }
        self.requests += 1;
        match &mut self.spins_up {
            Some((_, waiting)) => waiting.push((id, transfer)),
            None => self.device.push(id, transfer, now_ns),
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.spins_up.as_ref().map(|(at_ns, _)| *at_ns).or_else(|| self.device.next_ns())
    }

    fn pop(&mut self, now_ns: u64) -> Option<u32> {
        if let Some((at_ns, waiting)) = self.spins_up.take() {
            if at_ns > now_ns {
                self.spins_up = Some((at_ns, waiting));
                return None;
            }
            waiting.into_iter().for_each(|(id, transfer)| self.device.push(id, transfer, now_ns));
        }
        let id = self.device.pop(now_ns)?;
        self.requests -= 1;
        self.idle_since_ns = Some(now_ns);
        Some(id)
    }

    fn set_slowness(&mut self, permille: u64) {
        self.device.set_slowness(permille);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hdd, HddSpec};
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn the_first_request_waits_for_the_disk_to_spin_up_and_others_do_not() {
        let spec = SleepSpec { idle_ns: 60 * SECOND_NS, spin_up_ns: (5 * SECOND_NS, 20 * SECOND_NS) };
        let disk = Box::new(Hdd::new(HddSpec::default(), Rng::new(3)));
        let mut sleeper = Sleeper::new(disk, spec, Rng::new(4));
        let mut now_ns = 7 * SECOND_NS;
        for (pause_ns, sleeps) in [(0, true), (0, false), (59 * SECOND_NS, false), (60 * SECOND_NS, true)] {
            let asked_ns = now_ns + pause_ns;
            for id in [1, 2] {
                sleeper.push(id, Transfer { offset: 4096, bytes: 4096, write: false }, asked_ns);
            }
            let mut answered = 0;
            while let Some(at_ns) = sleeper.next_ns() {
                now_ns = at_ns;
                answered += usize::from(sleeper.pop(at_ns).is_some());
            }
            assert_eq!(answered, 2);
            assert_eq!(now_ns - asked_ns >= 5 * SECOND_NS, sleeps, "{asked_ns}: {now_ns}");
            assert!(now_ns - asked_ns < 21 * SECOND_NS);
        }
    }
}
