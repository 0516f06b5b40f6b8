//! A front end of a hundred lines on the threads of this crate.

mod film;
mod lines;
mod panics;
mod serving;
