//! What a server said, kept for a moment, so that a look at all titles is not a request for each
//! file.

use crate::limits::{KEPT_TIME, KEPT_TITLES_MAX, NAMES_MAX};
use crate::media::NotOpened;
use crate::merged::is_merged;
use crate::node::is_name;
use crate::reach::Reach;
use crate::server::{AskError, ClassFacts, MemberFacts, Server, TitleFacts};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Titles by id.
type Titles = BTreeMap<Arc<str>, TitleFacts>;

/// A server whose answers are used again for [`KEPT_TIME`], and its failures, too: the kernel asks
/// for a name twice if the first answer is an error. Times are given by the caller: `now` is when
/// the kernel asked. No lock is held while the server is asked.
pub(crate) struct Kept<S> {
    server: S,
    reach: Reach,
    titles: Place<Arc<Titles>>,
    title: Mutex<HashMap<Arc<str>, At<Option<TitleFacts>>>>,
    members: Place<Arc<[MemberFacts]>>,
    classes: Place<Arc<[ClassFacts]>>,
    /// That names cannot be shown is logged once.
    is_odd_name_logged: AtomicBool,
}

/// An answer to a question of this time; of one that came to nothing, the time when that was sure.
struct At<T> {
    asked: Instant,
    said: Result<T, AskError>,
}

/// The last answer to one question.
type Place<T> = Mutex<Option<At<T>>>;

impl<S: Server> Kept<S> {
    pub(crate) fn new(server: S) -> Kept<S> {
        Kept {
            server,
            reach: Reach::default(),
            titles: Mutex::default(),
            title: Mutex::default(),
            members: Mutex::default(),
            classes: Mutex::default(),
            is_odd_name_logged: AtomicBool::new(false),
        }
    }

    /// All titles whose ids can be names.
    pub(crate) fn titles(&self, now: Instant, until: Instant) -> Result<Arc<Titles>, AskError> {
        kept(&self.titles, (now, until), || {
            let said = self.heard(now, self.server.titles(until))?;
            let titles = said.into_iter().take(NAMES_MAX).filter(|title| self.can_be_shown(&title.id));
            Ok(Arc::new(titles.map(|title| (title.id.clone(), title)).collect()))
        })
    }

    /// One title. The server is asked for it alone, unless the list of all is recent and would have
    /// it.
    pub(crate) fn title(
        &self,
        id: &Arc<str>,
        now: Instant,
        until: Instant,
    ) -> Result<Option<TitleFacts>, AskError> {
        if !is_merged(id)
            && let Some(Ok(titles)) = recent(&lock(&self.titles), now)
        {
            return Ok(titles.get(id).cloned());
        }
        if let Some(at) = lock(&self.title).get(id).filter(|at| at.is_recent(now)) {
            return at.said.clone();
        }
        let said = self.heard(now, self.server.title(id, until));
        let mut titles = lock(&self.title);
        if titles.len() >= KEPT_TITLES_MAX {
            titles.retain(|_, at| at.is_recent(now));
        }
        if titles.len() < KEPT_TITLES_MAX {
            titles.insert(id.clone(), At::new(now, until, &said));
        }
        said
    }

    pub(crate) fn members(&self, now: Instant, until: Instant) -> Result<Arc<[MemberFacts]>, AskError> {
        kept(&self.members, (now, until), || {
            let said = self.heard(now, self.server.members(until))?;
            Ok(said.into_iter().take(NAMES_MAX).collect())
        })
    }

    /// All classes whose names can be names of files.
    pub(crate) fn classes(&self, now: Instant, until: Instant) -> Result<Arc<[ClassFacts]>, AskError> {
        kept(&self.classes, (now, until), || {
            let said = self.heard(now, self.server.classes(until))?;
            Ok(said.into_iter().take(NAMES_MAX).filter(|class| self.can_be_shown(&class.name)).collect())
        })
    }

    /// All classes as they are now, for a change. Nothing of it is kept, or left out.
    pub(crate) fn classes_now(&self, now: Instant, until: Instant) -> Result<Vec<ClassFacts>, AskError> {
        self.heard(now, self.server.classes(until))
    }

    /// Replaces the classes. Whatever comes of it, the server is asked for them again.
    pub(crate) fn set_classes(
        &self,
        classes: &[ClassFacts],
        now: Instant,
        until: Instant,
    ) -> Result<(), NotOpened> {
        let said = self.server.set_classes(classes, until);
        *lock(&self.classes) = None;
        if let Err(NotOpened::Asked(error)) = &said {
            self.reach.note(Some(error), now);
        }
        said
    }

    /// How many more viewers there can be, never kept.
    pub(crate) fn more_viewers(&self, now: Instant, until: Instant) -> Result<u64, AskError> {
        self.heard(now, self.server.more_viewers(until))
    }

    /// What the server said, after the log was told whether it said anything.
    fn heard<T>(&self, now: Instant, said: Result<T, AskError>) -> Result<T, AskError> {
        self.reach.note(said.as_ref().err(), now);
        said
    }

    fn can_be_shown(&self, name: &str) -> bool {
        let can = is_name(name);
        if !can && !self.is_odd_name_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(?name, "what the server names so cannot be the name of a file; it is not shown");
        }
        can
    }
}

impl<T: Clone> At<T> {
    fn new(now: Instant, until: Instant, said: &Result<T, AskError>) -> At<T> {
        let asked = if matches!(said, Err(AskError::Late)) { until } else { now };
        At { asked, said: said.clone() }
    }

    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) < KEPT_TIME
    }
}

/// What is kept if it is recent, or else what `ask` says, which is kept.
fn kept<T: Clone>(
    place: &Place<T>,
    (now, until): (Instant, Instant),
    ask: impl FnOnce() -> Result<T, AskError>,
) -> Result<T, AskError> {
    if let Some(said) = recent(&lock(place), now) {
        return said;
    }
    let said = ask();
    *lock(place) = Some(At::new(now, until, &said));
    said
}

fn recent<T: Clone>(place: &Option<At<T>>, now: Instant) -> Option<Result<T, AskError>> {
    place.as_ref().filter(|at| at.is_recent(now)).map(|at| at.said.clone())
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
