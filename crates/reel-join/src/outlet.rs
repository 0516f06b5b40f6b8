//! An outlet of a session, as other threads see it.

use crate::destination::Destination;
use crate::joins::JoinCounters;
use crate::tee::SentRuns;
use reel_rt::lock;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far an outlet has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutletState {
    /// The session is played into it.
    Joined,
    /// All came, and is where it should be.
    Complete,
    /// It was ended before, and the text says why.
    Ended(String),
}

/// What is known of an outlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutletReport {
    /// Its number in its session, from 0 on. It is not used again there.
    pub number: u64,
    /// Where it goes.
    pub to: String,
    /// How far it has come.
    pub state: OutletState,
    /// The position of its first byte in the title as one file.
    pub from_byte: u64,
    /// Bytes that its destination has taken.
    pub bytes: u64,
    /// Bytes among those that it took after they were due.
    pub late_bytes: u64,
    /// How it sends.
    pub runs: SentRuns,
}

/// An outlet. The thread of joins writes it.
#[derive(Debug)]
pub(crate) struct SharedOutlet {
    pub(crate) number: u64,
    pub(crate) to: String,
    /// Whose turn on the uplink it takes; `None` if it goes nowhere else.
    pub(crate) uplink_client: Option<IpAddr>,
    /// Where its datagrams go, if it sends such.
    pub(crate) datagrams_to: Option<SocketAddr>,
    /// It begins with a packet of a transport stream.
    pub(crate) takes_packets: bool,
    pub(crate) from_byte: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) late_bytes: AtomicU64,
    run_bytes: AtomicU64,
    pause_ns: AtomicU64,
    state: Mutex<OutletState>,
    /// It is to end.
    is_unwanted: AtomicBool,
}

impl SharedOutlet {
    pub(crate) fn new(number: u64, to: String, destination: &Destination) -> SharedOutlet {
        SharedOutlet {
            number,
            to,
            uplink_client: destination.uplink_client(),
            datagrams_to: destination.datagrams_to(),
            takes_packets: destination.takes_packets(),
            from_byte: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            late_bytes: AtomicU64::new(0),
            run_bytes: AtomicU64::new(0),
            pause_ns: AtomicU64::new(0),
            state: Mutex::new(OutletState::Joined),
            is_unwanted: AtomicBool::new(false),
        }
    }

    /// Its destination took so many bytes, of which so many were late.
    pub(crate) fn sent(&self, bytes: u64, late_bytes: u64, counters: &JoinCounters) {
        for (own, all, bytes) in
            [(&self.bytes, &counters.bytes, bytes), (&self.late_bytes, &counters.late_bytes, late_bytes)]
        {
            own.fetch_add(bytes, Ordering::Relaxed);
            all.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// It sends so.
    pub(crate) fn sends_in(&self, runs: SentRuns) {
        self.run_bytes.store(runs.run_bytes, Ordering::Relaxed);
        self.pause_ns.store(runs.pause_ns, Ordering::Relaxed);
    }

    /// It ends so, unless it has ended.
    pub(crate) fn ends(&self, how: OutletState) {
        let mut state = lock(&self.state);
        if *state == OutletState::Joined {
            *state = how;
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        *lock(&self.state) != OutletState::Joined
    }

    pub(crate) fn is_unwanted(&self) -> bool {
        self.is_unwanted.load(Ordering::Relaxed)
    }

    pub(crate) fn remove(&self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> OutletReport {
        // The state first: the bytes of an outlet that has ended do not change any more.
        let state = lock(&self.state).clone();
        OutletReport {
            number: self.number,
            to: self.to.clone(),
            state,
            from_byte: self.from_byte.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            late_bytes: self.late_bytes.load(Ordering::Relaxed),
            runs: SentRuns {
                run_bytes: self.run_bytes.load(Ordering::Relaxed),
                pause_ns: self.pause_ns.load(Ordering::Relaxed),
            },
        }
    }
}
