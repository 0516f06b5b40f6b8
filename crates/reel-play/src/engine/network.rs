//! When deliveries may send: each asks the uplink for the bytes that it has in memory.

use super::pacing::Pacer;
use super::{Delivery, DeliveryId, Engine, Event};
use crate::limits::{LEARN_DANGER_NS, LINK_GRANT_BYTES_MAX, LINK_URGENT_NS};
use crate::playable::Playable;
use crate::uplink::{FlowSample, Grant, LaneShare, Ticket};
use reel_cache::Urgency;
use reel_qos::{Class, DEADLINE_NONE_NS};

/// What one delivery has of the uplink.
#[derive(Debug)]
pub(super) enum LinkState {
    /// It does not go through the uplink.
    Free,
    /// It has asked for nothing, or was granted these bytes. The class is that of the grant; none
    /// if the uplink was not limited.
    Granted { bytes: u64, share: Option<LaneShare> },
    /// It waits for its turn.
    Waits(Ticket),
}

impl LinkState {
    pub(super) fn new(on_uplink: bool) -> Self {
        if on_uplink { Self::Granted { bytes: 0, share: None } } else { Self::Free }
    }

    /// The most that may be sent now.
    pub(super) fn bytes_max(&self) -> usize {
        match self {
            Self::Free => usize::MAX,
            Self::Granted { bytes, .. } => usize::try_from(*bytes).unwrap_or(usize::MAX),
            Self::Waits(_) => 0,
        }
    }

    /// These bytes are sent.
    pub(super) fn spend(&mut self, sent_bytes: u64) {
        if let Self::Granted { bytes, .. } = self {
            *bytes = bytes.saturating_sub(sent_bytes);
        }
    }
}

impl<T: Playable> Engine<T> {
    /// Takes what the connection of a delivery shows of the path to its client. The uplink learns
    /// from it what it carries.
    pub fn observe(&mut self, id: DeliveryId, sample: FlowSample, now_ns: u64) {
        let (Some(uplink), Some(delivery)) = (&self.uplink, self.deliveries.get_mut(id.0)) else { return };
        if matches!(delivery.link, LinkState::Free) {
            return;
        }
        uplink.observe(delivery.client, sample, is_in_danger(delivery, now_ns), now_ns);
        if let Some(pacer) = &mut delivery.pacer {
            pacer.set_train(sample.train_bytes);
        }
    }

    /// Whether a delivery with bytes in memory may send some of them. If not, it waits for its
    /// turn, and an event follows.
    pub(super) fn may_send(&mut self, id: DeliveryId, now_ns: u64) -> bool {
        if self.pauses(id, now_ns) {
            return false;
        }
        let classes = self.units().disks().classes();
        let (Some(uplink), Some(delivery)) = (&self.uplink, self.deliveries.get_mut(id.0)) else {
            return true;
        };
        let due_ns = match delivery.reader.urgency() {
            Urgency::Due(due_ns) => Some(due_ns),
            Urgency::Waited | Urgency::Unhurried => None,
        };
        if let Some(pacer) = &mut delivery.pacer
            && pacer.allowed(due_ns, now_ns) == 0
        {
            self.later.insert((pacer.next_ns(), id));
            return false;
        }
        let piece_bytes = delivery.piece_bytes.min(delivery.reader.unsent_bytes()).max(1);
        match delivery.link {
            LinkState::Free => return true,
            LinkState::Granted { bytes, .. } if bytes >= piece_bytes => return true,
            LinkState::Waits(_) => return false,
            // What is left of a grant is less than a packet.
            LinkState::Granted { bytes, share: Some(share) } if bytes > 0 => uplink.give_back(share, bytes),
            LinkState::Granted { .. } => {}
        }
        if !uplink.is_limited() {
            delivery.link = LinkState::Granted { bytes: LINK_GRANT_BYTES_MAX, share: None };
            return true;
        }
        let class = delivery.sent_class();
        let share = LaneShare { class, permille: classes.spec(class).network_permille };
        let train = delivery.pacer.as_ref().map_or(u64::MAX, Pacer::left_bytes);
        let bytes = delivery.reader.unsent_bytes().min(train);
        if is_due(delivery, now_ns) {
            let bytes = uplink.take_urgent(share, bytes, now_ns);
            delivery.link = LinkState::Granted { bytes, share: Some(share) };
            return true;
        }
        let send_by_ns = delivery.send_by_ns.filter(|_| delivery.reader.is_promised());
        let due_ns = send_by_ns.unwrap_or_else(|| match delivery.reader.urgency() {
            Urgency::Due(due_ns) => due_ns,
            // A client waits for it. What was promised and began first is sent first.
            Urgency::Waited if delivery.reader.is_promised() => delivery.start_ns,
            Urgency::Waited | Urgency::Unhurried => DEADLINE_NONE_NS,
        });
        delivery.link = LinkState::Waits(uplink.ask(id.0, delivery.client, share, bytes, due_ns));
        self.uplink_waiting += 1;
        // There may be time on the link at once.
        self.collect_grants(now_ns);
        self.deliveries.get(id.0).is_some_and(|delivery| delivery.link.bytes_max() > 0)
    }

