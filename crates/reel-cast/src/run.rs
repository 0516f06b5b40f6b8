//! What is sent under one reservation: some passes of a title, or some slots of a schedule.

use crate::broadcast::Broadcast;
use crate::limits::CAST_TRAIN_BYTES;
use crate::numbering::{Clock, Source};
use crate::on_air::{Begun, OnAir, fec_packets};
use crate::piece::{Piece, Port};
use reel_admit::Session;
use reel_admit::limits::SEND_LEAD_NS;
use reel_cache::{Body, Due, Ramp};
use reel_play::limits::PUSH_LEAD_NS;
use reel_play::{
    DeliveryId, DeliveryPolicy, Engine, MediaRequest, NetworkPath, NewDelivery, Playable, PlayableTitle,
    SlotPiece,
};
use reel_rtp::fec::Geometry;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// What is sent under one reservation.
pub(crate) struct Run<T = PlayableTitle> {
    pub(crate) session: Arc<Session<T>>,
    /// When the run after it begins, on the clock of the server, and the place of that.
    next_start_ns: u64,
    next_place: u64,
    /// What is being sent.
    pub(crate) pieces: Vec<Piece>,
    /// The slots of a schedule that are not read yet.
    slots: Slots,
}

/// Slots that are to come.
#[derive(Default)]
struct Slots {
    /// The start of the session, from which their times count.
    start_ns: u64,
    /// The slot that begins [`PUSH_LEAD_NS`] after that.
    first_slot: u64,
    slot_ns: u64,
    upcoming: VecDeque<SlotPiece>,
}

/// Opens deliveries for a cast.
pub(crate) struct Opener<'a, T = PlayableTitle> {
    pub(crate) engine: &'a mut Engine<T>,
    pub(crate) to: Destination,
    pub(crate) now_ns: u64,
}

/// What deliveries of a cast are for.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The number of the cast, by which the engine calls it.
    pub tag: u64,
    /// The matrix of its FEC packets, if there are any.
    pub fec: Option<Geometry>,
    /// Its first group.
    pub group: IpAddr,
    /// Stored bytes that are sent at once, at most.
    pub train_bytes: u64,
}

impl Destination {
    pub(crate) fn of(cast: &OnAir, tag: u64) -> Destination {
        let (fec, group) = (cast.fec, cast.config.group.ip());
        Destination { tag, fec, group, train_bytes: CAST_TRAIN_BYTES }
    }
}

impl<T: Playable> Opener<'_, T> {
    /// How a request of a session is delivered; `None` if nothing is reserved for it any more.
    fn policy(&mut self, session: &Session<T>, request: &MediaRequest) -> Option<DeliveryPolicy> {
        let policy = self.engine.policy(session, request, self.now_ns).ok()?;
        (!policy.is_displaced && policy.class == session.class()).then_some(policy)
    }

    fn open(
        &mut self,
        session: &Arc<Session<T>>,
        policy: DeliveryPolicy,
        body: Body,
        (file_offset, symbol_bytes): (u64, u64),
    ) -> DeliveryId {
        let new = NewDelivery {
            tag: self.to.tag,
            session: Some(Arc::clone(session)),
            policy,
            body,
            preamble_bytes: 0,
            file_offset,
            in_runs: false,
            path: NetworkPath::Uplink {
                train_bytes: self.to.train_bytes,
                client: self.to.group,
                piece_bytes: symbol_bytes,
            },
        };
        self.engine.open(new, self.now_ns)
    }
}

impl<T: Playable> Run<T> {
    /// Begins to read the passes of a title from `symbol` on, the first one of a matrix. `None` if
    /// nothing is reserved for them any more.
    pub(crate) fn of_passes(
        opener: &mut Opener<'_, T>,
        Begun { session, start_ns, place, numbers, stamped_unix_ns }: Begun<T>,
        source: &mut Source,
        symbol: u64,
    ) -> Option<Run<T>> {
        let playing = Arc::clone(session.playing());
        let (pushed, fec) = (playing.pushed()?, opener.to.fec);
        let symbol_bytes = pushed.stream.places.symbol_bytes() as u64;
        let symbols = pushed.times.symbols();
        let clock = Clock::Passes(pushed.times.clone());
        let numbering = Arc::new(source.numbering(clock, symbol, numbers, stamped_unix_ns));
        let offset = symbol * symbol_bytes;
        let policy = opener.policy(&session, &MediaRequest::Stream(offset))?;
        let media = opener.open(&session, policy, pushed.symbols_from(symbol), (offset, symbol_bytes));
        let piece = |delivery, port, packets| {
            Piece::new(delivery, (0, port), Arc::clone(&numbering), start_ns, packets)
        };
        let mut pieces = vec![piece(media, Port::Media, symbol..symbols)];
        if let Some(geometry) = fec {
            let matrix = symbol / u64::from(geometry.packets());
            let column = matrix * u64::from(geometry.columns());
            let offset = column * symbol_bytes;
            let policy = opener.policy(&session, &MediaRequest::Parity(offset))?;
            let delivery = opener.open(&session, policy, pushed.parity_from(matrix), (offset, symbol_bytes));
            pieces.push(piece(delivery, Port::Fec(geometry), column..fec_packets(fec, symbols)));
        }
        let next_start_ns = (start_ns + pushed.times.until_ns()).saturating_sub(PUSH_LEAD_NS);
        Some(Run { session, next_start_ns, next_place: place + 1, pieces, slots: Slots::default() })
    }

