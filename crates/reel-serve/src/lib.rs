//! What every front end does around the engine, whatever its protocol: titles and sessions are
//! opened, or refused with a reason.
//!
//! A front end writes a [`Refusal`] in its own protocol: as a status code, a field, a message.
#![forbid(unsafe_code)]

mod opening;
mod refusal;

pub use opening::Opener;
pub use refusal::Refusal;
