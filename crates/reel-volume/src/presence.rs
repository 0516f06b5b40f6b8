//! Whether the disks of an open volume are still where its paths lead.
//!
//! A file that was removed stays readable and writable as long as it is open, so nothing fails
//! until the program ends. Then what is on it is gone.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::finding::MEMBERS_LOG;
use crate::lock::identity;
use crate::volume::Inner;

/// Where the open disk of a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// At its path.
    InPlace,
    /// Nowhere: it has no name any more.
    Removed,
    /// Elsewhere: its path leads to another file or device.
    Exchanged,
    /// Perhaps elsewhere: its path leads nowhere.
    Away,
}

/// Compares an open file or device with what is at its path.
pub(crate) fn presence(open: &Metadata, at_path: &io::Result<Metadata>) -> Presence {
    let is_file = !open.file_type().is_block_device();
    match at_path {
        _ if is_file && open.nlink() == 0 => Presence::Removed,
        Ok(found) if identity(found) == identity(open) => Presence::InPlace,
        Ok(_) => Presence::Exchanged,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Presence::Away,
        // Something is in the way, which reads and writes will notice if it matters.
        Err(_) => Presence::InPlace,
    }
}

/// Why a member must not be used any more, if that is so.
pub(crate) fn lost(inner: &Inner, member: usize) -> Option<String> {
    let (open, descriptor) = inner.member_open(member)?;
    match presence(&open, &std::fs::metadata(inner.member_path(member))) {
        Presence::Removed => Some(format!(
            "its file was removed; until this program ends, /proc/{}/fd/{descriptor} holds what was in it",
            std::process::id(),
        )),
        Presence::Exchanged => Some("another file or device is at its path now".to_owned()),
        Presence::InPlace | Presence::Away => None,
    }
}

/// Takes members out whose files were removed or exchanged, and says which are not at their paths.
pub(crate) fn look_for_members(inner: &Inner) {
    for member in (0..inner.geometry.members()).filter(|&member| inner.health.writable(member)) {
        let lost = lost(inner, member);
        inner.health.set_removed(member, lost.is_some());
        if let Some(reason) = lost {
            if inner.health.lose(member, &reason) {
                inner.counters.members_taken_out.add(1);
            }
            continue;
        }
        let Some((open, _)) = inner.member_open(member) else { continue };
        let path = inner.member_path(member);
        let is_away = presence(&open, &std::fs::metadata(&path)) == Presence::Away;
        if inner.set_away(member, is_away) && is_away {
            tracing::warn!(
                target: MEMBERS_LOG, member, path = %path.display(),
                "nothing is at the path of a member any more. It is used as long as this program runs"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_is_told_from_what_is_at_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("member");
        let file = File::create_new(&path).unwrap();
        let now = || presence(&file.metadata().unwrap(), &std::fs::metadata(&path));
        assert_eq!(now(), Presence::InPlace);
        let moved = directory.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!(now(), Presence::Away);
        std::fs::write(&path, "another").unwrap();
        assert_eq!(now(), Presence::Exchanged);
        std::fs::rename(&moved, &path).unwrap();
        assert_eq!(now(), Presence::InPlace);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(now(), Presence::Removed);
        std::fs::write(&path, "another").unwrap();
        assert_eq!(now(), Presence::Removed);
        let refused = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let other = File::open(&path).unwrap().metadata().unwrap();
        assert_eq!(presence(&other, &refused), Presence::InPlace);
    }
}
