//! Every interleaving, and every order that the memory model allows, of one producer and one
//! consumer that wait for each other, explored by loom. Versions that lack a fence, or test before
//! they set the flag, must fail: this shows that the test can find such faults.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use reel_arena::mms::{
    Consumer, Ending, Layout, Post, Producer, SLOT_WORDS, SLOTS_AT_BYTES, Words, consumer_word, producer_word,
};
use std::sync::Arc;

/// Words before the descriptors that are used.
const HEAD_WORDS: usize = producer_word::ENDED + 1;

/// Words whose loads return whatever the memory model allows.
struct Modelled {
    words: Vec<AtomicU64>,
    /// Words from here on are kept at `from`, because a page of modelled words takes a page of
    /// states.
    from: usize,
    /// Whether the fence between this side's write and its read of the other's word exists.
    fenced: bool,
}

impl Modelled {
    fn producer(slots: usize) -> Self {
        Self::new(HEAD_WORDS + slots * SLOT_WORDS, true)
    }

    fn new(count: usize, fenced: bool) -> Self {
        Self { words: (0..count).map(|_| AtomicU64::new(0)).collect(), from: SLOTS_AT_BYTES / 8, fenced }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        if index >= self.from { &self.words[HEAD_WORDS + index - self.from] } else { &self.words[index] }
    }
}

/// One side's view of the shared memory.
#[derive(Clone)]
struct View(Arc<Modelled>);

impl Words for View {
    fn load(&self, index: usize) -> u64 {
        self.0.word(index).load(Ordering::Relaxed)
    }

    fn store(&self, index: usize, value: u64) {
        self.0.word(index).store(value, Ordering::Relaxed);
    }

    fn fence_acquire(&self) {
        fence(Ordering::Acquire);
    }

    fn fence_release(&self) {
        fence(Ordering::Release);
    }

