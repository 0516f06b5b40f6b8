//! Members that answer at once, for the time before the clock starts and after a simulated crash.

use crate::medium::Medium;
use crate::stored_titles::StoredTitles;
use reel_disk::limits::PRICE_UNKNOWN;
use reel_disk::{
    DiskBackend, DiskDone, DiskError, DiskRequest, DiskWork, Disks, MeasuredPrice, MemberFile, MemberStats,
    Reply, RequestId, SchedulerView,
};
use reel_qos::{Class, ClassTable, DiskPrice};
use reel_volume::{CooperativeWait, Simulated};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Members without schedulers and time.
pub(crate) struct ImmediateDisks {
    inner: Mutex<Inner>,
}

struct Inner {
    /// All media there are; those that a volume uses are found by their paths.
    media: Vec<Medium>,
    /// The medium of each member.
    members: Vec<Option<usize>>,
    stored: Option<Arc<StoredTitles>>,
    /// What is written is a title's, which is never kept.
    forgets: bool,
    broken: Option<String>,
}

/// No client waits for members that answer at once.
struct NoTurns;

impl ImmediateDisks {
    pub(crate) fn new(media: Vec<Medium>, stored: Option<Arc<StoredTitles>>) -> Arc<ImmediateDisks> {
        let inner = Inner { media, members: Vec::new(), stored, forgets: false, broken: None };
        Arc::new(ImmediateDisks { inner: Mutex::new(inner) })
    }

    /// How a volume is opened on these.
    pub(crate) fn simulated(self: &Arc<Self>) -> Simulated {
        let disks = Arc::clone(self);
        let open = move |files: Vec<Option<MemberFile>>| {
            disks.open(files);
            Arc::clone(&disks) as Disks
        };
        Simulated { disks: Arc::new(open), turns: Arc::new(NoTurns) }
    }

    /// From here on units that are written are forgotten, or no longer.
    pub(crate) fn forget(&self, forgets: bool) {
        self.lock().forgets = forgets;
    }

    /// An invariant that broke.
    pub(crate) fn broken(&self) -> Option<String> {
        self.lock().broken.take()
    }

    /// What each member holds; nothing for one that is absent.
    pub(crate) fn with_medium<T>(&self, member: usize, inspect: impl FnOnce(&Medium) -> T) -> Option<T> {
        let inner = self.lock();
        let medium = inner.members.get(member).copied().flatten()?;
        Some(inspect(&inner.media[medium]))
    }

    /// Gives the media up, closed, in the order of members.
    pub(crate) fn into_media(self: Arc<Self>) -> Vec<Medium> {
        let mut media = std::mem::take(&mut self.lock().media);
        media.iter_mut().for_each(Medium::close);
        media
    }

    fn open(&self, files: Vec<Option<MemberFile>>) {
        let mut inner = self.lock();
        let Inner { media, members, .. } = &mut *inner;
        *members = files
            .into_iter()
            .map(|file| {
                let file = file?;
                let medium = media.iter().position(|medium| medium.path() == file.path())?;
                media[medium].opened(file);
                Some(medium)
            })
            .collect();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn carry_out(&mut self, request: DiskRequest) -> (Arc<dyn Reply>, DiskDone) {
        let DiskRequest { member, work, token, reply, .. } = request;
        let mut done = DiskDone { token, member, result: Ok(()), buffer: None, queued_ns: 0, device_ns: 0 };
        let Some(medium) = self.members.get(member).copied().flatten() else {
            done.result = Err(DiskError::Absent { member });
            return (reply, done);
        };
        let (medium, stored) = (&mut self.media[medium], self.stored.as_deref());
        let result = match work {
            DiskWork::Read { offset, bytes, mut buffer } => {
                let result = medium.read(offset, &mut buffer[..bytes], stored);
                done.buffer = Some(buffer);
                result
            }
            DiskWork::Write { .. } if self.forgets => Ok(()),
            DiskWork::Write { offset, lease } => medium.write(offset, &lease, stored),
            DiskWork::Sync => medium.sync(medium.written()),
        };
        if let Err(what) = result {
            self.broken.get_or_insert(what);
        }
        (reply, done)
    }
}

impl DiskBackend for ImmediateDisks {
    fn submit_all(&self, requests: &mut dyn Iterator<Item = DiskRequest>) {
        for request in requests {
            let (reply, done) = self.lock().carry_out(request);
            reply.deliver(done);
        }
    }

    fn promote(&self, _: usize, _: RequestId, _: Class, _: u64) {}

    fn members(&self) -> usize {
        self.lock().members.len()
    }

    fn is_present(&self, member: usize) -> bool {
        self.lock().members.get(member).is_some_and(Option::is_some)
    }

    fn stats(&self) -> Vec<MemberStats> {
        Vec::new()
    }

    fn views(&self) -> Vec<SchedulerView> {
        Vec::new()
    }

    fn classes(&self) -> Arc<ClassTable> {
        Arc::default()
    }

    fn set_classes(&self, _: Arc<ClassTable>) {}

    fn price(&self, _: usize) -> DiskPrice {
        PRICE_UNKNOWN
    }

    fn set_price(&self, _: usize, _: MeasuredPrice) {}

    fn replace(&self, member: usize, _: MemberFile) -> Result<(), DiskError> {
        Err(DiskError::Absent { member })
    }

    fn stop(&self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl CooperativeWait for NoTurns {
    fn now_ns(&self) -> u64 {
        0
    }

    fn caller(&self) -> u64 {
        0
    }

    fn wait(&self, _: Option<u64>) -> bool {
        false
    }

    fn notify(&self, _: u64) {}
}
