//! Reel as a library: the server that the command line assembles. For the tests of whole servers;
//! everybody else runs the program.
#![forbid(unsafe_code)]

pub mod plans;
pub mod server;
