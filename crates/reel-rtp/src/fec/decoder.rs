//! Repairs lost media packets by FEC packets.

use std::collections::VecDeque;

use reel_code::xor_into;

use super::window::{Place, Window};
use super::{FecPacket, Geometry, Recovery};
use crate::limits::{PAYLOAD_BYTES_MAX, SOURCE_PACKETS};
use crate::rtp::{MP2T, Packet};

/// A state machine that gets the packets of one cast in any order and gives back lost ones.
///
/// It follows one source at a time. It keeps a few matrices of media, and the FEC packets of
/// columns that lack two packets or more: at most 6 MB of media, and as many parities as there are
/// columns in the window. A packet costs a comparison with each of these, and a FEC packet D
/// exclusive ors.
///
/// FEC has no checksum, so it is compared with what is known: the matrix must be the expected one.
/// A repaired packet must have the payload type, a possible length and a time stamp near to those
/// of its neighbours. If the parity of a complete column is wrong, the FEC is not of this media,
/// and nothing is repaired until that of another complete column is right. FEC that a sender with
/// knowledge of the media forges cannot be told from the right one, and neither can its media.
pub struct Decoder {
    geometry: Geometry,
    window: Window,
    source: Option<u32>,
    /// Another source than the one that is followed, and its packets in a row.
    candidate: Option<(u32, u32)>,
    /// The sequence number that would confirm a jump of the source.
    after_jump: Option<u16>,
    /// Columns that lack two packets or more, oldest first.
    pending: VecDeque<Column>,
    /// Whether the parity of the last complete column was wrong.
    is_suspended: bool,
    repaired: VecDeque<Repaired>,
    counts: Counts,
    /// Memory of the sum of a column, used again.
    sum: Vec<u8>,
}

/// A lost packet, as its source sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Its sequence number.
    pub sequence: u16,
    /// Its time stamp.
    pub time_stamp: u32,
    /// Its marker.
    pub marker: bool,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// What became of a media packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaOutcome {
    /// It is new.
    Taken,
    /// It is the first one, or that of a new source, or follows a jump of sequence numbers. The
    /// packets before it are forgotten.
    Restarted,
    /// Its sequence number was there already, or was repaired.
    Duplicate,
    /// It is too late, or the first one after a jump of sequence numbers.
    OutsideWindow,
    /// It is of another source than the one that is followed.
    OtherSource,
    /// It is no packet of a transport stream that FEC covers: it has another payload type, an
    /// impossible length, padding, an extension or contributing sources.
    Unsupported,
}

/// What became of a FEC packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FecOutcome {
    /// All packets of its column are there, and it fits them.
    Complete,
    /// It has repaired a packet, see [`Decoder::next_repaired`].
    Repaired,
    /// This many packets of its column are missing, at least two: it cannot repair them. It waits
    /// for all but one of them to arrive late.
    Waiting {
        /// Packets that are missing.
        missing: u16,
    },
    /// It waits already.
    Duplicate,
    /// It is not used.
    Rejected(Rejection),
}

/// Why a FEC packet is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// No media packet has arrived yet.
    NoMedia,
    /// Its matrix is not that of the cast.
    OtherGeometry,
    /// Its column is too old, too new, or began before the first packet that arrived.
    OutsideWindow,
    /// Another FEC packet of the same column says something else. Neither is used.
    Conflicting,
    /// It does not fit the packets of its column, or FEC did not fit the last complete column.
    Inconsistent,
}

/// What has happened since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Media packets taken.
    pub media: u64,
    /// Media packets not taken, for any reason.
    pub media_dropped: u64,
    /// FEC packets given.
    pub fec: u64,
    /// FEC packets rejected, at once or when their column could be looked at.
    pub fec_rejected: u64,
    /// Packets repaired.
    pub repaired: u64,
    /// Columns that lacked two packets or more until the window had moved past them or began again,
    /// or there were too many of them.
    pub columns_given_up: u64,
    /// Sources followed, the first one included, and jumps of sequence numbers.
    pub restarts: u64,
}

/// A FEC packet, for as long as it waits.
struct Column {
    base: Place,
    recovery: Recovery,
    parity: Vec<u8>,
    /// Packets that are not in the window.
    missing: u16,
    /// Whether two FEC packets of this column differ.
    is_conflicting: bool,
}

