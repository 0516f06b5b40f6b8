//! `cargo xtask compare FILE`: what Reel serves of a file, against what ffmpeg decodes from it.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Ingests each file into a scratch volume and prints the first difference of each form.
pub(crate) fn run(repository: &Path, files: &[String]) -> Result<ExitCode> {
    let reel = build(repository)?;
    let mut all_equal = true;
    for file in files {
        println!("{file}");
        let compared = reel_compare::compare(&reel, Path::new(file), |step| eprintln!("  {step} ..."));
        let compared = compared.with_context(|| format!("cannot compare {file}"))?;
        compared.warnings.iter().for_each(|warning| println!("  warning: {warning}"));
        println!("  the source has {} pictures and {} sound tracks", compared.pictures, compared.sounds);
        for form in &compared.forms {
            match &form.outcome {
                Ok(None) => println!("  {}: equal", form.form),
                Ok(Some(difference)) => println!("  {}: {difference}", form.form),
                Err(error) => println!("  {}: {error}", form.form),
            }
        }
        all_equal &= compared.is_equal();
    }
    Ok(if all_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the program and returns its path.
fn build(repository: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(repository).args(["build", "--locked", "--quiet", "--package", "reel"]);
    if !build.status().context("cargo cannot be run")?.success() {
        bail!("reel cannot be built");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    Ok(target.join("debug/reel"))
}