    fn fence_full(&self) {
        if self.0.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

/// The socket: bytes that wake a waiting side.
#[derive(Default)]
struct Bell {
    rung: Mutex<u32>,
    woken: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() += 1;
        self.woken.notify_one();
    }

    /// Waits for a byte; returns how many there were.
    fn wait(&self) -> u32 {
        let mut rung = self.rung.lock().unwrap();
        while *rung == 0 {
            rung = self.woken.wait(rung).unwrap();
        }
        std::mem::take(&mut *rung)
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn post(number: u64) -> Post {
    Post { offset: number, bytes: 1, in_producer: false, position: number, due_ns: u64::MAX }
}

/// A producer of `messages` in a ring of `slots`, and a consumer; both sleep whenever they can.
fn both_wait(messages: u64, slots: u64, producer_fenced: bool, consumer_fenced: bool) {
    explore(move || {
        let theirs = Arc::new(Modelled { fenced: producer_fenced, ..Modelled::producer(slots as usize) });
        let own = Arc::new(Modelled::new(consumer_word::WAITS_ABOVE + 1, consumer_fenced));
        // The message itself: a word that the producer uses again as soon as it may.
        let bytes = Arc::new((0..slots).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let layout = Layout { slots, bytes: 0 };
        let mut producer = Producer::new(View(theirs.clone()), View(own.clone()), layout);
        let mut consumer = Consumer::new(View(theirs), View(own), layout.memory_bytes()).unwrap();
        let (to_consumer, to_producer) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let reader = {
            let (bytes, to_consumer, to_producer) = (bytes.clone(), to_consumer.clone(), to_producer.clone());
            loom::thread::spawn(move || {
                for number in 0..messages {
                    let message = loop {
                        if let Some(message) = consumer.take() {
                            break message;
                        }
                        if consumer.await_messages(1) {
                            to_consumer.wait();
                            consumer.do_not_wait();
                        }
                    };
                    assert_eq!(message.position, number);
                    assert_eq!(bytes[(number % slots) as usize].load(Ordering::Relaxed), number + 1);
                    assert!(consumer.is_valid(&message));
                    if consumer.give_back(1) {
                        to_producer.ring();
                    }
                }
            })
        };
        for number in 0..messages {
            while producer.free() == 0 {
                if producer.await_below(slots).unwrap() {
                    to_producer.wait();
                    producer.do_not_wait();
                }
                producer.read().unwrap();
            }
            bytes[(number % slots) as usize].store(number + 1, Ordering::Relaxed);
            assert!(producer.post(&post(number)));
            if producer.must_ring() {
                to_consumer.ring();
            }
        }
        reader.join().unwrap();
    });
}

#[test]
fn no_side_sleeps_through_a_message_or_free_space() {
    both_wait(2, 1, true, true);
    both_wait(3, 2, true, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_the_producer_a_side_does() {
    both_wait(2, 1, false, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_of_the_consumer_a_side_does() {
    both_wait(2, 1, true, false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_flag_set_after_the_test_is_too_late() {
    explore(|| {
        let theirs = Arc::new(Modelled::producer(1));
        let own = Arc::new(Modelled::new(consumer_word::WAITS_ABOVE + 1, true));
        let layout = Layout { slots: 1, bytes: 0 };
        let mut producer = Producer::new(View(theirs.clone()), View(own.clone()), layout);
        let bell = Arc::new(Bell::default());
        let reader = {
            let bell = bell.clone();
            loom::thread::spawn(move || {
                // What Consumer::await_messages does, in the wrong order.
                if View(theirs.clone()).load(producer_word::WRITTEN) == 0 {
                    View(own.clone()).store(consumer_word::WAITS, 1);
                    View(own).fence_full();
                    bell.wait();
                }
            })
        };
        producer.post(&post(0));
        if producer.must_ring() {
            bell.ring();
        }
        reader.join().unwrap();
    });
}

/// A level of n where n - 1 is meant: the consumer of two messages is never woken for the second.
#[test]
#[should_panic(expected = "deadlock")]
fn a_level_that_is_one_too_high_is_never_reached() {
    explore(|| {
        let theirs = Arc::new(Modelled::producer(2));
        let own = Arc::new(Modelled::new(consumer_word::WAITS_ABOVE + 1, true));
        let layout = Layout { slots: 2, bytes: 0 };
        let mut producer = Producer::new(View(theirs.clone()), View(own.clone()), layout);
        let bell = Arc::new(Bell::default());
        let reader = {
            let bell = bell.clone();
            loom::thread::spawn(move || {
                View(own.clone()).store(consumer_word::WAITS_ABOVE, 2);
                View(own.clone()).store(consumer_word::WAITS, 1);
                View(own).fence_full();
                if View(theirs).load(producer_word::WRITTEN) < 2 {
                    bell.wait();
                }
            })
        };
        for number in 0..2 {
            producer.post(&post(number));
            if producer.must_ring() {
                bell.ring();
            }
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_waiting_consumer_is_woken_by_the_end() {
    explore(|| {
        let theirs = Arc::new(Modelled::producer(1));
        let own = Arc::new(Modelled::new(consumer_word::WAITS_ABOVE + 1, true));
        let layout = Layout { slots: 1, bytes: 0 };
        let mut producer = Producer::new(View(theirs.clone()), View(own.clone()), layout);
        let mut consumer = Consumer::new(View(theirs), View(own), layout.memory_bytes()).unwrap();
        let bell = Arc::new(Bell::default());
        let reader = {
            let bell = bell.clone();
            loom::thread::spawn(move || {
                while consumer.ending().is_none() {
                    if consumer.await_messages(1) {
                        bell.wait();
                        consumer.do_not_wait();
                    }
                }
                assert_eq!(consumer.ending(), Some(Ending::Complete));
            })
        };
        producer.end(Ending::Complete);
        if producer.must_ring() {
            bell.ring();
        }
        reader.join().unwrap();
    });
}

/// Memory that is taken back from a late reader and used again: a reader that saw the new bytes
/// sees the new epoch.
#[test]
fn a_reader_of_replaced_bytes_notices() {
    explore(|| {
        let theirs = Arc::new(Modelled::producer(1));
        let own = Arc::new(Modelled::new(consumer_word::WAITS_ABOVE + 1, true));
        let bytes = Arc::new(AtomicU64::new(7));
        let layout = Layout { slots: 1, bytes: 0 };
        let mut producer = Producer::new(View(theirs.clone()), View(own.clone()), layout);
        let mut consumer = Consumer::new(View(theirs), View(own), layout.memory_bytes()).unwrap();
        assert!(producer.post(&post(0)));
        let message = consumer.take().unwrap();
        let reader = {
            let bytes = bytes.clone();
            loom::thread::spawn(move || {
                let seen = bytes.load(Ordering::Relaxed);
                assert!(seen == 7 || !consumer.is_valid(&message), "replaced bytes in a valid message");
            })
        };
        producer.end(Ending::HeldTooLong);
        bytes.store(8, Ordering::Relaxed);
        reader.join().unwrap();
    });
}
