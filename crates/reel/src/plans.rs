//! What it costs to broadcast a title by each scheme, for the command line and for the API.

use reel_broadcast::{BroadcastError, Plan, Scheme, Stream, receivers_wait_ns};
use reel_cast::{BroadcastBound, BroadcastConfig, StoredPlan, channels_refused, plan_stored};
use reel_library::{Form, Library, LibraryError, Stream as StoredStream};
use std::sync::Arc;

/// The schemes that are compared.
pub const SCHEMES: [Scheme; 5] = [
    Scheme::Staggered,
    Scheme::Fast,
    Scheme::Skyscraper { width: 12 },
    Scheme::Skyscraper { width: Scheme::SKYSCRAPER_WIDTH },
    Scheme::RecursiveFrequencySplitting,
];

/// A title to broadcast.
pub struct Subject {
    /// Its id, if it is a title of a volume.
    pub title: Option<String>,
    /// Its length and rate.
    pub stream: Stream,
    /// What is stored of it, if it is a title with the form `ts`.
    stored: Option<Arc<StoredStream>>,
    /// What is to be said about these.
    pub notes: Vec<String>,
}

/// Why nothing is planned.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// There is no such title, or it cannot be read.
    #[error(transparent)]
    Title(#[from] LibraryError),
    /// There is no such schedule.
    #[error(transparent)]
    Schedule(#[from] BroadcastError),
}

/// What one scheme costs.
pub struct SchemePlan {
    /// The plan.
    pub plan: Plan,
    /// What the network carries at most in bits per second, with headers and FEC, if that is known.
    pub peak_bps: Option<u64>,
    /// Why the title cannot be cast so.
    pub problem: Option<String>,
}

impl Subject {
    /// A title of this length and mean rate.
    ///
    /// # Errors
    /// If it has no length or no rate, or is too long.
    pub fn of_length(duration_ns: u64, rate_bps: u64) -> Result<Subject, NotPlanned> {
        let notes = vec!["a title of this mean rate; the peak of a real one is not known".to_owned()];
        Ok(Subject { title: None, stream: Stream::new(duration_ns, rate_bps)?, stored: None, notes })
    }

    /// A title of a volume. Reads its index.
    ///
    /// # Errors
    /// If it is not there or cannot be read.
    pub fn of_title(library: &Library, id: &str) -> Result<Subject, NotPlanned> {
        let summary = library.summary(id)?;
        if summary.forms.iter().any(|form| form.form == Form::Ts) {
            return Self::of_stream(id, library.stream(id)?);
        }
        Self::of_tracks(library, id)
    }

    /// What the title costs by one scheme, or by each of [`SCHEMES`].
    ///
    /// # Errors
    /// If a schedule for this bound cannot be made.
    pub fn plans(
        &self,
        bound: BroadcastBound,
        only: Option<Scheme>,
    ) -> Result<Vec<SchemePlan>, BroadcastError> {
        let plan = |scheme| {
            let planned = match &self.stored {
                Some(stored) => plan_stored(stored, true, BroadcastConfig { scheme, bound })?,
                None => {
                    StoredPlan { plan: planned(scheme, self.stream, bound)?, peak_bps: None, fault: None }
                }
            };
            let StoredPlan { plan, peak_bps, fault } = planned;
            let refused = channels_refused(plan.schedule.channels().len());
            let problem = refused.or_else(|| fault.map(|fault| fault.to_string()));
            Ok(SchemePlan { plan, peak_bps, problem })
        };
        only.map_or(SCHEMES.to_vec(), |scheme| vec![scheme]).into_iter().map(plan).collect()
    }

    /// A title of a running server, of which this was told.
    ///
    /// # Errors
    /// If it has no length or no rate, or is too long.
    pub fn told(
        title: String,
        duration_ns: u64,
        rate_bps: u64,
        notes: Vec<String>,
    ) -> Result<Subject, BroadcastError> {
        Ok(Subject { title: Some(title), stream: Stream::new(duration_ns, rate_bps)?, stored: None, notes })
    }

    /// The form `ts`, which is what a cast sends.
    fn of_stream(id: &str, stored: Arc<StoredStream>) -> Result<Subject, NotPlanned> {
        let index = &stored.index;
        let notes = vec![
            "rates are those of the stored stream; the peak is what the network carries, with FEC and headers of \
             packets, and a bandwidth bounds the peak"
                .to_owned(),
        ];
        let stream = Stream::new(index.duration_ns(), index.mean_bps())?;
        Ok(Subject { title: Some(id.to_owned()), stream, stored: Some(stored), notes })
    }

    /// A title without a transport stream: what its best rendition and all its sound would take.
    fn of_tracks(library: &Library, id: &str) -> Result<Subject, NotPlanned> {
        let title = library.open(id)?;
        let summary = library.summary(id)?;
        let video = summary.video.first().map(|video| video.track);
        let sound = summary.audio.iter().map(|audio| audio.track);
        let tracks = &title.index().tracks;
        let rates = video.into_iter().chain(sound).filter_map(|track| tracks.get(track as usize));
        let rate_bps = rates.map(|track| track.average_bps).sum();
        let notes = vec![
            "the title has no form ts; rates are those of its best rendition and all its sound, and a transport \
             stream takes about 5 % more"
                .to_owned(),
        ];
        let stream = Stream::new(title.index().duration_ns, rate_bps)?;
        Ok(Subject { title: Some(id.to_owned()), stream, stored: None, notes })
    }
}

impl SchemePlan {
    /// The wait with as many segments as the channels carry, in nanoseconds.
    pub fn best_wait_ns(&self) -> u64 {
        receivers_wait_ns(self.plan.stream.duration_ns / u64::from(self.plan.segments_max()))
    }
}

/// The schedule of a scheme for a bound.
///
/// # Errors
/// If there is none.
fn planned(scheme: Scheme, stream: Stream, bound: BroadcastBound) -> Result<Plan, BroadcastError> {
    match bound {
        BroadcastBound::Wait(wait_ns) => Plan::for_receivers(scheme, stream, wait_ns),
        BroadcastBound::Bandwidth(bps) => Plan::for_bandwidth(scheme, stream, bps),
    }
}
