//! A memory-mapped stream between two processes, like those between the server and its programs.

use crate::{fill, messages_of};
use reel_arena::mms::{CONSUMER_BYTES, Consumer, Layout, Message, Post, Producer, SpinTime};
use reel_arena::{Arena, ArenaConfig, Buffer, Others, SharedMemory};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most messages that are given back at once; never more than a quarter of the ring.
const BATCH_MAX: u64 = 16;

/// When a reader that finds no message goes to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    Never,
    AfterPolling,
    AtOnce,
}

/// The writing side.
pub(crate) struct Source {
    producer: Producer<SharedMemory, SharedMemory>,
    buffers: Vec<Buffer>,
    bell: Arc<OwnedFd>,
    bytes: usize,
    spin: SpinTime,
    pub(crate) kernel_calls: u64,
}

/// The reading side.
pub(crate) struct Sink {
    consumer: Consumer<SharedMemory, SharedMemory>,
    arena: SharedMemory,
    bell: Arc<OwnedFd>,
    /// Messages that must be available before the reader is woken: half of the ring, so that one
    /// wake-up serves many.
    batch: u64,
    /// Messages that were read and not given back yet. They are given back when there are many, or
    /// nothing else to do.
    read: u64,
    spin: SpinTime,
    pub(crate) kernel_calls: u64,
}

impl Source {
    /// Makes a stream of messages of `bytes` and sends its memory through `bell`.
    pub(crate) fn new(bell: Arc<OwnedFd>, bytes: usize) -> Source {
        let buffer_bytes = bytes.next_multiple_of(4096);
        let count = messages_of(bytes);
        let arena = Arena::readable_by_others(ArenaConfig {
            buffer_bytes,
            buffer_count: count,
            cells_per_buffer: 1,
            huge_pages: false,
        })
        .unwrap();
        let mut buffers: Vec<Buffer> = (0..count).map(|_| arena.take(buffer_bytes).unwrap()).collect();
        for (seed, buffer) in buffers.iter_mut().enumerate() {
            fill(&mut buffer[..bytes], seed as u64);
        }
        let layout = Layout::new(count as u64, 0);
        let own = SharedMemory::create("producer", layout.memory_bytes(), Others::Read).unwrap();
        let theirs = SharedMemory::create("consumer", CONSUMER_BYTES, Others::Write).unwrap();
        let region = arena.region();
        let sizes = [region.bytes as u64, own.bytes() as u64].map(u64::to_ne_bytes).concat();
        let producer = Producer::new(own, theirs, layout);
        let fds = [region.fd.unwrap(), producer.memory().fd(), producer.consumer_memory().fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&bell, &[IoSlice::new(&sizes)], &mut ancillary, SendFlags::empty()).unwrap();
        Source { producer, buffers, bell, bytes, spin: SpinTime::default(), kernel_calls: 0 }
    }

    /// Waits until message number `number` may be written, and returns its bytes.
    pub(crate) fn message(&mut self, number: u64) -> &mut [u8] {
        if self.producer.free() == 0 {
            self.producer.read().unwrap();
            if self.producer.free() == 0 {
                self.await_space();
            }
        }
        let place = number as usize % self.buffers.len();
        &mut self.buffers[place][..self.bytes]
    }

    fn await_space(&mut self) {
        let begun = Instant::now();
        let look_for = Duration::from_nanos(self.spin.for_ns());
        // Half of the ring or more: one wake-up serves many messages, and the reader has the other
        // half meanwhile.
        let half = self.producer.written() - self.buffers.len() as u64 / 2;
        let has_space = |producer: &mut Producer<_, _>| producer.read().unwrap() >= half;
        while !has_space(&mut self.producer) {
            if begun.elapsed() < look_for {
                std::hint::spin_loop();
            } else if self.producer.await_below(self.buffers.len() as u64 / 2 + 1).unwrap() {
                self.kernel_calls += wait_for_bell(&self.bell);
                self.producer.do_not_wait();
            }
        }
        self.spin.waited(begun.elapsed().as_nanos() as u64);
    }

