//! Receives a broadcast: joins the channels that its client says, keeps what arrives ahead of its
//! time in a file without a name, and writes the title in order, one slot behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reel_media::transport::NULL_PACKET;
use reel_receive::{
    Arrivals, Broadcast, BroadcastClient, Member, Plan, Played, SYMBOL_BYTES, SenderTime, Tune, Wait,
};

use super::Received;
use super::output::{Output, Written};
use super::silence::Silence;
use super::statistics;
use crate::args::ReceiveArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;

/// How often statistics are printed.
const STATISTICS_NS: u64 = 5_000_000_000;

/// The longest wait, so that a signal is noticed and channels are joined in time.
const WAIT: Duration = Duration::from_millis(50);

/// Datagrams that are taken, and packets that are written, at once.
const PLAYED_MAX: u64 = 256;

/// A difference of clocks that is worth a word.
const CLOCK_TOLD_NS: u64 = 500_000_000;

/// A broadcast that is being received.
pub(super) struct Following<'a> {
    arguments: &'a ReceiveArguments,
    client: BroadcastClient,
    plans: Vec<Plan>,
    /// The sockets of each channel.
    members: Vec<Vec<Arc<Member>>>,
    arrivals: Arrivals,
    /// What has arrived, each packet in its place.
    kept: File,
    silence: Silence,
    /// When arrivals were looked at last.
    looked_ns: u64,
    first_ns: Option<u64>,
    is_clock_told: bool,
    written_bytes: u64,
    missing: u64,
    statistics_ns: u64,
    quiet: bool,
}

