//! Reel, a media-on-demand server whose admitted viewers never stall.
#![forbid(unsafe_code)]
// They panic if the write fails.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod args;
mod command;
mod config;
mod demo;
mod descriptors;
mod ending;
mod failure;
mod limits;
mod log_queue;
mod logging;
mod memory;
mod memory_sum;
mod network;
mod new_file;
mod output;
mod progress;
mod rate;
mod remote;
mod signals;
mod size;
mod span;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Arguments;
use crate::logging::{FlushedAtEnd, say};

fn main() -> ExitCode {
    let _log = FlushedAtEnd;
    match command::run(Arguments::parse()) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            say(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}
