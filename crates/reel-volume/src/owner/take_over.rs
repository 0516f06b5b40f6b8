//! Carries out a takeover when a volume is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use reel_disk::{DiskError, MemberFile};

use crate::access::WriteObserver;
use crate::error::VolumeError;
use crate::finding::MEMBERS_LOG;
use crate::ids::{VolumeId, random_session};
use crate::owner::heartbeat::now_ns;
use crate::owner::host::{begin_session, end_session};
use crate::owner::record::{OWNER_OFFSET, OwnerRecord};
use crate::owner::takeover::{Step, Takeover};
use crate::owner::tenure::Tenure;
use crate::owner::watch::wait;
use crate::patience::patiently;

/// A volume to become the owner of.
pub(crate) struct TakeOver<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) volume: VolumeId,
    /// The members that are present, by number.
    pub(crate) members: BTreeMap<usize, &'a MemberFile>,
    /// Members of the volume, and how many of them may be lost.
    pub(crate) shape: (usize, usize),
    pub(crate) observer: Option<&'a Arc<dyn WriteObserver>>,
    /// How long a member may leave a request unanswered.
    pub(crate) patience_ns: u64,
    /// Those that did: they get no further request.
    pub(crate) silent: BTreeSet<usize>,
}

/// The right to write a volume.
pub(crate) struct Owned {
    /// After how much time without other requests it rests: see `OpenOptions`.
    pub(crate) rests_after_ns: Option<u64>,
    pub(crate) tenure: Tenure,
    pub(crate) session: Session,
    /// Whether the takeover waited, so that what was read before may have changed.
    pub(crate) waited: bool,
    /// Members that left a request unanswered.
    pub(crate) silent: BTreeSet<usize>,
}

/// A session of this process. It ends with its value.
pub(crate) struct Session([u8; 16]);

/// Makes this process the owner. Returns at once if the last owner is known to be gone; waits if
/// another host may be the owner.
pub(crate) fn take_over(mut volume: TakeOver<'_>) -> Result<Owned, VolumeError> {
    let session = Session::begin()?;
    let own = OwnerRecord::own(volume.volume, session.0);
    let host = own.host;
    let members = volume.members.keys().copied().collect();
    let mut takeover = Takeover::new(own, members, volume.shape, move |record| host.knows(record));
    let (mut waited, mut said) = (false, false);
    loop {
        match takeover.step(now_ns()) {
            Step::Read(member) => takeover.read(volume.read(member)),
            Step::Write(member, record) => takeover.wrote(volume.write(member, record)),
            Step::Wait { until_ns } => {
                waited = true;
                wait(&takeover, until_ns, Some(volume.directory), &mut said);
            }
            Step::Owned { since_ns } => {
                let tenure = Tenure::new(takeover.into_own(), volume.shape, since_ns);
                return Ok(Owned { rests_after_ns: None, tenure, session, waited, silent: volume.silent });
            }
            Step::Refused(other) => {
                return Err(VolumeError::Owned { path: volume.directory.to_owned(), owner: other.owner() });
            }
            Step::Failed => {
                return Err(VolumeError::MembersFailed {
                    failed: volume.shape.0 - volume.members.len() + volume.shape.1 + 1,
                    members: volume.shape.0,
                    tolerated: volume.shape.1,
                    last: "the log has the error of each member".to_owned(),
                });
            }
        }
    }
}

impl TakeOver<'_> {
    fn read(&mut self, member: usize) -> Option<OwnerRecord> {
        let block = self.ask(member, |file| file.read_block(OWNER_OFFSET))?.ok()?;
        OwnerRecord::decode(&block, self.volume)
    }

    fn write(&mut self, member: usize, record: OwnerRecord) -> bool {
        let observer = self.observer.cloned();
        let done = self.ask(member, move |file| {
            let block = record.encode();
            let name = observer.as_ref().map(|observer| observer.write(member, OWNER_OFFSET, &block));
            let done = file.write_block(OWNER_OFFSET, &block);
            if let (Some(observer), Some(name)) = (observer, name) {
                observer.done(name, done.is_ok());
            }
            done
        });
        if let Some(Err(error)) = &done {
            tracing::warn!(member, %error, "a member did not take the owner record");
        }
        done.is_some_and(|done| done.is_ok())
    }

    /// Asks a member, unless it has left a request unanswered. `None` if it leaves this one so.
    fn ask<T: Send + 'static>(
        &mut self,
        member: usize,
        request: impl FnOnce(MemberFile) -> Result<T, DiskError> + Send + 'static,
    ) -> Option<Result<T, DiskError>> {
        let file = self.members.get(&member).filter(|_| !self.silent.contains(&member))?;
        let file = match file.try_clone() {
            Ok(file) => file,
            Err(error) => return Some(Err(error)),
        };
        let path = file.path().to_owned();
        let waiting = || {
            tracing::info!(
                target: MEMBERS_LOG, member, path = %path.display(), patience_s = self.patience_ns / 1_000_000_000,
                "waiting for a member to answer, to become the owner of the volume"
            );
        };
        match patiently("reel-open", self.patience_ns, waiting, move |_| request(file)) {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(_)) => {}
            Err(error) => tracing::error!(member, %error, "a member cannot be asked"),
        }
        self.silent.insert(member);
        None
    }
}

impl Session {
    fn begin() -> Result<Session, VolumeError> {
        let session = random_session()?;
        begin_session(session);
        Ok(Session(session))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end_session(self.0);
    }
}
