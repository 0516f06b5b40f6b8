use crate::limits::{UDP_COPIED_IN_ROW, UDP_COPIES_TO_PROBE, UDP_LENT_BYTES_MIN};

/// Whether to lend trains of a flow to the device or to have them copied. The reports of the kernel
/// about this flow decide, not an assumption about the path of its packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Lending {
    /// Lent trains in a row that the kernel had to copy after all.
    copied: u32,
    /// Trains to copy until one is lent again, to see whether the path has changed.
    copies_left: u32,
}

impl Lending {
    /// Whether a train of so many bytes is to be lent.
    pub(super) fn lends(&self, bytes: usize) -> bool {
        bytes >= UDP_LENT_BYTES_MIN && self.copies_left == 0
    }

    /// A train was handed over to be copied.
    pub(super) fn copied_by_choice(&mut self) {
        self.copies_left = self.copies_left.saturating_sub(1);
    }

    /// The kernel reports on a train that was lent.
    pub(super) fn reported(&mut self, copied: bool) {
        self.copied = if copied { self.copied.saturating_add(1) } else { 0 };
        if self.copied >= UDP_COPIED_IN_ROW {
            self.copies_left = UDP_COPIES_TO_PROBE;
            // The next probe alone decides.
            self.copied = UDP_COPIED_IN_ROW - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_whose_lent_trains_are_copied_copies_and_probes_now_and_then() {
        let mut lending = Lending::default();
        assert!(!lending.lends(UDP_LENT_BYTES_MIN - 1), "too small to be worth it");
        for _ in 1..UDP_COPIED_IN_ROW {
            lending.reported(true);
            assert!(lending.lends(UDP_LENT_BYTES_MIN));
        }
        lending.reported(false);
        for _ in 1..UDP_COPIED_IN_ROW {
            lending.reported(true);
            assert!(lending.lends(UDP_LENT_BYTES_MIN), "not in a row");
        }
        lending.reported(true);
        for probe in 0..3 {
            for _ in 0..UDP_COPIES_TO_PROBE {
                assert!(!lending.lends(1 << 16), "probe {probe}");
                lending.copied_by_choice();
            }
            assert!(lending.lends(1 << 16), "a probe");
            lending.reported(true);
        }
        (0..UDP_COPIES_TO_PROBE).for_each(|_| lending.copied_by_choice());
        lending.reported(false);
        assert!(lending.lends(1 << 16), "the path has changed");
    }
}
