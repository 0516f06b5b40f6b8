//! A comparison of one file in all forms, over a volume and a server of its own.

use crate::{Bounds, CompareError, Decoded, Difference, Form, Served, first_difference};
use std::path::Path;

/// What was compared.
#[derive(Debug)]
pub struct Comparison {
    /// What `reel ingest` warned of.
    pub warnings: Vec<String>,
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
    told("ingesting");
    let (served, mut ingests) = Served::start(reel, &[file])?;
    let ingest = ingests.remove(0)?;
    told("decoding the source");
    let source = Decoded::of(&file.to_string_lossy())?;
    let mut forms = Vec::new();
    for form in Form::ALL {
        told(&format!("decoding {form}"));
        let bounds = Bounds::of(file, form)?;
        let served = Decoded::of(&served.url(&ingest.title, form));
        forms.push(Compared {
            form,
            outcome: served.map(|served| first_difference(&source, &served, bounds)),
        });
    }
    Ok(Comparison {
        warnings: ingest.warnings,
        pictures: source.pictures.len(),
        sounds: source.sounds.len(),
        forms,
    })
}