impl Decoder {
    /// A decoder for casts with this matrix.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            window: Window::new(geometry),
            source: None,
            candidate: None,
            after_jump: None,
            pending: VecDeque::new(),
            is_suspended: false,
            repaired: VecDeque::new(),
            counts: Counts::default(),
            sum: Vec::new(),
        }
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Packets of the window: how far a packet may be ahead of or behind the newest one.
    #[must_use]
    pub fn window_packets(&self) -> u64 {
        self.window.packets()
    }

    /// The next repaired packet. Those that are not taken before a window of others is repaired
    /// are lost.
    pub fn next_repaired(&mut self) -> Option<Repaired> {
        self.repaired.pop_front()
    }

    /// Takes a media packet.
    pub fn push_media(&mut self, packet: &Packet<'_>) -> MediaOutcome {
        let outcome = self.take_media(packet);
        match outcome {
            MediaOutcome::Taken | MediaOutcome::Restarted => self.counts.media += 1,
            _ => self.counts.media_dropped += 1,
        }
        outcome
    }

    fn take_media(&mut self, packet: &Packet<'_>) -> MediaOutcome {
        let can_be_kept = (1..=PAYLOAD_BYTES_MAX).contains(&packet.payload.len());
        if !packet.is_plain || packet.payload_type != MP2T || !can_be_kept {
            return MediaOutcome::Unsupported;
        }
        let Some(is_new_source) = self.follow(packet.ssrc) else { return MediaOutcome::OtherSource };
        let is_outside = !is_new_source && !self.window.has_place(self.window.place(packet.sequence));
        if is_outside && self.after_jump != Some(packet.sequence) {
            self.after_jump = Some(packet.sequence.wrapping_add(1));
            return MediaOutcome::OutsideWindow;
        }
        self.after_jump = None;
        let is_restart = is_new_source || is_outside;
        if is_restart {
            self.restart(packet.sequence);
        }
        let place = self.window.place(packet.sequence);
        if self.window.get(place).is_some() {
            return MediaOutcome::Duplicate;
        }
        self.keep(place, packet.time_stamp, packet.marker, packet.payload);
        if is_restart { MediaOutcome::Restarted } else { MediaOutcome::Taken }
    }

    /// Whether the source is a new one to follow, if it is followed.
    fn follow(&mut self, ssrc: u32) -> Option<bool> {
        if self.source == Some(ssrc) {
            self.candidate = None;
            return Some(false);
        }
        let before =
            self.candidate.filter(|(candidate, _)| *candidate == ssrc).map_or(0, |(_, packets)| packets);
        if self.source.is_some() && before + 1 < SOURCE_PACKETS {
            self.candidate = Some((ssrc, before + 1));
            return None;
        }
        self.candidate = None;
        self.source = Some(ssrc);
        Some(true)
    }

    fn restart(&mut self, sequence: u16) {
        self.window.restart(sequence);
        self.counts.columns_given_up += self.pending.len() as u64;
        self.pending.clear();
        self.is_suspended = false;
        self.counts.restarts += 1;
    }

    /// Takes a FEC packet.
    pub fn push_fec(&mut self, packet: &FecPacket<'_>) -> FecOutcome {
        self.counts.fec += 1;
        let outcome = self.take_fec(packet);
        if matches!(outcome, FecOutcome::Rejected(_)) {
            self.counts.fec_rejected += 1;
        }
        outcome
    }

    fn take_fec(&mut self, packet: &FecPacket<'_>) -> FecOutcome {
        if self.source.is_none() {
            return FecOutcome::Rejected(Rejection::NoMedia);
        }
        if packet.header.geometry != self.geometry {
            return FecOutcome::Rejected(Rejection::OtherGeometry);
        }
        let base = self.window.place(packet.header.base);
        let last = base + u64::from(self.geometry.packets() - u16::from(self.geometry.columns()));
        if !self.window.has_place(base) || !self.window.has_place(last) {
            return FecOutcome::Rejected(Rejection::OutsideWindow);
        }
        if let Some(column) = self.pending.iter_mut().find(|column| column.base == base) {
            if column.recovery == packet.header.recovery && column.parity == packet.parity {
                return FecOutcome::Duplicate;
            }
            column.is_conflicting = true;
            return FecOutcome::Rejected(Rejection::Conflicting);
        }
        let missing = self.places(base).filter(|place| self.window.get(*place).is_none()).count() as u16;
        if missing > 1 && self.window.is_before_first(base) {
            return FecOutcome::Rejected(Rejection::OutsideWindow);
        }
        let column = Column {
            base,
            recovery: packet.header.recovery,
            parity: packet.parity.to_vec(),
            missing,
            is_conflicting: false,
        };
        if missing > 1 {
            self.wait(column);
            return FecOutcome::Waiting { missing };
        }
        match self.settle(&column) {
            Err(rejection) => FecOutcome::Rejected(rejection),
            Ok(None) => FecOutcome::Complete,
            Ok(Some(place)) => {
                self.advance(place);
                FecOutcome::Repaired
            }
        }
    }

    /// The places of a column.
    fn places(&self, base: Place) -> impl Iterator<Item = Place> + use<> {
        let geometry = self.geometry;
        (0..u64::from(geometry.rows())).map(move |row| base + row * u64::from(geometry.columns()))
    }

    fn wait(&mut self, column: Column) {
        let most = self.window.packets() / u64::from(self.geometry.rows());
        if self.pending.len() as u64 >= most {
            self.pending.pop_front();
            self.counts.columns_given_up += 1;
        }
        self.pending.push_back(column);
    }

    /// Keeps a packet that arrived, and repairs what can be repaired with it.
    fn keep(&mut self, place: Place, time_stamp: u32, marker: bool, payload: &[u8]) {
        self.window.insert(place, time_stamp, marker, payload);
        self.advance(place);
    }

    /// Follows up a packet that is new in the window: columns that lacked it lack one less, and a
    /// packet that one of them repairs is new in turn.
    fn advance(&mut self, place: Place) {
        let mut new_places = vec![place];
        while let Some(place) = new_places.pop() {
            self.give_up();
            let mut at = 0;
            while let Some(column) = self.pending.get_mut(at) {
                if column.lacks_less(place, self.geometry) && column.missing <= 1 {
                    let column = self.pending.remove(at).expect("it was there");
                    match self.settle(&column) {
                        Ok(repaired) => new_places.extend(repaired),
                        Err(_) => self.counts.fec_rejected += 1,
                    }
                } else {
                    at += 1;
                }
            }
        }
    }

    /// Forgets columns of which the window may have lost packets that it had.
    fn give_up(&mut self) {
        let before = self.pending.len();
        self.pending.retain(|column| !self.window.is_past(column.base));
        self.counts.columns_given_up += (before - self.pending.len()) as u64;
    }

    /// Checks a column that lacks no packet, or computes the only one that it lacks and returns its
    /// place.
    fn settle(&mut self, column: &Column) -> Result<Option<Place>, Rejection> {
        if column.is_conflicting {
            return Err(Rejection::Conflicting);
        }
        let mut sum = std::mem::take(&mut self.sum);
        let settled = self.settle_in(column, &mut sum);
        self.sum = sum;
        settled
    }

    fn settle_in(&mut self, column: &Column, sum: &mut Vec<u8>) -> Result<Option<Place>, Rejection> {
        sum.clear();
        sum.extend_from_slice(&column.parity);
        let mut recovery = column.recovery;
        let mut lost = None;
        let mut is_fitting = true;
        for place in self.places(column.base) {
            let Some(slot) = self.window.get(place) else {
                if lost.replace(place).is_some() {
                    return Err(Rejection::OutsideWindow);
                }
                continue;
            };
            recovery.add(&slot.recovery());
            match sum.get_mut(..slot.payload.len()) {
                Some(target) => xor_into(target, &slot.payload),
                None => is_fitting = false,
            }
        }
        let Some(lost) = lost else {
            self.is_suspended = !is_fitting || recovery != Recovery::default() || !is_zero(sum);
            return if self.is_suspended { Err(Rejection::Inconsistent) } else { Ok(None) };
        };
        let length = usize::from(recovery.length);
        let is_possible = is_fitting
            && !self.is_suspended
            && recovery.payload_type == MP2T
            && (1..=sum.len()).contains(&length)
            && is_zero(&sum[length..])
            && self.window.is_plausible(lost, recovery.time_stamp, recovery.marker);
        if !is_possible {
            return Err(Rejection::Inconsistent);
        }
        self.window.insert(lost, recovery.time_stamp, recovery.marker, &sum[..length]);
        self.give_out(lost, &recovery, sum[..length].to_vec());
        Ok(Some(lost))
    }

    fn give_out(&mut self, place: Place, recovery: &Recovery, payload: Vec<u8>) {
        if self.repaired.len() as u64 >= self.window.packets() {
            self.repaired.pop_front();
        }
        let (time_stamp, marker) = (recovery.time_stamp, recovery.marker);
        self.repaired.push_back(Repaired { sequence: place as u16, time_stamp, marker, payload });
        self.counts.repaired += 1;
    }
}

impl Column {
    /// Whether the column lacks one packet less, now that the packet at this place is there.
    fn lacks_less(&mut self, place: Place, geometry: Geometry) -> bool {
        let Some(distance) = place.checked_sub(self.base) else { return false };
        let is_of_column =
            distance % u64::from(geometry.columns()) == 0 && distance < u64::from(geometry.packets());
        if is_of_column {
            self.missing -= 1;
        }
        is_of_column
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
