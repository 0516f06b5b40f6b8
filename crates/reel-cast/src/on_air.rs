//! One cast, as all threads see it.

use crate::asking::Asking;
use crate::broadcast::Broadcast;
use crate::config::CastConfig;
use crate::day::DayClock;
use crate::identity::Identity;
use crate::limits::{CAST_BEGUN_LATE_NS, CAST_NAME_BYTES_MAX};
use crate::numbering::Numbers;
use crate::playlist::Playlist;
use reel_admit::Session;
use reel_cache::SessionKey;
use reel_play::limits::PUSH_LEAD_NS;
use reel_play::{Playable, PlayableTitle, PushedStream};
use reel_rt::lock;
use reel_rtp::fec::Geometry;
use reel_rtp::limits::SESSION_NAME_BYTES_MAX;
use reel_rtp::sdp::is_source_specific;
use reel_serve::OpenedSession;
use reel_udp::{MulticastOptions, MulticastSocket};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A cast that was admitted. It stays listed when it has ended.
pub(crate) struct OnAir {
    pub(crate) name: String,
    pub(crate) config: CastConfig,
    pub(crate) identity: Identity,
    /// The time of day, from which slots and time stamps follow.
    pub(crate) day: DayClock,
    /// When it was added, in nanoseconds since 1970.
    pub(crate) added_unix_ns: u64,
    /// The place with which it begins.
    pub(crate) first_place: u64,
    pub(crate) playlist: Playlist,
    /// The matrix of its FEC packets, if there are any.
    pub(crate) fec: Option<Geometry>,
    /// Its schedule, if it is sent to several groups.
    pub(crate) broadcast: Option<Broadcast>,
    /// Where the server answers HTTP, with the descriptions of casts.
    pub(crate) http: SocketAddr,
    /// The repair window of its FEC. To find it takes some milliseconds for a long title.
    pub(crate) repair_window_us: OnceLock<u32>,
    /// Opened to check the group; the thread sends by it, or by one with the same options.
    pub(crate) socket: MulticastSocket,
    pub(crate) options: MulticastOptions,
    /// The most packets of a train; [`CAST_TRAIN_PACKETS`](crate::limits::CAST_TRAIN_PACKETS) if
    /// `None`.
    pub(crate) train_packets: Option<NonZeroU64>,
    pub(crate) counts: CastCounts,
    /// Whether it is to end.
    pub(crate) is_stopped: AtomicBool,
    state: Mutex<State>,
}

/// Counters of a cast.
#[derive(Debug, Default)]
pub(crate) struct CastCounts {
    /// Media packets handed to the kernel, and FEC packets.
    pub(crate) packets: AtomicU64,
    pub(crate) fec_packets: AtomicU64,
    /// Packets that left late.
    pub(crate) late: AtomicU64,
    /// Packets that were not sent, because the kernel did not take those before in time.
    pub(crate) dropped: AtomicU64,
    /// Packets that the kernel refused.
    pub(crate) refused: AtomicU64,
    /// Announcements, and those that could not be written.
    pub(crate) announcements: AtomicU64,
    pub(crate) unannounced: AtomicU64,
}

/// What changes while it is on the air.
struct State {
    state: CastState,
    /// The present passes or slots, whose reading begins [`PUSH_LEAD_NS`] before they are sent.
    run: Option<Begun>,
    /// Those before, which are sent until then.
    before: Option<Begun>,
    /// The session of the next ones, and the place with which it begins. It ends if the cast ends
    /// before they begin.
    next: Option<(OpenedSession, u64)>,
    /// The numbers of the packets with which the next passes begin, and the time of day of their
    /// time stamps if there is no pause before them.
    numbers: Numbers,
    stamped_unix_ns: u64,
    /// There are no next ones: the titles that follow were removed.
    is_over: bool,
    /// When another thread asks for that.
    asking: Asking,
    /// Why it was refused last.
    refused: Option<String>,
    /// Why the kernel does not take its packets.
    fault: Option<String>,
    /// The address of this machine from which it is sent, as it was found last.
    address: Option<IpAddr>,
}

