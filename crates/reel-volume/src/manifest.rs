//! `volume.toml`: the file in a volume's directory that lists its members.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use reel_disk::{OpenMode, open_plain};
use reel_rt::fresh_file;
use serde::{Deserialize, Serialize};

use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::limits::{MEMBERS_MAX, VOLUME_FILE_BYTES_MAX};
use crate::lock::lock;

/// The file's name.
pub(crate) const FILE_NAME: &str = "volume.toml";

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) volume: VolumeId,
    /// As written: absolute, or relative to the directory of the file.
    pub(crate) members: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    volume: String,
    members: Vec<String>,
}

impl Manifest {
    /// Reads the file of a directory. It is returned open, to be locked.
    pub(crate) fn open(directory: &Path) -> Result<(Manifest, File, PathBuf), VolumeError> {
        let path = directory.join(FILE_NAME);
        let not_a_volume = |reason: String| VolumeError::NotAVolume {
            path: directory.to_owned(),
            reason,
            help: "correct it, or write it again from the members: `reel volume find DIR DEVICE... --write`",
        };
        let mut file = match open_plain(&path, OpenMode::ReadOnly) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(VolumeError::NotAVolume {
                    path: directory.to_owned(),
                    reason: format!("it has no {FILE_NAME}"),
                    help: "`reel volume create` makes one",
                });
            }
            Err(error) => return Err(VolumeError::file(path, "open")(error)),
        };
        let mut text = String::new();
        let bytes = (&mut file)
            .take(VOLUME_FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(VolumeError::file(&path, "read"))?;
        if bytes as u64 > VOLUME_FILE_BYTES_MAX {
            return Err(not_a_volume(format!("its {FILE_NAME} is longer than 1 MiB")));
        }
        let written: Written = toml::from_str(&text)
            .map_err(|e| not_a_volume(format!("its {FILE_NAME} cannot be parsed: {}", e.message())))?;
        let volume = VolumeId::parse(&written.volume).ok_or_else(|| {
            not_a_volume(format!("`volume` in its {FILE_NAME} is not 32 hexadecimal digits"))
        })?;
        // There is one more while a member is being replaced.
        if written.members.is_empty() || written.members.len() > MEMBERS_MAX + 1 {
            return Err(not_a_volume(format!(
                "`members` in its {FILE_NAME} must list 1 to {MEMBERS_MAX} paths"
            )));
        }
        let members = written.members.into_iter().map(PathBuf::from).collect();
        Ok((Manifest { volume, members }, file, path))
    }

    /// Writes the file and makes it durable, in one step: there is either the old one or a complete
    /// new one. The new file is locked before it becomes visible, and returned open.
    pub(crate) fn write(&self, directory: &Path) -> Result<File, VolumeError> {
        let path = directory.join(FILE_NAME);
        let members = self.members.iter().map(|path| {
            path.to_str().map(str::to_owned).ok_or_else(|| {
                VolumeError::options(
                    format!("the path {} is not UTF-8, which {FILE_NAME} needs", path.display()),
                    "choose another path",
                )
            })
        });
        let written =
            Written { volume: self.volume.to_string(), members: members.collect::<Result<_, _>>()? };
        let text = toml::to_string_pretty(&written)
            .map_err(|e| VolumeError::options(format!("cannot write {FILE_NAME}: {e}"), None))?;
        let text = format!(
            "# A Reel volume. The members may be moved: change their paths here, relative to this directory.\n{text}"
        );
        let temporary = directory.join(format!("{FILE_NAME}.new"));
        let mut file = fresh_file(&temporary, 0o666).map_err(VolumeError::file(&temporary, "create"))?;
        lock(&file, &temporary, true)?;
        file.write_all(text.as_bytes()).map_err(VolumeError::file(&temporary, "write"))?;
        file.sync_all().map_err(VolumeError::file(&temporary, "sync"))?;
        std::fs::rename(&temporary, &path).map_err(VolumeError::file(&path, "put in place"))?;
        sync_directory(directory)?;
        Ok(file)
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), VolumeError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(VolumeError::file(directory, "sync"))
}
