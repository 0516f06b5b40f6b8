//! The thread that sends all casts.

use crate::announcer::Announcer;
use crate::casts::Casts;
use crate::on_air::OnAir;
use crate::sending::{Sending, Then, Tools};
use crate::wakes::{Wake, Wakes};
use reel_ring::{Done, DriverChoice, RingConfig};
use reel_rt::{Core, RtError, now_ns};
use reel_serve::{
    Accepted, Listening, NoPlace, OpenConnections, OpenResult, Parts, PlaceShares, Protocol, Serve,
    ServeThreads, Step, ThreadsConfig,
};
use reel_udp::{MulticastOptions, UdpSender, UdpStep};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The front end.
pub struct CastFrontEnd {
    /// The casts that it sends.
    pub casts: Casts,
    /// Which of [`PlayCounters::front_ends`](reel_play::PlayCounters) is this one's.
    pub front_end: usize,
    /// Its priority in `SCHED_FIFO`; 0 for an ordinary thread.
    pub real_time_priority: u8,
}

impl CastFrontEnd {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system provides no thread or no ring.
    pub fn start(self, parts: &Parts, driver: DriverChoice) -> Result<ServeThreads, RtError> {
        let config = ThreadsConfig {
            names: vec!["reel-casts".to_owned()],
            pin: false,
            real_time_priority: self.real_time_priority,
            ring: RingConfig { entries: 256, driver },
            front_end: self.front_end,
            uses_uplink: true,
        };
        let open = OpenConnections::new(1, 0, PlaceShares::default());
        let casts = self.casts.clone();
        let threads = ServeThreads::start(config, parts, Listening { listeners: Vec::new(), open }, |_| {
            let casts = casts.clone();
            move |_: &mut Core| CastThread::new(casts.clone())
        })?;
        self.casts.sent_by(threads.waker());
        Ok(threads)
    }
}

/// The state of the thread.
struct CastThread {
    casts: Casts,
    sending: BTreeMap<u64, Sending>,
    /// The number of the next cast that begins.
    next_number: u64,
    /// Casts that have ended, and whose last packets are leaving.
    leaving: Vec<Sending>,
    announcer: Announcer,
    /// One for each kind of socket.
    senders: Vec<(MulticastOptions, UdpSender)>,
    wakes: Wakes,
    is_draining: bool,
}

impl CastThread {
    fn new(casts: Casts) -> CastThread {
        CastThread {
            casts,
            sending: BTreeMap::new(),
            next_number: 0,
            leaving: Vec::new(),
            announcer: Announcer::default(),
            senders: Vec::new(),
            wakes: Wakes::default(),
            is_draining: false,
        }
    }

    /// Begins what was added since.
    fn begin_added(&mut self, serve: &mut Serve<'_>) {
        for cast in self.casts.all() {
            let is_sent = self.sending.values().any(|sending| Arc::ptr_eq(&sending.cast, &cast));
            if !is_sent
                && !cast.has_ended()
                && let Err(reason) = self.begin(serve, &cast)
            {
                tracing::error!(cast = cast.name, "a cast cannot begin: {reason}");
                cast.ends(&reason).iter().for_each(|session| self.casts.close(session));
            }
        }
    }

    fn begin(&mut self, serve: &mut Serve<'_>, cast: &Arc<OnAir>) -> Result<(), String> {
        let (number, sender) = (self.next_number, self.sender_for(cast));
        let (udp, now_ns) = (&mut self.senders[sender].1, now_ns());
        let sending = Sending::new(Arc::clone(cast), (number, sender), udp, now_ns);
        let mut sending = sending.map_err(|error| error.to_string())?;
        self.next_number += 1;
        sending.resume(&mut Tools { casts: &self.casts, engine: serve.engine, udp, now_ns });
        if sending.is_announced() {
            self.announcer.begins(number, now_ns);
        }
        self.sending.insert(number, sending);
        tracing::info!(cast = cast.name, group = %cast.config.group, "a cast begins");
        Ok(())
    }

    /// The sender over a socket with the options of a cast.
    fn sender_for(&mut self, cast: &OnAir) -> usize {
        match self.senders.iter().position(|(options, _)| *options == cast.options) {
            Some(sender) => sender,
            None => {
                self.senders.push((cast.options.clone(), UdpSender::new(cast.socket.socket())));
                self.senders.len() - 1
            }
        }
    }

    /// Sends what is due of one cast. Returns when it is to be looked at again; `None` if it has
    /// ended.
    fn pump(&mut self, serve: &mut Serve<'_>, number: u64) -> Option<u64> {
        let sending = self.sending.get_mut(&number)?;
        let udp = &mut self.senders[sending.sender].1;
        let mut tools = Tools { casts: &self.casts, engine: serve.engine, udp, now_ns: now_ns() };
        match sending.pump(&mut tools) {
            Then::At(at_ns) => Some(at_ns),
            Then::Ask { start_ns, place, at_ns } => {
                let (casts, cast) = (self.casts.clone(), Arc::clone(&sending.cast));
                let refused = Arc::clone(&sending.cast);
                // The ledger may take some milliseconds.
                let is_taken =
                    serve.parts().openers.run(move || casts.ask(&cast, (start_ns, place), now_ns()));
                if !is_taken {
                    refused.answered(Err("too many titles are being opened at once".to_owned()));
                }
                Some(at_ns)
            }
            Then::End(reason) => {
                sending.end(&mut tools, &reason);
                self.announcer.ends(number);
                tracing::info!(cast = sending.cast.name, "a cast ends: {reason}");
                self.leaving.extend(self.sending.remove(&number));
                None
            }
        }
    }

