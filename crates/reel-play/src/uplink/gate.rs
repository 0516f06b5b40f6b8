//! The uplink for senders that are not deliveries of an engine, such as connections of the control
//! plane. Pure.
//!
//! ```text
//!   sender: may_send --> promised and due soon, or credit: bytes at once
//!               | neither
//!               v
//!            its turn: waits --collect--> granted, its waker is called --> may_send --> sent
//! ```

use super::schedule::{LaneShare, Ticket};
use super::{FlowSample, Grant, Uplink, UplinkPort};
use crate::limits::{LEARN_DANGER_NS, LINK_URGENT_NS};
use reel_qos::{Class, DEADLINE_NONE_NS};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Access to an uplink for any number of senders, each in its class.
///
/// One task or thread of the caller collects what is granted, and runs only while something waits.
pub struct UplinkGate {
    port: UplinkPort,
    permille: Box<dyn Fn(Class) -> u32 + Send + Sync>,
    turns: Mutex<Turns>,
}

/// On what terms bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTerms {
    /// Whose turn it is: [`uplink_client`](super::uplink_client).
    pub client: IpAddr,
    /// The class that it is taken from.
    pub class: Class,
    /// When the first byte is due; [`DEADLINE_NONE_NS`] if it is due at no fixed time. Then clients
    /// take turns.
    pub due_ns: u64,
    /// Whether that was promised. What is promised and due soon goes before all others.
    pub is_promised: bool,
}

/// One sender, such as a connection. It forgets its turn and gives back its grant when it is
/// dropped.
#[derive(Debug)]
pub struct UplinkSender {
    gate: Arc<UplinkGate>,
    /// The number of its turn, if it waits or was granted something that it has not taken.
    turn: Option<u64>,
    /// What it may send now, and where that was granted.
    held: Option<(LaneShare, u64)>,
}

/// What a sender may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaySend {
    /// Send so many bytes, and tell with [`UplinkSender::sent`] how many the socket took.
    Bytes(u64),
    /// Wait until its waker is called.
    Later {
        /// Whether [`UplinkGate::collect`] is to be called from now on, until it says that nothing
        /// waits.
        is_first: bool,
    },
}

#[derive(Debug, Default)]
struct Turns {
    /// The number of the last turn. A grant that comes late finds no other turn under its number.
    last_number: u64,
    by_number: HashMap<u64, Turn>,
    /// How many of them wait.
    waiting: usize,
    /// Whether a task collects.
    is_collected: bool,
}

#[derive(Debug)]
enum Turn {
    Waits(Ticket, Waker),
    Granted(LaneShare, u64),
}

impl SendTerms {
    /// Those of an answer that a client waits for, and that was not promised.
    pub fn interactive(client: IpAddr) -> Self {
        Self { client, class: Class::INTERACTIVE, due_ns: DEADLINE_NONE_NS, is_promised: false }
    }

    fn is_promised_within(&self, time_ns: u64, now_ns: u64) -> bool {
        self.is_promised && self.due_ns <= now_ns.saturating_add(time_ns)
    }
}

