//! Who keeps slots from being reused.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::catalogue::Extent;
use crate::space::FreeMap;

/// The slots of a volume, shared by everyone who takes some.
#[derive(Clone)]
pub(crate) struct Space(Arc<Mutex<FreeMap>>);

/// Keeps the slots of one object. When the last clone is dropped, slots that no catalogue names any more, or
/// never did, become free.
///
/// Two are always equal: who holds an object is no part of what it is.
#[derive(Clone, Default)]
pub struct Hold(Option<Arc<Held>>);

struct Held {
    space: Space,
    extents: Vec<Extent>,
    /// [`crate::Health::lives`] when the first byte of the object was written; empty for one found in the catalogue.
    lives: Vec<u32>,
    /// Named by the catalogue: the slots stay taken whoever goes.
    published: AtomicBool,
}

impl Space {
    pub(crate) fn new(map: FreeMap) -> Space {
        Space(Arc::new(Mutex::new(map)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, FreeMap> {
        // A map is changed by single steps that do not panic, so a poisoned one is still whole.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Hold {
    /// Of an object that the catalogue names.
    pub(crate) fn found(space: &Space, extents: Vec<Extent>) -> Hold {
        Hold::new(space, extents, Vec::new(), true)
    }

    /// Of an object whose writing began when the members had lived so often.
    pub(crate) fn written(space: &Space, extents: Vec<Extent>, lives: Vec<u32>) -> Hold {
        Hold::new(space, extents, lives, false)
    }

    fn new(space: &Space, extents: Vec<Extent>, lives: Vec<u32>, published: bool) -> Hold {
        let published = AtomicBool::new(published);
        Hold(Some(Arc::new(Held { space: space.clone(), extents, lives, published })))
    }

    /// Whether a member that has lived so often now may lack a part of the object: it was another disk, or away, when
    /// that was written.
    pub(crate) fn may_lack(&self, member: usize, lives: &[u32]) -> bool {
        self.0.as_ref().is_some_and(|held| held.lives.get(member) != lives.get(member))
    }

    /// Whether it holds exactly these slots of this space.
    pub(crate) fn holds(&self, space: &Space, extents: &[Extent]) -> bool {
        self.0.as_ref().is_some_and(|held| Arc::ptr_eq(&held.space.0, &space.0) && held.extents == extents)
    }

    pub(crate) fn is_published(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.published.load(Ordering::Acquire))
    }

    /// Says whether the catalogue names the object.
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
