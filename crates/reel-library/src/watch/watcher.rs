//! Decides which files of a watched directory are ingested, and when.
//!
//! A file is ingested when it counts as complete (see `growth`), and again when it has changed.

use super::ending::ending_of;
use super::growth::{Growth, Writing};
use super::listener::{Listener, Report};
use super::scan::{Found, Scan};
use super::taken::{Taken, TakenFile};
use super::{Arrival, Stamp, WatchReport, WatchState, WatchedFile};
use crate::input::Ingested;
use crate::limits::WATCH_SHOWN_MAX;
use crate::warnings::bounded;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The titles of a library, as far as a watcher must know them.
pub trait KnownTitles {
    /// The ids of the titles that were made from exactly this file.
    fn titles_of(&self, stamp: &Stamp) -> Vec<String>;

    /// The file that a title was made from; `None` if there is no such title.
    fn source_of(&self, title: &str) -> Option<Stamp>;

    /// Whether the title of exactly this file was removed.
    fn was_removed(&self, stamp: &Stamp) -> bool;

    /// What is kept of the warnings of a title's ingest.
    fn warnings_of(&self, title: &str) -> Vec<String>;
}

/// The present.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Seconds of a clock that never goes back.
    pub clock_s: u64,
    /// Seconds since 1970.
    pub unix_s: u64,
}

impl Now {
    /// Reads the clocks.
    pub fn read() -> Now {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Now { clock_s: START.elapsed().as_secs(), unix_s }
    }
}

/// Scans a directory repeatedly and returns the files that have arrived completely.
///
/// Each state of a file is returned once: after a failure it is returned again only when the file
/// has changed.
#[derive(Debug)]
pub struct Watcher {
    dir: PathBuf,
    seen: BTreeMap<PathBuf, Seen>,
    pub(super) taken: Taken,
    /// `None` where the kernel reports nothing.
    listener: Option<Listener>,
    /// What programs do with files, as far as it was reported.
    writing: HashMap<PathBuf, Told>,
    unfinished: BTreeMap<PathBuf, u64>,
    skipped: BTreeMap<PathBuf, String>,
    unreadable: BTreeMap<PathBuf, String>,
    problem: Option<String>,
    complained: HashSet<PathBuf>,
    complaints: Vec<String>,
}

#[derive(Debug)]
struct Seen {
    found: Found,
    growth: Growth,
    /// `None` until it is complete.
    outcome: Option<WatchState>,
}

/// What was reported last of a file.
#[derive(Clone, Copy, Debug)]
struct Told {
    writing: Writing,
    /// Whether that was since the last scan.
    is_new: bool,
}

/// All names of each file that a scan found, by its device and number.
type Names = HashMap<(u64, u64), Vec<PathBuf>>;

impl Watcher {
    /// A watcher of `dir` and the directories below it. What became of its files is kept in the
    /// directory of the volume. Nothing is read of `dir` before the first [`Watcher::scan`].
    pub fn new(dir: &Path, volume_dir: &Path, volume: &str) -> Watcher {
        let taken = Taken::load(volume_dir, volume, dir);
        Watcher { listener: Listener::new(), ..Watcher::with(dir, taken) }
    }

    /// A watcher to which the kernel reports nothing.
    pub(super) fn with(dir: &Path, taken: Taken) -> Watcher {
        Watcher {
            dir: dir.to_owned(),
            seen: BTreeMap::new(),
            taken,
            listener: None,
            writing: HashMap::new(),
            unfinished: BTreeMap::new(),
            skipped: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            problem: None,
            complained: HashSet::new(),
            complaints: Vec::new(),
        }
    }

