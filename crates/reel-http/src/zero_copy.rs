//! Decides whether bytes are sent to a socket from memory itself or by a copy. The decision follows
//! what the kernel reports of the socket, never what kind of socket it seems to be.
//!
//! ```text
//!             a first large send               reported: not copied
//!   Untried ---------------------> Probing ---------------------------> Trusted
//!      ^                              | reported: copied, or refused        |
//!      '------- bytes and time ---- Plain <---------------------------------'
//! ```
//! The kernel copies after all for loopback, for veth, and while a program listens with a packet
//! socket. That happens later and costs more than a plain send. With a network card the kernel does
//! not copy.
//!
//! A probe is small, and the bytes after it are copied until its report arrives. So little is
//! wasted on a socket that copies. Each failed probe makes the next one rarer.
//!
//! Memory that was sent from belongs to the kernel until the peer has acknowledged the bytes. This
//! module bounds what one socket may have lent. The caller bounds what all sockets together may
//! have lent.

use crate::limits::{
    LENT_BYTES_MAX, LENT_SENDS_MAX, SEGMENT_ASKED_SENDS, SUPER_SEGMENT_BYTES_MAX, ZERO_COPY_AGAIN_BYTES,
    ZERO_COPY_AGAIN_DOUBLINGS_MAX, ZERO_COPY_AGAIN_NS, ZERO_COPY_BYTES_MIN, ZERO_COPY_CHUNK_BYTES_MIN,
    ZERO_COPY_CUTS_MAX, ZERO_COPY_PROBE_BYTES,
};

/// The way in which bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMethod {
    /// The kernel copies it.
    Copied,
    /// The kernel sends from Reel's memory, at most the first `bytes_max` of the offered bytes.
    ZeroCopy {
        /// The most bytes to send so.
        bytes_max: usize,
    },
}

/// What is known about one socket.
#[derive(Debug)]
pub(crate) struct ZeroCopy {
    state: State,
    /// Failed probes since the last one that succeeded.
    failures: u32,
    lent_sends: usize,
    lent_bytes: u64,
    /// Whether its segments stay as large as copied ones at its present rate, and the number of
    /// sends until that is determined again.
    is_cut_well: bool,
    asked_again_in: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The driver cannot send without a copy.
    Never,
    /// The next large send is a probe.
    Untried,
    /// A probe is under way.
    Probing,
    /// The kernel does not copy what is sent here.
    Trusted,
    /// Copies are cheaper. The socket is probed again after that many bytes and that time.
    Plain { left_bytes: u64, until_ns: u64 },
}

impl ZeroCopy {
    /// A new socket. `is_possible`: whether its ring can send without a copy.
    pub(crate) fn new(is_possible: bool) -> Self {
        let state = if is_possible { State::Untried } else { State::Never };
        Self { state, failures: 0, lent_sends: 0, lent_bytes: 0, is_cut_well: true, asked_again_in: 0 }
    }

    /// Whether segments would stay as large without a copy, if bytes were sent so now.
    ///
    /// `segment_bytes` returns how much TCP gives the device at once at the socket's present rate.
    /// It is called from time to time.
    pub(crate) fn is_cut_well(&mut self, segment_bytes: impl FnOnce() -> Option<usize>) -> bool {
        if matches!(self.state, State::Untried | State::Trusted) {
            if self.asked_again_in == 0 {
                self.is_cut_well = segment_bytes().is_none_or(is_cut_well);
                self.asked_again_in = SEGMENT_ASKED_SENDS;
            }
            self.asked_again_in -= 1;
        }
        self.is_cut_well
    }

