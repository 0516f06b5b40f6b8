//! The part of HTTP/1.1 that the example needs: one request at a time, files below a directory.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// A complete request.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) range: Option<Range<u64>>,
}

/// Files that were opened once and stay open.
pub(crate) struct Files {
    root: PathBuf,
    flags: i32,
    open: HashMap<String, (Rc<File>, u64)>,
}

impl Request {
    /// Parses a request, if `bytes` end with its last line.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.strip_suffix("\r\n\r\n")?;
        let path = text.strip_prefix("GET ")?.split(' ').next()?.to_owned();
        let range = text.lines().find_map(|line| line.strip_prefix("Range: bytes="));
        let range = range.and_then(|range| {
            let (from, last) = range.split_once('-')?;
            Some(from.parse().ok()?..last.parse::<u64>().ok()? + 1)
        });
        Some(Self { path, range })
    }
}

/// The head of a response with this many bytes.
pub(crate) fn head(request: &Request, bytes: u64) -> String {
    let status = if request.range.is_some() { "206 Partial Content" } else { "200 OK" };
    format!("HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\n\r\n")
}

impl Files {
    /// `flags` are added to O_RDONLY.
    pub(crate) fn new(root: &Path, flags: i32) -> Self {
        Self { root: root.to_owned(), flags, open: HashMap::new() }
    }

    /// The requested file and the requested range of it.
    pub(crate) fn find(&mut self, request: &Request) -> io::Result<(Rc<File>, Range<u64>)> {
        if !self.open.contains_key(&request.path) {
            let path = Path::new(request.path.trim_start_matches('/'));
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let file = OpenOptions::new().read(true).custom_flags(self.flags).open(self.root.join(path))?;
            let bytes = file.metadata()?.len();
            self.open.insert(request.path.clone(), (Rc::new(file), bytes));
        }
        let (file, bytes) = &self.open[&request.path];
        let range = request.range.clone().unwrap_or(0..*bytes);
        if range.start > range.end || range.end > *bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok((file.clone(), range))
    }
}
