//! When the datagrams of a transport stream leave: at the pace of the stream, and never as a flood.
//! Pure.

use crate::limits::{DATAGRAM_AHEAD_NS, DATAGRAM_HURRY, DATAGRAM_TRAIN_NS};
use crate::tee::NEVER_NS;

/// When the datagrams of one outlet leave.
///
/// A datagram leaves [`DATAGRAM_AHEAD_NS`] before it is due, or after the last one by the clock of
/// the stream where nothing is due at a fixed time. One that is behind its time leaves as soon as
/// it can, but a stream that is behind is sent a quarter faster than its clock at most: what comes
/// at the start at once, or after a stall, does not flood the way to the destination.
///
/// What leaves within [`DATAGRAM_TRAIN_NS`] may leave at once, as one train.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    last: Option<Left>,
}

/// A datagram that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When it is sent by the clock of the stream.
    pub media_ns: u64,
    /// When it is due; `u64::MAX` if at no fixed time.
    pub due_ns: u64,
}

/// The last datagram that has left.
#[derive(Clone, Copy, Debug)]
struct Left {
    media_ns: u64,
    /// When it was to leave: its own time, but at most a train before it did.
    at_ns: u64,
    /// The time that it had if it had not been behind.
    planned_ns: u64,
}

impl Pace {
    /// How many of these datagrams, which follow each other, leave now as one train; and the pace
    /// when they have.
    ///
    /// # Errors
    /// When the first one leaves, if that is later.
    pub fn train(
        self,
        datagrams: impl IntoIterator<Item = Datagram>,
        now_ns: u64,
    ) -> Result<(usize, Pace), u64> {
        let (mut pace, mut count) = (self, 0);
        for datagram in datagrams {
            let leaves_ns = pace.leaves_ns(datagram, now_ns);
            if count == 0 && leaves_ns > now_ns {
                return Err(leaves_ns);
            }
            if leaves_ns >= now_ns.saturating_add(DATAGRAM_TRAIN_NS) {
                break;
            }
            pace.leaves(datagram, leaves_ns, now_ns);
            count += 1;
        }
        Ok((count, pace))
    }

    fn leaves_ns(&self, datagram: Datagram, now_ns: u64) -> u64 {
        let planned_ns = self.planned_ns(datagram, now_ns);
        let soonest_ns = self.last.map_or(0, |last| {
            let (numerator, denominator) = DATAGRAM_HURRY;
            let later_ns = u128::from(datagram.media_ns.saturating_sub(last.media_ns));
            // The cast fits: a part of a time that is one.
            last.at_ns.saturating_add((later_ns * u128::from(denominator) / u128::from(numerator)) as u64)
        });
        planned_ns.max(soonest_ns)
    }

    /// When it leaves if nothing is behind.
    fn planned_ns(&self, datagram: Datagram, now_ns: u64) -> u64 {
        if datagram.due_ns != NEVER_NS {
            return datagram.due_ns.saturating_sub(DATAGRAM_AHEAD_NS);
        }
        self.last.map_or(now_ns, |last| {
            let later_ns = datagram.media_ns.saturating_sub(last.media_ns);
            last.planned_ns.saturating_add(later_ns)
        })
    }

    fn leaves(&mut self, datagram: Datagram, leaves_ns: u64, now_ns: u64) {
        let mut planned_ns = self.planned_ns(datagram, now_ns);
        if datagram.due_ns == NEVER_NS && planned_ns.saturating_add(DATAGRAM_AHEAD_NS) < now_ns {
            // Nothing is late there, so the plan waits for the stream.
            planned_ns = now_ns;
        }
        let at_ns = leaves_ns.max(now_ns.saturating_sub(DATAGRAM_TRAIN_NS));
        self.last = Some(Left { media_ns: datagram.media_ns, at_ns, planned_ns });
    }
}
