//! Watches disks whose owner may be another host, before something else is written to them.

use std::path::Path;
use std::time::Duration;

use reel_disk::MemberFile;

use crate::error::VolumeError;
use crate::ids::{VolumeId, random_session};
use crate::owner::heartbeat::now_ns;
use crate::owner::host::{Host, Life, is_session_here};
use crate::owner::record::{OWNER_OFFSET, OwnerRecord};
use crate::owner::takeover::{Step, Takeover};

/// The owner record of a disk, of whatever volume, if its session may still live elsewhere. The
/// locks of this machine keep the sessions of this process apart.
pub(crate) fn owner_elsewhere(disk: &MemberFile) -> Option<OwnerRecord> {
    let host = Host::own();
    record_of(disk).filter(|record| life(&host, record) == Life::Unknown)
}

/// Watches disks for as long as an opening of their volume would, and says which owner renews its
/// record. Nothing is written.
///
/// # Errors
/// The system provides no random bytes.
pub(crate) fn living_owner(disks: &[MemberFile]) -> Result<Option<OwnerRecord>, VolumeError> {
    let (host, own) = (Host::own(), OwnerRecord::own(VolumeId([0; 16]), random_session()?));
    let members = (0..disks.len()).collect();
    let mut takeover = Takeover::new(own, members, (disks.len(), 0), move |record| life(&host, record));
    let mut said = false;
    loop {
        match takeover.step(now_ns()) {
            Step::Read(disk) => takeover.read(disks.get(disk).and_then(record_of)),
            Step::Wait { until_ns } => {
                wait(&takeover, until_ns, disks.first().map(MemberFile::path), &mut said)
            }
            Step::Refused(other) => return Ok(Some(*other)),
            // A takeover would begin to write here.
            Step::Write(..) | Step::Owned { .. } | Step::Failed => return Ok(None),
        }
    }
}

/// Waits for the next step, and says for which owner, once.
pub(crate) fn wait(takeover: &Takeover, until_ns: u64, place: Option<&Path>, said: &mut bool) {
    if let (Some((other, ns)), false) = (takeover.waits_for(now_ns()), *said) {
        *said = true;
        tracing::warn!(
            volume = %place.unwrap_or(Path::new("")).display(), owner = other.owner(), seconds = ns.div_ceil(1_000_000_000),
            "the last owner of this volume may still use it; watching whether it does"
        );
    }
    std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(now_ns())));
}

fn life(host: &Host, record: &OwnerRecord) -> Life {
    if is_session_here(record) { Life::OverHere } else { host.knows(record) }
}

fn record_of(disk: &MemberFile) -> Option<OwnerRecord> {
    OwnerRecord::decode_any(&disk.read_block(OWNER_OFFSET).ok()?)
}
