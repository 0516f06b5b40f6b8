use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reel_ring::{Done, Op};

use crate::fault::SendFault;
use crate::flow::{Answer, Flow, FlowCounts};
use crate::limits::UDP_FLOWS_MAX;
use crate::pacer::{Pacer, PacerCounts};
use crate::packets::Packets;

/// Many flows of packets over one socket that is not connected, each at its own rate and to its own
/// destination.
///
/// The owner calls [`step`](Self::step) until there is nothing to push. It does so at the time that
/// `step` returned, and after an [`offer`](Self::offer) or a [`done`](Self::done). It passes on the
/// completions of what it pushed. All times are of one clock, which is read for each call: a time
/// before that of the last call is taken for a clock that was set back.
///
/// Among flows that are due, the earliest goes first. A flow has one train at a time on its way
/// into the kernel, so a flow that is behind takes no turn of another.
///
/// A destination that fails costs its own flow the packets and nothing else: they are counted, and
/// [`next_changed`](Self::next_changed) names the flow.
#[derive(Debug)]
pub struct UdpSender {
    socket: Arc<OwnedFd>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Flows that have something to send, each with the time when it has to be looked at.
    due: BTreeSet<(u64, u32)>,
    room: Room,
    seen_ns: u64,
    /// Flows that began or ceased to fail, each at most once.
    changed: VecDeque<u32>,
}

/// Names a flow. It stays the name of this flow when the flow has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    slot: u32,
    generation: u32,
}

/// What the owner of a sender has to do next.
#[derive(Debug)]
pub enum UdpStep {
    /// Push this op, with a token from which the owner finds the slot again, and call `step` again.
    Push {
        /// To be given to [`UdpSender::done`] with the completions of the op.
        slot: u32,
        /// The op.
        op: Op,
        /// When it was due.
        due_ns: u64,
    },
    /// Call `step` again at this time, in nanoseconds, or after an `offer` or a `done`.
    At(u64),
    /// Call `step` again after an `offer` or a `done`.
    Idle,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowState<'a> {
    /// Where the packets go.
    pub to: SocketAddr,
    /// Bytes that wait to be sent.
    pub queued_bytes: usize,
    /// Nothing waits to be sent, is being sent, or is still with the device.
    pub is_idle: bool,
    /// The counters so far.
    pub counts: FlowCounts,
    /// How the schedule was kept.
    pub pace: PacerCounts,
    /// Why the last train was refused; `None` if it was sent.
    pub fault: Option<&'a SendFault>,
}

/// The sender has as many flows as it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sender has at most {UDP_FLOWS_MAX} flows; end one, or use another sender")]
pub struct TooManyFlows;

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    flow: Option<Flow>,
    /// The flow was closed, and the kernel still has something of it.
    is_closed: bool,
    /// The time under which the flow is in `due`.
    listed_ns: Option<u64>,
    is_in_changed: bool,
}

/// Whether the socket takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Some,
    /// The socket's buffer is full. Its space has to be awaited.
    None,
    Awaited,
}

/// The slot of what is pushed for the socket itself.
const SOCKET_SLOT: u32 = u32::MAX;

impl UdpSender {
    /// A sender without flows.
    pub fn new(socket: Arc<OwnedFd>) -> UdpSender {
        UdpSender {
            socket,
            slots: Vec::new(),
            free: Vec::new(),
            due: BTreeSet::new(),
            room: Room::Some,
            seen_ns: 0,
            changed: VecDeque::new(),
        }
    }

