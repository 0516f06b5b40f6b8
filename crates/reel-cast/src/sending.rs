//! One cast on the thread that sends: its runs, its flows and its reports.

use crate::announcing::Announcing;
use crate::casts::Casts;
use crate::channel::{Channel, Train};
use crate::limits::{CAST_LOOK_NS, CAST_REPORT_NS, CAST_TRAIN_BPS_MIN, CAST_TRAIN_PACKETS};
use crate::on_air::{Begun, OnAir};
use crate::piece::{Due, Piece};
use crate::run::{Destination, Opener, Run};
use reel_play::limits::PUSH_LEAD_NS;
use reel_play::{Engine, Playable, PlayableTitle};
use reel_rtp::rtcp::{Cname, write_report};
use reel_udp::{FlowId, Pacer, TooManyFlows, UdpSender};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A cast that is being sent.
pub(crate) struct Sending {
    pub(crate) cast: Arc<OnAir>,
    /// Its number on the thread.
    number: u64,
    /// The sender of its packets on the thread.
    pub(crate) sender: usize,
    channels: Vec<Channel>,
    announcing: Option<Announcing>,
    cname: Cname,
    /// The run that is sent, and the one before, whose last FEC packets are sent.
    runs: Vec<Run>,
    /// The place with which the next run begins.
    next_place: u64,
    /// Its titles were removed, so it ends with the present pass.
    is_last: bool,
    report_ns: u64,
    look_ns: u64,
}

/// What is to be done for a cast after it has sent.
pub(crate) enum Then {
    /// It continues at this time at the latest.
    At(u64),
    /// Another session is to be asked for, which begins at that time, with that place; it continues
    /// then.
    Ask { start_ns: u64, place: u64, at_ns: u64 },
    /// It has ended, for this reason.
    End(String),
}

/// What a cast works with.
pub(crate) struct Tools<'a> {
    pub(crate) casts: &'a Casts,
    pub(crate) engine: &'a mut Engine<PlayableTitle>,
    pub(crate) udp: &'a mut UdpSender,
    pub(crate) now_ns: u64,
}

impl Sending {
    /// Opens the flows of a cast.
    pub(crate) fn new(
        cast: Arc<OnAir>,
        (number, sender): (u64, usize),
        udp: &mut UdpSender,
        now_ns: u64,
    ) -> Result<Sending, TooManyFlows> {
        let peak_bps =
            cast.playlist.streams().map(|pushed| pushed.stream.index.peak_bps()).max().unwrap_or(0);
        let rate = NonZeroU64::MIN.max(NonZeroU64::new(2 * peak_bps).unwrap_or(NonZeroU64::MIN));
        let rate = rate.max(NonZeroU64::new(CAST_TRAIN_BPS_MIN).unwrap_or(rate));
        let pacer = Pacer::new(rate, now_ns);
        let channels = (0..cast.channels())
            .map(|channel| Channel::open(&cast, channel, udp, &pacer))
            .collect::<Result<_, _>>()?;
        let announcing = Announcing::open(&cast, udp, &pacer)?;
        let cname = Cname::new(&format!("{}@reel", cast.name)).expect("names are short and plain");
        Ok(Sending {
            cast,
            number,
            sender,
            channels,
            announcing,
            cname,
            runs: Vec::new(),
            next_place: 0,
            is_last: false,
            report_ns: 0,
            look_ns: now_ns + CAST_LOOK_NS,
        })
    }

    /// Continues what another thread has begun that panicked: from the next matrix on that can be
    /// read in time.
    pub(crate) fn resume(&mut self, tools: &mut Tools<'_>) {
        let Some(begun) = self.cast.run() else { return };
        let playing = Arc::clone(begun.session.playing());
        let Some(pushed) = playing.pushed() else { return };
        let soon_ns = (tools.now_ns + PUSH_LEAD_NS).saturating_sub(begun.start_ns);
        let matrix_symbols = pushed.stream.map.geometry().matrix_symbols();
        let symbol = pushed.times.symbol_at(soon_ns).next_multiple_of(matrix_symbols);
        if self.cast.broadcast.is_some() || symbol < pushed.times.symbols() {
            self.begin(tools, begun, symbol);
        }
    }

    /// Sends what is due.
    pub(crate) fn pump(&mut self, tools: &mut Tools<'_>) -> Then {
        if self.cast.is_stopped() {
            return Then::End("it was stopped".to_owned());
        }
        if let Err(reason) = self.begin_next(tools) {
            return Then::End(reason);
        }
        self.open_slots(tools);
        for run in 0..self.runs.len() {
            for piece in 0..self.runs[run].pieces.len() {
                self.send(tools, (run, piece));
            }
        }
        for run in &mut self.runs {
            run.pieces.retain(|piece| {
                let is_done = piece.is_done();
                if is_done {
                    let _ = tools.engine.close(piece.delivery);
                }
                !is_done
            });
        }
        self.runs.retain(|run| {
            let is_done = run.is_done();
            if is_done {
                tools.engine.sessions().close(&run.session.key());
            }
            !is_done
        });
        self.report(tools);
        self.plan(tools)
    }