/// A session that is sent.
pub(crate) struct Begun<T = PlayableTitle> {
    pub(crate) session: Arc<Session<T>>,
    /// When it began, on the clock of the server.
    pub(crate) start_ns: u64,
    /// Where it began: the slot of the schedule if there is one, or the place in the playlist.
    pub(crate) place: u64,
    /// The numbers of its packets, and the time of day of its first time stamp, if it has passes.
    pub(crate) numbers: Numbers,
    pub(crate) stamped_unix_ns: u64,
}

impl<T> Clone for Begun<T> {
    fn clone(&self) -> Self {
        let Begun { session, start_ns, place, numbers, stamped_unix_ns } = self;
        Begun {
            session: Arc::clone(session),
            start_ns: *start_ns,
            place: *place,
            numbers: *numbers,
            stamped_unix_ns: *stamped_unix_ns,
        }
    }
}

/// How far a cast has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CastState {
    /// It is admitted, and its first packets are being read.
    Starting,
    /// It is sent.
    OnAir,
    /// Its loop could not be promised again in time, for this reason. It is asked for each second.
    Waiting(String),
    /// It has ended, for this reason.
    Ended(String),
}

/// What is known of a cast.
#[derive(Clone, Debug)]
pub struct CastReport {
    /// Its name.
    pub name: String,
    /// The id of the title that is sent now.
    pub title: String,
    /// The name of the title.
    pub title_name: String,
    /// What receivers show: the name of the title, with that of the cast where it alone would not
    /// tell the cast from others.
    pub label: String,
    /// The ids of the titles that it sends one after another; empty if there is only one.
    pub playlist: Vec<String>,
    /// The place in that list of the title that is sent now.
    pub playlist_place: usize,
    /// Group and port of the media.
    pub group: SocketAddr,
    /// The only sender that receivers of its group join for (RFC 4607).
    pub source: Option<IpAddr>,
    /// Where other machines get its description (SDP); `None` if the server does not listen at the
    /// address from which it is sent.
    pub url: Option<String>,
    /// Whether it begins again at its end.
    pub is_looped: bool,
    /// L and D of its FEC, and whether SMPTE ST 2022-1 allows them.
    pub fec: Option<(u8, u8, bool)>,
    /// Its schedule, if it is sent to several groups.
    pub broadcast: Option<BroadcastReport>,
    /// How far it has come.
    pub state: CastState,
    /// The media time that is sent now, in nanoseconds; 0 of a schedule, which sends several.
    pub position_ns: u64,
    /// The length of one pass, in nanoseconds.
    pub duration_ns: u64,
    /// The mean rate of its media in bits per second, without headers and FEC.
    pub rate_bps: u64,
    /// Media packets sent.
    pub packets: u64,
    /// FEC packets sent.
    pub fec_packets: u64,
    /// Packets that left more than 20 ms after they were due.
    pub late_packets: u64,
    /// Packets that were not sent: too late for the kernel, or refused by it.
    pub lost_packets: u64,
    /// Announcements sent.
    pub announcements: u64,
    /// Announcements that were not sent, because its description is too long for one datagram.
    pub unannounced: u64,
    /// Why the kernel does not take its packets now.
    pub fault: Option<String>,
}

/// The schedule of a cast.
#[derive(Clone, Debug)]
pub struct BroadcastReport {
    /// The scheme.
    pub scheme: String,
    /// How many groups it is sent to, one address after another.
    pub channels: usize,
    /// How many segments it has.
    pub segments: u32,
    /// The length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// The longest wait of a receiver that plays one slot behind, in nanoseconds.
    pub wait_ns: u64,
    /// What all channels send on average, in bits per second, without headers and FEC.
    pub bandwidth_bps: u64,
    /// What the network carries at most, in bits per second with headers and FEC.
    pub peak_bps: u64,
}

