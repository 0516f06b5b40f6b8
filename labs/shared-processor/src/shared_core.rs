use std::os::fd::{BorrowedFd, OwnedFd};
use std::process;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};

use crate::board::Board;
use crate::error::SharedProcessorError;
use crate::layout::{LIVE, Page};
use crate::limits::LINES_MAX;
use crate::linux::{Linux, born};
use crate::map::Map;
use crate::member::Member;
use crate::warden::Warden;

/// A processor that several processes share in order of their deadlines, as if their tasks were one program's.
///
/// Whoever creates it hands its descriptor to the others (over a Unix socket, or by inheritance); all that join must
/// be pinned to the same processor and must be of one namespace of processes. Members trust each other as far as time
/// goes: one can claim deadlines it does not have, but it cannot stop the others for longer than
/// [`WATCHDOG_INTERVAL_NS`](crate::limits::WATCHDOG_INTERVAL_NS) twice, and rubbish in the shared pages makes nobody crash.
///
/// A thread in every process that joins (the warden) takes out whoever dies, and takes the processor from whoever is
/// asked for it and does not look up.
#[derive(Clone, Debug)]
pub struct SharedCore {
    warden: Arc<Mutex<Option<Warden>>>,
    map: Arc<Map>,
}

/// What has happened on a shared core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCoreCounts {
    /// How often the processor has changed hands.
    pub hand_overs: u64,
    /// Members that died without a farewell.
    pub buried: u32,
    /// Times the processor was taken from a member that did not look up.
    pub revoked: u32,
}

/// Wakes a member from any thread of any process that has the board.
#[derive(Clone, Debug)]
pub struct Bell {
    map: Arc<Map>,
    slot: usize,
    line: usize,
}

impl SharedCore {
    /// A new one, with nobody on it.
    ///
    /// # Errors
    /// If the kernel gives no memory.
    pub fn create() -> Result<SharedCore, SharedProcessorError> {
        Ok(SharedCore::of(Map::create()?))
    }

    /// That of another process.
    ///
    /// # Errors
    /// If the descriptor is none of a board, or of another version, or can shrink.
    pub fn attach(fd: OwnedFd) -> Result<SharedCore, SharedProcessorError> {
        Ok(SharedCore::of(Map::attach(fd)?))
    }

    /// What to give to those who are to join.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.fd()
    }

    /// Takes a page on it, for the calling thread.
    ///
    /// # Errors
    /// If all pages are taken, or the kernel gives no thread for the warden.
    pub fn join(&self) -> Result<Member, SharedProcessorError> {
        {
            // Starting a thread does not panic, so a poisoned lock protects sound data.
            let mut warden = self.warden.lock().unwrap_or_else(PoisonError::into_inner);
            if warden.is_none() {
                *warden = Some(Warden::start(Arc::clone(&self.map))?);
            }
        }
        let pid = process::id();
        let slot = self.board().join(pid, born(pid).unwrap_or(0)).ok_or(SharedProcessorError::Full)?;
        Ok(Member::new(self.clone(), slot))
    }

    /// The bell of line `line` (below [`LINES_MAX`]) of the member that has page `slot`, which it must have told.
    pub fn bell(&self, slot: usize, line: usize) -> Option<Bell> {
        let known = slot < crate::limits::MEMBERS_MAX && line < LINES_MAX;
        known.then(|| Bell { map: Arc::clone(&self.map), slot, line })
    }

    /// What has happened so far.
    pub fn counts(&self) -> SharedCoreCounts {
        let head = &self.map.shared().head;
        SharedCoreCounts {
            hand_overs: head.hand_overs.load(SeqCst),
            buried: head.buried.load(SeqCst),
            revoked: head.revoked.load(SeqCst),
        }
    }

    /// Whether a member has the processor and runs.
    pub fn is_running(&self) -> bool {
        self.board().baton().is_running()
    }

    /// Whether nobody has anything to do just now, and the one who has the processor sleeps.
    pub fn is_resting(&self) -> bool {
        self.board().baton().is_resting()
    }

    /// How many have joined and not left.
    pub fn members(&self) -> usize {
        let live = |page: &&Page| page.life.load(SeqCst) & 3 == LIVE;
        self.map.shared().pages.iter().filter(live).count()
    }

    /// How many members have something to do and wait for the processor.
    pub fn waiting(&self) -> usize {
        self.board().waiting()
    }

    fn of(map: Map) -> SharedCore {
        SharedCore { warden: Arc::default(), map: Arc::new(map) }
    }

    pub(crate) fn board(&self) -> Board<'_, Linux> {
        Board { shared: self.map.shared(), kernel: &Linux }
    }
}

impl Bell {
    /// Something has come, and can be found by who waits for it. Two loads if he does not wait; no system call unless
    /// a core that rests must be woken.
    pub fn ring(&self) {
        Board { shared: self.map.shared(), kernel: &Linux }.ring(self.slot, self.line);
    }
}