/// Why nothing more is received.
enum End {
    /// The title has ended, or its output, or it was told to end.
    Done,
    /// The server said goodbye.
    Goodbye,
    /// It has sent nothing for so long.
    Silent(u64),
    /// Another broadcast is sent.
    Outdated,
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
        let now_ns = arrivals.now_ns();
        let zero_unix_ns = unix_ns().saturating_sub(now_ns);
        let client = BroadcastClient::new(broadcast, plans.clone(), zero_unix_ns, now_ns);
        if !quiet {
            let (tuners, wait_s) = (client.visit().tuners(), seconds(client.wait_ns(now_ns)));
            say(format!(
                "receiving a broadcast of {} channels, {tuners} at a time; it plays in {wait_s:.1} s",
                plans.len()
            ));
        }
        let kept = tempfile::tempfile().map_err(|error| {
            Failure::failed(format!("cannot make a file for what arrives early: {error}"))
        })?;
        Ok(Following {
            arguments,
            members: plans.iter().map(|_| Vec::new()).collect(),
            plans,
            silence: Silence::new(arguments.timeout.ns),
            looked_ns: now_ns,
            client,
            arrivals,
            kept,
            first_ns: None,
            is_clock_told: false,
            written_bytes: 0,
            missing: 0,
            statistics_ns: STATISTICS_NS,
            quiet,
        })
    }

    /// Receives until the title has ended.
    pub(super) fn run(mut self, stopped: &AtomicBool, output: &mut Output) -> Result<Received, Failure> {
        let end = loop {
            self.tune()?;
            let is_silent = self.take_arrivals()?;
            self.tell_clock();
            let has_ended = self.play(output)? || stopped.load(Ordering::Relaxed);
            let now_ns = self.arrivals.now_ns();
            self.print(now_ns);
            if has_ended || self.is_over(now_ns) {
                break End::Done;
            }
            if self.client.is_outdated(now_ns) {
                break End::Outdated;
            }
            if self.client.has_ended(now_ns) {
                break End::Goodbye;
            }
            if is_silent {
                break End::Silent(self.silence.lasts_ns(now_ns));
            }
        };
        self.ends(&end, output)
    }

    /// Joins and leaves channels.
    fn tune(&mut self) -> Result<(), Failure> {
        let now_ns = self.arrivals.now_ns();
        while let Some(tune) = self.client.tune(now_ns) {
            match tune {
                Tune::Join(channel) => self.join(channel)?,
                Tune::Leave(channel) => self.members[channel].drain(..).for_each(|member| member.leave()),
            }
        }
        Ok(())
    }

    fn join(&mut self, channel: usize) -> Result<(), Failure> {
        let plan = &self.plans[channel];
        for (port, address) in plan.ports() {
            let member = Member::join(address, &plan.sources, self.arguments.interface.as_deref())
                .map_err(|error| Failure::advised(Exit::Failed, &error.to_string()))?;
            let member = Arc::new(member);
            self.arrivals
                .also(channel, port, Arc::clone(&member))
                .map_err(|error| Failure::failed(format!("cannot start a thread to receive: {error}")))?;
            self.members[channel].push(member);
        }
        Ok(())
    }

    /// Takes what has arrived. Returns whether nothing of the broadcast did for too long.
    fn take_arrivals(&mut self) -> Result<bool, Failure> {
        let mut wait = WAIT;
        for _ in 0..PLAYED_MAX {
            let Wait::Arrived(arrival) = self.arrivals.wait(wait) else { break };
            let before = self.client.counts().received;
            self.client.push(arrival.channel, arrival.port, &arrival.bytes, arrival.from, arrival.at_ns);
            if self.client.counts().received > before {
                self.first_ns.get_or_insert(arrival.at_ns);
            }
            wait = Duration::ZERO;
        }
        let now_ns = self.arrivals.now_ns();
        self.client.advance(now_ns);
        while let Some(kept) = self.client.next_kept() {
            let written = self.kept.write_all_at(&kept.bytes, kept.symbol * SYMBOL_BYTES as u64);
            written.map_err(|error| not_kept(&error))?;
        }
        // Until the clock of the sender is known, no packet has a place.
        let is_known = matches!(self.client.sender_time(), SenderTime::Known(_));
        let placed_ns = if is_known { self.client.placed_ns() } else { self.first_ns.map(|_| now_ns) };
        if let Some(placed_ns) = placed_ns {
            self.silence.ends(placed_ns);
        }
        let looked_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        if !self.client.expects(now_ns) {
            self.silence.leaves_out(looked_ns, now_ns);
        }
        // A server that has just begun sends from its next slot on.
        let begins_ns = if self.first_ns.is_none() { self.client.broadcast().slot_ns() } else { 0 };
        let is_silent = self.silence.is_too_long(now_ns.saturating_sub(begins_ns), self.arrivals.dropped());
        Ok(is_silent || self.is_clock_unknown(now_ns))
    }

    /// Whether packets arrive, but do not tell in time where in the schedule they are.
    fn is_clock_unknown(&self, now_ns: u64) -> bool {
        let is_known = matches!(self.client.sender_time(), SenderTime::Known(_));
        let since_ns = self.first_ns.map_or(0, |first_ns| now_ns.saturating_sub(first_ns));
        !is_known && since_ns >= self.arguments.timeout.ns
    }

    /// Says if the clocks differ.
    fn tell_clock(&mut self) {
        let SenderTime::Known(ahead_ns) = self.client.sender_time() else { return };
        let is_told = std::mem::replace(&mut self.is_clock_told, true);
        if is_told || self.quiet || ahead_ns.unsigned_abs() <= CLOCK_TOLD_NS {
            return;
        }
        let wait_s = seconds(self.client.wait_ns(self.arrivals.now_ns()));
        say(format!(
            "note: the clock of the server is {}; slots are counted by it, so it plays in {wait_s:.1} s",
            in_words(ahead_ns)
        ));
    }

    /// Writes what is played next. `true` at the end of the title, or if nothing reads the output.
    fn play(&mut self, output: &mut Output) -> Result<bool, Failure> {
        loop {
            let played = self.client.play(self.arrivals.now_ns(), PLAYED_MAX);
            if let Some(has_ended) = self.write(played, output)? {
                return Ok(has_ended);
            }
        }
    }

    /// Writes packets. Otherwise, whether the title or its output has ended.
    fn write(&mut self, played: Played, output: &mut Output) -> Result<Option<bool>, Failure> {
        let mut bytes = Vec::new();
        match played {
            Played::Arrived(symbols) => {
                bytes.resize((symbols.end - symbols.start) as usize * SYMBOL_BYTES, 0);
                let at = symbols.start * SYMBOL_BYTES as u64;
                self.kept.read_exact_at(&mut bytes, at).map_err(|error| not_kept(&error))?;
            }
            Played::Missing(symbols) => {
                // At most so many as were asked for.
                let count = (symbols.end - symbols.start) as usize;
                self.missing += count as u64;
                bytes.extend(std::iter::repeat_n(NULL_PACKET, 7 * count).flatten());
            }
            Played::Wait => return Ok(Some(output.flush()? == Written::Closed)),
            Played::End => {
                output.flush()?;
                return Ok(Some(true));
            }
        }
        // What fills the last matrix is not of the title.
        let left = self.client.broadcast().title_bytes().saturating_sub(self.written_bytes);
        bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.written_bytes += bytes.len() as u64;
        Ok((output.write(&bytes)? == Written::Closed).then_some(true))
    }

    /// Writes what has arrived, and says what is missing.
    fn ends(mut self, end: &End, output: &mut Output) -> Result<Received, Failure> {
        if !matches!(end, End::Done) {
            loop {
                let played = self.client.play_last(PLAYED_MAX);
                if self.write(played, output)?.is_some() {
                    break;
                }
            }
        }
        let is_whole = self.written_bytes >= self.client.broadcast().title_bytes();
        if !self.quiet && self.client.counts().received > 0 {
            self.print_line();
        }
        match end {
            End::Outdated => Ok(Received::Outdated),
            End::Done if is_whole && self.client.arrived() == 0 => Err(self.nothing_arrived()),
            End::Done => Ok(Received::Done),
            _ if is_whole => Ok(Received::Done),
            End::Goodbye => Err(self.is_not_whole("the broadcast has ended")),
            End::Silent(_) if self.client.counts().received == 0 => Err(self.nothing_arrived()),
            End::Silent(_) if self.is_clock_unknown(self.arrivals.now_ns()) => Err(self.clock_unknown()),
            End::Silent(silent_ns) => {
                let silent_s = seconds(*silent_ns);
                Err(self.is_not_whole(&format!("the broadcast has sent nothing for {silent_s:.1} s")))
            }
        }
    }

    fn is_not_whole(&self, why: &str) -> Failure {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let (written, all) = (mb(self.written_bytes), mb(self.client.broadcast().title_bytes()));
        let mut what = format!("{why}, and the title is not whole: {written:.1} of {all:.1} MB were written");
        let undescribed = self.client.counts().undescribed;
        if undescribed > 0 {
            what.push_str(&format!(
                "; {undescribed} packets of another broadcast than the description arrived"
            ));
        }
        let misplaced = self.client.misplaced();
        if misplaced > 0 {
            what.push_str(&format!(
                "; {misplaced} packets were far from their places, as if the clock of the server had been set"
            ));
        }
        Failure::failed(what).help(
            "check that it is on the air (reel cast list), and receive it again, with its present description; if it is on \
             the air, a switch with IGMP snooping but without a querier may have stopped forwarding it (docs/casting.md)",
        )
    }

    fn nothing_arrived(&self) -> Failure {
        let counts = self.client.counts();
        let waited_s = seconds(self.arrivals.now_ns());
        let mut what = format!("no packet of the broadcast arrived in {waited_s:.1} s");
        for (name, count) in [
            ("packets of another broadcast than the description", counts.undescribed),
            ("FEC packets", counts.fec),
            ("packets of other senders", counts.foreign),
            ("datagrams that are no packets of a cast", counts.malformed),
        ] {
            if count > 0 {
                what.push_str(&format!(", but {count} {name}"));
            }
        }
        Failure::failed(what).help(
            "check that it is on the air (reel cast list), that the description is its present one (reel cast sdp), the \
             interface (--interface), the firewall, and that a switch with IGMP snooping has a querier",
        )
    }

    fn clock_unknown(&self) -> Failure {
        let what = match self.client.sender_time() {
            SenderTime::Unreported(ahead_ns) => format!(
                "by its packets, the clock of the server is {}, and no report of it (RTCP) confirms that",
                in_words(ahead_ns)
            ),
            _ => "the packets that arrive are at no place of the schedule of the description".to_owned(),
        };
        Failure::failed(what).help(
            "set the clocks of this machine and of the server (timedatectl), let port + 1 through the firewall, and get the \
             description again",
        )
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
        let mut line = statistics::line(&self.client.counts(), self.arrivals.dropped());
        if self.client.misplaced() > 0 {
            line.push_str(&format!(", misplaced {}", self.client.misplaced()));
        }
        say(format!("{line}, written {:.1} MB, missing {}", self.written_bytes as f64 / 1e6, self.missing));
    }
}

/// A difference of clocks.
fn in_words(ahead_ns: i64) -> String {
    let difference_s = seconds(ahead_ns.unsigned_abs());
    let side = if ahead_ns < 0 { "behind" } else { "ahead of" };
    format!("{difference_s:.1} s {side} that of this machine")
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
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
