//! `reel load`: runs players by the program `reel-bench`.

use std::ffi::OsStr;
use std::iter::once;

use super::bench::become_bench;
use crate::args::LoadArguments;
use crate::failure::{Exit, Failure};

/// `reel load`.
pub(super) fn run(arguments: &LoadArguments) -> Result<Exit, Failure> {
    become_bench(once(OsStr::new("load")).chain(arguments.arguments.iter().map(AsRef::as_ref)))
}
