//! A comparison of one file in all forms, over a volume and a server of its own.

use crate::{CompareError, Decoded, Difference, Form, Server, first_difference, run};
use std::path::Path;
use std::process::Command;

/// What was compared.
#[derive(Debug)]
pub struct Comparison {
    /// What `reel ingest` printed: what was stored, and warnings.
    pub ingest: String,
    /// Pictures of the source.
    pub pictures: usize,
    /// Sound tracks of the source.
    pub sounds: usize,
    /// Each form, and its first difference.
    pub forms: Vec<Compared>,
}

/// The outcome for one form.
#[derive(Debug)]
pub struct Compared {
    /// The form.
    pub form: Form,
    /// The first difference from the source, or why the form cannot be decoded.
    pub outcome: Result<Option<Difference>, CompareError>,
}

impl Comparison {
    /// Whether every form shows the source.
    pub fn is_equal(&self) -> bool {
        self.forms.iter().all(|compared| matches!(compared.outcome, Ok(None)))
    }
}

/// Ingests a file into a scratch volume with the binary `reel`, serves it, and compares every form
/// with the source. `told` is called before each step that takes long.
///
/// # Errors
///
/// The source cannot be decoded or ingested, or no server can be started.
pub fn compare(reel: &Path, file: &Path, mut told: impl FnMut(&str)) -> Result<Comparison, CompareError> {
    let dir = tempfile::tempdir()?;
    let volume = dir.path().join("volume");
    // Parity, indexes and the least size of a volume.
    let size_bytes = std::fs::metadata(file)?.len() * 2 + (900 << 20);
    told("ingesting");
    let size = size_bytes.to_string();
    run(Command::new(reel).args(["volume", "create"]).arg(&volume).args(["--size", &size]))?;
    let ingested = run(Command::new(reel).arg("ingest").arg(&volume).arg(file))?;
    let said = [ingested.stdout, ingested.stderr].concat();
    let title = title(reel, &volume)?;
    told("decoding the source");
    let source = Decoded::of(&file.to_string_lossy())?;
    let server = Server::start(reel, &volume, &["--quiet"])?;
    let mut forms = Vec::new();
    for form in Form::ALL {
        told(&format!("decoding {form}"));
        let served = Decoded::of(&form.url(&server.url, &title));
        forms.push(Compared { form, outcome: served.map(|served| first_difference(&source, &served)) });
    }
    Ok(Comparison {
        ingest: String::from_utf8_lossy(&said).trim().to_owned(),
        pictures: source.pictures.len(),
        sounds: source.sounds.len(),
        forms,
    })
}

/// The id of the only title of a volume.
fn title(reel: &Path, volume: &Path) -> Result<String, CompareError> {
    let listed = run(Command::new(reel).args(["titles", "--json"]).arg(volume))?.stdout;
    let unexpected =
        || CompareError::Unexpected { program: "reel titles", line: String::from_utf8_lossy(&listed).into() };
    let parsed: serde_json::Value = serde_json::from_slice(&listed).map_err(|_| unexpected())?;
    let id =
        parsed["titles"].as_array().and_then(|titles| titles.first()).and_then(|title| title["id"].as_str());
    id.map(str::to_owned).ok_or_else(unexpected)
}
