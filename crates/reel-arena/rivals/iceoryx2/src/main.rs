//! How long a message takes to another process and back, halved, over iceoryx2: the same work as
//! `mms-rates latency`.
//!
//! ```text
//! reel-rival-iceoryx2 latency BYTES ROUNDS poll|sleep
//! ```
//! There is one service for each direction. Samples are loaned and sent, and only their first word
//! is written again. Each side reads every byte of every message. With `poll` both sides poll for
//! messages all the time; with `sleep` a notifier wakes a listener that blocks.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue should stop")]

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{PortFactory as _, *};
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;
use std::env::args;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds that are not counted.
const WARM_UP: u64 = 1000;

struct Side {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    notifier: Notifier<ipc::Service>,
    listener: Listener<ipc::Service>,
    to: PortFactory<ipc::Service, [u8], ()>,
    events: iceoryx2::service::port_factory::event::PortFactory<ipc::Service>,
    bytes: usize,
    sleep: bool,
    _node: Node<ipc::Service>,
}

fn main() {
    set_log_level(LogLevel::Error);
    let args: Vec<String> = args().collect();
    let words: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match words[..] {
        ["latency", bytes, rounds, wait] => {
            ping(bytes.parse().unwrap(), rounds.parse().unwrap(), wait == "sleep");
        }
        ["answer", name, bytes, rounds, wait] => {
            let mut side = Side::new(name, "there", "back", bytes.parse().unwrap(), wait == "sleep");
            for number in 0..WARM_UP + rounds.parse::<u64>().unwrap() {
                side.hear();
                side.say(number);
            }
        }
        _ => {
            eprintln!("usage: reel-rival-iceoryx2 latency BYTES ROUNDS poll|sleep");
            std::process::exit(2);
        }
    }
}

fn ping(bytes: usize, rounds: u64, sleep: bool) {
    let name = format!("reel-bench-{}", std::process::id());
    let mut side = Side::new(&name, "back", "there", bytes, sleep);
    let words =
        ["answer", &name, &bytes.to_string(), &rounds.to_string(), if sleep { "sleep" } else { "poll" }];
    let mut child = Command::new(std::env::current_exe().unwrap()).args(words).spawn().unwrap();
    side.await_other();
    let mut taken_ns = Vec::with_capacity(rounds as usize);
    for number in 0..WARM_UP + rounds {
        let begun = Instant::now();
        side.say(number);
        side.hear();
        let taken = begun.elapsed().as_nanos() as u64 / 2;
        if number >= WARM_UP {
            taken_ns.push(taken);
        }
    }
    assert!(child.wait().unwrap().success());
    taken_ns.sort_unstable();
    let at = |permille: usize| taken_ns[(taken_ns.len() - 1) * permille / 1000];
    println!("{{\"p50_ns\": {}, \"p99_ns\": {}, \"p999_ns\": {}}}", at(500), at(990), at(999));
}

impl Side {
    /// Reads what the other side sends by `from` and sends by `to`.
    fn new(name: &str, from: &str, to: &str, bytes: usize, sleep: bool) -> Side {
        let node = NodeBuilder::new().create::<ipc::Service>().unwrap();
        let messages = |way: &str| {
            let name = format!("{name}/{way}");
            node.service_builder(&name.as_str().try_into().unwrap())
                .publish_subscribe::<[u8]>()
                .max_publishers(1)
                .max_subscribers(1)
                .subscriber_max_buffer_size(16)
                .open_or_create()
                .unwrap()
        };
        let events = |way: &str| {
            let name = format!("{name}/{way}-bell");
            node.service_builder(&name.as_str().try_into().unwrap()).event().open_or_create().unwrap()
        };
        let (to_service, to_events) = (messages(to), events(to));
        let publisher = to_service.publisher_builder().initial_max_slice_len(bytes).create().unwrap();
        let subscriber = messages(from).subscriber_builder().create().unwrap();
        let notifier = to_events.notifier_builder().create().unwrap();
        let listener = events(from).listener_builder().create().unwrap();
        Side {
            publisher,
            subscriber,
            notifier,
            listener,
            to: to_service,
            events: to_events,
            bytes,
            sleep,
            _node: node,
        }
    }

    /// Waits until the other side's ports exist, because messages sent earlier are lost.
    fn await_other(&self) {
        let begun = Instant::now();
        while self.to.dynamic_config().number_of_subscribers() == 0
            || self.events.dynamic_config().number_of_listeners() == 0
        {
            assert!(begun.elapsed() < Duration::from_secs(20), "the other side did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn say(&mut self, number: u64) {
        let sample = self.publisher.loan_slice_uninit(self.bytes).unwrap();
        // SAFETY: bytes of shared memory that was zeros when it was made; any byte is valid.
        let mut sample = unsafe { sample.assume_init() };
        sample.payload_mut()[..8].copy_from_slice(&number.to_ne_bytes());
        sample.send().unwrap();
        if self.sleep {
            self.notifier.notify().unwrap();
        }
    }

    fn hear(&mut self) {
        loop {
            if let Some(sample) = self.subscriber.receive().unwrap() {
                std::hint::black_box(sum(sample.payload()));
                return;
            }
            if self.sleep {
                let _ = self.listener.blocking_wait(|_| {}).unwrap();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// The sum of the 64-bit words of a message, whose length is a multiple of 8.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    words.fold(0, u64::wrapping_add)
}