    fn pump_all(&mut self, serve: &mut Serve<'_>) {
        let numbers: Vec<u64> = self.sending.keys().copied().collect();
        let next_ns = numbers.into_iter().filter_map(|number| self.pump(serve, number)).min();
        self.announce();
        self.push_trains(serve);
        let next_ns = next_ns.into_iter().chain(self.announcer.due_ns()).min();
        if let Some(next_ns) = next_ns {
            self.wake_at(serve, Wake::Pump, next_ns);
        }
    }

    /// Announces what is due.
    fn announce(&mut self) {
        let now_ns = now_ns();
        while let Some(number) = self.announcer.next(now_ns) {
            let Some(sending) = self.sending.get_mut(&number) else {
                self.announcer.ends(number);
                continue;
            };
            let bytes = sending.announce(&mut self.senders[sending.sender].1);
            self.announcer.announced(number, bytes, now_ns);
        }
    }

    /// Hands the trains that are due to the ring.
    fn push_trains(&mut self, serve: &mut Serve<'_>) {
        for sender in 0..self.senders.len() {
            loop {
                let udp = &mut self.senders[sender].1;
                match udp.step(now_ns()) {
                    UdpStep::Push { slot, op, .. } => serve.core.ring.push(token_of(sender, slot), op),
                    UdpStep::At(at_ns) => {
                        self.wake_at(serve, Wake::Pace, at_ns);
                        break;
                    }
                    UdpStep::Idle => break,
                }
            }
            self.note_changes(sender);
        }
        let senders = &mut self.senders;
        self.leaving.retain(|sending| !sending.close_flows(&mut senders[sending.sender].1));
    }

    fn note_changes(&mut self, sender: usize) {
        while let Some(flow) = self.senders[sender].1.next_changed() {
            let is_its_own = |sending: &&mut Sending| sending.sender == sender && sending.has(flow);
            if let Some(sending) = self.sending.values_mut().find(is_its_own) {
                sending.changed(&self.senders[sender].1);
            }
        }
    }

    fn wake_at(&mut self, serve: &mut Serve<'_>, wake: Wake, at_ns: u64) {
        if self.wakes.sets(wake, at_ns) {
            serve.core.at(at_ns, wake as u64);
        }
    }
}

/// The token of an operation of a slot of a sender.
fn token_of(sender: usize, slot: u32) -> u64 {
    (sender as u64) << 32 | u64::from(slot)
}

impl Protocol for CastThread {
    fn connected(&mut self, _: &mut Serve<'_>, _: Accepted) {}

    fn turned_away(&mut self, _: &mut Serve<'_>, _: OwnedFd, _: usize, _: NoPlace) {}

    fn opened(&mut self, _: &mut Serve<'_>, _: u64, _: OpenResult) {}

    fn done(&mut self, serve: &mut Serve<'_>, done: Done) {
        let (sender, slot) = ((done.token >> 32) as usize, done.token as u32);
        if let Some((_, udp)) = self.senders.get_mut(sender) {
            udp.done(now_ns(), slot, done);
        }
        self.push_trains(serve);
    }

    fn timer(&mut self, serve: &mut Serve<'_>, token: u64) {
        match self.wakes.fires(token, serve.now_ns()) {
            Some(Wake::Pump) => self.pump_all(serve),
            Some(Wake::Pace) => self.push_trains(serve),
            None => {}
        }
    }

    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64) {
        let next_ns = self.pump(serve, tag);
        self.push_trains(serve);
        if let Some(next_ns) = next_ns {
            self.wake_at(serve, Wake::Pump, next_ns);
        }
    }

    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64) {
        let Some(mut sending) = self.sending.remove(&tag) else { return };
        self.announcer.ends(tag);
        let udp = &mut self.senders[sending.sender].1;
        let mut tools = Tools { casts: &self.casts, engine: serve.engine, udp, now_ns: now_ns() };
        sending.end(&mut tools, "stored bytes of its title are lost");
        self.leaving.push(sending);
        self.push_trains(serve);
    }

    fn woken(&mut self, serve: &mut Serve<'_>) {
        if !self.is_draining {
            self.begin_added(serve);
        }
        self.pump_all(serve);
    }

    fn drain(&mut self, serve: &mut Serve<'_>) {
        self.is_draining = true;
        self.casts.stops();
        for (_, mut sending) in std::mem::take(&mut self.sending) {
            let udp = &mut self.senders[sending.sender].1;
            let mut tools = Tools { casts: &self.casts, engine: serve.engine, udp, now_ns: now_ns() };
            sending.stop(&mut tools);
            self.leaving.push(sending);
        }
        self.push_trains(serve);
    }

    fn has_drained(&self) -> bool {
        self.leaving.is_empty()
    }

    fn cut_off_all(&mut self, _: &mut Serve<'_>) {
        self.leaving.clear();
    }

    fn title_of(&self, step: Step) -> Option<String> {
        let Step::Delivery(tag) = step else { return None };
        self.sending.get(&tag).map(|sending| sending.cast.config.title.clone())
    }
}