    /// How to send `bytes` in `pieces` pieces. `may_lend`: whether all sockets together have memory
    /// left to lend.
    pub(crate) fn choose(&mut self, bytes: usize, pieces: usize, may_lend: bool, now_ns: u64) -> SendMethod {
        let pays = bytes >= ZERO_COPY_BYTES_MIN && bytes >= pieces * ZERO_COPY_CHUNK_BYTES_MIN;
        if !(pays && self.has_room() && may_lend) {
            return SendMethod::Copied;
        }
        if let State::Plain { left_bytes: 0, until_ns } = self.state
            && until_ns <= now_ns
        {
            self.state = State::Untried;
        }
        match self.state {
            State::Never | State::Probing | State::Plain { .. } => SendMethod::Copied,
            State::Untried => {
                self.state = State::Probing;
                self.lent_sends += 1;
                SendMethod::ZeroCopy { bytes_max: ZERO_COPY_PROBE_BYTES }
            }
            State::Trusted => {
                self.lent_sends += 1;
                SendMethod::ZeroCopy { bytes_max: usize::MAX }
            }
        }
    }

    /// The socket accepted `bytes` of a copy.
    pub(crate) fn copied(&mut self, bytes: u64) {
        if let State::Plain { left_bytes, .. } = &mut self.state {
            *left_bytes = left_bytes.saturating_sub(bytes);
        }
    }

    /// The socket accepted `bytes` of a zero-copy send. [`ZeroCopy::returned`] follows.
    pub(crate) fn lent(&mut self, bytes: u64) {
        self.lent_bytes += bytes;
    }

    /// A zero-copy send was not made at all, or was made by a copy at once: the kernel had no
    /// memory for it, or does not support the socket's kind.
    pub(crate) fn refused(&mut self, now_ns: u64) {
        self.lent_sends = self.lent_sends.saturating_sub(1);
        self.failed(now_ns);
    }

    /// The memory of a zero-copy send was returned. The socket had accepted `bytes` of it.
    ///
    /// Memory that is returned twice or was never lent does not count below zero: the driver has
    /// reported that error.
    pub(crate) fn returned(&mut self, bytes: u64, copied: bool, now_ns: u64) {
        self.lent_sends = self.lent_sends.saturating_sub(1);
        self.lent_bytes = self.lent_bytes.saturating_sub(bytes);
        match (self.state, copied) {
            // A full socket accepted nothing. That is no evidence of copies.
            (State::Probing, _) if bytes == 0 => self.state = State::Untried,
            _ if bytes == 0 => {}
            (State::Probing | State::Trusted, true) => self.failed(now_ns),
            (State::Probing, false) => (self.state, self.failures) = (State::Trusted, 0),
            _ => {}
        }
    }

    /// Bytes that the kernel may still send from memory.
    pub(crate) fn lent_bytes(&self) -> u64 {
        self.lent_bytes
    }

    fn has_room(&self) -> bool {
        self.lent_sends < LENT_SENDS_MAX && self.lent_bytes < LENT_BYTES_MAX
    }

    /// No bytes are sent without a copy for some time.
    pub(crate) fn failed(&mut self, now_ns: u64) {
        let doublings = self.failures.min(ZERO_COPY_AGAIN_DOUBLINGS_MAX);
        self.failures += 1;
        self.state = State::Plain {
            left_bytes: ZERO_COPY_AGAIN_BYTES << doublings,
            until_ns: now_ns + (ZERO_COPY_AGAIN_NS << doublings),
        };
    }
}