    /// The watched directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Scans the directory once and returns the files that are complete and from which no title was
    /// made, and those that have changed since.
    ///
    /// # Errors
    /// If the directory itself cannot be read. Errors below it are returned by
    /// [`Watcher::take_complaints`].
    pub fn scan(&mut self, now: Now, known: &dyn KnownTitles) -> io::Result<Vec<Arrival>> {
        // Before the scan: it then sees at least what the reports are about.
        let reports = self.listener.as_mut().map(Listener::heard).unwrap_or_default();
        self.hear(reports);
        let scan = Scan::of(&self.dir).inspect_err(|error| self.problem = Some(error.to_string()))?;
        self.problem = None;
        if scan.is_complete() {
            // Files that are gone are dropped, so that a file that is put back later is new.
            self.seen.retain(|path, _| scan.films.contains_key(path));
        }
        if let Some(listener) = &mut self.listener {
            listener.follow(&scan.dirs);
        }
        self.writing.retain(|path, _| scan.films.contains_key(path));
        let mut complete = Vec::new();
        for (path, found) in scan.films {
            if self.see(&path, found, now) {
                complete.push(path);
            }
        }
        self.writing.values_mut().for_each(|told| told.is_new = false);
        for (path, reason) in scan.skipped.iter().chain(&scan.unreadable) {
            self.complain(path, reason);
        }
        (self.unfinished, self.skipped, self.unreadable) = (scan.unfinished, scan.skipped, scan.unreadable);
        let names = if complete.is_empty() { Names::new() } else { self.names() };
        let arrivals = complete.into_iter().filter_map(|path| self.decide(path, &names, known)).collect();
        self.taken.keep();
        Ok(arrivals)
    }

    /// A file is being ingested.
    pub fn begins(&mut self, path: &Path) {
        self.settle(path, WatchState::Ingesting);
    }

    /// A scan was interrupted by a panic. The next one decides again on the files that were to be
    /// ingested.
    pub(super) fn look_again(&mut self) {
        let begun = |seen: &&mut Seen| matches!(seen.outcome, Some(WatchState::Ingesting));
        self.seen.values_mut().filter(begun).for_each(|seen| seen.outcome = None);
    }

    /// A file was ingested as this title, or not, with the reason.
    pub fn took(&mut self, arrival: &Arrival, outcome: Result<Ingested, String>) {
        match outcome {
            Ok(Ingested { id: title, warnings }) => {
                let sidecars = self.seen.get(&arrival.path).map(|seen| seen.found.sidecars);
                let stamp = arrival.stamp.clone();
                let taken = TakenFile { stamp, sidecars: sidecars.unwrap_or_default(), title: title.clone() };
                self.taken.insert(&self.below(&arrival.path), taken);
                self.taken.keep();
                let warnings = self.shown(warnings);
                self.settle(&arrival.path, WatchState::Taken { title, warnings });
            }
            Err(reason) => self.settle(&arrival.path, WatchState::Failed { reason }),
        }
    }

    /// What the directory holds, at most [`WATCH_SHOWN_MAX`] files.
    pub fn report(&self) -> WatchReport {
        let odd = self.skipped.iter().chain(&self.unreadable).map(|(path, reason)| WatchedFile {
            path: self.below(path),
            bytes: 0,
            state: WatchState::Skipped { reason: reason.clone() },
        });
        let unfinished = self.unfinished.iter().map(|(path, bytes)| {
            let reason = "its name says that it is not complete; it is ingested when it is renamed";
            let state = WatchState::Waiting { reason: reason.to_owned() };
            WatchedFile { path: self.below(path), bytes: *bytes, state }
        });
        let films = self.seen.iter().map(|(path, seen)| {
            let state = seen.outcome.clone().unwrap_or_else(|| seen.waiting());
            WatchedFile { path: self.below(path), bytes: seen.found.stamp.bytes, state }
        });
        let mut files: Vec<_> = odd.chain(unfinished).chain(films).collect();
        files.sort_by_key(|file| rank(&file.state));
        let more = files.len().saturating_sub(WATCH_SHOWN_MAX);
        files.truncate(WATCH_SHOWN_MAX);
        WatchReport { problem: self.problem.clone(), files, more }
    }

