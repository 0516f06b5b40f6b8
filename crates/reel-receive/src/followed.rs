//! Which of several senders on one group is followed.

use std::net::SocketAddr;

use reel_rtp::Packet;

use crate::limits::{SOURCE_PACKETS, SOURCE_SILENT_NS};
use crate::owned::Owned;

/// A sender: its address, and the number that it gave itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) address: SocketAddr,
    pub(crate) ssrc: u32,
}

/// The source that is followed, and one that might be next.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    source: Option<Source>,
    last_ns: u64,
    candidate: Option<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    source: Source,
    last_ns: u64,
    /// Its newest packets, none of the followed source among them.
    packets: Vec<Owned>,
}

/// Whose packet it is.
#[derive(Debug)]
pub(crate) enum Whose {
    /// Of the source that is followed.
    Followed,
    /// Of a source that is followed from now on, with the packets that have arrived from it, this
    /// one included.
    New(Vec<Owned>),
    /// Of another source.
    Other,
}

impl Followed {
    /// The source that is followed.
    pub(crate) fn source(&self) -> Option<Source> {
        self.source
    }

    /// Takes notice of a packet.
    pub(crate) fn see(&mut self, source: Source, packet: &Packet<'_>, now_ns: u64) -> Whose {
        let Some(followed) = self.source else {
            return self.follow(source, vec![Owned::new(packet, now_ns)], now_ns);
        };
        if followed == source {
            self.last_ns = now_ns;
            if let Some(candidate) = &mut self.candidate {
                candidate.packets.clear();
            }
            return Whose::Followed;
        }
        let Some(candidate) = candidate_for(&mut self.candidate, source, now_ns) else { return Whose::Other };
        candidate.last_ns = now_ns;
        if candidate.packets.len() >= SOURCE_PACKETS {
            candidate.packets.remove(0);
        }
        candidate.packets.push(Owned::new(packet, now_ns));
        let is_confirmed = candidate.packets.len() >= SOURCE_PACKETS;
        // A sender that takes another number begins again. Another one has to wait for silence.
        let is_free =
            source.address == followed.address || now_ns.saturating_sub(self.last_ns) >= SOURCE_SILENT_NS;
        if !is_confirmed || !is_free {
            return Whose::Other;
        }
        let packets = std::mem::take(&mut candidate.packets);
        self.follow(source, packets, now_ns)
    }

    fn follow(&mut self, source: Source, packets: Vec<Owned>, now_ns: u64) -> Whose {
        *self = Followed { source: Some(source), last_ns: now_ns, candidate: None };
        Whose::New(packets)
    }
}

/// The candidate, if this source is or becomes it: a second one has to wait until the first is
/// silent.
fn candidate_for(candidate: &mut Option<Candidate>, source: Source, now_ns: u64) -> Option<&mut Candidate> {
    let is_taken =
        |other: &Candidate| other.source != source && now_ns.saturating_sub(other.last_ns) < SOURCE_SILENT_NS;
    if candidate.as_ref().is_some_and(is_taken) {
        return None;
    }
    if candidate.as_ref().is_none_or(|other| other.source != source) {
        *candidate = Some(Candidate { source, last_ns: now_ns, packets: Vec::new() });
    }
    candidate.as_mut()
}