/// Whether TCP cuts its segments as well without a copy, if it gives the device
/// `segment_bytes` at once.
///
/// TCP queues at most as much as a device takes, and cuts off what it gives to the device when that
/// is due. The remainder of a copied segment is filled up with the next bytes (tcp_grow_skb of the
/// kernel). The remainder of a segment that was not copied is sent alone: 13 kB after 52. It has a
/// timer and an acknowledgement like a large one, which costs more than the copy
/// (docs/benchmarks.md). Slow sockets cut a queued segment many times, so that one more remainder
/// does not matter. The fastest sockets do not cut it at all.
fn is_cut_well(segment_bytes: usize) -> bool {
    let is_cut_often = SUPER_SEGMENT_BYTES_MAX / segment_bytes.max(1) > ZERO_COPY_CUTS_MAX;
    is_cut_often || segment_bytes + segment_bytes / 16 >= SUPER_SEGMENT_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGE: usize = 1 << 20;

    fn probe(socket: &mut ZeroCopy, copied: bool, now_ns: u64) {
        assert_eq!(
            socket.choose(LARGE, 4, true, now_ns),
            SendMethod::ZeroCopy { bytes_max: ZERO_COPY_PROBE_BYTES }
        );
        socket.lent(ZERO_COPY_PROBE_BYTES as u64);
        assert_eq!(socket.choose(LARGE, 4, true, now_ns), SendMethod::Copied, "until it is reported");
        socket.returned(ZERO_COPY_PROBE_BYTES as u64, copied, now_ns);
    }

    #[test]
    fn a_socket_that_does_not_copy_is_trusted_until_it_does() {
        let mut socket = ZeroCopy::new(true);
        probe(&mut socket, false, 0);
        for _ in 0..3 {
            assert_eq!(socket.choose(LARGE, 4, true, 0), SendMethod::ZeroCopy { bytes_max: usize::MAX });
            socket.lent(LARGE as u64);
        }
        socket.returned(LARGE as u64, true, 0);
        assert_eq!(socket.choose(LARGE, 4, true, 0), SendMethod::Copied);
        // Sends that were under way meanwhile are no reason to trust the socket, nor to wait longer
        // before the next probe.
        socket.returned(LARGE as u64, false, 0);
        socket.returned(LARGE as u64, true, 0);
        assert_eq!((socket.choose(LARGE, 4, true, 0), socket.failures), (SendMethod::Copied, 1));
    }

    #[test]
    fn each_failed_probe_makes_the_next_one_rarer() {
        let mut socket = ZeroCopy::new(true);
        let mut now_ns = 0;
        for doublings in 0..4 {
            probe(&mut socket, true, now_ns);
            let (wait_bytes, wait_ns) = (ZERO_COPY_AGAIN_BYTES << doublings, ZERO_COPY_AGAIN_NS << doublings);
            socket.copied(wait_bytes);
            assert_eq!(socket.choose(LARGE, 4, true, now_ns + wait_ns - 1), SendMethod::Copied, "too soon");
            now_ns += wait_ns;
        }
        probe(&mut socket, true, now_ns);
        now_ns += 1 << 60;
        socket.copied((ZERO_COPY_AGAIN_BYTES << 4) - 1);
        assert_eq!(socket.choose(LARGE, 4, true, now_ns), SendMethod::Copied, "one byte too few");
        socket.copied(1);
        probe(&mut socket, false, now_ns);
        assert_eq!(socket.choose(LARGE, 4, true, now_ns), SendMethod::ZeroCopy { bytes_max: usize::MAX });
    }

    #[test]
    fn small_sends_and_small_pieces_are_copied() {
        let mut socket = ZeroCopy::new(true);
        assert_eq!(socket.choose(ZERO_COPY_BYTES_MIN - 1, 1, true, 0), SendMethod::Copied);
        assert_eq!(socket.choose(LARGE, LARGE / ZERO_COPY_CHUNK_BYTES_MIN + 1, true, 0), SendMethod::Copied);
        assert_eq!(socket.choose(LARGE, 1, false, 0), SendMethod::Copied);
        assert_eq!(ZeroCopy::new(false).choose(LARGE, 1, true, 0), SendMethod::Copied);
        assert_ne!(socket.choose(ZERO_COPY_BYTES_MIN, 1, true, 0), SendMethod::Copied);
    }

    #[test]
    fn segments_that_would_shrink_are_copied() {
        let asked = |segment_bytes| ZeroCopy::new(true).is_cut_well(|| Some(segment_bytes));
        assert_eq!([2_896, 15_928].map(asked), [true; 2], "cut often in any case");
        assert_eq!([30_408, 50_680].map(asked), [false; 2], "of 65,160 bytes a small rest is left");
        assert!(asked(65_160), "nothing is cut");
        let mut socket = ZeroCopy::new(true);
        assert!(!socket.is_cut_well(|| Some(50_680)));
        for _ in 1..SEGMENT_ASKED_SENDS {
            assert!(!socket.is_cut_well(|| panic!("too soon")));
        }
        assert!(socket.is_cut_well(|| None), "a kernel that reports nothing");
    }

    #[test]
    fn a_full_socket_is_no_evidence_of_copies() {
        let mut socket = ZeroCopy::new(true);
        assert_ne!(socket.choose(LARGE, 4, true, 0), SendMethod::Copied);
        socket.lent(0);
        socket.returned(0, true, 0);
        probe(&mut socket, false, 0);
        assert_ne!(socket.choose(LARGE, 4, true, 0), SendMethod::Copied);
        socket.lent(0);
        socket.returned(0, true, 0);
        assert_ne!(socket.choose(LARGE, 4, true, 0), SendMethod::Copied, "still trusted");
    }

    /// What happens to a socket.
    #[derive(Clone, Debug)]
    enum Event {
        Send { bytes: usize, may_lend: bool, taken_percent: usize, refused: bool },
        Return { which: usize, copied: bool },
        Wait(u64),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let send = (0..2 * LARGE, any::<bool>(), 0..=100_usize, prop::bool::weighted(0.1)).prop_map(
            |(bytes, may_lend, taken_percent, refused)| Event::Send {
                bytes,
                may_lend,
                taken_percent,
                refused,
            },
        );
        let back =
            (any::<usize>(), any::<bool>()).prop_map(|(which, copied)| Event::Return { which, copied });
        let wait = (0..10 * ZERO_COPY_AGAIN_NS).prop_map(Event::Wait);
        prop::collection::vec(prop_oneof![4 => send, 3 => back, 1 => wait], 0..300)
    }

    proptest! {
        /// Peers and the kernel do anything in any order. Lent memory stays within its bounds and
        /// is accounted for to the byte. Nothing is sent without a copy while a report says that it
        /// would be copied.
        #[test]
        fn what_is_lent_is_bounded_and_accounted_for(events in events()) {
            let mut socket = ZeroCopy::new(true);
            let mut out: Vec<u64> = Vec::new();
            let mut now_ns = 0;
            let mut last_failure_ns = None;
            for event in events {
                match event {
                    Event::Send { bytes, may_lend, taken_percent, refused } => {
                        let method = socket.choose(bytes, 1, may_lend, now_ns);
                        let SendMethod::ZeroCopy { bytes_max } = method else {
                            socket.copied((bytes * taken_percent / 100) as u64);
                            continue;
                        };
                        prop_assert!(may_lend && bytes >= ZERO_COPY_BYTES_MIN);
                        prop_assert!(last_failure_ns.is_none_or(|at| now_ns >= at + ZERO_COPY_AGAIN_NS));
                        if refused {
                            socket.refused(now_ns);
                            last_failure_ns = Some(now_ns);
                            continue;
                        }
                        let taken = (bytes.min(bytes_max) * taken_percent / 100) as u64;
                        socket.lent(taken);
                        out.push(taken);
                    }
                    Event::Return { which, copied } if !out.is_empty() => {
                        let trusted_or_probing = matches!(socket.state, State::Trusted | State::Probing);
                        let bytes = out.swap_remove(which % out.len());
                        socket.returned(bytes, copied, now_ns);
                        if copied && bytes > 0 && trusted_or_probing {
                            last_failure_ns = Some(now_ns);
                        } else if matches!(socket.state, State::Trusted) {
                            last_failure_ns = None;
                        }
                    }
                    Event::Return { .. } => {}
                    Event::Wait(ns) => now_ns += ns,
                }
                prop_assert_eq!(socket.lent_bytes(), out.iter().sum::<u64>());
                prop_assert_eq!(socket.lent_sends, out.len());
                prop_assert!(out.len() <= LENT_SENDS_MAX);
                prop_assert!(socket.lent_bytes() < LENT_BYTES_MAX + 2 * LARGE as u64);
            }
        }
    }
}
