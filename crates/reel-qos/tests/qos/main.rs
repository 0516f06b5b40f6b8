//! Admission against its own laws and against a model.

mod chains;
mod laws;
mod ledger;
mod model;
