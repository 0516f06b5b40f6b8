//! What it costs to hand a message to another process: memory-mapped streams beside pipe and Unix
//! socket. Run by `reel bench mms`.
//!
//! ```text
//! mms-rates rate WAY BYTES SECONDS ready|made|glance   messages per second, one process to another
//! mms-rates latency WAY BYTES ROUNDS poll|sleep   there and back, halved
//! ```
//! In every way the consumer reads every byte of every message (a sum of 64-bit words, compared
//! with the producer's), and the producer hands over each message as it comes. `ready` messages lie
//! in memory already, as a server's do. `made` messages are written by the producer one by one. Of
//! `glance` messages the consumer reads only the first word. In every way at most about 1 MiB is in
//! flight, and the producer cycles through the messages of that much memory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot continue should stop")]

mod latency;
mod mapped;
mod rate;
mod streams;

use std::env::args;

/// How many messages of `bytes` are in flight at most, and lie in memory.
pub(crate) fn messages_of(bytes: usize) -> usize {
    ((1 << 20) / bytes).clamp(16, 1024)
}

fn main() {
    let args: Vec<String> = args().collect();
    let words: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match words[..] {
        ["rate", way, bytes, seconds, kind] => {
            rate::produce(way, bytes.parse().unwrap(), seconds.parse().unwrap(), kind);
        }
        ["rate-consumer", way, bytes, kind] => rate::consume(way, bytes.parse().unwrap(), kind),
        ["latency", way, bytes, rounds, wait] => {
            latency::ping(way, bytes.parse().unwrap(), rounds.parse().unwrap(), wait == "sleep");
        }
        ["latency-consumer", way, bytes, rounds, wait] => {
            latency::pong(way, bytes.parse().unwrap(), rounds.parse().unwrap(), wait == "sleep");
        }
        _ => {
            eprintln!(
                "usage: mms-rates rate WAY BYTES SECONDS ready|made|glance | latency WAY BYTES ROUNDS poll|sleep"
            );
            std::process::exit(2);
        }
    }
}

/// The sum of the 64-bit words of a message, whose length is a multiple of 8.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    words.fold(0, u64::wrapping_add)
}

/// What a consumer reads: all bytes, or the first word.
pub(crate) fn notice(bytes: &[u8], kind: &str) -> u64 {
    if kind == "glance" { sum(&bytes[..8]) } else { sum(bytes) }
}

/// Fills a message with words that differ from those of other messages.
pub(crate) fn fill(bytes: &mut [u8], seed: u64) {
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64).to_ne_bytes());
    }
}
