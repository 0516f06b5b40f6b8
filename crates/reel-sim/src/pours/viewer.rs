//! A viewer of poured streams: a session, a delivery of the engine whose body grows, and a link.
//! What comes next is decided as `reel_serve::Viewing` does.

use super::POUR_TAG;
use super::writer::Writer;
use crate::content::first_wrong;
use crate::core::bytes_of;
use crate::pours_report::PoursReport;
use crate::scale::OBJECT_SCALE;
use crate::sessions::{ClientSession, ClientSessions, address};
use crate::title::Title;
use reel_cache::{Body, Part};
use reel_play::limits::{POURED_HELD_BYTES, POURED_ROUNDS, TRAIN_BYTES_MAX};
use reel_play::{DeliveryId, DeliveryPolicy, Engine, NetworkPath, NewDelivery, PlayableTitle, Readiness};
use reel_pour::{PourEnd, PourViewer, Pours, Read};
use reel_qos::Class;
use reel_qos::limits::ROUND_NS;
use reel_testkit::Rng;
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

/// Addresses of these viewers: those of others are smaller.
const FIRST_ADDRESS: u32 = 1 << 20;

/// The link of a slow viewer, in thousandths of the rate.
const SLOW_PERMILLE: (u64, u64) = (100, 900);
/// The links of others, in bytes per second: those of viewers of films.
const LINKS: (u64, u64) = (5_000_000, 25_000_000);
/// Every so many-th viewer is slow.
const SLOW_EVERY: u64 = 4;

/// One that watches now and then.
pub(super) struct Viewer {
    number: u64,
    rng: Rng,
    /// What it watches, or when it comes.
    pub(super) watches: Result<Watching, u64>,
}

/// A place in a stream, and what is on the way.
pub(super) struct Watching {
    /// The writer, and which of its streams.
    pub(super) stream: (usize, u64),
    pub(super) window_bytes: u64,
    viewer: PourViewer,
    session: ClientSession,
    delivery: DeliveryId,
    seed: u64,
    /// The next byte that it gets, in simulated bytes.
    at: u64,
    is_slow: bool,
    /// Real bytes per second.
    link_bytes_per_s: u64,
    /// What was appended last, in simulated bytes, and when it is due.
    part: Option<(u64, u64)>,
    /// Bytes on the way, and when they arrive.
    arrives: Option<(u64, u64)>,
    has_caught_up: bool,
    leaves_ns: u64,
    continues_ns: u64,
}

/// Why it stops to watch.
enum Stop {
    Left,
    Finished,
    Cut,
    Broken,
}

/// What the server is to a viewer.
pub(super) struct Served<'a> {
    pub(super) engine: &'a mut Engine<Title>,
    pub(super) sessions: &'a mut ClientSessions,
    pub(super) pours: &'a Pours,
    /// Any title of the library: a stream has none of its own.
    pub(super) title: &'a Arc<Title>,
}

impl Viewer {
    pub(super) fn new(number: u64, mut rng: Rng, now_ns: u64) -> Viewer {
        let comes_ns = now_ns + rng.below(10 * SECOND_NS);
        Viewer { number, rng, watches: Err(comes_ns) }
    }

    pub(super) fn next_ns(&self) -> u64 {
        match &self.watches {
            Err(comes_ns) => *comes_ns,
            Ok(watching) => {
                watching.leaves_ns.min(watching.arrives.map_or(u64::MAX, |(_, arrives_ns)| arrives_ns))
            }
        }
    }

