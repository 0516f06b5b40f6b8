//! `cargo xtask house`: all tidy checks.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::finding::Finding;
use crate::{dependencies, documents, files, floors, licences, limits, sources, unsafe_rooms};

/// Runs every check and prints what it found.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    for long in sources::long_files(&files::text_files(root)?) {
        println!("note: {long}");
    }
    if findings.is_empty() {
        println!("the house is in order");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} found", findings.len());
    Ok(ExitCode::FAILURE)
}

/// All findings of all checks.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let files = files::text_files(root)?;
    let paths = files::paths(root)?;
    let mut findings = floors::check(root)?;
    findings.extend(unsafe_rooms::check(&files));
    findings.extend(sources::check(&files));
    findings.extend(documents::check(&files, &paths));
    findings.extend(dependencies::check(&files)?);
    findings.extend(licences::check(root)?);
    findings.extend(limits::check(&files));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_in_order() {
        let findings = check(&crate::repository().unwrap()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