    /// Messages about parts of the directory that are not read; each is returned once.
    pub fn take_complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    /// Notes a file as a scan found it; `true` if it is complete and nothing was decided on it yet.
    fn see(&mut self, path: &Path, found: Found, now: Now) -> bool {
        let writing = self.writing_of(path, self.seen.get(path).is_some_and(|seen| seen.found != found));
        let was_taken = self.taken.get(&self.below(path)).is_some_and(|taken| taken.stamp == found.stamp);
        let Some(seen) = self.seen.get_mut(path) else {
            let mut growth = Growth::new(now);
            growth.set_writing(writing);
            self.seen.insert(path.to_owned(), Seen { found, growth, outcome: None });
            return false;
        };
        let has_changed = seen.found != found;
        if has_changed {
            seen.growth.changed(now);
            (seen.found, seen.outcome) = (found, None);
        }
        seen.growth.set_writing(writing);
        let modified_unix_s = seen.found.stamp.modified_unix_s;
        if has_changed || seen.outcome.is_some() || seen.found.stamp.bytes == 0 {
            return false;
        }
        // What was taken as it is does not become another title.
        if !was_taken && seen.growth.asks_for_ending(now, modified_unix_s) {
            seen.growth.set_ending(ending_of(path));
        }
        seen.growth.is_complete(now, modified_unix_s)
    }

    /// What programs do with a file. If it has changed and nothing was reported, the kernel does
    /// not report what changes it.
    fn writing_of(&mut self, path: &Path, has_changed: bool) -> Writing {
        match self.writing.get(path) {
            Some(told) if has_changed && !told.is_new => {
                self.writing.remove(path);
                Writing::Unknown
            }
            told => told.map(|told| told.writing).unwrap_or_default(),
        }
    }

    /// Notes what was reported since the last scan.
    pub(super) fn hear(&mut self, reports: Vec<Report>) {
        for report in reports {
            let (path, writing) = match report {
                Report::Written(path) => (path, Writing::Open),
                Report::Closed(path) => (path, Writing::Closed),
                Report::Lost => {
                    self.writing.clear();
                    continue;
                }
            };
            self.writing.insert(path, Told { writing, is_new: true });
        }
    }

    /// What becomes of a complete file: it is returned if it is to be ingested.
    fn decide(&mut self, path: PathBuf, names: &Names, known: &dyn KnownTitles) -> Option<Arrival> {
        let found = self.seen.get(&path)?.found.clone();
        let Found { stamp, sidecars, .. } = found.clone();
        let below = self.below(&path);
        let before = self.taken.get(&below).cloned();
        let title = before.as_ref().map(|before| before.title.clone());
        let title = title
            .filter(|title| known.source_of(title).is_some_and(|source| source.file_name == stamp.file_name));
        let outcome = match (before, title) {
            (Some(before), Some(title)) if before.stamp == stamp && before.sidecars == sidecars => {
                self.taken_before(title, known)
            }
            (Some(_), Some(title)) => return self.arrive(path, stamp, Some(title)),
            (Some(before), None) if before.stamp == stamp => removed(),
            (Some(_), None) => return self.arrive(path, stamp, None),
            (None, _) => match self.other_file(&path, &found, names, known) {
                Some(outcome) => outcome,
                None => return self.arrive(path, stamp, None),
            },
        };
        if let WatchState::Taken { title, .. } = &outcome {
            self.taken.insert(&below, TakenFile { stamp, sidecars, title: title.clone() });
        }
        self.settle(&path, outcome);
        None
    }

    fn arrive(&mut self, path: PathBuf, stamp: Stamp, replaces: Option<String>) -> Option<Arrival> {
        self.settle(&path, WatchState::Ingesting);
        Some(Arrival { path, stamp, replaces })
    }

