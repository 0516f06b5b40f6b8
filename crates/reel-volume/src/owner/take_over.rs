//! Carries out a takeover when a volume is opened.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use reel_disk::MemberFile;

use crate::access::WriteObserver;
use crate::error::VolumeError;
use crate::ids::{VolumeId, random_session};
use crate::owner::heartbeat::now_ns;
use crate::owner::host::{begin_session, end_session};
use crate::owner::record::{OWNER_OFFSET, OwnerRecord};
use crate::owner::takeover::{Step, Takeover};
use crate::owner::tenure::Tenure;
use crate::owner::watch::wait;

/// A volume to become the owner of.
pub(crate) struct TakeOver<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) volume: VolumeId,
    /// The members that are present, by number.
    pub(crate) members: BTreeMap<usize, &'a MemberFile>,
    /// Members of the volume, and how many of them may be lost.
    pub(crate) shape: (usize, usize),
    pub(crate) observer: Option<&'a Arc<dyn WriteObserver>>,
}

/// The right to write a volume.
pub(crate) struct Owned {
    /// After how much time without other requests it rests: see `OpenOptions`.
    pub(crate) rests_after_ns: Option<u64>,
    pub(crate) tenure: Tenure,
    pub(crate) session: Session,
    /// Whether the takeover waited, so that what was read before may have changed.
    pub(crate) waited: bool,
}

/// A session of this process. It ends with its value.
pub(crate) struct Session([u8; 16]);

/// Makes this process the owner. Returns at once if the last owner is known to be gone; waits if
/// another host may be the owner.
pub(crate) fn take_over(volume: &TakeOver<'_>) -> Result<Owned, VolumeError> {
    let session = Session::begin()?;
    let own = OwnerRecord::own(volume.volume, session.0);
    let host = own.host;
    let members = volume.members.keys().copied().collect();
    let mut takeover = Takeover::new(own, members, volume.shape, move |record| host.knows(record));
    let (mut waited, mut said) = (false, false);
    loop {
        match takeover.step(now_ns()) {
            Step::Read(member) => takeover.read(volume.read(member)),
            Step::Write(member, record) => takeover.wrote(volume.write(member, &record)),
            Step::Wait { until_ns } => {
                waited = true;
                wait(&takeover, until_ns, Some(volume.directory), &mut said);
            }
            Step::Owned { since_ns } => {
                let tenure = Tenure::new(takeover.into_own(), volume.shape, since_ns);
                return Ok(Owned { rests_after_ns: None, tenure, session, waited });
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
    fn read(&self, member: usize) -> Option<OwnerRecord> {
        let block = self.members.get(&member)?.read_block(OWNER_OFFSET).ok()?;
        OwnerRecord::decode(&block, self.volume)
    }

    fn write(&self, member: usize, record: &OwnerRecord) -> bool {
        let Some(file) = self.members.get(&member) else { return false };
        let block = record.encode();
        let name = self.observer.map(|observer| observer.write(member, OWNER_OFFSET, &block));
        let done = file.write_block(OWNER_OFFSET, &block);
        if let (Some(observer), Some(name)) = (self.observer, name) {
            observer.done(name, done.is_ok());
        }
        if let Err(error) = &done {
            tracing::warn!(member, %error, "a member did not take the owner record");
        }
        done.is_ok()
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
