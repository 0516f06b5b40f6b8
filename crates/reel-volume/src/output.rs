//! Whether a file that a command writes may be put at a path that a user names.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::backing::ensure_unused_elsewhere;
use crate::claim::is_among_devices;
use crate::consent::{Consent, Holds, Purpose, Refusal, Used, Verdict, may_write};
use crate::error::VolumeError;
use crate::find::superblock_at;
use crate::manifest::{FILE_NAME, Manifest};

/// How a command writes its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A file that takes the name when it is complete.
    File,
    /// Bytes one after another, into a file, a pipe or a character device.
    Stream,
}

/// Refuses an output that may not be written at a path: a part of a volume or a disk in any case,
/// and what is there without `force`.
///
/// # Errors
/// It may not be written, or cannot be looked at.
pub fn ensure_output(path: &Path, output: Output, force: bool) -> Result<(), VolumeError> {
    let (purpose, metadata) = match output {
        Output::File => (Purpose::File, std::fs::symlink_metadata(path)),
        Output::Stream => (Purpose::Stream, std::fs::metadata(path)),
    };
    let metadata = match metadata {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(VolumeError::file(path, "write")(error)),
    };
    let part = metadata.as_ref().and_then(|_| part_of_a_volume(path));
    let holds = match (&metadata, &part) {
        (None, _) if is_among_devices(path) => Holds::NoDevice,
        (None, _) => Holds::Nothing,
        (Some(_), Some(_)) => Holds::VolumeFile,
        (Some(metadata), None) => kind(metadata),
    };
    let in_use = metadata.and_then(|metadata| ensure_unused_elsewhere(path, &metadata).err());
    let used = if in_use.is_some() { Used::Here } else { Used::No };
    let consent = Consent { create: true, force, overwrite_volume: false };
    let path = path.to_owned();
    match (may_write(purpose, holds, used, consent), in_use, part) {
        (Verdict::Write | Verdict::Watch, ..) => Ok(()),
        (Verdict::Refuse(Refusal::InUse), Some(error), _) => Err(error),
        (Verdict::Refuse(Refusal::PartOfVolume), _, Some(part)) => {
            Err(VolumeError::PartOfVolume { path, part })
        }
        (Verdict::Refuse(Refusal::Force), ..) => Err(VolumeError::OutputExists { path }),
        (Verdict::Refuse(Refusal::NoDevice), ..) => Err(VolumeError::no_device(&path)),
        (Verdict::Refuse(_), ..) => Err(VolumeError::NotAFile { path }),
    }
}

fn kind(metadata: &Metadata) -> Holds {
    match metadata.file_type() {
        kind if kind.is_file() => Holds::Data,
        kind if kind.is_block_device() || kind.is_dir() => Holds::Disk,
        _ => Holds::Special,
    }
}

/// What an existing file is to a volume: `is member 2 of the Reel volume ...`. `None` if it is no
/// part of one. Every file in the directory of a volume or below is a part.
fn part_of_a_volume(path: &Path) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    if real.file_name().is_some_and(|name| name == FILE_NAME) {
        return Some("names the members of a Reel volume".to_owned());
    }
    if let Some(superblock) = superblock_at(&real) {
        return Some(format!("is member {} of the Reel volume {}", superblock.index, superblock.volume));
    }
    let directory = real.ancestors().skip(1).find(|directory| Manifest::open(directory).is_ok())?;
    Some(format!("is in the directory of the Reel volume {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path, output: Output, force: bool) -> String {
        ensure_output(path, output, force).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_no_file_is_written_only_as_a_stream_and_by_force() {
        let null = Path::new("/dev/null");
        assert!(text(null, Output::File, true).contains("is not a regular file"));
        for output in [Output::File, Output::Stream] {
            assert!(text(Path::new("/"), output, true).contains("is not a regular file"));
        }
        assert!(text(null, Output::Stream, false).contains("already exists"));
        assert_eq!(text(null, Output::Stream, true), "");
        let absent = Path::new("/dev/reel-no-such-device");
        for output in [Output::File, Output::Stream] {
            assert!(text(absent, output, true).contains("there is no device"));
        }
    }

    #[test]
    fn a_file_is_replaced_by_force_and_a_link_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        assert_eq!(text(&file, Output::File, false), "");
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert!(text(&file, Output::File, false).contains("use --force to replace it"));
        assert_eq!(text(&file, Output::File, true), "");
        assert!(text(&link, Output::File, true).contains("is not a regular file"));
        assert_eq!(text(&link, Output::Stream, true), "");
    }
}