impl BroadcastReport {
    fn of(broadcast: &Broadcast) -> BroadcastReport {
        let plan = broadcast.plan();
        BroadcastReport {
            scheme: plan.schedule.scheme().to_string(),
            channels: plan.schedule.channels().len(),
            segments: plan.schedule.segments(),
            slot_ns: broadcast.slot_ns(),
            wait_ns: plan.receivers_wait_ns(),
            bandwidth_bps: plan.bandwidth_bps(),
            peak_bps: broadcast.peak_bps(),
        }
    }
}

/// FEC packets of so many symbols.
pub(crate) fn fec_packets(fec: Option<Geometry>, symbols: u64) -> u64 {
    fec.map_or(0, |geometry| symbols / u64::from(geometry.rows()))
}

/// The numbers of the first packets of passes that begin at a time of day.
fn first_numbers(playlist: &Playlist, fec: Option<Geometry>, unix_ns: u64) -> Numbers {
    let pass = |pushed: &PushedStream| (pushed.times.pass_symbols(), pushed.times.pass_ns());
    let add = |sum: (u64, u64), one: (u64, u64)| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
    let sent = playlist.streams().map(pass).fold((0, 0), add);
    Numbers::at(unix_ns, sent, fec.map(|geometry| u64::from(geometry.rows())))
}

