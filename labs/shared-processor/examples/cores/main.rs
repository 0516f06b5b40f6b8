//! What scheduling costs here, and what it costs threads and tokio: the measured programs of `reel
//! bench upcalls` and `reel bench splitlevel`.
//!
//! `cores PART key=value ...` does one measurement and prints one line of JSON. Each measurement is
//! a process of its own, so none inherits threads, caches or counters of another.

mod meter;
mod paths;
mod processes;
mod ring;
mod rivals;
mod streams;

mod upcalls;

use std::collections::HashMap;
use std::process::ExitCode;

/// The arguments of a measurement.
struct Arguments(HashMap<String, String>);

impl Arguments {
    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    fn number(&self, key: &str, otherwise: u64) -> u64 {
        self.0.get(key).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let part = words.next().unwrap_or_default();
    let pairs =
        words.filter_map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
    let arguments = Arguments(pairs.collect());
    let measured = match part.as_str() {
        "hog" => meter::hog(),
        "path" => paths::run(&arguments),
        "partner" => processes::partner(&arguments),
        "streams" => streams::run(&arguments),
        "upcalls" => upcalls::run(&arguments),
        _ => Err(format!("unknown part `{part}`; the parts are path, streams, upcalls and hog")),
    };
    match measured {
        Ok(values) => {
            println!("{values}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cores: {error}");
            ExitCode::FAILURE
        }
    }
}
