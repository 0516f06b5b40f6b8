//! Locks of data that is whole at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data that a panic of an earlier holder has left whole: each change of it is one step, or
/// a change that is left half done does no harm. Where a panic may leave more than that, the lock
/// has to tell of it: use [`Mutex::lock`].
pub fn lock<T: ?Sized>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}
