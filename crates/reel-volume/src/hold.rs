//! Keeps slots from being reused while an object is in use.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::catalogue::Extent;
use crate::space::FreeMap;

/// The free slots of a volume, shared by all holders of slots.
#[derive(Clone)]
pub(crate) struct Space(Arc<Mutex<FreeMap>>);

/// Keeps the slots of one object. When the last clone is dropped, the slots become free if no
/// catalogue names them.
///
/// Two holds are always equal: a hold does not take part in comparisons of records.
#[derive(Clone, Default)]
pub struct Hold(Option<Arc<Held>>);

struct Held {
    space: Space,
    extents: Vec<Extent>,
    /// [`crate::Health::lives`] when the first byte of the object was written; empty for an object
    /// found in the catalogue.
    lives: Vec<u32>,
    /// Named by the catalogue: the slots stay taken even without a holder.
    published: AtomicBool,
}

impl Space {
    pub(crate) fn new(map: FreeMap) -> Space {
        Space(Arc::new(Mutex::new(map)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, FreeMap> {
        // The map is changed in single steps that do not panic, so a poisoned one is still
        // consistent.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Hold {
    /// For an object that the catalogue names.
    pub(crate) fn found(space: &Space, extents: Vec<Extent>) -> Hold {
        Hold::new(space, extents, Vec::new(), true)
    }

    /// For an object whose writing began in these lives of the members.
    pub(crate) fn written(space: &Space, extents: Vec<Extent>, lives: Vec<u32>) -> Hold {
        Hold::new(space, extents, lives, false)
    }

    fn new(space: &Space, extents: Vec<Extent>, lives: Vec<u32>, published: bool) -> Hold {
        let published = AtomicBool::new(published);
        Hold(Some(Arc::new(Held { space: space.clone(), extents, lives, published })))
    }

    /// Whether a part of the object may be missing on a member, given the current lives of the
    /// members: it was another disk, or missing, when that part was written.
    pub(crate) fn may_be_missing_on(&self, member: usize, lives: &[u32]) -> bool {
        self.0.as_ref().is_some_and(|held| held.lives.get(member) != lives.get(member))
    }

    /// Whether it holds exactly these slots of this space.
    pub(crate) fn holds(&self, space: &Space, extents: &[Extent]) -> bool {
        self.0.as_ref().is_some_and(|held| Arc::ptr_eq(&held.space.0, &space.0) && held.extents == extents)
    }

    pub(crate) fn is_published(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.published.load(Ordering::Acquire))
    }

    /// Sets whether the catalogue names the object.
    pub(crate) fn set_published(&self, published: bool) {
        if let Some(held) = &self.0 {
            held.published.store(published, Ordering::Release);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.published.load(Ordering::Acquire) {
            let mut space = self.space.lock();
            self.extents.iter().for_each(|extent| space.give_back(*extent));
        }
    }
}

impl PartialEq for Hold {
    fn eq(&self, _: &Hold) -> bool {
        true
    }
}

impl Eq for Hold {}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "held" } else { "not held" })
    }
}
