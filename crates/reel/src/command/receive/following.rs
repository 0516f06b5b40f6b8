//! Receives a broadcast: joins the channels that the schedule says, keeps what arrives ahead of its
//! time in a file without a name, and writes the title in order, one slot behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reel_media::transport::NULL_PACKET;
use reel_receive::{
    Arrivals, Assembly, Broadcast, Counts, Member, Plan, Played, Port, Receiver, SYMBOL_BYTES, Wait,
};

use super::output::{Output, Written};
use super::playing::stopped_by;
use super::statistics;
use crate::args::ReceiveArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::signals::Signals;

/// How often statistics are printed.
const STATISTICS_NS: u64 = 5_000_000_000;

/// The longest wait, so that a signal is noticed and channels are joined in time.
const WAIT: Duration = Duration::from_millis(50);

/// How long a channel is joined before its slot begins: routers and switches take a moment.
const JOIN_NS: u64 = 500_000_000;

/// Packets that are written at once.
const PLAYED_MAX: usize = 256;

/// A broadcast that is being received.
pub(super) struct Following<'a> {
    arguments: &'a ReceiveArguments,
    broadcast: Broadcast,
    channels: Vec<Channel>,
    arrivals: Arrivals,
    assembly: Assembly,
    /// What has arrived, each packet in its place.
    kept: File,
    /// The time of day at which `arrivals` began.
    begun_unix_ns: u64,
    written_bytes: u64,
    missing: u64,
    first_ns: Option<u64>,
    statistics_ns: u64,
    quiet: bool,
}

/// A channel, and from when to when it is received, as times of day.
struct Channel {
    plan: Plan,
    receiver: Receiver,
    from_unix_ns: u64,
    until_unix_ns: u64,
    members: Vec<Arc<Member>>,
    state: Tuned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tuned {
    Before,
    Now,
    After,
}

impl<'a> Following<'a> {
    /// Joins with the next slot.
    pub(super) fn new(
        arguments: &'a ReceiveArguments,
        broadcast: Broadcast,
        plans: Vec<Plan>,
        quiet: bool,
    ) -> Result<Following<'a>, Failure> {
        let arrivals = Arrivals::none();
        let now_ns = unix_ns();
        let slot = broadcast.slot_from(now_ns + JOIN_NS);
        let visit = broadcast.visit(slot);
        let hold_ns = plans.iter().filter_map(|plan| Some(plan.fec?.repair_window_ns)).max().unwrap_or(0);
        let channels = (0..).zip(plans).map(|(number, plan)| {
            let tunings = || visit.tunings.iter().filter(move |tuning| tuning.channel == number);
            let from = tunings().map(|tuning| broadcast.slot_starts_ns(tuning.from_slot)).min();
            let until = tunings().map(|tuning| broadcast.slot_starts_ns(tuning.until_slot)).max();
            Channel {
                receiver: Receiver::new(plan.clone()),
                plan,
                from_unix_ns: from.map_or(u64::MAX, |from_ns| from_ns.saturating_sub(JOIN_NS)),
                // What is repaired last arrives a little later.
                until_unix_ns: until.map_or(0, |until_ns| until_ns.saturating_add(hold_ns + JOIN_NS)),
                members: Vec::new(),
                state: Tuned::Before,
            }
        });
        let channels: Vec<Channel> = channels.collect();
        if !quiet {
            let wait_s = broadcast.slot_starts_ns(slot + 1).saturating_sub(now_ns) as f64 / 1e9;
            let tuners = visit.tuners();
            say(format!(
                "receiving a broadcast of {} channels, {tuners} at a time; it plays in {wait_s:.1} s",
                channels.len()
            ));
        }
        let kept = tempfile::tempfile().map_err(|error| {
            Failure::failed(format!("cannot make a file for what arrives early: {error}"))
        })?;
        Ok(Following {
            arguments,
            assembly: Assembly::new(&broadcast, &visit, hold_ns),
            broadcast,
            channels,
            begun_unix_ns: now_ns.saturating_sub(arrivals.now_ns()),
            arrivals,
            kept,
            written_bytes: 0,
            missing: 0,
            first_ns: None,
            statistics_ns: STATISTICS_NS,
            quiet,
        })
    }

    /// Receives until the title has ended.
    pub(super) fn run(mut self, mut output: Output) -> Result<Exit, Failure> {
        let signals =
            Signals::catch().map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
        let stopped = stopped_by(signals);
        loop {
            self.tune()?;
            self.take_arrivals()?;
            let has_ended = self.play(&mut output)? || stopped.load(Ordering::Relaxed);
            let now_ns = self.arrivals.now_ns();
            self.print(now_ns);
            if self.first_ns.is_none() && now_ns >= self.arguments.timeout.ns + self.broadcast.slot_ns() {
                return Err(Failure::failed("no packet of the broadcast arrived")
                    .help("check that it is on the air (reel cast list), the interface (--interface), and the clock of this \
                           machine: slots are found by the time of day"));
            }
            if has_ended || self.is_over(now_ns) {
                break;
            }
        }
        if !self.quiet {
            self.print_line();
        }
        Ok(Exit::Done)
    }