    /// Whether a delivery leaves the processor to others now, as the schedule of transfers has it.
    /// An event follows.
    fn pauses(&mut self, id: DeliveryId, now_ns: u64) -> bool {
        let Some(delivery) = self.deliveries.get_mut(id.0).filter(|delivery| delivery.is_transfer()) else {
            return false;
        };
        let schedule = self.counters.transfers.schedule();
        let until_ns = delivery.run.pauses_until(schedule, now_ns);
        until_ns.is_some_and(|until_ns| {
            self.later.insert((until_ns, id));
            true
        })
    }

    /// Gives deliveries of this thread what they were granted, and plans the next look if some
    /// still wait.
    pub(super) fn collect_grants(&mut self, now_ns: u64) {
        let Some(uplink) = &self.uplink else { return };
        let (grants, look_ns) = uplink.granted(now_ns);
        for Grant { delivery: token, share, bytes } in grants {
            match self.deliveries.get_mut(token) {
                Some(delivery) if matches!(delivery.link, LinkState::Waits(_)) => {
                    delivery.link = LinkState::Granted { bytes, share: Some(share) };
                    self.uplink_waiting -= 1;
                    self.events.push_back(Event::Ready(delivery.tag));
                }
                // It ended or was blocked meanwhile.
                _ => uplink.give_back(share, bytes),
            }
        }
        self.uplink_ns = (self.uplink_waiting > 0).then_some(look_ns);
    }

    /// Others may use what a delivery was granted and does not send.
    pub(super) fn give_grant_back(&mut self, id: DeliveryId) {
        let (Some(uplink), Some(delivery)) = (&self.uplink, self.deliveries.get_mut(id.0)) else { return };
        match delivery.link {
            LinkState::Granted { bytes, share: Some(share) } => uplink.give_back(share, bytes),
            LinkState::Waits(ticket) => {
                uplink.forget(ticket);
                self.uplink_waiting -= 1;
            }
            LinkState::Granted { share: None, .. } | LinkState::Free => return,
        }
        delivery.link = LinkState::new(true);
    }
}

/// Whether promised bytes are due so soon that a queue on the way may make them late. A client that
/// begins waits already.
fn is_in_danger<T: Playable>(delivery: &Delivery<T>, now_ns: u64) -> bool {
    delivery.reader.is_promised()
        && match delivery.reader.urgency() {
            Urgency::Due(due_ns) => due_ns <= now_ns.saturating_add(LEARN_DANGER_NS),
            Urgency::Waited => delivery.class == Class::INTERACTIVE,
            Urgency::Unhurried => false,
        }
}

/// Whether the next byte is promised and due so soon that it goes before all others.
fn is_due<T: Playable>(delivery: &Delivery<T>, now_ns: u64) -> bool {
    let is_soon = |due_ns: u64| due_ns <= now_ns.saturating_add(LINK_URGENT_NS);
    delivery.reader.is_promised()
        && matches!(delivery.reader.urgency(), Urgency::Due(due_ns) if is_soon(due_ns))
}