    /// Ends it: says goodbye, and closes what is open. Its flows are closed by
    /// [`Sending::close_flows`].
    pub(crate) fn end(&mut self, tools: &mut Tools<'_>, reason: &str) {
        self.close(tools, reason);
        for channel in &self.channels {
            channel.say_goodbye(&self.cast, tools.udp, &self.cname, tools.now_ns);
        }
        if let Some(announcing) = &self.announcing {
            announcing.take_back(tools.udp);
        }
    }

    /// Ends it because the server stops. What the next server begins again says no goodbye.
    pub(crate) fn stop(&mut self, tools: &mut Tools<'_>) {
        let reason = "the server stops";
        if self.cast.config.is_permanent { self.close(tools, reason) } else { self.end(tools, reason) }
    }

    fn close(&mut self, tools: &mut Tools<'_>, reason: &str) {
        for piece in self.runs.drain(..).flat_map(|run| run.pieces) {
            let _ = tools.engine.close(piece.delivery);
        }
        if let Some(session) = self.cast.ends(reason) {
            tools.engine.sessions().close(&session.key());
        }
    }

    /// Closes its flows when their packets have left. `false` if some have not.
    pub(crate) fn close_flows(&self, udp: &mut UdpSender) -> bool {
        let flows = || self.flows();
        let are_idle = flows().all(|flow| udp.flow(flow).is_none_or(|flow| flow.is_idle));
        if are_idle {
            flows().for_each(|flow| udp.close(flow));
        }
        are_idle
    }

    /// Whether a flow is one of its own.
    pub(crate) fn has(&self, flow: FlowId) -> bool {
        self.flows().any(|own| own == flow)
    }

    /// Whether it is to be announced.
    pub(crate) fn is_announced(&self) -> bool {
        self.announcing.is_some()
    }

    /// Announces it. Returns how many bytes that takes.
    pub(crate) fn announce(&mut self, udp: &mut UdpSender) -> usize {
        self.announcing.as_mut().map_or(0, |announcing| announcing.announce(&self.cast, udp))
    }

    fn flows(&self) -> impl Iterator<Item = FlowId> {
        let media = self.channels.iter().flat_map(Channel::flows);
        media.chain(self.announcing.as_ref().map(Announcing::flow))
    }

    /// Takes over what the kernel says of its flows.
    pub(crate) fn changed(&mut self, udp: &UdpSender) {
        if let Some(announcing) = &mut self.announcing {
            announcing.changed(&self.cast, udp);
        }
        let (mut refused, mut fault) = (0, None);
        for flow in self.channels.iter().flat_map(|channel| channel.states(udp)) {
            refused += flow.counts.refused_packets;
            fault = fault.or(flow.fault.map(ToString::to_string));
        }
        if let Some(fault) = &fault {
            tracing::warn!(cast = self.cast.name, group = %self.cast.config.group, "packets of a cast are lost: {fault}");
        }
        self.cast.counts.refused.store(refused, Ordering::Relaxed);
        self.cast.has_fault(fault);
    }

    /// Begins the next run if it is its time.
    fn begin_next(&mut self, tools: &mut Tools<'_>) -> Result<(), String> {
        let due_ns = self.next_start_ns().unwrap_or(0);
        if due_ns > tools.now_ns || self.runs.len() > 1 || self.is_last {
            return Ok(());
        }
        let now_ns = tools.now_ns;
        let Some(next) = self.cast.begin_next(due_ns, now_ns) else { return Ok(()) };
        match self.begin(tools, next, 0) {
            true => Ok(()),
            false => Err("what was reserved for it was ended".to_owned()),
        }
    }

    /// Begins a run: slots of its schedule, or passes from a symbol on.
    fn begin(&mut self, tools: &mut Tools<'_>, begun: Begun, symbol: u64) -> bool {
        let Tools { engine, now_ns, .. } = tools;
        let mut opener = Opener { engine, to: Destination::of(&self.cast, self.number), now_ns: *now_ns };
        let run = match &self.cast.broadcast {
            Some(broadcast) => Run::of_slots(&mut opener, begun, broadcast),
            None => Run::of_passes(&mut opener, begun, &mut self.channels[0].source, symbol),
        };
        let Some(run) = run else { return false };
        self.next_place = run.next_place();
        self.runs.push(run);
        true
    }