    /// Joins and leaves channels.
    fn tune(&mut self) -> Result<(), Failure> {
        let now_ns = self.unix_ns();
        for (number, channel) in self.channels.iter_mut().enumerate() {
            if channel.state == Tuned::Before && now_ns >= channel.from_unix_ns {
                channel.state = Tuned::Now;
                channel.join(number, &self.arrivals, self.arguments.interface.as_deref())?;
            }
            if channel.state == Tuned::Now && now_ns >= channel.until_unix_ns {
                channel.state = Tuned::After;
                channel.members.drain(..).for_each(|member| member.leave());
            }
        }
        Ok(())
    }

    fn take_arrivals(&mut self) -> Result<(), Failure> {
        let mut wait = WAIT;
        for _ in 0..PLAYED_MAX {
            match self.arrivals.wait(wait) {
                Wait::Arrived(arrival) => {
                    let Some(channel) = self.channels.get_mut(arrival.channel) else { continue };
                    channel.receiver.push(arrival.port, &arrival.bytes, arrival.from, arrival.at_ns);
                    self.first_ns.get_or_insert(arrival.at_ns);
                }
                Wait::Silent | Wait::Closed => break,
            }
            wait = Duration::ZERO;
        }
        let now_ns = self.arrivals.now_ns();
        for number in 0..self.channels.len() {
            self.channels[number].receiver.advance(now_ns);
            while let Some(payload) = self.channels[number].receiver.next(now_ns) {
                let at_ns = self.begun_unix_ns + payload.arrival_ns;
                let symbol = self.broadcast.symbol_of(number, payload.time_stamp, at_ns);
                if let Some(symbol) = symbol.filter(|_| payload.bytes.len() == SYMBOL_BYTES)
                    && self.assembly.arrived(symbol)
                {
                    let kept = self.kept.write_all_at(&payload.bytes, symbol * SYMBOL_BYTES as u64);
                    kept.map_err(|error| not_kept(&error))?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is played next. `true` at the end of the title, or if nothing reads the output.
    fn play(&mut self, output: &mut Output) -> Result<bool, Failure> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match self.assembly.next(self.unix_ns(), PLAYED_MAX) {
                Played::Arrived(symbols) => {
                    bytes.resize((symbols.end - symbols.start) as usize * SYMBOL_BYTES, 0);
                    let at = symbols.start * SYMBOL_BYTES as u64;
                    self.kept.read_exact_at(&mut bytes, at).map_err(|error| not_kept(&error))?;
                }
                Played::Missing(symbols) => {
                    let count = (symbols.end - symbols.start) as usize;
                    self.missing += count as u64;
                    bytes.extend(std::iter::repeat_n(NULL_PACKET, 7 * count).flatten());
                }
                Played::Wait => return Ok(output.flush()? == Written::Closed),
                Played::End => {
                    output.flush()?;
                    return Ok(true);
                }
            }
            // What fills the last matrix is not of the title.
            let left = self.broadcast.title_bytes().saturating_sub(self.written_bytes);
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.written_bytes += bytes.len() as u64;
            if output.write(&bytes)? == Written::Closed {
                return Ok(true);
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let since_first_ns = self.first_ns.map(|first_ns| now_ns.saturating_sub(first_ns));
        self.arguments
            .duration
            .zip(since_first_ns)
            .is_some_and(|(duration, since_ns)| since_ns >= duration.ns)
    }

    fn print(&mut self, now_ns: u64) {
        if now_ns >= self.statistics_ns && !self.quiet && self.first_ns.is_some() {
            self.statistics_ns = now_ns + STATISTICS_NS;
            self.print_line();
        }
    }

    fn print_line(&self) {
        let sum = self.channels.iter().map(|channel| channel.receiver.counts());
        let counts = sum.reduce(Counts::and).unwrap_or_default();
        let line = statistics::line(&counts, self.arrivals.dropped());
        say(format!("{line}, written {:.1} MB, missing {}", self.written_bytes as f64 / 1e6, self.missing));
    }

    /// The time of day, by a clock that never steps.
    fn unix_ns(&self) -> u64 {
        self.begun_unix_ns + self.arrivals.now_ns()
    }
}

impl Channel {
    fn join(&mut self, number: usize, arrivals: &Arrivals, interface: Option<&str>) -> Result<(), Failure> {
        for (port, address) in self.plan.ports() {
            if port == Port::Rtcp {
                continue;
            }
            let member = Member::join(address, &self.plan.sources, interface)
                .map_err(|error| Failure::advised(Exit::Failed, &error.to_string()))?;
            let member = Arc::new(member);
            arrivals
                .also(number, port, Arc::clone(&member))
                .map_err(|error| Failure::failed(format!("cannot start a thread to receive: {error}")))?;
            self.members.push(member);
        }
        Ok(())
    }
}

fn not_kept(error: &io::Error) -> Failure {
    Failure::failed(format!("cannot keep what arrives early: {error}"))
        .help("the directory for temporary files (TMPDIR) needs space for half of the title")
}

/// The time of day, in nanoseconds since 1970.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
