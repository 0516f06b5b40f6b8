//! The program as a whole: its command line, a server behind real sockets, and what other programs
//! make of what it serves.

mod cli;
mod foreign;
mod server;
