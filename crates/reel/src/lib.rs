//! Reel as a library: the server that the command line assembles. For the tests of whole servers;
//! everybody else runs the program.
#![forbid(unsafe_code)]
// They panic if the write fails.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod plans;
pub mod server;