impl UplinkGate {
    /// Access to a link. `permille`: the share that a class has of it at present.
    pub fn new(uplink: &Arc<Uplink>, permille: impl Fn(Class) -> u32 + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { port: uplink.port(), permille: Box::new(permille), turns: Mutex::default() })
    }

    /// Whether senders need grants.
    pub fn is_limited(&self) -> bool {
        self.port.is_limited()
    }

    /// Whether the link learns from what connections show.
    pub fn learns(&self) -> bool {
        self.port.uplink.learns
    }

    /// Takes what a connection shows that sends on these terms.
    pub fn observe(&self, terms: &SendTerms, sample: FlowSample, now_ns: u64) {
        self.port.observe(terms.client, sample, terms.is_promised_within(LEARN_DANGER_NS, now_ns), now_ns);
    }

    /// One more sender.
    pub fn sender(self: &Arc<Self>) -> UplinkSender {
        UplinkSender { gate: Arc::clone(self), turn: None, held: None }
    }

    /// Tells senders what was granted, and says when to be called again. `None` if nothing waits.
    pub fn collect(&self, now_ns: u64) -> Option<u64> {
        let mut turns = self.turns();
        let (wakers, look_ns) = self.take_grants(&mut turns, now_ns);
        turns.is_collected = turns.waiting > 0;
        let again = turns.is_collected.then_some(look_ns);
        drop(turns);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        again
    }

    /// A turn of a sender that waits; its number.
    fn ask(&self, turns: &mut Turns, bytes: u64, terms: &SendTerms, waker: &Waker) -> u64 {
        turns.last_number += 1;
        let number = turns.last_number;
        let ticket = self.port.ask(number, terms.client, self.share(terms), bytes, terms.due_ns);
        turns.by_number.insert(number, Turn::Waits(ticket, waker.clone()));
        turns.waiting += 1;
        number
    }

    fn share(&self, terms: &SendTerms) -> LaneShare {
        LaneShare { class: terms.class, permille: (self.permille)(terms.class) }
    }

    /// Gives senders what they were granted. Their wakers are to be called without the lock.
    fn take_grants(&self, turns: &mut Turns, now_ns: u64) -> (Vec<(u64, Waker)>, u64) {
        let (grants, look_ns) = self.port.granted(now_ns);
        let mut wakers = Vec::with_capacity(grants.len());
        for Grant { delivery: number, share, bytes } in grants {
            match turns.by_number.get_mut(&number) {
                Some(turn @ Turn::Waits(..)) => {
                    if let Turn::Waits(_, waker) = std::mem::replace(turn, Turn::Granted(share, bytes)) {
                        wakers.push((number, waker));
                    }
                    turns.waiting -= 1;
                }
                // It was dropped meanwhile.
                _ => self.port.give_back(share, bytes),
            }
        }
        (wakers, look_ns)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        // A panic elsewhere leaves at most one grant uncollected.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UplinkSender {
    /// Whether it waits for its turn, or was granted something that it has not taken.
    pub fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// How many of these bytes may be sent on these terms now. If none, the last waker is called
    /// when that changes. What waits and is due soon meanwhile may be asked for again.
    pub fn may_send(&mut self, bytes: u64, terms: &SendTerms, waker: &Waker, now_ns: u64) -> MaySend {
        self.give_back();
        if !self.gate.is_limited() {
            self.forget_turn();
            return MaySend::Bytes(bytes);
        }
        let gate = Arc::clone(&self.gate);
        if terms.is_promised_within(LINK_URGENT_NS, now_ns) {
            self.forget_turn();
            let share = gate.share(terms);
            let granted = gate.port.take_urgent(share, bytes, now_ns);
            self.held = Some((share, granted));
            return MaySend::Bytes(granted);
        }
        self.leave_class_but(terms.class);
        let mut turns = gate.turns();
        let mut wakers = Vec::new();
        let number = match self.turn {
            Some(number) => number,
            None => {
                let number = gate.ask(&mut turns, bytes, terms, waker);
                // There may be time on the link at once.
                wakers = gate.take_grants(&mut turns, now_ns).0;
                number
            }
        };
        self.turn = Some(number);
        let may_send = match turns.by_number.remove(&number) {
            Some(Turn::Waits(ticket, _)) => {
                turns.by_number.insert(number, Turn::Waits(ticket, waker.clone()));
                MaySend::Later { is_first: !std::mem::replace(&mut turns.is_collected, true) }
            }
            Some(Turn::Granted(share, granted)) => {
                (self.turn, self.held) = (None, Some((share, granted)));
                MaySend::Bytes(bytes.min(granted))
            }
            None => {
                debug_assert!(false, "a turn is known until it is taken or forgotten");
                self.turn = None;
                MaySend::Bytes(0)
            }
        };
        drop(turns);
        // What this one may do it is told here.
        wakers.into_iter().filter(|(other, _)| *other != number).for_each(|(_, waker)| waker.wake());
        may_send
    }

    /// The socket took so many of the bytes that might be sent. Others may use the rest.
    pub fn sent(&mut self, bytes: u64) {
        if let Some((_, held)) = &mut self.held {
            *held = held.saturating_sub(bytes);
        }
        self.give_back();
    }

    /// It waits in no class but this one.
    fn leave_class_but(&mut self, class: Class) {
        let Some(number) = self.turn else { return };
        let waits_elsewhere = match self.gate.turns().by_number.get(&number) {
            Some(Turn::Waits(ticket, _)) => ticket.class() != class,
            Some(Turn::Granted(share, _)) => share.class != class,
            None => false,
        };
        if waits_elsewhere {
            self.forget_turn();
        }
    }

    /// It no longer waits.
    pub fn forget_turn(&mut self) {
        let Some(number) = self.turn.take() else { return };
        let mut turns = self.gate.turns();
        match turns.by_number.remove(&number) {
            Some(Turn::Waits(ticket, _)) => {
                turns.waiting -= 1;
                // What is granted already is given back when it is collected.
                self.gate.port.forget(ticket);
            }
            Some(Turn::Granted(share, bytes)) => self.gate.port.give_back(share, bytes),
            None => {}
        }
    }

    fn give_back(&mut self) {
        if let Some((share, bytes)) = self.held.take()
            && bytes > 0
        {
            self.gate.port.give_back(share, bytes);
        }
    }
}

impl Drop for UplinkSender {
    fn drop(&mut self) {
        self.forget_turn();
        self.give_back();
    }
}

impl fmt::Debug for UplinkGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UplinkGate").field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "gate_laws.rs"]
mod laws;
