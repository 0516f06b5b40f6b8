use std::os::fd::{BorrowedFd, OwnedFd};
use std::process;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dispatcher::Dispatcher;
use crate::error::SharedProcessorError;
use crate::layout::{LIVE, Page};
use crate::limits::LINES_MAX;
use crate::linux::{Linux, start_time};
use crate::map::Map;
use crate::member::Member;
use crate::watchdog::Watchdog;

/// A processor that several processes share in the order of their deadlines, as if their tasks
/// belonged to one program.
///
/// The process that creates it passes its descriptor to the others (over a Unix socket, or by
/// inheritance). All that join must be pinned to the same processor and be in one PID namespace.
/// Members trust each other about time: a member can claim deadlines that it does not have, but it
/// cannot stop the others for longer than
/// [`WATCHDOG_INTERVAL_NS`](crate::limits::WATCHDOG_INTERVAL_NS) twice. Invalid values in the
/// shared pages crash no process.
///
/// Each process that joins has a watchdog thread. It takes out members that died, and takes the
/// processor from a member that was asked for it and does not check.
#[derive(Clone, Debug)]
pub struct SharedProcessor {
    watchdog: Arc<Mutex<Option<Watchdog>>>,
    map: Arc<Map>,
}

/// Events on a shared processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedProcessorCounts {
    /// How often the processor has changed hands.
    pub hand_overs: u64,
    /// Members that died without leaving.
    pub died: u32,
    /// How often the processor was taken from a member that did not check.
    pub revoked: u32,
}

/// Wakes a member from any thread of any process that maps the shared memory.
#[derive(Clone, Debug)]
pub struct Doorbell {
    map: Arc<Map>,
    slot: usize,
    line: usize,
}

impl SharedProcessor {
    /// A new shared processor without members.
    ///
    /// # Errors
    /// If the kernel refuses the memory.
    pub fn create() -> Result<SharedProcessor, SharedProcessorError> {
        Ok(SharedProcessor::of(Map::create()?))
    }

    /// The shared processor of another process.
    ///
    /// # Errors
    /// If the descriptor is not that of a shared processor, is of another version, or can shrink.
    pub fn attach(fd: OwnedFd) -> Result<SharedProcessor, SharedProcessorError> {
        Ok(SharedProcessor::of(Map::attach(fd)?))
    }

    /// The descriptor to pass to processes that are to join.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.fd()
    }

    /// Takes a page for the calling thread.
    ///
    /// # Errors
    /// If all pages are in use, or the kernel refuses the watchdog's thread.
    pub fn join(&self) -> Result<Member, SharedProcessorError> {
        {
            // Starting a thread does not panic, so a poisoned lock protects sound data.
            let mut watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner);
            if watchdog.is_none() {
                *watchdog = Some(Watchdog::start(Arc::clone(&self.map))?);
            }
        }
        let pid = process::id();
        let slot =
            self.dispatcher().join(pid, start_time(pid).unwrap_or(0)).ok_or(SharedProcessorError::Full)?;
        Ok(Member::new(self.clone(), slot))
    }

    /// The doorbell of line `line` (below [`LINES_MAX`]) of the member with page `slot`.
    pub fn doorbell(&self, slot: usize, line: usize) -> Option<Doorbell> {
        let known = slot < crate::limits::MEMBERS_MAX && line < LINES_MAX;
        known.then(|| Doorbell { map: Arc::clone(&self.map), slot, line })
    }

    /// The events so far.
    pub fn counts(&self) -> SharedProcessorCounts {
        let head = &self.map.shared().head;
        SharedProcessorCounts {
            hand_overs: head.hand_overs.load(SeqCst),
            died: head.died.load(SeqCst),
            revoked: head.revoked.load(SeqCst),
        }
    }

    /// Whether a member has the processor and runs.
    pub fn is_running(&self) -> bool {
        self.dispatcher().token().is_running()
    }

    /// Whether no member has anything to do, and the one that has the processor sleeps.
    pub fn is_resting(&self) -> bool {
        self.dispatcher().token().is_resting()
    }

    /// How many members have joined and not left.
    pub fn members(&self) -> usize {
        let live = |page: &&Page| page.life.load(SeqCst) & 3 == LIVE;
        self.map.shared().pages.iter().filter(live).count()
    }

    /// How many members have something to do and wait for the processor.
    pub fn waiting(&self) -> usize {
        self.dispatcher().waiting()
    }

    fn of(map: Map) -> SharedProcessor {
        SharedProcessor { watchdog: Arc::default(), map: Arc::new(map) }
    }

    pub(crate) fn dispatcher(&self) -> Dispatcher<'_, Linux> {
        Dispatcher { shared: self.map.shared(), kernel: &Linux }
    }
}

impl Doorbell {
    /// Work has arrived that the member can find. Two loads if the member does not wait; no system
    /// call unless a resting member must be woken.
    pub fn ring(&self) {
        Dispatcher { shared: self.map.shared(), kernel: &Linux }.ring(self.slot, self.line);
    }
}
