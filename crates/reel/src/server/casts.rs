//! The casts of a server: for its API, and those of its configuration.

use super::cast_plans::{cast_plans, slots_of};
use super::front_ends::{Bound, FrontEndPlan, Starting};
use reel_api::wire::{
    Cast, CastFec as WireFec, CastMatrix, CastPlans, CastSchedule, CastSlots, CastStage, NewCast,
};
use reel_api::{CastPlanQuery, CastRefusal, CastService, NoCastSlots};
use reel_broadcast::BroadcastError;
use reel_cast::{
    BroadcastBound, BroadcastConfig, CastConfig, CastFec, CastFrontEnd, CastMetrics, CastRefused, CastReport,
    CastState, Casts, NoSlots,
};
use reel_library::{Library, LibraryError};
use reel_rt::{RtError, now_ns};
use reel_serve::FrontEnd;
use std::sync::Arc;
use std::time::Duration;

/// The casts, as the control plane sees them.
pub(super) struct ServerCasts {
    pub(super) casts: Casts,
    /// The titles that may be cast.
    pub(super) library: Arc<Library>,
}

impl CastService for ServerCasts {
    fn add(&self, cast: NewCast) -> Result<Cast, CastRefusal> {
        let config = config_of(cast).map_err(CastRefusal::Impossible)?;
        self.casts.add(config, now_ns()).map(cast_of).map_err(refusal)
    }

    fn list(&self) -> Vec<Cast> {
        self.casts.list(now_ns()).into_iter().map(cast_of).collect()
    }

    fn description(&self, name: &str) -> Option<String> {
        self.casts.description(name).ok()
    }

    fn slots(&self, name: &str, first_slot: Option<u64>, slots: u32) -> Result<CastSlots, NoCastSlots> {
        match self.casts.slots(name, first_slot, slots, now_ns()) {
            Ok(report) => Ok(slots_of(report, slots)),
            Err(NoSlots::NoSuchCast(_)) => Err(NoCastSlots::NoSuchCast),
            Err(none @ NoSlots::NoSchedule(_)) => Err(NoCastSlots::NoSchedule(none.to_string())),
        }
    }

    fn plans(&self, wanted: CastPlanQuery) -> Result<CastPlans, CastRefusal> {
        cast_plans(&self.library, wanted)
    }

    fn stop(&self, name: &str) -> bool {
        self.casts.stop(name).is_ok()
    }
}

/// The front end of casts, by its name.
pub(super) const CASTS: &str = "casts";

/// The front end of casts. It has no sockets: each cast has its own.
pub(super) struct BoundCasts;

impl Bound for BoundCasts {
    fn plan(&self) -> FrontEndPlan {
        FrontEndPlan::of_one_thread(CASTS)
    }

    fn start(self: Box<Self>, place: usize, starting: &Starting<'_>) -> Result<Box<dyn FrontEnd>, RtError> {
        let (casts, real_time_priority) = (starting.casts.clone(), starting.config.real_time_priority);
        starting.metrics.register(Arc::new(CastMetrics(casts.clone())));
        let front_end = CastFrontEnd { casts, front_end: place, real_time_priority };
        Ok(Box::new(front_end.start(starting.parts, starting.config.driver)?))
    }
}

/// How long after a refusal a cast of the configuration is tried again. An interface may come up,
/// and a title may be ingested.
const RETRY_EVERY: Duration = Duration::from_secs(30);

