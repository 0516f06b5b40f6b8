//! What a receiver of streams in step does: it shows each message when it is due.

use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, Held};
use std::collections::VecDeque;
use std::time::Duration;

/// How long it sleeps before it looks again.
const LOOK: Duration = Duration::from_millis(2);

/// Where a stream is shown.
pub(crate) trait Screen {
    /// Shows bytes. `false` if it has no room now: they are shown later.
    fn show(&mut self, bytes: &[u8]) -> bool;
}

/// What was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Played {
    /// Messages of all streams.
    pub(crate) messages: u64,
    /// The most that the beginnings of what was shown last were apart, in media time.
    pub(crate) apart_ns: u64,
    /// When media time 0 was due, by each stream: as it began, and after each move of the clock.
    pub(crate) begins_ns: Vec<Vec<u64>>,
}

/// A stream that is read.
struct Playing<'a> {
    name: u64,
    screen: &'a mut dyn Screen,
    held: VecDeque<Held>,
    /// The media time of what was shown last.
    shown_ns: Option<u64>,
    /// When media time 0 was due.
    begins_ns: Vec<u64>,
}

/// Plays tracks or titles from a media time on, each on its screen.
///
/// # Errors
/// The set is refused, or one of its streams ends early.
pub(crate) fn play(
    client: &mut Client,
    streams: &mut [(&str, &mut dyn Screen)],
    from_ns: u64,
) -> Result<Played, ClientError> {
    let titles: Vec<&str> = streams.iter().map(|(title, _)| *title).collect();
    let set = client.open_in_step(&titles, "", from_ns)?;
    let mut playing: Vec<Playing<'_>> = set
        .into_iter()
        .zip(streams)
        .map(|(name, (_, screen))| Playing {
            name,
            screen: &mut **screen,
            held: VecDeque::new(),
            shown_ns: None,
            begins_ns: Vec::new(),
        })
        .collect();
    let mut played = Played::default();
    while !playing.is_empty() {
        let names: Vec<u64> = playing.iter().map(|stream| stream.name).collect();
        for held in client.read(&names, false)? {
            let stream = playing.iter_mut().find(|stream| stream.name == held.stream);
            stream.into_iter().for_each(|stream| stream.held.push_back(held));
        }
        for stream in &mut playing {
            played.messages += stream.show_due(client)?;
        }
        let shown = || playing.iter().filter_map(|stream| stream.shown_ns);
        if let (Some(first), Some(last)) = (shown().min(), shown().max()) {
            played.apart_ns = played.apart_ns.max(last - first);
        }
        let mut ended = Vec::new();
        for (stream, state) in playing.iter().zip(client.state(&names)) {
            match state.and_then(|state| state.ending) {
                Some(Ending::Complete) if stream.held.is_empty() => ended.push(stream.name),
                None | Some(Ending::Complete) => {}
                Some(ending) => return Err(ClientError::TakenBack(ending)),
            }
        }
        client.close(&ended)?;
        let over = |stream: &mut Playing<'_>| ended.contains(&stream.name);
        played.begins_ns.extend(playing.extract_if(.., over).map(|stream| stream.begins_ns));
        std::thread::sleep(LOOK);
    }
    Ok(played)
}

impl Playing<'_> {
    /// Shows what is due, and gives it back.
    fn show_due(&mut self, client: &mut Client) -> Result<u64, ClientError> {
        let mut shown = 0;
        while let Some(held) = self.held.front() {
            // The clock may have been moved since the message was taken.
            let due_ns = client.due_ns(held);
            if due_ns != u64::MAX && due_ns > reel_rt::now_ns() {
                break;
            }
            let mut bytes = Vec::new();
            client.copy(held, &mut bytes);
            if !self.screen.show(&bytes) {
                break;
            }
            let shown_ns = held.message.shown_ns;
            self.shown_ns = Some(shown_ns);
            if let Some(begin_ns) =
                due_ns.checked_sub(shown_ns).filter(|begin_ns| self.begins_ns.last() != Some(begin_ns))
            {
                self.begins_ns.push(begin_ns);
            }
            self.held.pop_front();
            client.give_back(self.name, 1)?;
            shown += 1;
        }
        Ok(shown)
    }
}