    /// Prepares slots of a schedule, of which those are left out that cannot be read in time any
    /// more. `None` if nothing is reserved for them any more.
    pub(crate) fn of_slots(
        opener: &mut Opener<'_, T>,
        Begun { session, start_ns, place: first_slot, .. }: Begun<T>,
        broadcast: &Broadcast,
    ) -> Option<Run<T>> {
        opener.policy(&session, &MediaRequest::Slots)?;
        let (slot_ns, slots) = (broadcast.slot_ns(), broadcast.window_slots());
        let is_in_time = |piece: &SlotPiece| start_ns + piece.from_ns >= opener.now_ns;
        let upcoming = broadcast.window(first_slot).into_iter().filter(is_in_time).collect();
        Some(Run {
            session,
            next_start_ns: start_ns + slots * slot_ns,
            next_place: first_slot + slots,
            pieces: Vec::new(),
            slots: Slots { start_ns, first_slot, slot_ns, upcoming },
        })
    }

    /// Begins to read the slots that are sent next.
    pub(crate) fn open_slots(
        &mut self,
        opener: &mut Opener<'_, T>,
        channels: &mut [impl AsMut<Source>],
        broadcast: &Broadcast,
    ) {
        while self.opens_ns().is_some_and(|opens_ns| opens_ns <= opener.now_ns)
            && let Some(piece) = self.slots.upcoming.pop_front()
        {
            let opened = self.open_slot(opener, &piece, channels, broadcast);
            self.pieces.extend(opened);
        }
    }

    /// Media and FEC of one slot of one channel.
    fn open_slot(
        &self,
        opener: &mut Opener<'_, T>,
        slot: &SlotPiece,
        channels: &mut [impl AsMut<Source>],
        broadcast: &Broadcast,
    ) -> Vec<Piece> {
        let playing = Arc::clone(self.session.playing());
        let (Some(pushed), Some(channel)) = (playing.pushed(), channels.get_mut(slot.channel)) else {
            return Vec::new();
        };
        let source = channel.as_mut();
        let symbols_of_matrix = pushed.stream.map.geometry().matrix_symbols();
        let symbols = (slot.matrices.end - slot.matrices.start) * symbols_of_matrix;
        let number = self.slots.first_slot + (slot.from_ns - PUSH_LEAD_NS) / self.slots.slot_ns.max(1);
        let clock = Clock::Slot { duration_ns: slot.duration_ns, symbols: symbols + symbols_of_matrix };
        let fec = opener.to.fec;
        let rows = fec.map(|geometry| u64::from(geometry.rows()));
        let numbers = broadcast.numbers(slot.channel, number, rows);
        let begins_unix_ns = number.saturating_mul(self.slots.slot_ns);
        let numbering = Arc::new(source.numbering(clock, 0, numbers, begins_unix_ns));
        let start_ns = self.slots.start_ns + slot.from_ns;
        let mut open = |body: Body, port, packets| {
            let due_ns = start_ns.saturating_sub(SEND_LEAD_NS);
            let ramp = Ramp { due_ns, duration_ns: slot.duration_ns, bytes: body.bytes() };
            let policy = DeliveryPolicy::without_deadline(self.session.class());
            let policy = DeliveryPolicy { due: Due::Ramp(ramp), ..policy };
            let symbol_bytes = pushed.stream.places.symbol_bytes() as u64;
            let delivery = opener.open(&self.session, policy, body, (0, symbol_bytes));
            Piece::new(delivery, (slot.channel, port), Arc::clone(&numbering), start_ns, packets)
        };
        let mut pieces = vec![open(pushed.matrices(slot.matrices.clone()), Port::Media, 0..symbols)];
        if let Some(geometry) = fec {
            let columns = 0..fec_packets(fec, symbols);
            pieces.push(open(pushed.parity_of(slot.matrices.clone()), Port::Fec(geometry), columns));
        }
        pieces
    }

    /// When the next slot begins to be read, on the clock of the server.
    pub(crate) fn opens_ns(&self) -> Option<u64> {
        let next = self.slots.upcoming.front()?;
        Some((self.slots.start_ns + next.from_ns).saturating_sub(PUSH_LEAD_NS))
    }

    /// When the run after it begins, on the clock of the server.
    pub(crate) fn next_start_ns(&self) -> u64 {
        self.next_start_ns
    }

    /// The place with which the run after it begins.
    pub(crate) fn next_place(&self) -> u64 {
        self.next_place
    }

    /// It ends with the pass or the slots that are sent, because its title is gone.
    pub(crate) fn end_soon(&mut self) {
        if self.slots.slot_ns > 0 {
            self.slots.upcoming.clear();
            return;
        }
        let playing = Arc::clone(self.session.playing());
        let Some(pushed) = playing.pushed() else { return };
        let pass = pushed.times.pass_symbols();
        let media = self.pieces.iter().find(|piece| piece.port == Port::Media);
        let end = media.map_or(1, |media| media.next().div_ceil(pass).max(1)) * pass;
        for piece in &mut self.pieces {
            match piece.port {
                Port::Media => piece.end_at(end),
                Port::Fec(geometry) => piece.end_at(fec_packets(Some(geometry), end)),
            }
        }
    }

    /// Whether all of it was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.pieces.is_empty() && self.slots.upcoming.is_empty()
    }
}
