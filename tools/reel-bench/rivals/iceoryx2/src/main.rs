//! A rival of `reel bench programs`: its programs, joined by iceoryx2.
//!
//! ```text
//! reel-rival-iceoryx2 polls|sleeps PLACE ROLE BYTES PER_S LASTS_MS INPUTS OUTPUTS READERS
//! ```
//! A message is copied into a loaned sample and read in place. Nothing is lost: a publisher waits
//! while a subscriber has no room. With `polls` a subscriber looks for messages all the time; with
//! `sleeps` it looks, and then blocks until a notifier wakes it.
#![forbid(unsafe_code)]

mod program;

use anyhow::{Context, Result, bail, ensure};
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{PortFactory as _, *};
use iceoryx2::service::port_factory::{event, publish_subscribe};
use program::{Ends, Input, Output, Words, act};
use std::env::args;
use std::time::{Duration, Instant};

/// Messages in flight: as many as fit into so many bytes, and no more than the greater number.
const ROOM_BYTES: usize = 1 << 20;
const ROOM_MESSAGES: (usize, usize) = (4, 256);
/// Readers of one stream.
const READERS_MAX: usize = 4;
/// Longest wait for the other programs.
const BEGIN_MAX: Duration = Duration::from_secs(60);

type Service = ipc::Service;

struct Writer {
    publisher: Publisher<Service, [u8], ()>,
    bell: Option<Notifier<Service>>,
    readers: usize,
    service: publish_subscribe::PortFactory<Service, [u8], ()>,
    bytes: usize,
    _events: event::PortFactory<Service>,
}

struct Reader {
    subscriber: Subscriber<Service, [u8], ()>,
    listener: Option<Listener<Service>>,
    bytes: usize,
    has_ended: bool,
    service: publish_subscribe::PortFactory<Service, [u8], ()>,
    _events: event::PortFactory<Service>,
}

fn main() -> Result<()> {
    set_log_level(LogLevel::Error);
    let words: Vec<String> = args().skip(1).collect();
    let [wait, place, rest @ ..] = &words[..] else { bail!("usage: polls|sleeps PLACE ...") };
    let (words, sleeps) = (Words::parse(rest)?, wait == "sleeps");
    let node = NodeBuilder::new().create::<Service>().map_err(|error| failed("node", error))?;
    let mut ends = Ends::default();
    for name in &words.inputs {
        let reader = Reader::open(&node, &format!("{place}/{name}"), words.bytes, sleeps)?;
        reader.await_writer()?;
        ends.inputs.push(Box::new(reader));
    }
    let mut writers = Vec::new();
    for name in &words.outputs {
        writers.push(Writer::open(&node, &format!("{place}/{name}"), &words, sleeps)?);
    }
    // What is sent before a subscriber is there is lost.
    writers.iter().try_for_each(Writer::await_readers)?;
    ends.outputs.extend(writers.into_iter().map(|writer| Box::new(writer) as Box<dyn Output>));
    act(&words, ends)
}

fn failed(what: &str, error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("iceoryx2, {what}: {error:?}")
}

fn services(
    node: &Node<Service>,
    name: &str,
    bytes: usize,
) -> Result<(publish_subscribe::PortFactory<Service, [u8], ()>, event::PortFactory<Service>)> {
    let room = (ROOM_BYTES / bytes.max(1)).clamp(ROOM_MESSAGES.0, ROOM_MESSAGES.1);
    let service = name.try_into().map_err(|error| failed("name", error))?;
    let messages = node
        .service_builder(&service)
        .publish_subscribe::<[u8]>()
        .max_publishers(1)
        .max_subscribers(READERS_MAX)
        .subscriber_max_buffer_size(room)
        .enable_safe_overflow(false)
        .open_or_create()
        .map_err(|error| failed("service", error))?;
    let bell = format!("{name}/bell");
    let bell = bell.as_str().try_into().map_err(|error| failed("name", error))?;
    let events = node.service_builder(&bell).event().open_or_create();
    Ok((messages, events.map_err(|error| failed("event", error))?))
}

impl Writer {
    fn open(node: &Node<Service>, name: &str, words: &Words, sleeps: bool) -> Result<Writer> {
        let (service, events) = services(node, name, words.bytes)?;
        let publisher = service
            .publisher_builder()
            // The longest is the message that says that no more come.
            .initial_max_slice_len(words.bytes + 1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(|error| failed("publisher", error))?;
        let bell = match sleeps {
            true => Some(events.notifier_builder().create().map_err(|error| failed("notifier", error))?),
            false => None,
        };
        Ok(Writer { publisher, bell, readers: words.readers, service, bytes: words.bytes, _events: events })
    }

    fn await_readers(&self) -> Result<()> {
        let begun = Instant::now();
        while self.service.dynamic_config().number_of_subscribers() < self.readers {
            ensure!(begun.elapsed() < BEGIN_MAX, "the readers did not come");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        let sample =
            self.publisher.loan_slice_uninit(message.len()).map_err(|error| failed("loan", error))?;
        sample.write_from_slice(message).send().map_err(|error| failed("send", error))?;
        if let Some(bell) = &self.bell {
            bell.notify().map_err(|error| failed("notify", error))?;
        }
        Ok(())
    }
}

impl Output for Writer {
    fn put(&mut self, message: &[u8]) -> Result<()> {
        self.send(message)
    }

    fn end(&mut self) -> Result<()> {
        self.send(&vec![0; self.bytes + 1])?;
        // What is sent is gone with its publisher.
        let begun = Instant::now();
        while self.service.dynamic_config().number_of_subscribers() > 0 {
            ensure!(begun.elapsed() < BEGIN_MAX, "the readers did not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Reader {
    fn open(node: &Node<Service>, name: &str, bytes: usize, sleeps: bool) -> Result<Reader> {
        let (service, events) = services(node, name, bytes)?;
        let listener = match sleeps {
            true => Some(events.listener_builder().create().map_err(|error| failed("listener", error))?),
            false => None,
        };
        let subscriber =
            service.subscriber_builder().create().map_err(|error| failed("subscriber", error))?;
        Ok(Reader { subscriber, listener, bytes, has_ended: false, service, _events: events })
    }

    /// Waits for the publisher, and connects: a publisher does not wait for room in the queue of a
    /// subscriber that has not connected yet, and what does not fit is lost.
    fn await_writer(&self) -> Result<()> {
        let begun = Instant::now();
        while self.service.dynamic_config().number_of_publishers() == 0 {
            ensure!(begun.elapsed() < BEGIN_MAX, "the writer did not come");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.subscriber.has_samples().map_err(|error| failed("connection", error)).map(drop)
    }
}

impl Input for Reader {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool> {
        while !self.has_ended {
            if let Some(sample) = self.subscriber.receive().map_err(|error| failed("receive", error))? {
                self.has_ended = sample.payload().len() > self.bytes;
                if !self.has_ended {
                    take(sample.payload());
                    return Ok(true);
                }
                continue;
            }
            match &self.listener {
                Some(listener) => {
                    listener
                        .blocking_wait(|_| {})
                        .map_err(|error| failed("wait", error))
                        .context("asleep")?;
                }
                None => std::hint::spin_loop(),
            }
        }
        Ok(false)
    }
}
