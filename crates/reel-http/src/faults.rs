//! Defects that tests ask for. The server is built without them.

use reel_rt::{Workers, lock};
use reel_serve::limits::WRITERS;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

/// The paths whose requests panic, and how often.
static PATHS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

/// The next `count` requests for this path panic, when their delivery was opened.
pub fn panic_on(path: &str, count: u32) {
    lock(&PATHS).insert(path.to_owned(), count);
}

/// Panics if that was asked for.
pub(crate) fn panic_if_wanted(path: &str) {
    let is_wanted = match lock(&PATHS).get_mut(path) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    assert!(!is_wanted, "a request that was to panic");
}

/// The paths whose texts are held, with the threads that wait for them.
static HELD: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static RELEASED: Condvar = Condvar::new();

/// While this lives, the threads that write texts wait when they are to write the text of a path.
#[derive(Debug)]
pub struct HeldText(String);

/// Holds the text of a path that is requested from now on.
pub fn hold_text(path: &str) -> HeldText {
    lock(&HELD).insert(path.to_owned(), 0);
    HeldText(path.to_owned())
}

impl HeldText {
    /// Whether a thread that writes texts waits.
    pub fn is_waited_for(&self) -> bool {
        lock(&HELD).get(&self.0).is_some_and(|waiting| *waiting > 0)
    }
}

impl Drop for HeldText {
    fn drop(&mut self) {
        lock(&HELD).remove(&self.0);
        RELEASED.notify_all();
    }
}

/// Gives all threads that write texts something to wait for, if the text of this path is held.
pub(crate) fn occupy_if_wanted(writers: &Workers, path: &str) {
    if !lock(&HELD).contains_key(path) {
        return;
    }
    for _ in 0..WRITERS {
        let path = path.to_owned();
        writers.run(move || {
            let mut held = lock(&HELD);
            while let Some(waiting) = held.get_mut(&path) {
                *waiting += 1;
                held = RELEASED.wait(held).unwrap_or_else(PoisonError::into_inner);
            }
        });
    }
}
