//! `cargo xtask tidy`: every rule of the repository, checked.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::finding::Finding;
use crate::{
    dependencies, documents, files, hops, layers, licences, limits, names, sources, unsafe_crates, workspace,
};

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
        println!("the repository is tidy");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} found", findings.len());
    Ok(ExitCode::FAILURE)
}

/// Every breach of every rule.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let files = files::text_files(root)?;
    let paths = files::paths(root)?;
    let mut findings = layers::check(root)?;
    findings.extend(unsafe_crates::check(&files));
    findings.extend(sources::check(&files));
    findings.extend(documents::check(&files, &paths));
    findings.extend(names::check(&files, &paths, &workspace::packages(root)?));
    findings.extend(dependencies::check(&files)?);
    findings.extend(licences::check(root)?);
    findings.extend(limits::check(&files));
    findings.extend(hops::check(&files));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = check(&crate::repository().unwrap()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
