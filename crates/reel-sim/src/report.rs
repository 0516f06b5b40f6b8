//! What a run says at its end, and what it says when an invariant broke.

use crate::casts_report::CastsReport;
use crate::fault::FaultSpan;
use crate::journal::{JournalEvent, Seconds};
use crate::mounted_report::MountedReport;
use crate::pours_report::PoursReport;
use serde::Serialize;
use std::fmt;

/// What happened in a run, in numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Differs, as good as surely, if anything happened differently.
    pub digest: u64,
    /// Virtual time.
    pub simulated_ns: u64,
    /// Steps of the event loop.
    pub steps: u64,
    /// Things noted.
    pub happened: u64,
    /// Titles opened.
    pub opened: u64,
    /// Titles that could not be promised.
    pub refused: u64,
    /// Starts and seeks that waited for a later start, because there was no room at once.
    pub waited_starts: u64,
    /// Looks of viewers that waited for disks to spin up before they opened a title.
    pub waits_for_disks: u64,
    /// Times that disks spun up.
    pub woken: u64,
    /// Members that are not read any more at the end.
    pub members_lost: u64,
    /// Times that a viewer took another rendition.
    pub rendition_steps: u64,
    /// Times that there was no room for a better one, so that it was sent without a reservation.
    pub rendition_steps_unreserved: u64,
    /// Viewers that were sent something without a reservation, because there was no room where they
    /// had seeked to, or for a better rendition.
    pub displaced: u64,
    /// Viewers that watched at the same time, at most.
    pub viewing_most: u64,
    /// The most that was promised of any member in the round that was, in thousandths of what can
    /// be.
    pub promised_most_permille: u64,
    /// Viewers that found in memory what others had read, and were charged with no disks, at most.
    pub followers_most: u64,
    /// Thousandths of the arena that were kept for them, at most.
    pub intervals_most_permille: u64,
    /// Segments that viewers got.
    pub segments: u64,
    /// Segments that were asked for in time and came after they were due.
    pub late_units: u64,
    /// Times a viewer's picture stood still after it had begun.
    pub stalls: u64,
    /// How many of those break no promise.
    pub stalls_exempt: ExemptStalls,
    /// Times a viewer that had paused waited for room for longer than its buffer lasted. They count
    /// as starts, not as stalls.
    pub waits_after_pauses: u64,
    /// For how long in all.
    pub stalled_ns: u64,
    /// Starts and seeks that came to a picture.
    pub starts: u64,
    /// How long half of them took at most.
    pub start_p50_ns: u64,
    /// How long 99 of 100 took at most.
    pub start_p99_ns: u64,
    /// The longest of them.
    pub start_most_ns: u64,
    /// All of them.
    #[serde(skip)]
    start_waits_ns: Vec<u64>,
    /// What clients that read titles as files did.
    pub mounted: MountedReport,
    /// What casts sent.
    pub casts: CastsReport,
    /// What programs poured.
    pub pours: PoursReport,
    /// Reads of browsers.
    pub browsed: u64,
    /// The longest of them.
    pub browse_most_ns: u64,
    /// Whole titles downloaded.
    pub downloads: u64,
    /// Units read for viewers, browsers and downloads.
    pub units_read: u64,
    /// Times that a class wanted its share of a member for long enough to be looked at.
    pub shares_looked_at: u64,
    /// Segments read ahead of their viewers.
    pub prefetched: u64,
    /// Units that were in memory or on their way.
    pub units_shared: u64,
    /// Times that a unit for an admitted viewer came after its deadline.
    pub deadline_misses: u64,
    /// Rows computed from others.
    pub rows_decoded: u64,
    /// Reads that members did.
    pub reads: u64,
    /// Writes that members did.
    pub writes: u64,
    /// Titles that were ingested.
    pub ingested: u64,
    /// Times that a title could not be ingested because there was no memory.
    pub ingest_failed: u64,
    /// Titles that were ingested and read back.
    pub read_back: u64,
    /// Titles that were removed.
    pub removed: u64,
    /// Members that were given a replacement.
    pub replaced: u64,
    /// Members that were filled and put in use.
    pub rebuilt: u64,
    /// Units that these were given.
    pub rebuilt_units: u64,
    /// The longest that a rebuild took.
    pub rebuild_most_ns: u64,
    /// Times that all that is stored was verified.
    pub scrubbed: u64,
    /// Rows that a scrub wrote again.
    pub repaired_rows: u64,
    /// Checks of what a stop of the server would leave.
    pub crashes: u64,
    /// Of these, those in which a member was rebuilt afterwards.
    pub rebuilt_after_crash: u64,
    /// Faults that began.
    pub faults: u64,
    /// Changes of a device's speed, or of the shares of classes.
    pub changes: u64,
    /// The longest that a member without a fault was thought much dearer than it is.
    pub dear_most_ns: u64,
    /// What admission counted with at the end, in thousandths of what members cost: the least and
    /// the most of any.
    pub priced_permille: (u64, u64),
    /// Buffers in use at once, at most.
    pub buffers_most: u64,
}

