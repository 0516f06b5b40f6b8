use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reel_ring::{Chunk, Train};
use rustix::io::Errno;

use crate::fault::SendFault;
use crate::lending::Lending;
use crate::limits::{UDP_LENT_TRAINS_MAX, UDP_QUEUE_BYTES_MAX, UDP_TRAIN_NS};
use crate::pacer::Pacer;
use crate::packets::Packets;

/// Packets at a steady rate to one destination. One train at a time is on its way into the kernel,
/// so packets are never reordered. The device may still hold the memory of several trains.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) to: SocketAddr,
    pub(crate) pacer: Pacer,
    lending: Lending,
    /// Packets to send. Of the first group, packets before `sent` have been sent.
    queue: VecDeque<Packets>,
    pub(crate) queued_bytes: usize,
    sent: usize,
    /// The packets of the first group that are on their way into the kernel.
    sending: Option<Range<usize>>,
    /// The device cannot cut trains into packets.
    single: bool,
    lent_trains: usize,
    pub(crate) counts: FlowCounts,
    pub(crate) fault: Option<SendFault>,
}

/// The counters of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets that the kernel took.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Trains that carried them.
    pub trains: u64,
    /// Bytes that were lent to the device and sent without a copy.
    pub lent_bytes: u64,
    /// Bytes that were lent, but copied by the kernel after all.
    pub copied_after_all_bytes: u64,
    /// Trains that found the socket's buffer full, and were sent later.
    pub waited: u64,
    /// Packets that the kernel refused for good.
    pub refused_packets: u64,
}

/// What became of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was sent, or refused for good: the next train has its own time.
    Gone,
    /// The same packets go again, cut otherwise.
    Again,
    /// The same packets go again when the socket has room.
    Full,
}

impl Flow {
    pub(crate) fn new(to: SocketAddr, pacer: Pacer) -> Flow {
        Flow {
            to,
            pacer,
            lending: Lending::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            sent: 0,
            sending: None,
            single: false,
            lent_trains: 0,
            counts: FlowCounts::default(),
            fault: None,
        }
    }

    pub(crate) fn offer(&mut self, packets: Packets) -> Result<(), Packets> {
        if self.queued_bytes > 0 && self.queued_bytes + packets.bytes() > UDP_QUEUE_BYTES_MAX {
            return Err(packets);
        }
        self.queued_bytes += packets.bytes();
        self.queue.push_back(packets);
        Ok(())
    }

    /// Drops what waits. What is on its way into the kernel cannot be called back.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        (self.queued_bytes, self.sent) = (0, 0);
    }

    /// When the next train may go. `None`: not before an `offer`, an answer or the return of
    /// memory.
    pub(crate) fn due_ns(&mut self, now_ns: u64) -> Option<u64> {
        let waits = self.queue.is_empty() || self.sending.is_some();
        if waits || self.lent_trains >= UDP_LENT_TRAINS_MAX {
            return None;
        }
        Some(self.pacer.due_ns(now_ns))
    }

    /// The train that goes now. `due_ns` was asked before.
    pub(crate) fn train(&mut self, socket: &Arc<OwnedFd>) -> Option<Train> {
        let packets = self.queue.front()?;
        let (count, lend) = self.measure(packets);
        let range = self.sent..self.sent + count;
        let train = Train {
            socket: Arc::clone(socket),
            to: Some(self.to),
            chunks: packets.chunks(range.clone()),
            packet_bytes: packets.packet_bytes() as u16,
            zero_copy: lend,
        };
        if !lend {
            self.lending.copied_by_choice();
        }
        self.sending = Some(range);
        Some(train)
    }

    /// The kernel has taken a train, or has refused it.
    pub(crate) fn answered(&mut self, now_ns: u64, train: &Train, result: io::Result<usize>) -> Answer {
        // The ring keeps the chunks of a train whose memory the kernel still uses.
        if train.chunks.is_empty() {
            self.lent_trains += 1;
        }
        let Some(range) = self.sending.take() else { return Answer::Gone };
        match result {
            Ok(bytes) => {
                self.counts.packets += range.len() as u64;
                self.counts.bytes += bytes as u64;
                self.counts.trains += 1;
                self.fault = None;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.counts.waited += 1;
                return Answer::Full;
            }
            // Cutting trains needs a device that computes checksums (udp_send_skb). Single packets
            // do not need that.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) && !self.single => {
                self.single = true;
                return Answer::Again;
            }
            Err(error) => {
                self.counts.refused_packets += range.len() as u64;
                self.fault = Some(SendFault::of(error, usize::from(train.packet_bytes), range.len()));
            }
        }
        self.gone(now_ns, range);
        Answer::Gone
    }

    /// The kernel has released the memory of a train that was lent.
    pub(crate) fn returned(&mut self, chunks: &[Chunk], copied: bool) {
        let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.lent_trains = self.lent_trains.saturating_sub(1);
        self.lending.reported(copied);
        let counts = &mut self.counts;
        *(if copied { &mut counts.copied_after_all_bytes } else { &mut counts.lent_bytes }) += bytes;
    }

    /// Whether the kernel has nothing of this flow.
    pub(crate) fn is_quiet(&self) -> bool {
        self.sending.is_none() && self.lent_trains == 0
    }

    /// Whether nothing waits to be sent, is being sent, or is still with the device.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.is_quiet()
    }

    /// How many packets go next, and whether they are lent. To copy one long train costs less than
    /// to lend it as several short ones.
    fn measure(&self, packets: &Packets) -> (usize, bool) {
        let (fit, lendable) = packets.fit(self.sent);
        let due = self.pacer.bytes_within(UDP_TRAIN_NS) / packets.packet_bytes() as u64;
        let due = usize::try_from(due).unwrap_or(usize::MAX).max(1);
        let count = if self.single { 1 } else { fit.min(due) };
        let lend = count <= lendable && self.lending.lends(count * packets.packet_bytes());
        (count, lend)
    }

    /// Packets were sent or refused: they leave the queue.
    fn gone(&mut self, now_ns: u64, range: Range<usize>) {
        // A closed flow has dropped them already.
        let Some(packets) = self.queue.front() else { return };
        let bytes = packets.bytes_in(range.clone());
        self.pacer.sent(now_ns, bytes);
        self.queued_bytes -= bytes;
        self.sent = range.end;
        if self.sent == packets.count() {
            self.queue.pop_front();
            self.sent = 0;
        }
    }
}
