//! `/api/v1/dashboard` and `/api/v1/capacity`: how the promises stand, for people.

use super::ControlPlane;
use super::admission::{AdmissionReport, ClassCounts, MemberView, SessionView};
use super::body::QueryOf;
use super::library_service::MemberReport;
use super::limits::{CAPACITY_RATE_BPS_MAX, DASHBOARD_SESSIONS_MAX};
use super::problem::Problem;
use axum::Json;
use axum::extract::State;
use reel_disk::limits::PRICE_UNKNOWN;
use reel_disk::{MemberStats, SchedulerView};
use reel_qos::limits::ROUND_NS;
use reel_qos::{ClassTable, Resource, ResourceUsage, UNLIMITED};
use serde::Deserialize;
use serde_json::{Value, json};

/// `GET /api/v1/dashboard`
pub(super) async fn dashboard(State(control): State<ControlPlane>) -> Json<Value> {
    let report = control.admission().report();
    let volume = control.library().volume();
    let AdmissionReport { now_ns, members, usage, classes, counts, mut sessions, sharing, refusals } = report;
    // Who holds something comes first; of each kind the oldest.
    sessions.sort_by_key(|session| !session.reserved);
    Json(json!({
        "now_s": now_ns / 1_000_000_000,
        "round_ns": ROUND_NS,
        "volume": { "state": volume.state, "writable": volume.writable },
        "members": volume
            .members
            .iter()
            .map(|member| member_body(member, members.get(member.member), &classes))
            .collect::<Vec<_>>(),
        "resources": usage.iter().map(resource_body).collect::<Vec<_>>(),
        "classes": classes_body(&classes, &counts),
        "sessions_total": sessions.len(),
        // Of all, as the list is cut.
        "sessions_reserved": sessions.iter().filter(|session| session.reserved).count(),
        "sessions": sessions.iter().take(DASHBOARD_SESSIONS_MAX).map(session_body).collect::<Vec<_>>(),
        "sharing": {
            "groups": sharing.chains,
            "followers": sharing.followers,
            "kept_bytes": sharing.interval_bytes,
        },
        "refusals": refusals
            .iter()
            .map(|(resource, count)| json!({ "resource": resource, "count": count }))
            .collect::<Vec<_>>(),
        "jobs": control.jobs().list(),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CapacityQuery {
    rate_bps: u64,
}

/// `GET /api/v1/capacity?rate_bps=`
pub(super) async fn capacity(
    State(control): State<ControlPlane>,
    QueryOf(CapacityQuery { rate_bps }): QueryOf<CapacityQuery>,
) -> Result<Json<Value>, Problem> {
    if !(1..=CAPACITY_RATE_BPS_MAX).contains(&rate_bps) {
        return Err(Problem::bad_request(format!(
            "rate_bps is {rate_bps}; it must be 1 to {CAPACITY_RATE_BPS_MAX} bits per second"
        )));
    }
    let answer = control.admission().capacity(rate_bps);
    Ok(Json(json!({
        "rate_bps": rate_bps,
        "viewers": answer.viewers,
        "stopped_by": answer.stopped_by.map(|resource| resource.to_string()),
        "more_now": answer.more_now,
    })))
}

fn member_body(report: &MemberReport, view: Option<&MemberView>, classes: &ClassTable) -> Value {
    let MemberView { stats, view, price } = view.cloned().unwrap_or(MemberView {
        stats: MemberStats::default(),
        view: SchedulerView::default(),
        price: PRICE_UNKNOWN,
    });
    let by_class = |(class, spec): (reel_qos::Class, &reel_qos::ClassSpec)| {
        let of = view.classes.get(class.index()).cloned().unwrap_or_default();
        json!({
            "class": spec.name,
            "queued": of.queued,
            "quota_ms": ms(of.quota_ns as f64),
            "used_ms": ms(of.used_ns as f64),
            "total_ms": ms(of.total_ns as f64),
            "bytes": stats.classes[class.index()].bytes,
        })
    };
    json!({
        "member": report.member,
        "path": report.path,
        "state": report.state,
        "in_use": report.in_use,
        "text": report.text,
        "policy": view.policy,
        "rounds": view.rounds,
        "slack_ms": ms(view.slack_ns as f64),
        "least_slack_ms": ms(view.least_slack_ns as f64),
        "late": view.late,
        "queued": stats.queued,
        "in_device": stats.in_device,
        "errors": stats.errors,
        "price": {
            "read_request_us": price.read_request_ns as f64 / 1e3,
            "read_mib_us": price.read_mib_ns as f64 / 1e3,
            "apart": price.apart,
        },
        "classes": classes.iter().map(by_class).collect::<Vec<_>>(),
    })
}

fn resource_body(usage: &ResourceUsage) -> Value {
    let unit = match usage.resource {
        Resource::Member(_) | Resource::MemberBytes(_) | Resource::Core => "ns",
        Resource::Network | Resource::Arena => "bytes",
    };
    json!({
        "resource": usage.resource.to_string(),
        "unit": unit,
        "used": usage.used,
        // Nobody knows it: nothing is refused for its sake.
        "capacity": (usage.capacity != UNLIMITED).then_some(usage.capacity),
        "peak_used": usage.peak_used,
    })
}

fn classes_body(classes: &ClassTable, counts: &[ClassCounts]) -> Vec<Value> {
    let body = |(class, spec): (reel_qos::Class, &reel_qos::ClassSpec)| {
        let ClassCounts { sent_bytes, deadline_misses } =
            counts.get(class.index()).copied().unwrap_or_default();
        json!({
            "name": spec.name,
            "kind": spec.kind.name(),
            "share_permille": spec.share_permille,
            "sent_bytes": sent_bytes,
            "deadline_misses": deadline_misses,
        })
    };
    classes.iter().map(body).collect()
}

fn session_body(session: &SessionView) -> Value {
    json!({
        "key_hint": session.key_hint,
        "title": session.title,
        "client": session.client.to_string(),
        "class": session.class,
        "rate_bps": session.rate_bps,
        "state": session.state,
        "reserved": session.reserved,
        "position_s": session.position_s,
        "sent_bytes": session.sent_bytes,
        "age_s": session.age_s,
    })
}

/// Milliseconds with three digits.
fn ms(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}
