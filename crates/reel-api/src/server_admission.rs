//! Admission of a running server, as the control plane sees it: the ledger and the disks.

use crate::{
    AdmissionReport, AdmissionService, CapacityReport, ClassCounts, LateView, MemberView, ResourceCode,
    SessionState, SessionView, SharingReport,
};
use reel_admit::limits::STEADY_ROUNDS;
use reel_admit::{Loss, ReservationState, SessionSummary, Sessions, Sharing, steady_demand};
use reel_cache::{SessionKey, Units};
use reel_disk::Disks;
use reel_metrics::{MetricsPage, MetricsSource};
use reel_play::{LateViewer, PlayCounters, PlayableTitle, RESOURCES};
use reel_qos::{Capacities, Class, ClassTable, Ledger, MemberCapacity, ResourceUsage, Starts, UNLIMITED};
use reel_rt::now_ns;
use reel_volume::Geometry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ledger, the sessions and the disks of a server.
pub struct ServerAdmission {
    /// All sessions.
    pub sessions: Arc<Sessions<PlayableTitle>>,
    /// What all engines count.
    pub counters: Arc<PlayCounters>,
    /// Shared units.
    pub units: Units,
    /// What could be reserved when the server started.
    pub capacities: Capacities,
    /// The geometry of the volume.
    pub geometry: Geometry,
}

impl AdmissionService for ServerAdmission {
    fn report(&self) -> AdmissionReport {
        let now_ns = now_ns();
        let classes = self.disks().classes();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let misses = &self.units.counters().deadline_misses;
        let disks = self.disks();
        let members = disks.stats().into_iter().zip(disks.views()).enumerate();
        let not_admitted = self.counters.not_admitted.iter().map(load);
        let mut refusals: Vec<(ResourceCode, u64)> =
            RESOURCES.into_iter().map(ResourceCode::from).zip(not_admitted).collect();
        refusals.push((ResourceCode::Sessions, load(&self.counters.sessions_refused)));
        AdmissionReport {
            now_ns,
            members: members
                .map(|(member, (stats, view))| MemberView {
                    stats,
                    view,
                    price: disks.price(member),
                    measured_price: disks.measured_price(member).price,
                })
                .collect(),
            usage: self.sessions.admission().usage(now_ns),
            counts: std::array::from_fn(|class| ClassCounts {
                sent_bytes: load(&self.counters.sent_bytes[class]),
                deadline_misses: load(&misses[class]),
            }),
            sessions: self.sessions.list(now_ns).into_iter().map(|session| view(session, &classes)).collect(),
            late: self
                .counters
                .late
                .list()
                .into_iter()
                .map(|late| late_view(late, &classes, now_ns))
                .collect(),
            sharing: sharing(self.sessions.admission().sharing()),
            classes,
            refusals,
        }
    }

    fn classes(&self) -> Arc<ClassTable> {
        self.disks().classes()
    }

    fn set_classes(&self, classes: ClassTable) {
        // The ledger takes it over with the next round, like every change of what can be reserved.
        self.disks().set_classes(Arc::new(classes));
    }

    fn capacity(&self, rate_bps: u64) -> CapacityReport {
        let disks = self.disks();
        let demand = steady_demand(&self.geometry, self.units.depth(), rate_bps, Loss::AnyOne);
        let mut capacities = self.capacities.clone();
        for (member, capacity) in capacities.members.iter_mut().enumerate() {
            // As admission counts: more is reserved of a device that proves faster only when it is
            // measured again.
            *capacity = MemberCapacity::found(capacity.price, disks.price(member));
        }
        // Viewers of the first front end are counted.
        if let (Some(price_ns), Some(front_end)) =
            (capacities.core_mib_ns.first_mut(), self.counters.front_ends.first())
        {
            *price_ns = front_end.mib_ns.load(Ordering::Relaxed).max(*price_ns);
        }
        let mut empty = Ledger::new(capacities, STEADY_ROUNDS);
        // An empty ledger has no reservation that a change of shares could overcommit.
        let _ = empty.set_classes(ClassTable::clone(&disks.classes()));
        let alone = empty.how_many(Class::PERIODIC, &demand, Starts::Apart).ok();
        let more = self.sessions.admission().how_many(Class::PERIODIC, &demand);
        CapacityReport {
            viewers: alone.map_or(0, |answer| answer.viewers),
            stopped_by: alone.and_then(|answer| answer.stopped_by),
            more_now: more.map(|answer| answer.map_or(0, |answer| answer.viewers)),
        }
    }
}

