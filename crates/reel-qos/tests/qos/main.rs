//! Admission against its own laws and against a model.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod laws;
mod ledger;
mod model;
mod reclass;
mod shared;
