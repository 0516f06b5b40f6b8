//! The program as a whole: its command line, and what other programs make of what it serves.

mod cli;
mod foreign;