    /// Everything that it does now. The error is a broken law.
    pub(super) fn turn(
        &mut self,
        served: &mut Served<'_>,
        writers: &[Writer],
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<(), String> {
        if matches!(&self.watches, Err(comes_ns) if *comes_ns <= now_ns) {
            self.come(served, writers, now_ns, report)?;
        }
        let Ok(watching) = &mut self.watches else { return Ok(()) };
        let Some(stop) = watching.turn(served, now_ns, report)? else { return Ok(()) };
        if matches!(stop, Stop::Cut) && !watching.is_slow {
            return Err(
                "an admitted viewer of a poured stream was cut off, and its link is sufficient".to_owned()
            );
        }
        *match stop {
            Stop::Left => &mut report.left,
            Stop::Finished => &mut report.finished,
            Stop::Cut => &mut report.cut,
            Stop::Broken => &mut report.broken,
        } += 1;
        served.engine.close(watching.delivery);
        served.sessions.close(&watching.session);
        self.watches = Err(now_ns + self.rng.below(8 * SECOND_NS));
        Ok(())
    }

    /// Chooses a stream and asks for it.
    fn come(
        &mut self,
        served: &mut Served<'_>,
        writers: &[Writer],
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<(), String> {
        self.watches = Err(now_ns + SECOND_NS + self.rng.below(SECOND_NS));
        // Fits: a place in the list.
        let number = self.rng.below(writers.len() as u64) as usize;
        let writer = &writers[number];
        let name = writer.name();
        let (Some(viewer), Ok(stream)) = (served.pours.view(&name, now_ns), &writer.stream) else {
            return match (served.pours.view(&name, now_ns).is_some(), writer.stream.is_ok()) {
                (false, true) => Err(format!("{name} is poured, and is not there")),
                (true, false) => Err(format!("{name} is not poured, and is there")),
                _ => Ok(()),
            };
        };
        let rate = viewer.terms().bytes_per_s;
        let title = Arc::new(served.title.to_be_cast(PlayableTitle::of_poured(&name, rate)));
        let client = FIRST_ADDRESS + self.number as u32;
        let Ok(session) = served.sessions.open_poured((&name, &title), client, now_ns) else {
            report.viewers_refused += 1;
            return Ok(());
        };
        report.viewers += 1;
        let delivery = served.engine.open(delivery(POUR_TAG + self.number, client, &session), now_ns);
        served.engine.stay_open(delivery);
        let is_slow = self.number.is_multiple_of(SLOW_EVERY);
        let link_bytes_per_s = match is_slow {
            true => (rate * self.rng.range(SLOW_PERMILLE.0, SLOW_PERMILLE.1) / 1000).max(OBJECT_SCALE),
            false => self.rng.range(LINKS.0, LINKS.1),
        };
        self.watches = Ok(Watching {
            stream: (number, writer.streams),
            window_bytes: viewer.terms().window_bytes(),
            viewer,
            session,
            delivery,
            seed: stream.program.seed,
            at: stream.joins_at(now_ns),
            is_slow,
            link_bytes_per_s,
            part: None,
            arrives: None,
            has_caught_up: false,
            leaves_ns: now_ns + self.rng.range(1, 40) * SECOND_NS,
            continues_ns: now_ns + CONTINUE_EVERY_NS,
        });
        Ok(())
    }

    /// Its session is used; `false` if it was ended.
    pub(super) fn touch(&self, sessions: &ClientSessions, now_ns: u64) -> bool {
        self.watches.as_ref().map_or(true, |watching| sessions.touch(&watching.session, now_ns))
    }
}

/// How often a session is reserved what follows.
pub(super) const CONTINUE_EVERY_NS: u64 = POURED_ROUNDS as u64 / 2 * ROUND_NS;

fn delivery(tag: u64, client: u32, session: &ClientSession) -> NewDelivery<Title> {
    NewDelivery {
        tag,
        session: Some(Arc::clone(session)),
        policy: DeliveryPolicy::begins(),
        body: Body::default(),
        preamble_bytes: 0,
        file_offset: 0,
        in_runs: false,
        path: NetworkPath::Uplink {
            train_bytes: TRAIN_BYTES_MAX / OBJECT_SCALE,
            client: address(client),
            piece_bytes: 1,
        },
    }
}

impl Watching {
    fn turn(
        &mut self,
        served: &mut Served<'_>,
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<Option<Stop>, String> {
        if let Some((bytes, _)) = self.arrives.take_if(|(_, arrives_ns)| *arrives_ns <= now_ns) {
            served.engine.taken(self.delivery, bytes, now_ns);
            self.at += bytes;
            report.sent_bytes += bytes * OBJECT_SCALE;
        }
        if self.leaves_ns <= now_ns {
            return Ok(Some(Stop::Left));
        }
        if self.viewer.is_behind(now_ns) {
            return Ok(Some(Stop::Cut));
        }
        if now_ns > self.continues_ns {
            self.continues_ns = now_ns + CONTINUE_EVERY_NS;
            if served.sessions.continue_poured(&self.session, now_ns).is_err() {
                return Err("an admitted viewer of a poured stream has nothing any more".to_owned());
            }
        }
        while self.arrives.is_none() {
            let stop = match served.engine.unsent_bytes(self.delivery) {
                0 => self.append(served, now_ns, report)?,
                _ => None,
            };
            if stop.is_some() {
                return Ok(stop);
            }
            match served.engine.fill(self.delivery, now_ns) {
                Some(Readiness::Ready) => self.send(served, now_ns)?,
                Some(Readiness::Waiting) => break,
                Some(Readiness::Done) | None => return Ok(Some(Stop::Finished)),
            }
        }
        Ok(None)
    }

    /// Appends what comes next: all before it was sent.
    fn append(
        &mut self,
        served: &mut Served<'_>,
        now_ns: u64,
        report: &mut PoursReport,
    ) -> Result<Option<Stop>, String> {
        if let Some((bytes, due_ns)) = self.part.take()
            && due_ns < now_ns
            && !self.is_slow
        {
            let late = if self.has_caught_up { &mut report.late_bytes } else { &mut report.late_first_bytes };
            *late += bytes * OBJECT_SCALE;
        }
        // Fits: 64 KiB.
        match self.viewer.read(POURED_HELD_BYTES as usize) {
            Read::Messages(messages, due_ns) => {
                let parts = messages.iter().map(|message| {
                    // Fits: the length of a message.
                    Part::Bytes(Arc::clone(message), 0..message.len() / OBJECT_SCALE as usize)
                });
                let body = Body::new(parts);
                self.part = Some((body.bytes(), due_ns));
                served.engine.append(self.delivery, body, Class::PERIODIC, Some(due_ns));
            }
            Read::Nothing => self.has_caught_up = true,
            Read::Ended(PourEnd::Complete) => served.engine.complete(self.delivery),
            Read::Ended(PourEnd::Broken) => return Ok(Some(Stop::Broken)),
            Read::Behind => return Ok(Some(Stop::Cut)),
        }
        Ok(None)
    }

    /// What is ready goes over the link. Each byte is the next one of the stream.
    fn send(&mut self, served: &mut Served<'_>, now_ns: u64) -> Result<(), String> {
        let mut at = self.at;
        for chunk in served.engine.chunks(self.delivery) {
            let bytes = bytes_of(&chunk);
            let range = at..at + bytes.len() as u64;
            at = range.end;
            if let Some(wrong) = first_wrong(self.seed, range, bytes) {
                return Err(format!("byte {wrong} of a poured stream is wrong, or not the next one"));
            }
        }
        let bytes = at - self.at;
        if bytes == 0 {
            return Err("a delivery of a poured stream is ready and has nothing".to_owned());
        }
        let takes_ns =
            u128::from(bytes * OBJECT_SCALE) * u128::from(SECOND_NS) / u128::from(self.link_bytes_per_s);
        // Fits: minutes at most.
        self.arrives = Some((bytes, now_ns + (takes_ns as u64).max(1)));
        Ok(())
    }
}
