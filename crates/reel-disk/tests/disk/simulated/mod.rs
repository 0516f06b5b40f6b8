//! One rotational disk, its scheduler and its clients, in simulated time.
#![allow(dead_code, reason = "each test uses a part of it")]

use reel_disk::{DepthBound, Policy, Queued, Requester, Scheduler};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use reel_testkit::Rng;
use std::collections::{BTreeMap, HashMap, VecDeque};

pub(crate) const MS: u64 = 1_000_000;

/// Bytes of the disk.
const DISK_BYTES: u64 = 1 << 40;

/// What this disk costs in a sweep over a round's worth of requests: about its p99.
pub(crate) const PRICE: DiskPrice = DiskPrice {
    read_request_ns: 12 * MS,
    read_mib_ns: 10 * MS,
    write_request_ns: 12 * MS,
    write_mib_ns: 10 * MS,
    independent_limits: false,
};

/// A client.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// Reads this many units of 64 KiB for each round, requested three rounds before they are due:
    /// a session.
    Stream { class: Class, reads: u32 },
    /// Reads 4 KiB, pauses for this long on average, reads again.
    Interactive { class: Class, think_ns: u64 },
    /// Always has this many reads of this size waiting, without a deadline.
    Bulk { class: Class, outstanding: u32, bytes: usize },
    /// Reads windows of neighbours of 256 KiB, one after another. Each is requested `pause_ns`
    /// after the last read of the one before it was answered.
    Transfer { class: Class, windows: u32, units: u32, pause_ns: u64 },
}

/// One read of a transfer.
const TRANSFER_UNIT: usize = 256 << 10;

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Transferred {
    windows: u32,
    /// Of this window.
    unanswered: u32,
    end: u64,
    ended_ns: Option<u64>,
}

/// What a class got.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassResult {
    pub(crate) done: u64,
    pub(crate) late: u64,
    pub(crate) device_ns: u64,
    pub(crate) responses_ns: Vec<u64>,
    /// When its requests went to the device.
    pub(crate) starts_ns: Vec<u64>,
}

/// The simulation.
pub(crate) struct Sim {
    pub(crate) now_ns: u64,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) got: HashMap<usize, ClassResult>,
    pub(crate) busy_ns: u64,
    clients: Vec<Client>,
    /// (when, number) of clients that act.
    wake_ups: BTreeMap<(u64, u64), usize>,
    asked: HashMap<u64, (Queued, u64, usize)>,
    transferred: HashMap<usize, Transferred>,
    in_device: VecDeque<Queued>,
    /// When the first of them is done.
    done_ns: u64,
    head: u64,
    /// What the device takes in thousandths of its model, whatever its price says.
    pub(crate) slowness_permille: u64,
    next: u64,
    rng: Rng,
}

impl Sim {
    pub(crate) fn new(policy: Policy, classes: &ClassTable, depth: usize) -> Self {
        let bound = DepthBound { requests: depth, ..DepthBound::default() };
        Self {
            now_ns: 7 * ROUND_NS,
            scheduler: policy.scheduler(classes, PRICE, bound),
            got: HashMap::new(),
            busy_ns: 0,
            clients: Vec::new(),
            wake_ups: BTreeMap::new(),
            asked: HashMap::new(),
            transferred: HashMap::new(),
            in_device: VecDeque::new(),
            done_ns: 0,
            head: 0,
            slowness_permille: 1000,
            next: 0,
            rng: Rng::new(1),
        }
    }

    pub(crate) fn add(&mut self, client: Client) {
        let at_ns = self.now_ns + self.rng.below(MS);
        self.wake(at_ns, self.clients.len());
        self.clients.push(client);
    }

    pub(crate) fn run(&mut self, for_ns: u64) {
        let end_ns = self.now_ns + for_ns;
        self.dispatch();
        loop {
            let wake_ns = self.wake_ups.first_key_value().map_or(u64::MAX, |(&(at_ns, _), _)| at_ns);
            let done_ns = if self.in_device.is_empty() { u64::MAX } else { self.done_ns };
            let kept_ns = self.scheduler.kept_until_ns().unwrap_or(u64::MAX).max(self.now_ns);
            let at_ns = wake_ns.min(done_ns).min(kept_ns);
            if at_ns > end_ns {
                break;
            }
            self.now_ns = at_ns.max(self.now_ns);
            if done_ns == at_ns {
                self.finish()
            } else if wake_ns == at_ns {
                self.act()
            }
            self.dispatch();
        }
        self.now_ns = end_ns;
    }

    /// When the transfer of this client ended.
    pub(crate) fn ended_ns(&self, client: usize) -> Option<u64> {
        self.transferred.get(&client)?.ended_ns
    }

    pub(crate) fn got(&self, class: Class) -> ClassResult {
        self.got.get(&class.index()).cloned().unwrap_or_default()
    }

    /// Forgets what was counted so far, so that a run can settle first.
    pub(crate) fn forget(&mut self) {
        self.got.clear();
        self.busy_ns = 0;
    }

    /// Requests something by hand; its id.
    pub(crate) fn ask(&mut self, class: Class, deadline_ns: u64, offset: u64, bytes: usize) -> u64 {
        self.push_of(class, deadline_ns, offset, bytes, usize::MAX)
    }

    /// The same for the client that was added last: behind all that it has waiting.
    pub(crate) fn ask_as_the_last(&mut self, class: Class, offset: u64, bytes: usize) -> u64 {
        let requester = Requester::default().of(self.clients.len() as u64 - 1);
        self.push((class, requester), DEADLINE_NONE_NS, offset, bytes, usize::MAX)
    }