    /// What becomes of a file without a record: a title may have been made from it elsewhere, or it
    /// is another name of a file that has one. `None` if it is new.
    fn other_file(
        &self,
        path: &Path,
        found: &Found,
        names: &Names,
        known: &dyn KnownTitles,
    ) -> Option<WatchState> {
        let has_title = |other: &Path| {
            let outcome = self.seen.get(other).and_then(|seen| seen.outcome.as_ref());
            matches!(outcome, Some(WatchState::Ingesting)) || self.taken.get(&self.below(other)).is_some()
        };
        let mut same = names.get(&found.identity).into_iter().flatten();
        if let Some(other) = same.find(|other| other.as_path() != path && has_title(other)) {
            let reason = format!("it is the same file as {}", self.below(other));
            return Some(WatchState::Skipped { reason });
        }
        // The records of files that are gone do not count: this one may have been moved.
        let is_present = |other: &str| self.seen.contains_key(&self.dir.join(other));
        let is_claimed = |title: &String| self.taken.path_of(title).is_some_and(is_present);
        if let Some(title) = known.titles_of(&found.stamp).into_iter().find(|title| !is_claimed(title)) {
            return Some(self.taken_before(title, known));
        }
        let has_twin =
            || self.taken.all().any(|(other, taken)| taken.stamp == found.stamp && is_present(other));
        (known.was_removed(&found.stamp) && !has_twin()).then(removed)
    }

    /// A title that was made earlier, with what is kept of its warnings.
    fn taken_before(&self, title: String, known: &dyn KnownTitles) -> WatchState {
        let warnings = self.shown(known.warnings_of(&title));
        WatchState::Taken { title, warnings }
    }

    /// The warnings of a title as they are shown.
    fn shown(&self, warnings: Vec<String>) -> Vec<String> {
        if warnings.is_empty() || self.warned() < WATCH_SHOWN_MAX {
            return bounded(warnings);
        }
        vec!["it has warnings, which its title has".to_owned()]
    }

    fn settle(&mut self, path: &Path, outcome: WatchState) {
        if let WatchState::Skipped { reason } = &outcome {
            self.complain(path, reason);
        }
        if let Some(seen) = self.seen.get_mut(path) {
            seen.outcome = Some(outcome);
        }
    }

    /// How many files have warnings, up to as many as are shown.
    fn warned(&self) -> usize {
        let outcomes = self.seen.values().filter_map(|seen| seen.outcome.as_ref());
        outcomes.filter(|state| rank(state) == RANK_WARNED).take(WATCH_SHOWN_MAX).count()
    }

    /// The names of each file.
    fn names(&self) -> Names {
        let mut names = Names::new();
        for (path, seen) in &self.seen {
            names.entry(seen.found.identity).or_default().push(path.clone());
        }
        names
    }

    /// Has it reported once that something is not looked at.
    fn complain(&mut self, path: &Path, reason: &str) {
        if self.complained.insert(path.to_owned()) {
            self.complaints.push(format!("{}: {reason}", path.display()));
        }
    }

    /// A path below the directory, as it is shown and recorded.
    fn below(&self, path: &Path) -> String {
        path.strip_prefix(&self.dir).unwrap_or(path).to_string_lossy().into_owned()
    }
}

impl Seen {
    fn waiting(&self) -> WatchState {
        WatchState::Waiting { reason: self.growth.waits_for(self.found.stamp.bytes) }
    }
}

const RANK_WARNED: u8 = 2;

/// The order in which files are shown: what somebody may have to do something about comes first.
fn rank(state: &WatchState) -> u8 {
    match state {
        WatchState::Failed { .. } | WatchState::Skipped { .. } => 0,
        WatchState::Waiting { .. } | WatchState::Ingesting => 1,
        WatchState::Taken { warnings, .. } if !warnings.is_empty() => RANK_WARNED,
        WatchState::Taken { .. } => 3,
    }
}

fn removed() -> WatchState {
    let reason = "its title was removed; touch the file to have it ingested again";
    WatchState::Skipped { reason: reason.to_owned() }
}
