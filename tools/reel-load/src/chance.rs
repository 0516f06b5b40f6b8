//! Seeded chance. Each client has a sequence of its own for each purpose, so that timing changes no
//! choices.

use reel_testkit::Rng;

/// What a sequence is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Arrival,
    Title,
    RemoteControl,
    Download,
    Browse,
}

/// The sequence of one client for one purpose.
pub(crate) fn sequence(seed: u64, purpose: Purpose, client: usize) -> Rng {
    Rng::new(seed).part(purpose as u64).part(client as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence_and_no_other() {
        let draw = |seed, purpose, client| {
            let mut rng = sequence(seed, purpose, client);
            [rng.bits(), rng.bits(), rng.bits()]
        };
        let one = draw(7, Purpose::Title, 3);
        assert_eq!(one, draw(7, Purpose::Title, 3));
        for other in [(8, Purpose::Title, 3), (7, Purpose::RemoteControl, 3), (7, Purpose::Title, 4)] {
            assert_ne!(one, draw(other.0, other.1, other.2), "{other:?}");
        }
    }
}
