//! What casts send when, and what they would cost, as the API says it.

use super::casts::broadcast_of;
use crate::plans::{NotPlanned, SchemePlan, Subject};
use reel_api::wire::{CastChannel, CastClient, CastPlan, CastPlans, CastSegment, CastSlots};
use reel_api::{CastPlanQuery, CastRefusal};
use reel_broadcast::Scheme;
use reel_cast::{BroadcastConfig, SlotsReport};
use reel_library::{Library, LibraryError};

/// What it costs to send a title. Without a wait or a bandwidth, no schedule is planned.
pub(super) fn cast_plans(library: &Library, wanted: CastPlanQuery) -> Result<CastPlans, CastRefusal> {
    let CastPlanQuery { title, wait_s, bandwidth_bps, scheme } = wanted;
    // Any scheme, if all are compared: the bound is checked as that of a cast is.
    let named = scheme.clone().unwrap_or_else(|| Scheme::RecursiveFrequencySplitting.to_string());
    let is_bound = scheme.is_some() || wait_s.is_some() || bandwidth_bps.is_some();
    let config = broadcast_of(is_bound.then_some(named.as_str()), wait_s, bandwidth_bps)
        .map_err(CastRefusal::Impossible)?;
    let subject = Subject::of_title(library, &title).map_err(refusal)?;
    let plans = match config {
        Some(BroadcastConfig { scheme: only, bound }) => {
            let plans = subject.plans(bound, scheme.is_some().then_some(only));
            plans.map_err(|error| refusal(error.into()))?
        }
        None => Vec::new(),
    };
    let data_rows = library.volume().geometry().data_rows().max(1) as u32;
    Ok(CastPlans {
        title,
        duration_s: seconds(subject.stream.duration_ns),
        rate_bps: subject.stream.rate_bps,
        fec_permille: 1000 / data_rows,
        notes: subject.notes,
        plans: plans.iter().map(plan_of).collect(),
    })
}

fn plan_of(planned: &SchemePlan) -> CastPlan {
    let SchemePlan { plan, peak_bps, problem } = planned;
    CastPlan {
        scheme: plan.schedule.scheme().to_string(),
        segments: plan.schedule.segments(),
        channels: plan.schedule.channels().len(),
        bandwidth_bps: plan.bandwidth_bps(),
        peak_bps: *peak_bps,
        slot_s: seconds(plan.slot_ns()),
        wait_s: seconds(plan.receivers_wait_ns()),
        best_wait_s: seconds(planned.best_wait_ns()),
        client_channels: plan.schedule.client_channels(),
        buffer_bytes: plan.receivers_buffer_bytes(),
        problem: problem.clone(),
    }
}

fn refusal(reason: NotPlanned) -> CastRefusal {
    let detail = reason.to_string();
    match reason {
        NotPlanned::Title(LibraryError::NoSuchTitle { id }) => CastRefusal::NoSuchTitle(id),
        NotPlanned::Title(_) => CastRefusal::Failed(detail),
        NotPlanned::Schedule(_) => CastRefusal::Impossible(detail),
    }
}

/// The report on so many slots, with what the client receives and plays in these.
pub(super) fn slots_of(report: SlotsReport, slots: u32) -> CastSlots {
    let SlotsReport { slot_ns, segments, now_slot, first_slot, channels, visit } = report;
    let shown = first_slot..first_slot.saturating_add(u64::from(slots));
    let until_slot = visit.tunings.iter().map(|tuning| tuning.until_slot).max();
    let received = visit
        .segments
        .iter()
        .filter(|times| shown.contains(&times.received_slot) || shown.contains(&times.played_slot));
    let segment = |times: &reel_broadcast::SegmentTimes| CastSegment {
        segment: times.segment,
        channel: times.channel,
        received_slot: times.received_slot,
        played_slot: times.played_slot,
    };
    CastSlots {
        slot_s: seconds(slot_ns),
        segments,
        now_slot,
        first_slot,
        client: CastClient {
            arrival_slot: visit.arrival_slot,
            until_slot: until_slot.unwrap_or(visit.arrival_slot),
            segments: received.map(segment).collect(),
        },
        channels: channels
            .into_iter()
            .map(|(group, segments)| CastChannel { group: group.to_string(), segments })
            .collect(),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