impl OnAir {
    pub(crate) fn new(
        (name, config): (String, CastConfig),
        (identity, day, added_unix_ns): (Identity, DayClock, u64),
        playlist: Playlist,
        (fec, broadcast): (Option<Geometry>, Option<Broadcast>),
        (socket, http): (MulticastSocket, SocketAddr),
        (session, place): (OpenedSession, u64),
    ) -> OnAir {
        let options = config.socket();
        let numbers = first_numbers(&playlist, fec, added_unix_ns);
        OnAir {
            name,
            config,
            identity,
            day,
            added_unix_ns,
            first_place: place,
            playlist,
            fec,
            broadcast,
            http,
            repair_window_us: OnceLock::new(),
            socket,
            options,
            train_packets: None,
            counts: CastCounts::default(),
            is_stopped: AtomicBool::new(false),
            state: Mutex::new(State {
                state: CastState::Starting,
                run: None,
                before: None,
                next: Some((session, place)),
                numbers,
                stamped_unix_ns: 0,
                is_over: false,
                asking: Asking::default(),
                refused: None,
                fault: None,
                address: None,
            }),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(lock(&self.state).state, CastState::Ended(_))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Whether something follows what is sent up to this place: a schedule has no end.
    pub(crate) fn continues(&self, next_place: u64) -> bool {
        let is_endless = self.config.is_looped || self.broadcast.is_some();
        (is_endless || next_place < self.playlist.titles()) && !lock(&self.state).is_over
    }

    /// How many groups it is sent to.
    pub(crate) fn channels(&self) -> usize {
        self.broadcast.as_ref().map_or(1, |broadcast| broadcast.schedule().channels().len())
    }

    /// What receivers show. A title's name alone is that of one plain cast of the title: others
    /// have their own names, or a number behind that of the title.
    pub(crate) fn label(&self) -> String {
        if self.playlist.titles() > 1 {
            return self.name.clone();
        }
        let title = &self.playlist.first().title().record().name;
        if self.broadcast.is_none() && self.name == self.config.title {
            return title.clone();
        }
        let room = SESSION_NAME_BYTES_MAX - " ()".len() - CAST_NAME_BYTES_MAX;
        format!("{} ({})", &title[..title.floor_char_boundary(room)], self.name)
    }

    /// It is sent from this address of the machine.
    pub(crate) fn is_sent_from(&self, address: IpAddr) {
        lock(&self.state).address = Some(address);
    }

    /// Where other machines get its description.
    pub(crate) fn url(&self) -> Option<String> {
        let address = lock(&self.state).address?;
        self.url_at(address)
    }

    /// The same, if it is sent from this address.
    fn url_at(&self, address: IpAddr) -> Option<String> {
        let listens = match self.http.ip() {
            IpAddr::V4(at) => at.is_unspecified() && address.is_ipv4(),
            // Such a socket takes both families.
            IpAddr::V6(at) => at.is_unspecified(),
        };
        let at = SocketAddr::new(address, self.http.port());
        (listens || self.http.ip() == address).then(|| format!("http://{at}/casts/{}.sdp", self.name))
    }

    /// When what is sent from a place on begins to be read, if that is a slot of its schedule.
    pub(crate) fn slots_start_ns(&self, place: u64) -> Option<u64> {
        let slot_ns = self.broadcast.as_ref()?.slot_ns();
        Some(self.day.slot_starts_ns(place, slot_ns).saturating_sub(PUSH_LEAD_NS))
    }

    /// The next session begins: slots at their times, and passes not before `due_ns`.
    pub(crate) fn begin_next(&self, due_ns: u64, now_ns: u64) -> Option<Begun> {
        let mut state = lock(&self.state);
        let (session, place) = state.next.take()?;
        let passes_start_ns = || session.start_ns(begun_ns(due_ns, now_ns));
        let start_ns = self.slots_start_ns(place).unwrap_or_else(passes_start_ns);
        let numbers = state.numbers;
        // What follows without a pause continues the time stamps, although it may begin late.
        let is_continued = state.run.is_some() && self.broadcast.is_none();
        let sent_unix_ns = self.day.unix_ns(start_ns.saturating_add(PUSH_LEAD_NS));
        let stamped_unix_ns = if is_continued { state.stamped_unix_ns } else { sent_unix_ns };
        if let Some(pushed) = session.playing().pushed() {
            let symbols = pushed.times.symbols();
            state.numbers = numbers.after(symbols, fec_packets(self.fec, symbols));
            let sent_ns = pushed.times.until_ns().saturating_sub(PUSH_LEAD_NS);
            state.stamped_unix_ns = stamped_unix_ns.saturating_add(sent_ns);
        }
        let begun = Begun { start_ns, session: session.keep(), place, numbers, stamped_unix_ns };
        state.before = state.run.replace(begun.clone());
        Some(begun)
    }

    /// What a thread was sending that has ended.
    pub(crate) fn run(&self) -> Option<Begun> {
        lock(&self.state).run.clone()
    }

    /// The key of the next session, if there is one.
    pub(crate) fn next(&self) -> Option<SessionKey> {
        lock(&self.state).next.as_ref().map(|(session, _)| session.key())
    }

    /// Whether another session is to be asked for now; then the caller asks.
    pub(crate) fn asks(&self, now_ns: u64) -> bool {
        let mut state = lock(&self.state);
        state.next.is_none() && state.asking.begins(now_ns)
    }

    /// The answer to that. `Err` is the reason of the refusal.
    pub(crate) fn answered(&self, answer: Result<(OpenedSession, u64), String>) {
        let mut state = lock(&self.state);
        state.asking.ends();
        match answer {
            // It has ended meanwhile, and the session ends, too.
            _ if matches!(state.state, CastState::Ended(_)) => {}
            Ok(next) => (state.next, state.refused) = (Some(next), None),
            Err(reason) => state.refused = Some(reason),
        }
    }

    /// Nothing follows what is sent now.
    pub(crate) fn is_over(&self) {
        let mut state = lock(&self.state);
        state.asking.ends();
        state.is_over = true;
    }

    pub(crate) fn is_on_air(&self) {
        let mut state = lock(&self.state);
        if !matches!(state.state, CastState::Ended(_)) {
            state.state = CastState::OnAir;
        }
    }

    pub(crate) fn waits(&self) {
        let mut state = lock(&self.state);
        let reason = state.refused.clone().unwrap_or_else(|| "its next pass is asked for".to_owned());
        (state.state, state.run, state.before) = (CastState::Waiting(reason), None, None);
    }

    /// It ends. Returns the session that is sent now, which is to be closed.
    pub(crate) fn ends(&self, reason: &str) -> Option<Arc<Session<PlayableTitle>>> {
        let mut state = lock(&self.state);
        if !matches!(state.state, CastState::Ended(_)) {
            state.state = CastState::Ended(reason.to_owned());
        }
        (state.before, state.next) = (None, None);
        state.run.take().map(|run| run.session)
    }

    pub(crate) fn has_fault(&self, fault: Option<String>) {
        lock(&self.state).fault = fault;
    }

    pub(crate) fn report(&self, now_ns: u64) -> CastReport {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = lock(&self.state);
        let is_sent = |run: &&Begun| now_ns >= run.start_ns.saturating_add(PUSH_LEAD_NS);
        let run = state.run.as_ref().filter(is_sent).or(state.before.as_ref()).or(state.run.as_ref());
        let since_ns = run.map_or(0, |run| now_ns.saturating_sub(run.start_ns));
        let playing = run.map_or(self.playlist.first(), |run| run.session.playing());
        let (index, position_ns, duration_ns) = match playing.pushed() {
            Some(pushed) if self.broadcast.is_none() => {
                let pass_ns = pushed.times.pass_ns().max(1);
                let sent_ns = since_ns.saturating_sub(PUSH_LEAD_NS);
                (Some(&pushed.stream.index), sent_ns % pass_ns, pass_ns)
            }
            Some(pushed) => (Some(&pushed.stream.index), 0, pushed.times.pass_ns()),
            None => (None, 0, 0),
        };
        let record = playing.title().record();
        CastReport {
            name: self.name.clone(),
            title: record.id.clone(),
            title_name: record.name.clone(),
            playlist: self.playlist.ids(),
            playlist_place: run.map_or(0, |run| self.playlist.place_in_list(run.place)),
            label: self.label(),
            group: self.config.group,
            source: state.address.filter(|_| is_source_specific(self.config.group.ip())),
            url: state.address.and_then(|address| self.url_at(address)),
            is_looped: self.config.is_looped,
            fec: self.fec.map(|fec| (fec.columns(), fec.rows(), fec.conforms())),
            broadcast: self.broadcast.as_ref().map(BroadcastReport::of),
            state: state.state.clone(),
            position_ns,
            duration_ns,
            rate_bps: index.map_or(0, |index| index.mean_bps()),
            packets: load(&self.counts.packets),
            fec_packets: load(&self.counts.fec_packets),
            late_packets: load(&self.counts.late),
            lost_packets: load(&self.counts.dropped) + load(&self.counts.refused),
            announcements: load(&self.counts.announcements),
            unannounced: load(&self.counts.unannounced),
            fault: state.fault.clone(),
        }
    }
}

/// When passes begin that were due and are begun now: at their time, so that nothing is between
/// them and those before, unless it has passed for too long.
fn begun_ns(due_ns: u64, now_ns: u64) -> u64 {
    if now_ns.saturating_sub(due_ns) <= CAST_BEGUN_LATE_NS { due_ns } else { now_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_are_begun_a_moment_late_leave_on_time() {
        let due_ns = 7 * CAST_BEGUN_LATE_NS;
        for late_ns in [0, 1, CAST_BEGUN_LATE_NS] {
            assert_eq!(begun_ns(due_ns, due_ns + late_ns), due_ns);
        }
        let late_ns = CAST_BEGUN_LATE_NS + 1;
        assert_eq!(begun_ns(due_ns, due_ns + late_ns), due_ns + late_ns);
        assert_eq!(begun_ns(0, due_ns), due_ns, "the first passes, and those that were refused for long");
    }
}