    /// Begins to read the slots of its schedule that are sent next.
    fn open_slots(&mut self, tools: &mut Tools<'_>) {
        let Tools { engine, now_ns, .. } = tools;
        let mut opener = Opener { engine, to: Destination::of(&self.cast, self.number), now_ns: *now_ns };
        let Some(broadcast) = &self.cast.broadcast else { return };
        for run in &mut self.runs {
            run.open_slots(&mut opener, &mut self.channels, broadcast);
        }
    }

    /// When what is sent now ends, so that what follows is read in time.
    fn next_start_ns(&self) -> Option<u64> {
        Some(self.runs.last()?.next_start_ns())
    }

    /// Sends what is due of one piece of a run, as far as it is in memory.
    fn send(&mut self, tools: &mut Tools<'_>, (run, piece): (usize, usize)) {
        let piece = &mut self.runs[run].pieces[piece];
        let (channel, port) = (piece.channel, piece.port);
        while let Some(train) = take_due(piece, &self.cast, tools) {
            self.channels[channel].send(&self.cast, tools.udp, port, train, tools.now_ns);
        }
    }

    /// Sends reports if it is their time, the first ones with the first packets.
    fn report(&mut self, tools: &mut Tools<'_>) {
        if tools.now_ns >= self.report_ns && self.has_begun() {
            self.report_ns = tools.now_ns + CAST_REPORT_NS;
            for channel in &self.channels {
                channel.report(&self.cast, tools.udp, &self.cname, tools.now_ns, write_report);
            }
        }
    }

    fn has_begun(&self) -> bool {
        self.channels.iter().any(Channel::has_begun)
    }

    /// What comes next.
    fn plan(&mut self, tools: &mut Tools<'_>) -> Then {
        let now_ns = tools.now_ns;
        if now_ns >= self.look_ns {
            self.look_ns = now_ns + CAST_LOOK_NS;
            let sessions = Arc::clone(tools.engine.sessions());
            let is_gone = |run: &Run| sessions.touch(&run.session.key(), now_ns).is_none();
            if self.runs.iter().any(is_gone) {
                return Then::End("its session was ended".to_owned());
            }
            if let Some(next) = self.cast.next() {
                sessions.touch(&next, now_ns);
            }
            if !self.is_last && tools.casts.is_removed(&self.cast) {
                self.is_last = true;
                self.runs.iter_mut().for_each(Run::end_soon);
            }
        }
        if self.runs.is_empty() && self.is_last {
            return Then::End(removed(&self.cast));
        }
        let has_next = self.cast.next().is_some() && !self.is_last;
        if self.runs.is_empty() && !has_next {
            if !self.cast.continues(self.next_place) {
                return Then::End("it was sent to its end".to_owned());
            }
            self.cast.waits();
        }
        let begins_ns = self.next_start_ns().filter(|_| has_next);
        let dues_ns = self.runs.iter().flat_map(|run| run.pieces.iter().filter_map(Piece::due_ns));
        // What is due waits for memory or the network, and an event follows.
        let opens_ns = self.runs.iter().filter_map(Run::opens_ns);
        let next_ns = dues_ns.chain(begins_ns).chain(opens_ns).filter(|due_ns| *due_ns > now_ns).min();
        let report_ns = if self.has_begun() { self.report_ns.max(now_ns + 1) } else { u64::MAX };
        let at_ns = next_ns.unwrap_or(u64::MAX).min(self.look_ns).min(report_ns);
        if self.cast.continues(self.next_place) && !self.is_last && self.cast.asks(now_ns) {
            let start_ns = self.next_start_ns().unwrap_or(now_ns);
            let place = self.runs.last().map_or(self.next_place, Run::next_place);
            return Then::Ask { start_ns, place, at_ns };
        }
        Then::At(at_ns)
    }
}

/// Takes the next train of a piece that is due, as far as it is in memory.
fn take_due(piece: &mut Piece, cast: &OnAir, tools: &mut Tools<'_>) -> Option<Train> {
    // All streams of a volume have symbols of one length.
    let symbol_bytes = cast.playlist.first().pushed()?.stream.places.symbol_bytes();
    let most = cast.train_packets.unwrap_or(CAST_TRAIN_PACKETS);
    let Due { symbols, packets, due_ns, stamp } =
        piece.take_due(tools.engine, symbol_bytes, most, tools.now_ns)?;
    let (headers, header_bytes) = piece.headers(packets);
    Some(Train { packets: symbols.packets(headers, header_bytes, symbol_bytes), due_ns, stamp })
}

/// Why a cast ends whose titles were removed.
fn removed(cast: &OnAir) -> String {
    match cast.playlist.titles() {
        1 => "its title was removed".to_owned(),
        _ => "its titles were removed".to_owned(),
    }
}
