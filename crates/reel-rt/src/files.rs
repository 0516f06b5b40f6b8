//! Files that are opened by name without waiting, whatever is at the name: no thread may be held by
//! a FIFO without a writer.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a regular file for reading.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Looked at before it is opened, since opening a device may act.
    check(fs::metadata(path)?.file_type())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Opens what a user names as an input of a command: a regular file, or a pipe without a name that
/// this process was started with, as shells make for `<(COMMAND)`. Its writer is there already.
///
/// # Errors
/// As of [`open_regular`].
pub fn open_input(path: &Path) -> io::Result<File> {
    let is_pipe = fs::metadata(path)?.file_type().is_fifo();
    // The link to a pipe without a name leads to no path.
    match is_pipe && fs::canonicalize(path).is_err() {
        true => File::open(path),
        false => open_regular(path),
    }
}

/// Makes a file for writing, with these permissions at most. What an ended process left there is
/// removed.
///
/// # Errors
/// It cannot be made.
pub fn fresh_file(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

fn check(kind: FileType) -> io::Result<()> {
    match kind.is_file() {
        true => Ok(()),
        false if kind.is_dir() => Err(Errno::ISDIR.into()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn fifo(path: &Path) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        fifo(&place("fifo"));
        let _socket = UnixListener::bind(place("socket")).unwrap();
        std::os::unix::fs::symlink("fifo", place("link")).unwrap();
        fs::write(place("file"), "text").unwrap();
        for open in [open_regular, open_input] {
            for name in ["fifo", "socket", "link", "/dev/null", "/dev/zero"] {
                let error = open(&place(name)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
            }
            assert_eq!(open(directory.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
            assert_eq!(open(&place("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
            let mut text = String::new();
            open(&place("file")).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
    }

    #[test]
    fn a_pipe_of_this_process_is_an_input_and_no_regular_file() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        writer.write_all(b"text").unwrap();
        drop(writer);
        assert!(open_regular(Path::new(&path)).is_err());
        let mut text = String::new();
        open_input(Path::new(&path)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn a_fresh_file_takes_the_place_of_whatever_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        fifo(&path);
        for _ in 0..2 {
            fresh_file(&path, 0o600).unwrap().write_all(b"text").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"text");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(fresh_file(&path, 0o600).is_err());
    }
}
