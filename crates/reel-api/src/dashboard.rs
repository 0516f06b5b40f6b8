//! `/api/v1/dashboard` and `/api/v1/capacity`: the state of admission, for people.

use crate::ControlPlane;
use crate::admission::{AdmissionReport, ClassCounts, MemberView};
use crate::body::QueryOf;
use crate::library_service::MemberReport;
use crate::limits::{CAPACITY_RATE_BPS_MAX, DASHBOARD_SESSIONS_MAX};
use crate::problem::Problem;
use crate::wire::{
    Capacity, Cast, CastStage, ClassUse, Dashboard, DashboardCasts, DashboardVolume, LateRequest, Member,
    MemberClass, Price, RefusalCount, ResourceUnit, ResourceUse,
};
use axum::Json;
use axum::extract::State;
use reel_disk::limits::PRICE_UNKNOWN;
use reel_disk::{MemberStats, SchedulerView};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassSpec, ClassTable, DiskPrice, Resource, ResourceUsage, UNLIMITED};
use schemars::JsonSchema;
use serde::Deserialize;

/// `GET /api/v1/dashboard`
pub(super) async fn dashboard(State(control): State<ControlPlane>) -> Json<Dashboard> {
    let report = control.admission().report();
    let volume = control.library().volume();
    let AdmissionReport { now_ns, members, usage, classes, counts, mut sessions, sharing, late, refusals } =
        report;
    // Sessions with a reservation come first; of each kind the oldest.
    sessions.sort_by_key(|session| !session.reserved);
    Json(Dashboard {
        now_s: now_ns / 1_000_000_000,
        round_ns: ROUND_NS,
        volume: DashboardVolume {
            state: volume.state,
            writable: volume.writable,
            read_only: volume.read_only,
        },
        members: volume
            .members
            .into_iter()
            .map(|member| {
                let view = members.get(member.member).cloned();
                member_body(member, view, &classes, now_ns)
            })
            .collect(),
        resources: usage.iter().map(ResourceUse::from).collect(),
        classes: class_uses(&classes, &counts),
        sessions_total: sessions.len(),
        // Of all, as the list is cut.
        sessions_reserved: sessions.iter().filter(|session| session.reserved).count(),
        sessions: sessions.into_iter().take(DASHBOARD_SESSIONS_MAX).collect(),
        sharing,
        late,
        casts: casts(&control.casts().list()),
        refusals: refusals.into_iter().map(|(resource, count)| RefusalCount { resource, count }).collect(),
        jobs: control.jobs().list(),
    })
}

fn casts(casts: &[Cast]) -> DashboardCasts {
    let in_stage = |stage| casts.iter().filter(move |cast| cast.state == stage);
    DashboardCasts {
        on_air: in_stage(CastStage::OnAir).count(),
        waiting: in_stage(CastStage::Waiting).count(),
        rate_bps: in_stage(CastStage::OnAir).map(Cast::sent_bps).sum(),
        late_packets: casts.iter().map(|cast| cast.late_packets).sum(),
        lost_packets: casts.iter().map(|cast| cast.lost_packets).sum(),
    }
}

/// The query of `GET /api/v1/capacity`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CapacityQuery {
    /// The rate of a stream, in bits per second
    #[schemars(range(min = 1))]
    rate_bps: u64,
}

/// `GET /api/v1/capacity?rate_bps=`
pub(super) async fn capacity(
    State(control): State<ControlPlane>,
    QueryOf(CapacityQuery { rate_bps }): QueryOf<CapacityQuery>,
) -> Result<Json<Capacity>, Problem> {
    if !(1..=CAPACITY_RATE_BPS_MAX).contains(&rate_bps) {
        return Err(Problem::bad_request(format!("rate_bps is {rate_bps}"))
            .help(format!("ask for 1 to {CAPACITY_RATE_BPS_MAX} bits per second")));
    }
    let answer = control.admission().capacity(rate_bps);
    Ok(Json(Capacity {
        rate_bps,
        viewers: answer.viewers,
        stopped_by: answer.stopped_by.map(Into::into),
        more_now: answer.more_now,
    }))
}

fn member_body(report: MemberReport, view: Option<MemberView>, classes: &ClassTable, now_ns: u64) -> Member {
    let MemberView { stats, view, price, measured_price } = view.unwrap_or(MemberView {
        stats: MemberStats::default(),
        view: SchedulerView::default(),
        price: PRICE_UNKNOWN,
        measured_price: PRICE_UNKNOWN,
    });
    let by_class = |(class, spec): (Class, &ClassSpec)| {
        let of = view.classes.get(class.index()).cloned().unwrap_or_default();
        MemberClass {
            class: spec.name.clone(),
            queued: of.queued,
            quota_ms: ms(of.quota_ns as f64),
            used_ms: ms(of.used_ns as f64),
            total_ms: ms(of.total_ns as f64),
            bytes: stats.classes[class.index()].bytes,
        }
    };
    Member {
        member: report.member,
        path: report.path,
        state: report.state,
        in_use: report.in_use,
        activity: report.activity,
        text: report.text,
        policy: view.policy,
        rounds: view.rounds,
        slack_ms: ms(view.slack_ns as f64),
        least_slack_ms: ms(view.least_slack_ns as f64),
        late: view.late,
        last_late: view.last_late.map(|late| LateRequest {
            class: classes.spec(late.class).name.clone(),
            ago_s: now_ns.saturating_sub(late.at_ns) / 1_000_000_000,
        }),
        queued: stats.queued,
        in_device: stats.in_device,
        errors: stats.errors,
        price: price.into(),
        measured_price: measured_price.into(),
        classes: classes.iter().map(by_class).collect(),
    }
}

impl From<DiskPrice> for Price {
    fn from(price: DiskPrice) -> Price {
        Price {
            read_request_us: price.read_request_ns as f64 / 1e3,
            read_mib_us: price.read_mib_ns as f64 / 1e3,
            independent_limits: price.independent_limits,
        }
    }
}

impl From<&ResourceUsage> for ResourceUse {
    fn from(usage: &ResourceUsage) -> ResourceUse {
        ResourceUse {
            of: usage.resource.into(),
            unit: match usage.resource {
                Resource::Member(_) | Resource::MemberBytes(_) | Resource::Core => ResourceUnit::Ns,
                Resource::Network | Resource::Arena => ResourceUnit::Bytes,
            },
            used: usage.used,
            capacity: (usage.capacity != UNLIMITED).then_some(usage.capacity),
            peak_used: usage.peak_used,
        }
    }
}

fn class_uses(classes: &ClassTable, counts: &[ClassCounts]) -> Vec<ClassUse> {
    let body = |(class, spec): (Class, &ClassSpec)| {
        let ClassCounts { sent_bytes, deadline_misses } =
            counts.get(class.index()).copied().unwrap_or_default();
        ClassUse {
            name: spec.name.clone(),
            kind: spec.kind.into(),
            share_permille: spec.share_permille,
            network_permille: spec.network_permille,
            sent_bytes,
            deadline_misses,
        }
    };
    classes.iter().map(body).collect()
}

/// Milliseconds with three digits.
fn ms(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}
