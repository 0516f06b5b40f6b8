//! The data plane behind real sockets: a server over a small volume with a film.

mod dashboard;
mod endings;
mod limits;
mod memory;
mod misuse;
mod programs;
mod promise;
mod requests;
mod rig;
mod secured;
mod sending;
