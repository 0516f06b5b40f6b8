//! What the thread of joins records of a chain beside its bytes.

use super::datagrams::Datagrams;
use super::link::LinkUse;
use super::live::LiveSink;
use crate::joins::{JoinCounters, OutletPlace};
use crate::outlet::{OutletState, SharedOutlet};
use crate::part::Part;
use reel_admit::{Session, Sessions};
use reel_play::PlayableTitle;
use reel_serve::Viewing;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The chain of one session.
pub(super) struct Chain {
    pub(super) session: Arc<Session<PlayableTitle>>,
    /// Its outlets, by number.
    pub(super) sinks: BTreeMap<u64, Sink>,
    /// Its place in a stream that a program pours; `None` for a title, and when all has come.
    pub(super) live: Option<Viewing>,
}

/// Where the bytes of an outlet go.
pub(super) enum SinkTo {
    /// To a file; `None` while a writing thread has it.
    File(Option<Part>),
    /// To a connection, through the uplink unless it ends at this machine.
    Tcp(Arc<OwnedFd>, Option<LinkUse>),
    /// Into a poured stream.
    Live(Box<LiveSink>),
    /// To an address, in datagrams.
    Datagrams(Box<Datagrams>),
}

/// An outlet that is open.
pub(super) struct Sink {
    pub(super) outlet: Arc<SharedOutlet>,
    pub(super) to: SinkTo,
    _place: OutletPlace,
}

impl Chain {
    /// Whether its session is still open.
    pub(super) fn has_session(&self, sessions: &Sessions<PlayableTitle>, now_ns: u64) -> bool {
        let key = self.session.key();
        sessions.find(&key, now_ns).is_some_and(|session| Arc::ptr_eq(&session, &self.session))
    }

    /// The outlet whose bytes are those that the network is reserved for.
    pub(super) fn on_reservation(&self) -> Option<u64> {
        let mut on_link = self.sinks.iter().filter(|(_, sink)| sink.outlet.uplink_client.is_some());
        on_link.next().map(|(number, _)| *number)
    }

    /// Outlets that were removed.
    pub(super) fn unwanted(&self) -> Vec<u64> {
        let unwanted = self.sinks.iter().filter(|(_, sink)| sink.outlet.is_unwanted());
        unwanted.map(|(number, _)| *number).collect()
    }
}

impl Sink {
    pub(super) fn new(outlet: Arc<SharedOutlet>, to: SinkTo, place: OutletPlace) -> Self {
        Self { outlet, to, _place: place }
    }

    /// Its destination took so many bytes, of which so many were late.
    pub(super) fn sent(&self, bytes: u64, late_bytes: u64, counters: &JoinCounters) {
        self.outlet.sent(bytes, late_bytes, counters);
    }

    /// Its use of the uplink.
    pub(super) fn link_mut(&mut self) -> Option<&mut LinkUse> {
        match &mut self.to {
            SinkTo::Tcp(_, link) => link.as_mut(),
            SinkTo::Datagrams(datagrams) => datagrams.link.as_mut(),
            SinkTo::File(_) | SinkTo::Live(_) => None,
        }
    }

    /// It has ended. Returns its file, if that is here and not complete. A connection is closed:
    /// what was sent arrives, and nothing waits for it any more.
    pub(super) fn ends(self, how: OutletState) -> Option<Part> {
        let is_complete = how == OutletState::Complete;
        self.outlet.ends(how);
        match self.to {
            SinkTo::File(part) => part,
            SinkTo::Live(live) => {
                // Else the viewers are cut off.
                if is_complete {
                    live.complete();
                }
                None
            }
            SinkTo::Datagrams(_) => None,
            SinkTo::Tcp(socket, _) => {
                // The other end may have closed it before.
                let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
                None
            }
        }
    }
}
