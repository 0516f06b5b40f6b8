//! Thousands of clients on a few threads.

use super::catalogue::Catalogue;
use super::chance::{Purpose, sequence};
use super::counters::Counters;
use super::limits::{CLIENTS_MAX, DESCRIPTORS_RESERVED, SAMPLE_NS, THREADS_MAX};
use super::outcome::{Outcome, Sample};
use super::paced::paced_reader;
use super::plan::{ArrivalShape, Plan, Viewing};
use super::reader::{Kind, reader};
use super::tallies::Tallies;
use super::thread::Thread;
use super::viewer::viewer;
use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

/// A running fleet. Dropping it ends it.
pub struct Fleet {
    plan: Arc<Plan>,
    counters: Arc<Counters>,
    started: Instant,
    threads: Vec<JoinHandle<Tallies>>,
    stop: watch::Sender<bool>,
    events: Receiver<Event>,
    stopper: Stopper,
}

/// Ends a fleet from elsewhere: on a signal, or from an experiment that has measured enough.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

/// What threads and callers report to the fleet.
enum Event {
    /// A thread's last viewer has left.
    ThreadDone,
    Stop,
}

/// The clients of a thread: numbers and arrival times.
#[derive(Clone, Debug, Default)]
struct ThreadClients {
    viewers: Vec<(usize, u64)>,
    downloads: Vec<(usize, u64)>,
    browsers: Vec<(usize, u64)>,
}

/// Runs a plan to its end.
///
/// # Errors
/// Those of [`Fleet::start`] and [`Fleet::wait`].
pub fn run(plan: Plan) -> Result<Outcome> {
    Fleet::start(plan)?.wait(|_| {})
}

impl Stopper {
    /// Ends the fleet; it reports what it measured until then.
    pub fn stop(&self) {
        // A fleet that is gone has stopped.
        let _ = self.0.send(Event::Stop);
    }
}

impl Fleet {
    /// Checks the plan, finds the titles and starts the clients.
    ///
    /// # Errors
    /// A plan that cannot be carried out, titles that cannot be found, too few descriptors or
    /// threads.
    pub fn start(plan: Plan) -> Result<Self> {
        check(&plan)?;
        let plan = Arc::new(plan);
        let counters = Arc::new(Counters::default());
        let catalogue = Arc::new(find(&plan)?);
        raise_descriptors(&plan)?;
        let (stop, stopped) = watch::channel(false);
        let (sender, events) = channel();
        let started = Instant::now();
        let threads = clients_by_thread(&plan).into_iter().enumerate().map(|(number, clients)| {
            let (plan, catalogue, counters) =
                (Arc::clone(&plan), Arc::clone(&catalogue), Arc::clone(&counters));
            let (stopped, sender) = (stopped.clone(), sender.clone());
            let work = move || work(&plan, &catalogue, &counters, started, clients, stopped, &sender);
            std::thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn(work)
                .context("starting a thread")
        });
        let threads = threads.collect::<Result<Vec<_>>>()?;
        Ok(Self { plan, counters, started, threads, stop, events, stopper: Stopper(sender) })
    }

    /// The state of the fleet now.
    pub fn sample(&self) -> Sample {
        self.counters.sample(self.started.elapsed().as_secs_f64())
    }