/// Stalls that break no promise, each counted for the first of these reasons that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExemptStalls {
    /// The viewer was displaced: nothing was reserved for it.
    pub displaced: u64,
    /// Its last start or seek took longer than two seconds, so its schedule had moved.
    pub began_late: u64,
    /// On a full link, it had jumped where the server could not see it.
    pub unseen: u64,
}

impl ExemptStalls {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.displaced + self.began_late + self.unseen
    }
}

impl fmt::Display for ExemptStalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExemptStalls { displaced, began_late, unseen } = self;
        write!(f, "{displaced} displaced, {began_late} began late, {unseen} after unseen jumps")
    }
}

/// An invariant broke.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which and how.
    pub what: String,
    /// The seed of the run.
    pub seed: u64,
    /// When the run began, in virtual time.
    pub start_ns: u64,
    /// When it broke.
    pub at_ns: u64,
    /// What was wrong with a member then.
    pub fault: Option<FaultSpan>,
    /// The last things that happened, oldest first.
    pub story: Vec<(u64, JournalEvent)>,
}

/// Lines of the story that are printed.
const STORY_LINES: usize = 40;

impl Report {
    pub(crate) fn started(&mut self, took_ns: u64) {
        self.start_waits_ns.push(took_ns);
    }

    /// Sums up how long starts took; to be called at the end.
    pub(crate) fn sum_up_starts(&mut self) {
        let mut waits_ns = std::mem::take(&mut self.start_waits_ns);
        waits_ns.sort_unstable();
        let percentile = |percent: usize| {
            let place = (waits_ns.len() * percent).div_ceil(100).saturating_sub(1);
            waits_ns.get(place).copied().unwrap_or_default()
        };
        self.starts = waits_ns.len() as u64;
        self.start_p50_ns = percentile(50);
        self.start_p99_ns = percentile(99);
        self.start_most_ns = percentile(100);
    }

    pub(crate) fn browsed(&mut self, took_ns: u64) {
        self.browsed += 1;
        self.browse_most_ns = self.browse_most_ns.max(took_ns);
    }
}

