//! Films in a scratch volume, with a server for them.

use crate::{CompareError, Form, Server, run};
use std::path::Path;
use std::process::Command;

/// A scratch volume with films, and a running server. Both end with this value.
pub struct Served {
    server: Server,
    _dir: tempfile::TempDir,
}

/// The outcome of an ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The title's id.
    pub title: String,
    /// What it warns of.
    pub warnings: Vec<String>,
}

/// Parity, indexes and the least size of a volume.
const VOLUME_BYTES: u64 = 900 << 20;

impl Served {
    /// Ingests each file with the binary `reel`, and serves all. A file that is refused does not
    /// stop the others. Returns the outcome for each file, in their order.
    ///
    /// # Errors
    ///
    /// A file is missing, or no volume can be created or served.
    pub fn start<P: AsRef<Path>>(
        reel: &Path,
        files: &[P],
    ) -> Result<(Served, Vec<Result<Ingest, CompareError>>), CompareError> {
        let dir = tempfile::tempdir()?;
        let volume = dir.path().join("volume");
        let mut size_bytes = VOLUME_BYTES;
        for file in files {
            size_bytes += std::fs::metadata(file)?.len() * 2;
        }
        let size = size_bytes.to_string();
        run(Command::new(reel).args(["volume", "create"]).arg(&volume).args(["--size", &size]))?;
        let ingests = files.iter().map(|file| ingest(reel, &volume, file.as_ref())).collect();
        let server = Server::start(reel, &volume, &["--quiet"])?;
        Ok((Served { server, _dir: dir }, ingests))
    }

    /// The address of a title in a form.
    pub fn url(&self, title: &str, form: Form) -> String {
        form.url(&self.server.url, title)
    }
}

fn ingest(reel: &Path, volume: &Path, file: &Path) -> Result<Ingest, CompareError> {
    let printed = run(Command::new(reel).args(["ingest", "--json"]).arg(volume).arg(file))?.stdout;
    let unexpected = || CompareError::Unexpected {
        program: "reel ingest",
        line: String::from_utf8_lossy(&printed).into(),
    };
    let parsed: serde_json::Value = serde_json::from_slice(&printed).map_err(|_| unexpected())?;
    let title = &parsed["titles"][0];
    let id = title["id"].as_str().ok_or_else(unexpected)?.to_owned();
    let warnings = title["warnings"].as_array().ok_or_else(unexpected)?;
    let warnings = warnings.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect();
    Ok(Ingest { title: id, warnings })
}
