//! The joins of a server: for its API, and the front end that plays them.

use super::ServeError;
use super::front_ends::{Bound, FrontEndPlan, Starting};
use reel_admit::Client;
use reel_api::wire::{NewOutlet, OtherDestination, Outlet, OutletStage};
use reel_api::{OutletRefusal, OutletService};
use reel_cache::limits::READER_STRIPES_MAX;
use reel_cast::Casts;
use reel_join::limits::LEASE_S_MAX;
use reel_join::{
    GroupOptions, JoinDirectory, JoinFrontEnd, JoinMetrics, JoinRefused, Joins, OutletReport, OutletState,
    Target, Targets,
};
use reel_pour::{PourRefused, Pours};
use reel_rt::{RtError, now_ns};
use reel_serve::{AllowedClients, FrontEnd, Parts};
use reel_volume::Volume;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Where sessions may be played to. By default nowhere.
#[derive(Clone, Debug, Default)]
pub struct JoinConfig {
    /// The directory of `file:`.
    pub directory: Option<PathBuf>,
    /// Whether sessions may be played into poured streams.
    pub live: bool,
    /// The addresses that may be sent to.
    pub to: Vec<Target>,
    /// How datagrams to groups leave this machine.
    pub groups: GroupOptions,
    /// Who may have sessions played there.
    pub clients: AllowedClients,
}

/// The joins, as the control plane sees them.
pub(super) struct ServerOutlets(pub(super) Joins);

/// The front end of joins. It has no sockets of its own.
pub(super) struct BoundJoins {
    window_buffers: usize,
}

/// Opens what the configuration allows.
///
/// # Errors
/// The directory cannot be used.
pub(super) fn targets(config: &JoinConfig) -> Result<Targets, ServeError> {
    let open = |path: &PathBuf| {
        JoinDirectory::open(path).map_err(|source| ServeError::Join { path: path.clone(), source })
    };
    let directory = config.directory.as_ref().map(open).transpose()?;
    let JoinConfig { live, to, groups, clients, .. } = config.clone();
    Ok(Targets { directory, live, to, groups, clients })
}

/// The joins of a server, which send nothing to an address that a cast of it sends to.
pub(super) fn joins_beside(casts: &Casts, parts: &Parts, targets: Targets, pours: &Pours) -> Joins {
    let others = casts.clone();
    let (sessions, units) = (Arc::clone(&parts.sessions), parts.units.clone());
    let joins = Joins::new(targets, sessions, units, pours.clone(), move |to| others.that_sends_to(to));
    casts.beside(joins.sent_to());
    joins
}

impl BoundJoins {
    /// For chains of titles of this volume.
    pub(super) fn of(volume: &Volume) -> Self {
        // A window of pictures, and the units that a few seconds of sound touch.
        Self { window_buffers: READER_STRIPES_MAX * volume.geometry().data_rows() + 4 }
    }
}

impl Bound for BoundJoins {
    fn plan(&self) -> FrontEndPlan {
        FrontEndPlan::of_one_thread("joins")
    }

    fn start(self: Box<Self>, place: usize, starting: &Starting<'_>) -> Result<Box<dyn FrontEnd>, RtError> {
        let joins = starting.joins.clone();
        starting.metrics.register(Arc::new(JoinMetrics(joins.clone())));
        let front_end = JoinFrontEnd { joins, front_end: place, window_buffers: self.window_buffers };
        Ok(Box::new(front_end.start(starting.parts, starting.config.driver)?))
    }
}

impl OutletService for ServerOutlets {
    fn add(&self, key: &str, wanted: NewOutlet, client: Client) -> Result<Outlet, OutletRefusal> {
        let key = key.parse().map_err(|_| OutletRefusal::NoSuchSession)?;
        self.0.allow(client).map_err(refusal)?;
        if wanted.lease_s.is_some_and(|lease_s| !(1..=LEASE_S_MAX).contains(&lease_s)) {
            return Err(OutletRefusal::Impossible(format!("lease_s is from 1 to {LEASE_S_MAX} seconds")));
        }
        let added = self.0.add(&key, &wanted.to, wanted.from_byte, now_ns()).map_err(refusal)?;
        if let Some(lease_s) = wanted.lease_s {
            self.0.lease(&key, lease_s, now_ns());
        }
        Ok(outlet_of(added))
    }

    fn replace(
        &self,
        key: &str,
        number: u64,
        wanted: OtherDestination,
        client: Client,
    ) -> Result<Outlet, OutletRefusal> {
        let key = key.parse().map_err(|_| OutletRefusal::NoSuchSession)?;
        self.0.allow(client).map_err(refusal)?;
        self.0.replace(&key, number, &wanted.to, now_ns()).map(outlet_of).map_err(refusal)
    }

    fn list(&self, key: &str) -> Option<Vec<Outlet>> {
        let outlets = self.0.list(&key.parse().ok()?, now_ns())?;
        Some(outlets.into_iter().map(outlet_of).collect())
    }

    fn remove(&self, key: &str, number: u64) -> bool {
        key.parse().is_ok_and(|key| self.0.remove(&key, number))
    }
}

fn outlet_of(report: OutletReport) -> Outlet {
    let OutletReport { number, to, state, from_byte, bytes, late_bytes, runs } = report;
    let (state, reason) = match state {
        OutletState::Joined => (OutletStage::Joined, None),
        OutletState::Complete => (OutletStage::Complete, None),
        OutletState::Ended(reason) => (OutletStage::Ended, Some(reason)),
    };
    let (run_bytes, pause_ms) = (runs.run_bytes, runs.pause_ns as f64 / 1e6);
    Outlet { number, to, state, reason, from_byte, bytes, late_bytes, run_bytes, pause_ms }
}

fn refusal(refused: JoinRefused) -> OutletRefusal {
    let (detail, retry_after_s) = (refused.to_string(), refused.retry_after_s());
    match refused {
        JoinRefused::NoSuchSession => OutletRefusal::NoSuchSession,
        JoinRefused::NotPoured(_) | JoinRefused::PouredAgain(_) => OutletRefusal::Gone(detail),
        JoinRefused::NoSuchOutlet(_) => OutletRefusal::NoSuchOutlet(detail),
        JoinRefused::NotAllowed { .. } | JoinRefused::OfOthers(_) => OutletRefusal::NotAllowed(detail),
        JoinRefused::Exists(_)
        | JoinRefused::BeingWritten(_)
        | JoinRefused::Plays
        | JoinRefused::BeingReplaced(_)
        | JoinRefused::OfCast { .. }
        | JoinRefused::Pour(PourRefused::Taken(_))
        | JoinRefused::SentTo(_) => OutletRefusal::Taken(detail),
        JoinRefused::TooManyOfSession | JoinRefused::OneOnLink => OutletRefusal::TooMany(detail),
        JoinRefused::Pour(PourRefused::TooMany | PourRefused::NoMemory { .. })
        | JoinRefused::TooMany
        | JoinRefused::NoMemory(_)
        | JoinRefused::Stopping
        | JoinRefused::NoAnswer => OutletRefusal::Unavailable { detail, retry_after_s },
        JoinRefused::NotAdmitted(refused) => {
            OutletRefusal::NotAdmitted { detail, retry_after_s, refusal: refused.refusal().cloned() }
        }
        JoinRefused::File(error) if error.kind() == io::ErrorKind::StorageFull => {
            OutletRefusal::NoSpace(detail)
        }
        JoinRefused::File(_) | JoinRefused::Random(_) => OutletRefusal::Failed(detail),
        _ => OutletRefusal::Impossible(detail),
    }
}