    /// Hands over message number `number`.
    pub(crate) fn post(&mut self, number: u64) {
        let offset = self.buffers[number as usize % self.buffers.len()].region_offset() as u64;
        let (bytes, position) = (self.bytes as u32, number * self.bytes as u64);
        let post = Post { offset, bytes, in_producer: false, position, due_ns: u64::MAX };
        assert!(self.producer.post(&post));
        self.tell();
    }

    pub(crate) fn end(&mut self) {
        self.producer.end(reel_arena::mms::Ending::Complete);
        self.tell();
    }

    fn tell(&mut self) {
        if self.producer.must_ring() {
            self.kernel_calls += 1;
            send(&self.bell, &[1], SendFlags::NOSIGNAL).unwrap();
        }
    }
}

impl Sink {
    /// Takes the memory of a stream from `bell`.
    pub(crate) fn new(bell: Arc<OwnedFd>, batch: u64) -> Sink {
        let mut sizes = [0; 16];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&bell, &mut [IoSliceMut::new(&mut sizes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
        let mut fds: Vec<OwnedFd> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let [arena, producer, consumer] = <[OwnedFd; 3]>::try_from(fds).unwrap();
        let size = |at: usize| u64::from_ne_bytes(sizes[at..at + 8].try_into().unwrap()) as usize;
        let arena = SharedMemory::map(arena, size(0), false).unwrap();
        let theirs = SharedMemory::map(producer, size(8), false).unwrap();
        let own = SharedMemory::map(consumer, CONSUMER_BYTES, true).unwrap();
        let consumer = Consumer::new(theirs, own, size(8)).unwrap();
        Sink { consumer, arena, bell, batch, read: 0, spin: SpinTime::default(), kernel_calls: 0 }
    }

    /// The next message, in place; `None` at the end.
    pub(crate) fn take(&mut self, sleep: Sleep) -> Option<(Message, &[u8])> {
        let message = match self.consumer.take() {
            Some(message) => message,
            None => self.await_message(sleep)?,
        };
        let start = message.offset as usize;
        // SAFETY: within the mapping (`at` checks), initialised, and this measurement's producer
        // takes no message back.
        Some((message, unsafe { &*self.arena.at(start..start + message.bytes as usize) }))
    }

    fn await_message(&mut self, sleep: Sleep) -> Option<Message> {
        self.give_back();
        // Reading the clock takes a part of a microsecond, so a reader that never sleeps does not
        // read it.
        let begun = (sleep == Sleep::AfterPolling).then(Instant::now);
        let look_for = Duration::from_nanos(self.spin.for_ns());
        loop {
            if let Some(message) = self.consumer.take() {
                if let Some(begun) = begun {
                    self.spin.waited(begun.elapsed().as_nanos() as u64);
                }
                return Some(message);
            }
            if self.consumer.ending().is_some() {
                return None;
            }
            if sleep == Sleep::Never || begun.is_some_and(|begun| begun.elapsed() < look_for) {
                std::hint::spin_loop();
            } else if self.consumer.await_messages(self.batch) {
                self.kernel_calls += wait_for_bell(&self.bell);
                self.consumer.do_not_wait();
            }
        }
    }

    /// A message was read.
    pub(crate) fn done(&mut self, message: &Message) {
        assert!(self.consumer.is_valid(message));
        self.read += 1;
        if self.read >= (self.batch / 2).clamp(1, BATCH_MAX) {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        let read = std::mem::take(&mut self.read);
        if read > 0 && self.consumer.give_back(read) {
            self.kernel_calls += 1;
            // Fails if the producer has ended.
            let _ = send(&self.bell, &[1], SendFlags::NOSIGNAL);
        }
    }
}

/// Sleeps until there is a wake-up, and takes all of them; returns the number of system calls.
fn wait_for_bell(bell: &Arc<OwnedFd>) -> u64 {
    let _ = poll(&mut [PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN)], None);
    let mut bells = [0; 64];
    let _ = recv(bell, &mut bells, RecvFlags::DONTWAIT);
    2
}
