//! An outlet to which a transport stream is sent in datagrams.

use super::link::{LinkUse, Sent};
use crate::framing::PAYLOAD_BYTES;
use crate::joins::DatagramSocket;
use crate::pace::{Datagram, Pace};
use crate::packet_times::PacketTimes;
use crate::tee::{Tee, Waiting};
use reel_ring::Train;
use reel_ring::limits::{TRAIN_BYTES_MAX, TRAIN_PACKETS_MAX};
use reel_udp::SendFault;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The datagrams of one outlet. One train at a time is on its way into the kernel, so they leave in
/// order.
pub(super) struct Datagrams {
    socket: DatagramSocket,
    pace: Pace,
    /// The uplink, unless they stay on this machine.
    pub(super) link: Option<LinkUse>,
    /// The device cannot cut trains into datagrams.
    is_single: bool,
    sending: Option<Sending>,
}

/// A train on its way into the kernel.
struct Sending {
    datagrams: usize,
    /// Bytes of packets in it.
    bytes: usize,
    /// The pace when it has left.
    pace: Pace,
}

/// What is sent next.
pub(super) enum Next {
    /// A train, now.
    Train(Train),
    /// Something at this time.
    At(u64),
    /// Something when the link has time for it; and whether grants are to be collected from now on.
    Granted { is_first: bool },
    /// What is offered next, or after the train that is on its way.
    Nothing,
}

/// What became of a train.
pub(super) enum Answer {
    /// So many bytes of packets were sent.
    Sent(usize),
    /// The socket has no room now.
    Full,
    /// Nothing was sent, and the same goes again, cut otherwise.
    Again,
    /// The destination cannot be sent to.
    Failed(String),
}

/// What waits for a branch, as datagrams.
pub(super) struct Queue {
    waiting: Waiting,
    times: PacketTimes,
}

impl Queue {
    pub(super) fn of(tee: &Tee, number: u64) -> Option<Queue> {
        Some(Queue { waiting: tee.waiting(number)?, times: tee.times()?.clone() })
    }

    /// How many there are. Only the last one of all may be shorter than others.
    pub(super) fn ready(&self) -> usize {
        let bytes = self.waiting.bytes;
        if self.waiting.is_rest { bytes.div_ceil(PAYLOAD_BYTES) } else { bytes / PAYLOAD_BYTES }
    }

    fn position(&self, datagram: usize) -> u64 {
        self.waiting.position + (datagram * PAYLOAD_BYTES) as u64
    }

    /// The first ones.
    pub(super) fn datagrams(&self, count: usize) -> impl Iterator<Item = Datagram> {
        (0..count).map(|datagram| {
            let position = self.position(datagram);
            let later_ns = self.times.between_ns(self.waiting.position, position);
            let due_ns = self.waiting.due_ns.saturating_add(later_ns);
            Datagram { media_ns: self.times.media_ns(position), due_ns }
        })
    }

    pub(super) fn bytes_of(&self, datagrams: usize) -> usize {
        self.waiting.bytes.min(datagrams * PAYLOAD_BYTES)
    }
}

impl Datagrams {
    pub(super) fn new(socket: DatagramSocket, link: Option<LinkUse>) -> Self {
        Self { socket, pace: Pace::default(), link, is_single: false, sending: None }
    }

    /// What a branch sends next; nothing while a train is on its way.
    pub(super) fn next(&mut self, (tee, number): (&mut Tee, u64), whose: &Sent<'_>, now_ns: u64) -> Next {
        let Some(queue) = Queue::of(tee, number).filter(|_| self.sending.is_none()) else {
            return Next::Nothing;
        };
        let count = match self.pace.train(queue.datagrams(self.train_max(&queue)), now_ns) {
            Ok((count, _)) => count,
            Err(leaves_ns) => {
                tee.awaits_pace(number);
                return Next::At(leaves_ns);
            }
        };
        let bytes = queue.bytes_of(count) + count * self.socket.framing.header_bytes();
        let granted = match &mut self.link {
            Some(link) if count > 0 => match link.may_take((tee, number), bytes, whose, now_ns) {
                Ok(granted) if granted >= bytes => count,
                Ok(granted) => granted / self.packet_bytes(),
                Err(is_first) => return Next::Granted { is_first },
            },
            _ => count,
        };
        self.begin((tee, number), &queue, granted, now_ns)
    }

    /// Takes a train of what may leave now, at most so many datagrams.
    fn begin(&mut self, (tee, number): (&mut Tee, u64), queue: &Queue, most: usize, now_ns: u64) -> Next {
        let Ok((count, pace)) = self.pace.train(queue.datagrams(most), now_ns) else {
            return Next::Nothing;
        };
        if count == 0 {
            // Less than a datagram is there, or was granted.
            tee.awaits_pace(number);
            return Next::Nothing;
        }
        let bytes = queue.bytes_of(count);
        let packets = tee.take(number, bytes);
        let media_ns = |datagram| queue.times.media_ns(queue.position(datagram));
        let chunks = self.socket.framing.frame(packets, media_ns);
        self.sending = Some(Sending { datagrams: count, bytes, pace });
        Next::Train(Train {
            socket: Arc::clone(&self.socket.socket),
            to: Some(self.socket.to),
            chunks,
            // The cast fits: less than 1500 bytes.
            packet_bytes: self.packet_bytes() as u16,
            zero_copy: false,
        })
    }

    /// Bytes of a datagram that is not the last one.
    fn packet_bytes(&self) -> usize {
        self.socket.framing.header_bytes() + PAYLOAD_BYTES
    }

    /// How many datagrams a train can have of what is there.
    fn train_max(&self, queue: &Queue) -> usize {
        let fit =
            if self.is_single { 1 } else { TRAIN_PACKETS_MAX.min(TRAIN_BYTES_MAX / self.packet_bytes()) };
        queue.ready().min(fit)
    }

    /// The kernel has taken a train, or has refused it.
    pub(super) fn answered(&mut self, result: io::Result<usize>) -> Answer {
        let Some(sending) = self.sending.take() else { return Answer::Again };
        let taken = *result.as_ref().unwrap_or(&0);
        if let Some(link) = &mut self.link {
            link.sent(taken);
        }
        let error = match result {
            Ok(_) => {
                self.pace = sending.pace;
                self.socket.framing.sent(sending.datagrams);
                return Answer::Sent(sending.bytes);
            }
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            _ if error.kind() == io::ErrorKind::WouldBlock => Answer::Full,
            // Cutting trains needs a device that computes checksums (udp_send_skb of Linux).
            Some(Errno::IO) if sending.datagrams > 1 => {
                self.is_single = true;
                Answer::Again
            }
            _ => Answer::Failed(SendFault::of(error, self.packet_bytes(), sending.datagrams).to_string()),
        }
    }
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
