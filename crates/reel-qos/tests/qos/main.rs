//! Admission against its own laws and against a model.

mod laws;
mod ledger;
mod model;
mod shared;
