//! What it costs to broadcast a title by each scheme, for the command line and for the API.

use reel_broadcast::{BroadcastError, ClientRule, Cut, Plan, Scheme, Stream, receivers_wait_ns};
use reel_cast::BroadcastBound;
use reel_library::{Form, Library, LibraryError, Stream as StoredStream};
use reel_media::transport::JoinPoint;

/// The schemes that are compared.
pub const SCHEMES: [Scheme; 5] = [
    Scheme::Staggered,
    Scheme::Fast,
    Scheme::Skyscraper { width: 12 },
    Scheme::Skyscraper { width: Scheme::SKYSCRAPER_WIDTH },
    Scheme::RecursiveFrequencySplitting,
];

/// Bytes of a transport packet.
const PACKET_BYTES: u64 = 188;

/// A title to broadcast.
pub struct Subject {
    /// Its id, if it is a title of a volume.
    pub title: Option<String>,
    /// Its length and rate.
    pub stream: Stream,
    /// Its key frames, if they are known.
    key_frames: Option<KeyFrames>,
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
    /// What all channels send at most in bits per second, if that is known.
    pub peak_bps: Option<u64>,
    /// Why the key frames of the title do not allow it.
    pub fault: Option<BroadcastError>,
}

/// Where a stored stream can be cut.
struct KeyFrames {
    times_ns: Vec<u64>,
    /// The packets at these times.
    packets: Vec<u64>,
    /// All packets.
    end: u64,
}

impl Subject {
    /// A title of this length and mean rate.
    ///
    /// # Errors
    /// If it has no length or no rate, or is too long.
    pub fn of_length(duration_ns: u64, rate_bps: u64) -> Result<Subject, NotPlanned> {
        let notes = vec!["a title of this mean rate; the peak of a real one is not known".to_owned()];
        Ok(Subject { title: None, stream: Stream::new(duration_ns, rate_bps)?, key_frames: None, notes })
    }

    /// A title of a volume. Reads its index.
    ///
    /// # Errors
    /// If it is not there or cannot be read.
    pub fn of_title(library: &Library, id: &str) -> Result<Subject, NotPlanned> {
        let summary = library.summary(id)?;
        if summary.forms.iter().any(|form| form.form == Form::Ts) {
            let stream = library.stream(id)?;
            return Self::of_stream(id, &stream);
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
            let plan = planned(scheme, self.stream, bound)?;
            let (peak_bps, fault) = match self.peak_bps(&plan) {
                Ok(peak_bps) => (peak_bps, None),
                Err(error) => (None, Some(error)),
            };
            Ok(SchemePlan { plan, peak_bps, fault })
        };
        only.map_or(SCHEMES.to_vec(), |scheme| vec![scheme]).into_iter().map(plan).collect()
    }

    /// The form `ts`, which is what a cast sends.
    fn of_stream(id: &str, stored: &StoredStream) -> Result<Subject, NotPlanned> {
        let index = &stored.index;
        let (times_ns, joins): (Vec<u64>, Vec<JoinPoint>) = index.key_frames().into_iter().unzip();
        let packets = joins.into_iter().map(|join| join.packet).collect();
        let key_frames = KeyFrames { times_ns, packets, end: index.packets };
        let notes =
            vec!["rates are those of the stored stream, without FEC and headers of packets".to_owned()];
        let stream = Stream::new(index.duration_ns(), index.mean_bps())?;
        Ok(Subject { title: Some(id.to_owned()), stream, key_frames: Some(key_frames), notes })
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
        Ok(Subject { title: Some(id.to_owned()), stream, key_frames: None, notes })
    }

    /// What all channels send when each sends the segment with the most bytes; `None` if the key
    /// frames are not known.
    fn peak_bps(&self, plan: &Plan) -> Result<Option<u64>, BroadcastError> {
        let Some(key_frames) = &self.key_frames else { return Ok(None) };
        let segments = plan.schedule.segments();
        let cut = Cut::new(&key_frames.times_ns, self.stream.duration_ns, segments)?;
        let rates: Vec<u64> = (1..=segments).map(|segment| key_frames.slot_bps(&cut, segment)).collect();
        let channels = plan.schedule.channels();
        if plan.schedule.client_rule() == ClientRule::OneChannel {
            let most = rates.iter().max().copied().unwrap_or(0);
            return Ok(Some(most.saturating_mul(channels.len() as u64)));
        }
        let rate_of = |segment: u32| rates.get(segment as usize - 1).copied();
        let peaks = channels.iter().filter_map(|table| {
            let rates = table.repeats().filter_map(|repeat| rate_of(repeat.segment));
            rates.max()
        });
        Ok(Some(peaks.fold(0, u64::saturating_add)))
    }
}

impl SchemePlan {
    /// The wait with as many segments as the channels carry, in nanoseconds.
    pub fn best_wait_ns(&self) -> u64 {
        receivers_wait_ns(self.plan.stream.duration_ns / u64::from(self.plan.segments_max()))
    }
}

impl KeyFrames {
    /// The rate of a segment that is sent in one slot.
    fn slot_bps(&self, cut: &Cut, segment: u32) -> u64 {
        let packet = |segment: u32| match segment {
            1 => Some(0),
            _ => self.packets.get(cut.first_key_frame(segment)?).copied(),
        };
        let (begin, end) = (packet(segment), packet(segment + 1).unwrap_or(self.end));
        cut.slot_bps(begin.map_or(0, |begin| end - begin) * PACKET_BYTES)
    }
}

/// The schedule of a scheme for a bound.
///
/// # Errors
/// If there is none.
pub fn planned(scheme: Scheme, stream: Stream, bound: BroadcastBound) -> Result<Plan, BroadcastError> {
    match bound {
        BroadcastBound::Wait(wait_ns) => Plan::for_receivers(scheme, stream, wait_ns),
        BroadcastBound::Bandwidth(bps) => Plan::for_bandwidth(scheme, stream, bps),
    }
}