    /// Opens a flow. Its rate includes the headers of the packets, but not those of UDP and IP.
    ///
    /// # Errors
    /// If the sender has as many flows as it can have.
    pub fn open(&mut self, to: SocketAddr, pacer: Pacer) -> Result<FlowId, TooManyFlows> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() == UDP_FLOWS_MAX => return Err(TooManyFlows),
            None => {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            }
        };
        let place = &mut self.slots[slot as usize];
        place.flow = Some(Flow::new(to, pacer));
        Ok(FlowId { slot, generation: place.generation })
    }

    /// Ends a flow and drops what it has not sent. Memory that the kernel still has comes back with
    /// the completions.
    pub fn close(&mut self, id: FlowId) {
        let Some(flow) = self.flow_mut(id) else { return };
        flow.clear();
        self.slots[id.slot as usize].is_closed = true;
        self.unlist(id.slot);
        self.free_if_quiet(id.slot);
    }

    /// Takes packets to send after those the flow has.
    ///
    /// # Errors
    /// Gives the packets back if the flow has enough for now, or has ended.
    pub fn offer(&mut self, id: FlowId, packets: Packets) -> Result<(), Packets> {
        let Some(flow) = self.flow_mut(id) else { return Err(packets) };
        flow.offer(packets)?;
        self.look_at(id.slot);
        Ok(())
    }

    /// Continues a flow at another rate.
    pub fn set_rate(&mut self, id: FlowId, now_ns: u64, rate_bps: NonZeroU64) {
        let Some(flow) = self.flow_mut(id) else { return };
        flow.pacer.set_rate(now_ns, rate_bps);
        self.look_at(id.slot);
    }

    /// What has to be done now.
    pub fn step(&mut self, now_ns: u64) -> UdpStep {
        if now_ns < self.seen_ns {
            // The clock was set back, and the schedules go back with it.
            (0..self.slots.len() as u32).for_each(|slot| self.look_at(slot));
        }
        self.seen_ns = now_ns;
        match self.room {
            Room::Some => {}
            Room::None => {
                self.room = Room::Awaited;
                let op = Op::AwaitWritable { socket: Arc::clone(&self.socket) };
                return UdpStep::Push { slot: SOCKET_SLOT, op, due_ns: now_ns };
            }
            Room::Awaited => return UdpStep::Idle,
        }
        while let Some(&(at_ns, slot)) = self.due.first() {
            if at_ns > now_ns {
                return UdpStep::At(at_ns);
            }
            self.unlist(slot);
            let Some(flow) = self.slots[slot as usize].flow.as_mut() else { continue };
            match flow.due_ns(now_ns) {
                // It was listed to be looked at. Listed with its time, it goes in its turn.
                Some(due_ns) if due_ns != at_ns => self.list(slot, due_ns),
                Some(due_ns) => {
                    if let Some(train) = flow.train(&self.socket) {
                        return UdpStep::Push { slot, op: Op::Train(train), due_ns };
                    }
                }
                None => {}
            }
        }
        UdpStep::Idle
    }

    /// An op that was pushed for this slot has ended, or a part of it.
    pub fn done(&mut self, now_ns: u64, slot: u32, done: Done) {
        if slot == SOCKET_SLOT {
            self.room = Room::Some;
            return;
        }
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        let Some(flow) = place.flow.as_mut() else { return };
        match done.op {
            Op::Lent { chunks, copied } => flow.returned(&chunks, copied),
            Op::Train(train) => {
                let before = flow.fault.take();
                let answer = flow.answered(now_ns, &train, done.result);
                if answer != Answer::Gone {
                    flow.fault = before;
                } else if !is_alike(before.as_ref(), flow.fault.as_ref()) && !place.is_in_changed {
                    place.is_in_changed = true;
                    self.changed.push_back(slot);
                }
                if answer == Answer::Full && self.room == Room::Some {
                    self.room = Room::None;
                }
            }
            _ => return,
        }
        self.look_at(slot);
        self.free_if_quiet(slot);
    }

    /// A flow that began to fail, or whose packets are sent again, since this was last called for
    /// it. [`FlowState::fault`] says which.
    pub fn next_changed(&mut self) -> Option<FlowId> {
        while let Some(slot) = self.changed.pop_front() {
            let place = &mut self.slots[slot as usize];
            place.is_in_changed = false;
            let id = FlowId { slot, generation: place.generation };
            if self.flow(id).is_some() {
                return Some(id);
            }
        }
        None
    }

    /// What is known of a flow. `None` if the flow was closed.
    pub fn flow(&self, id: FlowId) -> Option<FlowState<'_>> {
        let place = self.slots.get(id.slot as usize)?;
        if place.generation != id.generation || place.is_closed {
            return None;
        }
        let flow = place.flow.as_ref()?;
        Some(FlowState {
            to: flow.to,
            queued_bytes: flow.queued_bytes,
            is_idle: flow.is_idle(),
            counts: flow.counts,
            pace: flow.pacer.counts(),
            fault: flow.fault.as_ref(),
        })
    }

    /// Whether no flow has anything to send, and the kernel has nothing of any, also not of closed
    /// ones.
    pub fn is_idle(&self) -> bool {
        self.room == Room::Some && self.slots.iter().flat_map(|place| &place.flow).all(Flow::is_idle)
    }

    fn flow_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        let place = self.slots.get_mut(id.slot as usize)?;
        let is_open = place.generation == id.generation && !place.is_closed;
        place.flow.as_mut().filter(|_| is_open)
    }

    /// Has the next `step` ask the flow when it is due.
    fn look_at(&mut self, slot: u32) {
        let place = &self.slots[slot as usize];
        if place.flow.is_some() && !place.is_closed {
            self.list(slot, 0);
        }
    }

    fn list(&mut self, slot: u32, at_ns: u64) {
        self.unlist(slot);
        self.slots[slot as usize].listed_ns = Some(at_ns);
        self.due.insert((at_ns, slot));
    }

    fn unlist(&mut self, slot: u32) {
        if let Some(at_ns) = self.slots[slot as usize].listed_ns.take() {
            self.due.remove(&(at_ns, slot));
        }
    }

    /// The slot of a closed flow is used again when the kernel has nothing of the flow.
    fn free_if_quiet(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if !place.is_closed || !place.flow.as_ref().is_some_and(Flow::is_quiet) {
            return;
        }
        place.flow = None;
        place.is_closed = false;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
    }
}

fn is_alike(one: Option<&SendFault>, two: Option<&SendFault>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => one.is_like(two),
        (one, two) => one.is_none() && two.is_none(),
    }
}