    /// Whether a request made by hand is answered.
    pub(crate) fn is_answered(&self, id: u64) -> bool {
        !self.asked.contains_key(&id)
    }

    fn push_of(&mut self, class: Class, deadline_ns: u64, offset: u64, bytes: usize, client: usize) -> u64 {
        self.push((class, Requester::default().of(client as u64)), deadline_ns, offset, bytes, client)
    }

    fn push(
        &mut self,
        (class, requester): (Class, Requester),
        deadline_ns: u64,
        offset: u64,
        bytes: usize,
        client: usize,
    ) -> u64 {
        let request = Queued { id: self.next, class, requester, deadline_ns, offset, bytes, write: false };
        self.next += 1;
        self.asked.insert(request.id, (request, self.now_ns, client));
        self.scheduler.push(request, self.now_ns);
        request.id
    }

    fn act(&mut self) {
        let Some((_, client)) = self.wake_ups.pop_first() else { return };
        match self.clients[client].clone() {
            Client::Stream { class, reads } => {
                let round = self.now_ns / ROUND_NS;
                for nth in 0..reads {
                    // Due at some time within the fourth round from here, as segments are.
                    let due_ns = (round + 3) * ROUND_NS + u64::from(nth + 1) * ROUND_NS / u64::from(reads);
                    let offset = self.offset();
                    self.push_of(class, due_ns, offset, 64 << 10, client);
                }
                self.wake((round + 1) * ROUND_NS + 1, client);
            }
            Client::Interactive { class, .. } => {
                let offset = self.offset();
                self.push_of(class, DEADLINE_NONE_NS, offset, 4096, client);
            }
            Client::Bulk { class, outstanding, bytes } => {
                for _ in 0..outstanding {
                    let offset = self.offset();
                    self.push_of(class, DEADLINE_NONE_NS, offset, bytes, client);
                }
            }
            Client::Transfer { class, units, .. } => {
                let end = self.transferred.get(&client).map_or(DISK_BYTES / 3, |transfer| transfer.end);
                for nth in 0..u64::from(units) {
                    let offset = end + nth * TRANSFER_UNIT as u64;
                    self.push_of(class, DEADLINE_NONE_NS, offset, TRANSFER_UNIT, client);
                }
                let transfer = self.transferred.entry(client).or_default();
                (transfer.unanswered, transfer.end) = (units, end + u64::from(units) * TRANSFER_UNIT as u64);
            }
        }
    }

    fn finish(&mut self) {
        let Some(request) = self.in_device.pop_front() else { return };
        let Some((asked, since_ns, client)) = self.asked.remove(&request.id) else { return };
        self.scheduler.done(request.id, self.now_ns);
        let got = self.got.entry(asked.class.index()).or_default();
        got.done += 1;
        got.late += u64::from(self.now_ns > asked.deadline_ns);
        got.responses_ns.push(self.now_ns - since_ns);
        self.start_next();
        match self.clients.get(client).cloned() {
            Some(Client::Interactive { think_ns, .. }) => {
                let wait_ns = self.rng.below(2 * think_ns);
                self.wake(self.now_ns + wait_ns, client);
            }
            Some(Client::Bulk { class, bytes, .. }) => {
                let offset = self.offset();
                self.push_of(class, DEADLINE_NONE_NS, offset, bytes, client);
            }
            Some(Client::Transfer { windows, pause_ns, .. }) => {
                let transfer = self.transferred.entry(client).or_default();
                transfer.unanswered -= 1;
                if transfer.unanswered == 0 {
                    transfer.windows += 1;
                    if transfer.windows < windows {
                        self.wake(self.now_ns + pause_ns, client);
                    } else {
                        transfer.ended_ns = Some(self.now_ns);
                    }
                }
            }
            Some(Client::Stream { .. }) | None => {}
        }
    }

    fn dispatch(&mut self) {
        while let Some(request) = self.scheduler.pop(self.now_ns) {
            let got = self.got.entry(request.class.index()).or_default();
            got.starts_ns.push(self.now_ns);
            self.in_device.push_back(request);
            if self.in_device.len() == 1 {
                self.start_next();
            }
        }
    }

    /// The device begins with the request that it was given first.
    fn start_next(&mut self) {
        let Some(request) = self.in_device.front().copied() else { return };
        let distance = self.head.abs_diff(request.offset) as f64 / DISK_BYTES as f64;
        // What is behind the last request passes under the head next.
        let (seek_ns, turn_ns) = if distance == 0.0 {
            (0, 0)
        } else {
            (MS + (9e6 * distance.sqrt()) as u64, self.rng.below(8 * MS))
        };
        let took_ns = (seek_ns + turn_ns + request.bytes as u64 * 8) * self.slowness_permille / 1000;
        self.head = request.offset + request.bytes as u64;
        self.done_ns = self.now_ns + took_ns;
        self.busy_ns += took_ns;
        self.got.entry(request.class.index()).or_default().device_ns += took_ns;
    }

    fn wake(&mut self, at_ns: u64, client: usize) {
        self.next += 1;
        self.wake_ups.insert((at_ns, self.next), client);
    }

    fn offset(&mut self) -> u64 {
        self.rng.below(DISK_BYTES >> 12) << 12
    }
}

impl ClassResult {
    /// The response time that this many of a hundred answers stay below.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.responses_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * percent / 100).map_or(f64::NAN, |&ns| ns as f64 / MS as f64)
    }
}
