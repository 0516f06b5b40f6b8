//! An outlet to which a transport stream is sent in datagrams.

use super::link::{LinkUse, Sent};
use crate::framing::PAYLOAD_BYTES;
use crate::joins::DatagramSocket;
use crate::pace::{Datagram, Pace};
use crate::tee::Tee;
use reel_ring::limits::{TRAIN_BYTES_MAX, TRAIN_PACKETS_MAX};
use reel_ring::{Chunk, Train};
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

impl Datagrams {
    pub(super) fn new(socket: DatagramSocket, link: Option<LinkUse>) -> Self {
        Self { socket, pace: Pace::default(), link, is_single: false, sending: None }
    }

    /// What a branch sends next. It gets no answer before [`Datagrams::answered`] while a train is
    /// on its way.
    pub(super) fn next(&mut self, (tee, number): (&mut Tee, u64), whose: &Sent<'_>, now_ns: u64) -> Next {
        let (Some(waiting), Some(times), None) = (tee.waiting(number), tee.times().cloned(), &self.sending)
        else {
            return Next::Nothing;
        };
        let header_bytes = self.socket.framing.header_bytes();
        let packet_bytes = header_bytes + PAYLOAD_BYTES;
        // Only the last one may be shorter.
        let whole = waiting.bytes / PAYLOAD_BYTES;
        let ready = if waiting.is_rest { waiting.bytes.div_ceil(PAYLOAD_BYTES) } else { whole };
        let train_max =
            if self.is_single { 1 } else { TRAIN_PACKETS_MAX.min(TRAIN_BYTES_MAX / packet_bytes) };
        let position = |datagram: usize| waiting.position + (datagram * PAYLOAD_BYTES) as u64;
        let due_ns = |datagram| {
            let later_ns = times.between_ns(waiting.position, position(datagram));
            waiting.due_ns.saturating_add(later_ns)
        };
        let datagram =
            |number| Datagram { media_ns: times.media_ns(position(number)), due_ns: due_ns(number) };
        let count = match self.pace.train((0..ready.min(train_max)).map(datagram), now_ns) {
            Ok((count, _)) => count,
            Err(leaves_ns) => {
                tee.awaits_pace(number);
                return Next::At(leaves_ns);
            }
        };
        let bytes_of = |count: usize| waiting.bytes.min(count * PAYLOAD_BYTES);
        let granted = match &mut self.link {
            None => count,
            Some(link) if count > 0 => {
                let asked = bytes_of(count) + count * header_bytes;
                match link.may_take((tee, number), asked, whose, now_ns) {
                    Ok(granted) if granted >= asked => count,
                    Ok(granted) => granted / packet_bytes,
                    Err(is_first) => return Next::Granted { is_first },
                }
            }
            Some(_) => 0,
        };
        let Ok((count, pace)) = self.pace.train((0..granted).map(datagram), now_ns) else {
            return Next::Nothing;
        };
        if count == 0 {
            // Less than a datagram is there.
            tee.awaits_pace(number);
            return Next::Nothing;
        }
        let bytes = bytes_of(count);
        let packets = tee.take(number, bytes);
        let media_ns = |datagram| times.media_ns(position(datagram));
        let chunks = self.socket.framing.frame(packets, media_ns);
        self.sending = Some(Sending { datagrams: count, bytes, pace });
        Next::Train(self.train(chunks, packet_bytes))
    }

    fn train(&self, chunks: Vec<Chunk>, packet_bytes: usize) -> Train {
        Train {
            socket: Arc::clone(&self.socket.socket),
            to: Some(self.socket.to),
            chunks,
            // The cast fits: less than 1500 bytes.
            packet_bytes: packet_bytes as u16,
            zero_copy: false,
        }
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
            _ => {
                let packet_bytes = self.socket.framing.header_bytes() + PAYLOAD_BYTES;
                Answer::Failed(SendFault::of(error, packet_bytes, sending.datagrams).to_string())
            }
        }
    }
}