    /// A handle that ends the fleet.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for the end and hands the state of every second to `watch`.
    ///
    /// # Errors
    /// A thread of the fleet that panicked.
    pub fn wait(mut self, mut watch: impl FnMut(&Sample)) -> Result<Outcome> {
        let (mut running, mut interrupted, mut samples) = (self.threads.len(), false, Vec::new());
        let end = self.plan.duration.map(|duration| self.started + duration);
        let mut next = self.started + Duration::from_nanos(SAMPLE_NS);
        while running > 0 {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                break;
            }
            let wake = end.map_or(next, |end| end.min(next));
            match self.events.recv_timeout(wake.saturating_duration_since(now)) {
                Ok(Event::ThreadDone) => running -= 1,
                Ok(Event::Stop) => {
                    interrupted = true;
                    break;
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= next => {
                    let sample = self.sample();
                    watch(&sample);
                    samples.push(sample);
                    next += Duration::from_nanos(SAMPLE_NS);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let took_s = self.started.elapsed().as_secs_f64();
        self.stop.send_replace(true);
        let mut all = Tallies::default();
        for thread in self.threads.drain(..) {
            all.merge(&thread.join().map_err(|_| anyhow!("a thread of the fleet panicked"))?);
        }
        Ok(Outcome { interrupted, samples, ..all.outcome(took_s, self.plan.threads) })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // It has said why it panicked.
            let _ = thread.join();
        }
    }
}

/// Whether a plan can be carried out.
///
/// # Errors
/// What is wrong with the plan, with the option of `reel load` that changes it.
pub fn check(plan: &Plan) -> Result<()> {
    let clients = plan.viewers + plan.downloads.clients + plan.browsers.clients;
    ensure!(clients > 0, "no client would come; ask for --viewers, --downloads or --browsers");
    ensure!(clients <= CLIENTS_MAX, "{clients} clients; one fleet has at most {CLIENTS_MAX}");
    ensure!(
        (1..=THREADS_MAX).contains(&plan.threads),
        "{} threads; from 1 to {THREADS_MAX} are possible",
        plan.threads
    );
    ensure!(
        plan.duration.is_some() || plan.viewers + plan.downloads.clients > 0,
        "browsers alone never end; say for how long with --duration"
    );
    if let Viewing::Paced(paced) = &plan.viewing {
        ensure!(
            paced.rate_bps > 0 && paced.block_bytes > 0,
            "a paced reader needs a rate and a block of more than 0"
        );
    }
    if let Viewing::Hls(hls) = &plan.viewing {
        let zipf = hls.zipf.unwrap_or(1.0);
        ensure!((0.0..=10.0).contains(&zipf), "--zipf {zipf}; from 0 (all alike) to 10 is possible");
    }
    Ok(())
}

fn find(plan: &Arc<Plan>) -> Result<Catalogue> {
    let runtime = Builder::new_current_thread().enable_all().build().context("starting the fleet")?;
    let thread = Rc::new(Thread::new(Arc::clone(plan), Arc::default(), Arc::default(), Instant::now()));
    runtime.block_on(Catalogue::find(plan, &thread))
}

/// Players have a connection for pictures and one for sound.
fn raise_descriptors(plan: &Plan) -> Result<()> {
    let each = if matches!(plan.viewing, Viewing::Hls(_)) { 2 } else { 1 };
    let connections = (plan.viewers * each + plan.downloads.clients + plan.browsers.clients) as u64;
    let wanted = connections + DESCRIPTORS_RESERVED;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    ensure!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "{connections} connections need {wanted} open files and this process may have {}; \
         raise the limit (ulimit -Hn) or start several fleets",
        maximum.unwrap_or_default()
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .context("raising the limit of open files")
}

/// Deals the clients out to the threads. All come by the same law, each kind for itself.
fn clients_by_thread(plan: &Plan) -> Vec<ThreadClients> {
    let mut clients_by_thread = vec![ThreadClients::default(); plan.threads];
    let kinds = [plan.viewers, plan.downloads.clients, plan.browsers.clients];
    for (kind, clients) in kinds.into_iter().enumerate() {
        for (number, at_ns) in arrivals(plan, kind, clients).into_iter().enumerate() {
            let clients = &mut clients_by_thread[number % plan.threads];
            let list = [&mut clients.viewers, &mut clients.downloads, &mut clients.browsers];
            list.into_iter().nth(kind).into_iter().for_each(|list| list.push((number, at_ns)));
        }
    }
    clients_by_thread
}

/// When the clients of one kind come, in nanoseconds after the start.
fn arrivals(plan: &Plan, kind: usize, clients: usize) -> Vec<u64> {
    let mut rng = sequence(plan.seed, Purpose::Arrival, kind);
    let gap_ns = plan.arrivals.over.as_nanos() as f64 / clients.max(1) as f64;
    let mut at_ns = 0.0;
    let next = |number| {
        match plan.arrivals.shape {
            ArrivalShape::Uniform => at_ns = gap_ns * number as f64,
            ArrivalShape::Poisson => at_ns += rng.exponential(gap_ns),
        }
        at_ns as u64
    };
    (0..clients).map(next).collect()
}

/// The whole life of a thread.
fn work(
    plan: &Arc<Plan>,
    catalogue: &Arc<Catalogue>,
    counters: &Arc<Counters>,
    started: Instant,
    clients: ThreadClients,
    mut stopped: watch::Receiver<bool>,
    events: &Sender<Event>,
) -> Tallies {
    let thread = Rc::new(Thread::new(Arc::clone(plan), Arc::clone(catalogue), Arc::clone(counters), started));
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime needs only a few descriptors");
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let (mut leading, mut beside) = (JoinSet::new(), JoinSet::new());
        for (number, at_ns) in clients.viewers {
            match plan.viewing.clone() {
                Viewing::Hls(hls) => leading.spawn_local(viewer(Rc::clone(&thread), hls, number, at_ns)),
                Viewing::Paced(paced) => {
                    leading.spawn_local(paced_reader(Rc::clone(&thread), paced, number, at_ns))
                }
            };
        }
        for (number, at_ns) in clients.downloads {
            // Without viewers the downloads are what the run is about.
            let set = if plan.viewers == 0 { &mut leading } else { &mut beside };
            set.spawn_local(reader(Rc::clone(&thread), Kind::Download, number, at_ns));
        }
        for (number, at_ns) in clients.browsers {
            beside.spawn_local(reader(Rc::clone(&thread), Kind::Browser, number, at_ns));
        }
        let ticking = Rc::clone(&thread);
        beside.spawn_local(async move { ticking.tick().await });
        let all_left = async {
            while leading.join_next().await.is_some() {}
            // The fleet may be gone already.
            let _ = events.send(Event::ThreadDone);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = all_left => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    });
    // Sessions that are still open end here, and are counted.
    drop(local);
    drop(runtime);
    Rc::into_inner(thread)
        .map(|thread| thread.tallies.into_inner())
        .expect("all clients are gone with their runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(viewers: usize, shape: ArrivalShape) -> Plan {
        let mut plan = Plan::players(vec!["http://h/a.m3u8".into()], viewers);
        plan.arrivals.shape = shape;
        plan.arrivals.over = Duration::from_secs(10);
        plan
    }

    #[test]
    fn uniform_arrivals_are_at_equal_distances() {
        let times = arrivals(&plan(4, ArrivalShape::Uniform), 0, 4);
        assert_eq!(times, [0, 2_500_000_000, 5_000_000_000, 7_500_000_000]);
    }

    #[test]
    fn poisson_arrivals_are_seeded_and_have_their_mean() {
        let times = |seed| arrivals(&Plan { seed, ..plan(4000, ArrivalShape::Poisson) }, 0, 4000);
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        let last = *times(1).last().unwrap() as f64 / 1e9;
        assert!((9.4..10.6).contains(&last), "{last}");
    }

    #[test]
    fn everybody_is_in_one_crew() {
        let plan = Plan { threads: 3, ..plan(10, ArrivalShape::Uniform) };
        let mut numbers: Vec<_> = clients_by_thread(&plan)
            .iter()
            .flat_map(|clients| clients.viewers.clone())
            .map(|one| one.0)
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn plans_that_cannot_be_meant_are_refused() {
        let said = |plan: Plan| check(&plan).unwrap_err().to_string();
        let good = || plan(1, ArrivalShape::Uniform);
        assert!(check(&good()).is_ok());
        assert!(said(Plan { viewers: 0, ..good() }).contains("no client would come"));
        assert!(said(Plan { viewers: CLIENTS_MAX + 1, ..good() }).contains("at most"));
        assert!(said(Plan { threads: 0, ..good() }).contains("0 threads"));
        let mut browsers = Plan { viewers: 0, ..good() };
        browsers.browsers.clients = 1;
        assert!(said(browsers).contains("--duration"));
    }
}