impl ServerAdmission {
    fn disks(&self) -> &Disks {
        self.units.disks()
    }
}

impl MetricsSource for ServerAdmission {
    fn collect(&self, page: &mut MetricsPage) {
        for usage in self.sessions.admission().usage(now_ns()) {
            collect_usage(page, &usage);
        }
        for (_, spec) in self.disks().classes().iter() {
            let labels = [("class", spec.name.as_str()), ("kind", spec.kind.name())];
            let share = f64::from(spec.share_permille) / 1000.0;
            page.gauge("reel_class_share", "Share of every device under scarcity.", &labels, share);
            let share = f64::from(spec.network_permille) / 1000.0;
            page.gauge("reel_class_network_share", "Share of the network under scarcity.", &labels, share);
        }
    }
}

fn collect_usage(page: &mut MetricsPage, usage: &ResourceUsage) {
    if usage.capacity == UNLIMITED || usage.capacity == 0 {
        return;
    }
    let member = usage.resource.member().map(|member| member.to_string());
    let mut labels = vec![("resource", usage.resource.code())];
    labels.extend(member.iter().map(|member| ("member", member.as_str())));
    let part = |used: u64| used as f64 / usage.capacity as f64;
    page.gauge(
        "reel_promised_ratio",
        "Part of a resource that is reserved in this round.",
        &labels,
        part(usage.used),
    );
    page.gauge(
        "reel_promised_peak_ratio",
        "The most of a resource that is reserved in this or any later round.",
        &labels,
        part(usage.peak_used),
    );
}

fn sharing(sharing: Sharing) -> SharingReport {
    let Sharing { groups, followers, interval_bytes } = sharing;
    SharingReport { groups, followers, kept_bytes: interval_bytes }
}

fn late_view(late: LateViewer, classes: &ClassTable, now_ns: u64) -> LateView {
    LateView {
        key_hint: key_hint(late.session),
        title: late.title_id,
        client: late.client.to_string(),
        class: classes.spec(late.class).name.clone(),
        units: late.units,
        late_ms: late.by_ns.div_ceil(1_000_000),
        ago_s: now_ns.saturating_sub(late.at_ns) / 1_000_000_000,
    }
}

/// Enough of a key to tell two sessions from each other, and too little to use it.
fn key_hint(key: SessionKey) -> String {
    key.to_string().chars().take(4).collect()
}

fn view(session: SessionSummary, classes: &ClassTable) -> SessionView {
    SessionView {
        key_hint: key_hint(session.key),
        title: session.title_id,
        client: session.client.to_string(),
        class: classes.spec(session.class).name.clone(),
        rate_bps: session.rate_bps,
        state: match session.reservation {
            ReservationState::Reserved if session.starts_in_ns > 0 => SessionState::Waiting,
            ReservationState::Reserved => SessionState::Playing,
            ReservationState::Displaced => SessionState::Displaced,
            ReservationState::Paused => SessionState::Paused,
            ReservationState::Delivered => SessionState::Delivered,
            ReservationState::Unpromised => SessionState::Unpromised,
        },
        reserved: session.reservation == ReservationState::Reserved,
        position_s: session.position_ns / 1_000_000_000,
        sent_bytes: session.sent_bytes,
        age_s: session.age_ns / 1_000_000_000,
    }
}
