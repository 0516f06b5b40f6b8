//! The thread that looks whether the members are still at their paths.
//!
//! It has a thread of its own, because a dead file system answers late or never.

use super::ServeError;
use super::guarded::guarded;
use reel_volume::Volume;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time between two looks. A removed file is noticed by nothing else until the server ends.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long the end of the server waits for a look under way.
const END_TIME: Duration = Duration::from_secs(1);

/// The running thread.
pub(super) struct MemberWatch {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl MemberWatch {
    /// Starts the thread. It keeps the volume open only while it looks.
    pub(super) fn start(volume: &Arc<Volume>) -> Result<Self, ServeError> {
        let (stop, stopped) = channel();
        let volume = Arc::downgrade(volume);
        let run = move || {
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(volume) = Weak::upgrade(&volume) else { return };
                // A look that panicked is repeated with the next one.
                guarded(|| volume.look_for_members());
            }
        };
        let thread = thread::Builder::new().name("reel-members".to_owned()).spawn(run);
        Ok(Self { stop, thread: thread.map_err(ServeError::Thread)? })
    }

    /// Ends the thread and waits for it, but not for a file system that does not answer.
    pub(super) fn stop(self) {
        drop(self.stop);
        let mut waited = Duration::ZERO;
        let step = Duration::from_millis(1);
        while !self.thread.is_finished() && waited < END_TIME {
            thread::sleep(step);
            waited += step;
        }
    }
}
