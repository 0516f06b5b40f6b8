//! A program that writes: what it makes, and when.

use crate::content::row;
use crate::scale::{OBJECT_SCALE, ROW_BYTES};
use reel_pour::PourTerms;
use reel_pour::limits::{POUR_DELAY_NS_MIN, POUR_MESSAGE_BYTES_MAX};
use reel_testkit::Rng;
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

/// How a program keeps to what it has declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each message comes when the rate has room for it.
    Punctual,
    /// Now and then a message comes seconds late, and those after it at once.
    Late,
    /// Nothing, and then as much as may come before its time.
    Bursty,
    /// As much as its memory takes.
    Faster,
    /// Punctual, and ends.
    Ends,
    /// Punctual, and dies.
    Dies,
}

const MANNERS: [Manner; 6] =
    [Manner::Punctual, Manner::Late, Manner::Bursty, Manner::Faster, Manner::Ends, Manner::Dies];

/// Rates, at least and at most, in bytes per second: from speech to pictures in high definition.
const RATES: (u64, u64) = (16_000, 2_500_000);

/// Least and most simulated bytes of a message.
const MESSAGES: (u64, u64) = (2, POUR_MESSAGE_BYTES_MAX as u64 / OBJECT_SCALE);
/// A message is no more than what comes in one part of a second in so many. What is reserved is a
/// rate, so a message that takes longer than the delay cannot be promised in time.
const MESSAGES_PER_S: u64 = 10;

/// Of a thousand messages of a program that is late, so many are.
const LATE_PERMILLE: u64 = 5;

/// A program.
pub(super) struct Program {
    pub(super) manner: Manner,
    pub(super) terms: PourTerms,
    rng: Rng,
    /// What makes its bytes.
    pub(super) seed: u64,
    /// Simulated bytes of a message.
    message_bytes: u64,
    /// When it was to make the next message, if it were punctual.
    schedule_ns: u64,
    /// It makes nothing before.
    pub(super) next_ns: u64,
    /// Simulated bytes that it has made.
    made_bytes: u64,
    /// When it ends or dies.
    pub(super) ends_ns: Option<u64>,
}

impl Program {
    /// The program with this number, which begins now.
    pub(super) fn new(number: usize, mut rng: Rng, now_ns: u64) -> Program {
        let manner = MANNERS[number % MANNERS.len()];
        // Rates and delays are spread over their orders of magnitude.
        let bytes_per_s = RATES.0 << rng.below((RATES.1 / RATES.0).ilog2().into());
        let bytes_per_s = rng.range(bytes_per_s, 2 * bytes_per_s);
        let delay_ns = POUR_DELAY_NS_MIN << rng.below(7);
        let most = (bytes_per_s / MESSAGES_PER_S / OBJECT_SCALE).clamp(MESSAGES.0, MESSAGES.1);
        let message_bytes = rng.range(MESSAGES.0, most + 1);
        // At least a message, as a program that is punctual needs.
        let workahead_bytes = message_bytes * OBJECT_SCALE + bytes_per_s * rng.below(1000) / 1000;
        let content_type = "video/mp2t".to_owned();
        let terms = PourTerms { bytes_per_s, workahead_bytes, delay_ns, content_type };
        let ends = matches!(manner, Manner::Ends | Manner::Dies);
        let ends_ns = ends.then(|| now_ns + rng.range(2, 20) * SECOND_NS);
        let seed = rng.bits();
        Program {
            manner,
            terms,
            rng,
            seed,
            message_bytes,
            schedule_ns: now_ns,
            next_ns: now_ns,
            made_bytes: 0,
            ends_ns,
        }
    }

    /// Makes a message. Only as many of its bytes are used as are sent in the simulation.
    pub(super) fn make(&mut self, now_ns: u64) -> Arc<[u8]> {
        let mut message = vec![0; (self.message_bytes * OBJECT_SCALE) as usize];
        fill(self.seed, self.made_bytes, &mut message[..self.message_bytes as usize]);
        self.made_bytes += self.message_bytes;
        let PourTerms { bytes_per_s, workahead_bytes, .. } = self.terms;
        let time_of = |bytes: u64| bytes * SECOND_NS / bytes_per_s;
        self.schedule_ns = self.schedule_ns.max(now_ns.saturating_sub(10 * SECOND_NS));
        self.schedule_ns += time_of(message.len() as u64);
        self.next_ns = match self.manner {
            Manner::Punctual | Manner::Ends | Manner::Dies => self.schedule_ns,
            Manner::Late if self.rng.permille(LATE_PERMILLE) => now_ns + self.rng.below(3 * SECOND_NS),
            Manner::Late => self.schedule_ns.max(now_ns),
            // All of the workahead at once, and then nothing until that is over.
            Manner::Bursty if self.schedule_ns < now_ns + time_of(workahead_bytes) => now_ns,
            Manner::Bursty => self.schedule_ns,
            Manner::Faster => now_ns,
        };
        message.into()
    }
}

/// The bytes of the content of `seed` from `at` on.
fn fill(seed: u64, at: u64, bytes: &mut [u8]) {
    for (place, byte) in (at..).zip(bytes) {
        // Fits: a place in a row.
        *byte = row(seed, place / ROW_BYTES as u64)[(place % ROW_BYTES as u64) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::first_wrong;

    #[test]
    fn messages_follow_one_another_in_the_content_of_the_stream() {
        let mut program = Program::new(0, Rng::new(7), 0);
        let (mut at, mut now_ns) = (0, 0);
        for _ in 0..20 {
            let message = program.make(now_ns);
            let bytes = message.len() as u64 / OBJECT_SCALE;
            assert_eq!(first_wrong(program.seed, at..at + bytes, &message[..bytes as usize]), None);
            at += bytes;
            now_ns = program.next_ns;
        }
        // A punctual program makes what it has declared.
        let declared = program.terms.bytes_per_s * now_ns / SECOND_NS;
        assert!((at * OBJECT_SCALE).abs_diff(declared) < 100, "{at} and {declared}");
    }

    #[test]
    fn every_program_declares_what_a_server_takes() {
        for number in 0..500 {
            Program::new(number, Rng::new(3).part(number as u64), 0).terms.check().unwrap();
        }
    }
}