impl Report {
    /// In one line.
    pub fn summary(&self) -> String {
        let Report { viewing_most, followers_most, segments, refused, faults, digest, .. } = self;
        let (stalls, exempt) = (self.stalls, self.stalls_exempt);
        let waited = self.waited_starts;
        let [p99_ms, most_ms] = [self.start_p99_ns, self.start_most_ns].map(|ns| ns / 1_000_000);
        let dear_s = self.dear_most_ns / 1_000_000_000;
        format!(
            "{viewing_most} viewers ({followers_most} follow), {segments} segments, {stalls} stalls (exempt: {exempt}), {refused} refused, {waited} starts waited, {faults} faults, begun in {p99_ms} ms (p99), {most_ms} ms at most, too dear for {dear_s} s, mounted: {}, digest {digest:016x}",
            self.mounted
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns / 1_000_000;
        writeln!(f, "digest {:016x} of {} things that happened", self.digest, self.happened)?;
        writeln!(
            f,
            "viewers   {} at once, {} titles opened, {} refused; {} steps between renditions, {} unreserved; {} displaced",
            self.viewing_most,
            self.opened,
            self.refused,
            self.rendition_steps,
            self.rendition_steps_unreserved,
            self.displaced
        )?;
        let promised = self.promised_most_permille as f64 / 10.0;
        writeln!(f, "promised  up to {promised:.1} % of what can be promised of a member's round")?;
        let kept = self.intervals_most_permille as f64 / 10.0;
        let followers = self.followers_most;
        writeln!(
            f,
            "sharing   {followers} at once find what others read, {kept:.1} % of memory kept for them"
        )?;
        let (segments, ahead) = (self.segments, self.prefetched);
        writeln!(
            f,
            "segments  {segments}, {ahead} read ahead, {} late, {} stalls (exempt: {}), {} waits after pauses",
            self.late_units, self.stalls, self.stalls_exempt, self.waits_after_pauses
        )?;
        let [p50_ms, p99_ms, most_ms] = [self.start_p50_ns, self.start_p99_ns, self.start_most_ns].map(ms);
        writeln!(
            f,
            "starts    {} in {p50_ms} ms (p50), {p99_ms} ms (p99), {most_ms} ms at most; {} waited for room",
            self.starts, self.waited_starts
        )?;
        writeln!(f, "mounted   {}", self.mounted)?;
        writeln!(f, "casts     {}", self.casts)?;
        writeln!(f, "poured    {}", self.pours)?;
        writeln!(
            f,
            "browsed   {}, the slowest {} ms; {} titles downloaded",
            self.browsed,
            ms(self.browse_most_ns),
            self.downloads
        )?;
        let (reads, writes, decoded) = (self.reads, self.writes, self.rows_decoded);
        writeln!(
            f,
            "members   {reads} reads, {writes} writes, {decoded} rows computed, {} faults, {} changes",
            self.faults, self.changes
        )?;
        writeln!(
            f,
            "stored    {} titles ingested ({} not, because there was no memory; {} read back), {} removed; {} times opened after a crash",
            self.ingested, self.ingest_failed, self.read_back, self.removed, self.crashes
        )?;
        writeln!(
            f,
            "repaired  {} members replaced, {} rebuilt in up to {} s ({} units), {} scrubs ({} rows rewritten)",
            self.replaced,
            self.rebuilt,
            self.rebuild_most_ns / 1_000_000_000,
            self.rebuilt_units,
            self.scrubbed,
            self.repaired_rows
        )?;
        write!(
            f,
            "memory    up to {} buffers; shares looked at {} times; prices much too high for up to {} s",
            self.buffers_most,
            self.shares_looked_at,
            self.dear_most_ns / 1_000_000_000
        )
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = Seconds(self.at_ns - self.start_ns);
        writeln!(f, "seed {}, after {since} of virtual time: {}", self.seed, self.what)?;
        match self.fault {
            Some(span) => writeln!(
                f,
                "member {} has a fault since {}: {:?}",
                span.member,
                Seconds(span.from_ns - self.start_ns),
                span.fault
            )?,
            None => writeln!(f, "no member has a fault")?,
        }
        writeln!(f, "what happened last:")?;
        for (at_ns, happened) in self.story.iter().skip(self.story.len().saturating_sub(STORY_LINES)) {
            writeln!(f, "  {}  {happened}", Seconds(at_ns.saturating_sub(self.start_ns)))?;
        }
        Ok(())
    }
}

impl std::error::Error for Broken {}
