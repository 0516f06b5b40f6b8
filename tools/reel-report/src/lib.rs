//! What experiments have in common: their options, the machine they ran on, programs that they run,
//! and the report of what they found.
#![forbid(unsafe_code)]

mod claim;
mod machine;
mod options;
mod program;
mod report;
mod svg;

pub use claim::{Claim, spread};
pub use machine::Machine;
pub use options::CommonOptions;
pub use program::{example, output, output_json};
pub use report::{Chart, Report, Row};
