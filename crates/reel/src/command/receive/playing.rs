//! Receives until the end: of the cast, of the time, of the output, or by a signal.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use reel_receive::{Arrival, Arrivals, Plan, Receiver, Wait};

use super::output::{Output, Written};
use super::silence::Silence;
use super::statistics;
use crate::args::ReceiveArguments;
use crate::failure::Failure;
use crate::logging::say;
use crate::signals::{Event, Signals};

/// How often statistics are printed.
const STATISTICS_NS: u64 = 5_000_000_000;

/// The longest wait, so that a signal is noticed.
const WAIT_NS: u64 = 100_000_000;

/// Datagrams that are taken before what they give is written.
const BATCH: usize = 64;

/// A cast that is being received.
pub(super) struct Playing<'a> {
    media: SocketAddr,
    receiver: Receiver,
    arrivals: Arrivals,
    output: &'a mut Output,
    quiet: bool,
    silence: Silence,
    duration_ns: Option<u64>,
    first_ns: Option<u64>,
    statistics_ns: u64,
}

/// Whether to receive more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Continue,
    End,
}

impl<'a> Playing<'a> {
    pub(super) fn new(
        arguments: &ReceiveArguments,
        plan: Plan,
        arrivals: Arrivals,
        output: &'a mut Output,
        quiet: bool,
    ) -> Playing<'a> {
        Playing {
            media: plan.media,
            receiver: Receiver::new(plan),
            arrivals,
            output,
            quiet,
            silence: Silence::new(arguments.timeout.ns),
            duration_ns: arguments.duration.map(|duration| duration.ns),
            first_ns: None,
            statistics_ns: STATISTICS_NS,
        }
    }

    /// Receives until the end.
    pub(super) fn run(mut self, stopped: &AtomicBool) -> Result<(), Failure> {
        let mut then = Then::Continue;
        while then == Then::Continue {
            let is_silent = self.take_arrivals()?;
            then = self.write()?;
            let now_ns = self.arrivals.now_ns();
            let is_stopped = stopped.load(Ordering::Relaxed);
            if is_silent && !is_stopped && !self.receiver.has_ended(now_ns) {
                return self.fell_silent();
            }
            if then == Then::Continue && (is_stopped || self.is_over(now_ns)) {
                self.receiver.finish();
                self.write()?;
                then = Then::End;
            }
            self.print_statistics(now_ns);
        }
        let counts = self.receiver.counts();
        if counts.received == 0 {
            return Err(self.nothing_arrived());
        }
        if !self.quiet {
            say(statistics::line(&counts, self.arrivals.dropped()));
        }
        Ok(())
    }

    /// Waits for datagrams, or until something is due without one. Returns whether the cast has
    /// been silent for too long.
    fn take_arrivals(&mut self) -> Result<bool, Failure> {
        let now_ns = self.arrivals.now_ns();
        let due_ns = self.receiver.due_ns().unwrap_or(u64::MAX).saturating_sub(now_ns);
        let mut wait_ns = due_ns.min(WAIT_NS);
        for _ in 0..BATCH {
            match self.arrivals.wait(Duration::from_nanos(wait_ns)) {
                Wait::Arrived(arrival) => {
                    self.take(&arrival);
                    // Others may send without end to a group whose cast is silent.
                    if self.silence.is_too_long(arrival.at_ns, self.arrivals.dropped()) {
                        return Ok(true);
                    }
                }
                Wait::Silent => {
                    let now_ns = self.arrivals.now_ns();
                    self.receiver.advance(now_ns);
                    return Ok(self.silence.is_too_long(now_ns, self.arrivals.dropped()));
                }
                Wait::Closed => return Err(Failure::failed("the sockets cannot be read any more")),
            }
            wait_ns = 0;
        }
        Ok(false)
    }

    fn take(&mut self, arrival: &Arrival) {
        let before = self.receiver.counts().received;
        self.receiver.push(arrival.port, &arrival.bytes, arrival.from, arrival.at_ns);
        if self.receiver.counts().received > before {
            self.silence.ends(arrival.at_ns);
        }
        if self.first_ns.is_none() && self.receiver.counts().received > 0 {
            self.first_ns = Some(arrival.at_ns);
        }
    }

    fn write(&mut self) -> Result<Then, Failure> {
        let mut written = Written::All;
        while written == Written::All
            && let Some(payload) = self.receiver.next(self.arrivals.now_ns())
        {
            written = self.output.write(&payload.bytes)?;
        }
        if written == Written::All {
            written = self.output.flush()?;
        }
        Ok(if written == Written::Closed { Then::End } else { Then::Continue })
    }

    /// Whether the cast or its time has ended.
    fn is_over(&self, now_ns: u64) -> bool {
        let is_at_end = match (self.first_ns, self.duration_ns) {
            (Some(first_ns), Some(duration_ns)) => now_ns.saturating_sub(first_ns) >= duration_ns,
            _ => false,
        };
        is_at_end || self.receiver.has_ended(now_ns)
    }

    /// Writes what has arrived, and fails.
    fn fell_silent(mut self) -> Result<(), Failure> {
        self.receiver.finish();
        self.write()?;
        let counts = self.receiver.counts();
        if counts.received == 0 {
            return Err(self.nothing_arrived());
        }
        if !self.quiet {
            say(statistics::line(&counts, self.arrivals.dropped()));
        }
        let silent_s = self.silence.lasts_ns(self.arrivals.now_ns()) as f64 / 1e9;
        let media = self.media;
        Err(Failure::failed(format!("the cast at {media} has sent nothing for {silent_s:.1} s")).help(
            "check that it is on the air (reel cast list); if it is, a switch with IGMP snooping but without a \
             querier may have stopped forwarding it (docs/casting.md)",
        ))
    }

    fn print_statistics(&mut self, now_ns: u64) {
        if now_ns < self.statistics_ns {
            return;
        }
        self.statistics_ns = now_ns + STATISTICS_NS;
        if !self.quiet && self.first_ns.is_some() {
            say(statistics::line(&self.receiver.counts(), self.arrivals.dropped()));
        }
    }

    fn nothing_arrived(&self) -> Failure {
        let counts = self.receiver.counts();
        let waited_s = self.arrivals.now_ns() as f64 / 1e9;
        let media = self.media;
        let mut what = format!("no packet of the cast arrived at {media} in {waited_s:.1} s");
        for (name, count) in [
            ("FEC packets", counts.fec),
            ("packets of other senders", counts.foreign),
            ("datagrams that are no packets of a cast", counts.malformed),
        ] {
            if count > 0 {
                what.push_str(&format!(", but {count} {name}"));
            }
        }
        Failure::failed(what).help(format!(
            "check that the cast is on the air (reel cast list); the interface (ip route get {}, or --interface); the \
             firewall (UDP ports {} to {}); that a switch with IGMP snooping has a querier; and the TTL of the cast \
             if routers are between (reel cast add --ttl)",
            media.ip(),
            media.port(),
            media.port().saturating_add(2)
        ))
    }
}

/// Becomes true with the first signal to stop. The next one ends the process at once, because a
/// player that does not read its input may keep this program waiting.
pub(super) fn stopped_by(mut signals: Signals) -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&stopped);
    thread::spawn(move || {
        while signals.wait() == Event::Check {}
        own.store(true, Ordering::Relaxed);
        signals.end_at_the_next_stop();
    });
    stopped
}