/// Adds the casts of the configuration. What is refused is tried again until the server ends.
pub(super) async fn begin_configured(casts: Casts, configured: Vec<CastConfig>) {
    let mut left = configured;
    let mut said: Vec<String> = Vec::new();
    while !left.is_empty() {
        let mut refused = Vec::new();
        for config in left {
            let (casts, wanted) = (casts.clone(), config.clone());
            let added = tokio::task::spawn_blocking(move || casts.add(wanted, now_ns())).await;
            let reason = match added {
                Ok(Ok(_)) => continue,
                Ok(Err(CastRefused::Stopping)) => return,
                Ok(Err(reason)) => reason.to_string(),
                Err(panicked) => panicked.to_string(),
            };
            let text = format!("{} is not cast to {}: {reason}", config.title, config.group);
            // Once for each reason, not every half minute.
            if !said.contains(&text) {
                tracing::warn!("{text}; it is tried again every {} s", RETRY_EVERY.as_secs());
                said.push(text);
            }
            refused.push(config);
        }
        left = refused;
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// What is asked for, or why that cannot be.
fn config_of(cast: NewCast) -> Result<CastConfig, String> {
    let broadcast = broadcast_of(cast.scheme.as_deref(), cast.wait_s, cast.bandwidth_bps)?;
    let NewCast { title, then, group, name, is_looped, fec, ttl, dscp, interface, is_announced, .. } = cast;
    let fec = match fec {
        WireFec::Any => CastFec::Any,
        WireFec::Strict => CastFec::Strict,
        WireFec::Off => CastFec::Off,
    };
    let ttl = ttl.max(1);
    Ok(CastConfig {
        name,
        title,
        then,
        group,
        is_looped,
        fec,
        ttl,
        dscp,
        interface,
        is_announced,
        is_permanent: false,
        broadcast,
    })
}

/// The schedule that is asked for, if one is.
///
/// # Errors
/// The scheme is unknown, or it has not exactly one bound; the text says so.
pub fn broadcast_of(
    scheme: Option<&str>,
    wait_s: Option<f64>,
    bandwidth_bps: Option<u64>,
) -> Result<Option<BroadcastConfig>, String> {
    let Some(scheme) = scheme.filter(|scheme| *scheme != LINEAR) else {
        return match (wait_s, bandwidth_bps) {
            (None, None) => Ok(None),
            _ => Err("a wait or a bandwidth belongs to a schedule, and a linear cast has none; name a scheme, for example rfs".to_owned()),
        };
    };
    let scheme = scheme.parse().map_err(|error: BroadcastError| error.to_string())?;
    let bound = match (wait_s, bandwidth_bps) {
        (Some(wait_s), None) if wait_s > 0.0 && wait_s <= DAY_S => {
            BroadcastBound::Wait((wait_s * 1e9).round() as u64)
        }
        (None, Some(bps)) => BroadcastBound::Bandwidth(bps),
        (Some(wait_s), None) => return Err(format!("a wait is above 0 s and at most a day, not {wait_s} s")),
        _ => {
            return Err(
                "a scheme needs either a wait or a bandwidth, for example --wait 30s or --bandwidth 20M (wait_s or bandwidth_bps in \
                 the API and in reel.toml)"
                    .to_owned(),
            );
        }
    };
    Ok(Some(BroadcastConfig { scheme, bound }))
}

/// The scheme of a cast that is sent to one group, which has no bound.
const LINEAR: &str = "linear";

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

fn cast_of(report: CastReport) -> Cast {
    let seconds = |time_ns: u64| time_ns as f64 / 1e9;
    let (state, reason) = match report.state {
        CastState::Starting => (CastStage::Starting, None),
        CastState::OnAir => (CastStage::OnAir, None),
        CastState::Waiting(reason) => (CastStage::Waiting, Some(reason)),
        CastState::Ended(reason) => (CastStage::Ended, Some(reason)),
    };
    Cast {
        sdp: format!("/casts/{}.sdp", report.name),
        name: report.name,
        title: report.title,
        title_name: report.title_name,
        label: report.label,
        playlist: report.playlist,
        playlist_place: report.playlist_place,
        group: report.group.to_string(),
        source: report.source.map(|source| source.to_string()),
        url: report.url,
        is_looped: report.is_looped,
        fec: report.fec.map(|(columns, rows, is_strict)| CastMatrix { columns, rows, is_strict }),
        schedule: report.broadcast.map(|broadcast| CastSchedule {
            scheme: broadcast.scheme,
            channels: broadcast.channels,
            segments: broadcast.segments,
            slot_s: seconds(broadcast.slot_ns),
            wait_s: seconds(broadcast.wait_ns),
            bandwidth_bps: broadcast.bandwidth_bps,
            peak_bps: broadcast.peak_bps,
        }),
        state,
        reason,
        position_s: seconds(report.position_ns),
        duration_s: seconds(report.duration_ns),
        rate_bps: report.rate_bps,
        packets: report.packets,
        fec_packets: report.fec_packets,
        late_packets: report.late_packets,
        lost_packets: report.lost_packets,
        fault: report.fault,
    }
}

fn refusal(refused: CastRefused) -> CastRefusal {
    let detail = refused.to_string();
    match refused {
        CastRefused::Title(LibraryError::NoSuchTitle { id }) => CastRefusal::NoSuchTitle(id),
        CastRefused::Title(LibraryError::NoStream { .. }) => CastRefusal::Impossible(detail),
        CastRefused::Title(_) => CastRefusal::Failed(detail),
        CastRefused::NameTaken(_)
        | CastRefused::GroupTaken { .. }
        | CastRefused::SentTo(_)
        | CastRefused::TooMany => CastRefusal::Taken(detail),
        CastRefused::NotAdmitted(refused) => CastRefusal::NotAdmitted {
            detail,
            retry_after_s: refused.retry_after_s(),
            refusal: refused.refusal().cloned(),
        },
        CastRefused::Stopping => CastRefusal::Stopping(detail),
        _ => CastRefusal::Impossible(detail),
    }
}
