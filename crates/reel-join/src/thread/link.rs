//! What branches to other machines have of the uplink.

use crate::tee::Tee;
use reel_admit::Session;
use reel_play::{FlowMeter, MaySend, PlayableTitle, SendTerms, UplinkGate, UplinkSender};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, Kind};
use reel_ring::{Chunk, tcp_status};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

/// One branch on the uplink.
pub(super) struct LinkUse {
    client: IpAddr,
    sender: UplinkSender,
    flow: FlowMeter,
}

/// Whose bytes a branch sends.
pub(super) struct Sent<'a> {
    pub(super) session: &'a Session<PlayableTitle>,
    pub(super) classes: &'a ClassTable,
    /// Whether they are those that the network is reserved for.
    pub(super) is_on_reservation: bool,
}

impl LinkUse {
    pub(super) fn new(gate: &Arc<UplinkGate>, client: IpAddr) -> Self {
        Self { client, sender: gate.sender(), flow: FlowMeter::default() }
    }

    /// What a branch may send now. Otherwise it waits, and `Err` says whether grants are to be
    /// collected from now on for that.
    pub(super) fn take(
        &mut self,
        (tee, number): (&mut Tee, u64),
        sent: &Sent<'_>,
        now_ns: u64,
    ) -> Result<Vec<Chunk>, bool> {
        let bytes = tee.waiting_bytes(number);
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let granted = self.may_take((tee, number), bytes, sent, now_ns)?;
        Ok(tee.take(number, granted))
    }

    /// How many of so many bytes a branch may send now, which is to be told with
    /// [`LinkUse::sent`]. Otherwise it waits, as above.
    pub(super) fn may_take(
        &mut self,
        (tee, number): (&mut Tee, u64),
        bytes: usize,
        sent: &Sent<'_>,
        now_ns: u64,
    ) -> Result<usize, bool> {
        let terms = self.terms(tee.due_ns(number), sent);
        // The thread of joins looks at all branches that wait.
        match self.sender.may_send(bytes as u64, &terms, Waker::noop(), now_ns) {
            MaySend::Bytes(granted) => Ok(usize::try_from(granted).unwrap_or(usize::MAX)),
            MaySend::Later { is_first } => {
                tee.awaits_link(number);
                Err(is_first)
            }
        }
    }

    /// The socket took so many bytes. Others may use the rest of the grant.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sender.sent(bytes as u64);
    }

    /// Whether it waits for its turn, or was granted something that it has not taken.
    pub(super) fn has_turn(&self) -> bool {
        self.sender.has_turn()
    }

    /// Shows the uplink the way to the destination.
    pub(super) fn look(
        &mut self,
        gate: &UplinkGate,
        socket: &OwnedFd,
        (due_ns, sent): (u64, &Sent<'_>),
        now_ns: u64,
    ) {
        if let Some(sample) = tcp_status(socket).and_then(|status| self.flow.observe(status)) {
            gate.observe(&self.terms(due_ns, sent), sample, now_ns);
        }
    }

    /// The terms of bytes of the session that are due then: those of its class at present. What
    /// nothing is reserved for is sent as other bytes without deadlines.
    fn terms(&self, due_ns: u64, sent: &Sent<'_>) -> SendTerms {
        let (client, class) = (self.client, sent.session.class());
        let unpromised = SendTerms { client, class, due_ns: DEADLINE_NONE_NS, is_promised: false };
        if sent.classes.kind(class) != Kind::Periodic {
            return unpromised;
        }
        if due_ns == DEADLINE_NONE_NS || !sent.is_on_reservation {
            return SendTerms { class: Class::APERIODIC, ..unpromised };
        }
        let is_promised = sent.session.memory().is_some_and(|memory| memory.buffers() > 0);
        SendTerms { due_ns, is_promised, ..unpromised }
    }
}
