//! The uplink for senders that are not deliveries of an engine, such as connections of the control
//! plane. Pure.
//!
//! ```text
//!   sender: may_send --> credit: bytes at once
//!               | none
//!               v
//!            its turn: waits --collect--> granted, its waker is called --> may_send --> sent
//! ```

use super::schedule::{LaneShare, Ticket};
use super::{FlowSample, Grant, Uplink, UplinkPort};
use reel_qos::{Class, DEADLINE_NONE_NS};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Access to an uplink for any number of senders, in the class `interactive`. Clients take turns.
///
/// One task of the caller collects what is granted, and runs only while something waits.
pub struct UplinkGate {
    port: UplinkPort,
    permille: Box<dyn Fn() -> u32 + Send + Sync>,
    turns: Mutex<Turns>,
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

impl UplinkGate {
    /// Access to a link. `permille`: the share that the class `interactive` has of it at present.
    pub fn new(uplink: &Arc<Uplink>, permille: impl Fn() -> u32 + Send + Sync + 'static) -> Arc<Self> {
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

    /// Takes what a connection to a client shows. Nothing that it sends was promised.
    pub fn observe(&self, client: IpAddr, sample: FlowSample, now_ns: u64) {
        self.port.observe(client, sample, false, now_ns);
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
    fn ask(&self, turns: &mut Turns, bytes: u64, client: IpAddr, waker: &Waker) -> u64 {
        let share = LaneShare { class: Class::INTERACTIVE, permille: (self.permille)() };
        turns.last_number += 1;
        let number = turns.last_number;
        let ticket = self.port.ask(number, client, share, bytes, DEADLINE_NONE_NS);
        turns.by_number.insert(number, Turn::Waits(ticket, waker.clone()));
        turns.waiting += 1;
        number
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

    /// How many of these bytes may be sent to this client now. If none, the last waker is called
    /// when that changes.
    pub fn may_send(&mut self, bytes: u64, client: IpAddr, waker: &Waker, now_ns: u64) -> MaySend {
        self.give_back();
        if !self.gate.is_limited() {
            self.forget_turn();
            return MaySend::Bytes(bytes);
        }
        let gate = Arc::clone(&self.gate);
        let mut turns = gate.turns();
        let mut wakers = Vec::new();
        let number = match self.turn {
            Some(number) => number,
            None => {
                let number = gate.ask(&mut turns, bytes, client, waker);
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
