//! Reel, a media-on-demand server whose admitted viewers never stall.
#![forbid(unsafe_code)]

mod args;
mod command;
mod config;
mod demo;
mod descriptors;
mod ending;
mod failure;
mod limits;
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

fn main() -> ExitCode {
    match command::run(Arguments::parse()) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}
