//! The last bytes of a stream, for viewers at different places. Pure.

use crate::fragments::Piece;
use crate::limits::MESSAGE_COST_BYTES;
use std::collections::VecDeque;
use std::sync::Arc;

/// Why no more bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PourEnd {
    /// The program has ended the stream.
    Complete,
    /// The program is gone, or has done what it may not.
    Broken,
}

/// What a viewer gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Whole messages, in order, and when the first byte of them is due.
    Messages(Vec<Arc<[u8]>>, u64),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    Ended(PourEnd),
    /// What would come next is gone: the viewer was too slow.
    Behind,
}

/// A stretch of a stream that ends with its newest byte.
#[derive(Clone, Debug)]
pub struct Window {
    messages: VecDeque<Message>,
    /// The position after the newest byte.
    end: u64,
    /// What the messages take, with [`MESSAGE_COST_BYTES`] for each.
    held_bytes: u64,
    bytes_max: u64,
    /// When the newest byte is due.
    due_ns: u64,
    ended: Option<PourEnd>,
    /// The position of the newest message with which a viewer may begin.
    last_start: u64,
}

#[derive(Clone, Debug)]
struct Message {
    position: u64,
    bytes: Arc<[u8]>,
    due_ns: u64,
    /// A viewer may begin with it.
    is_start: bool,
    /// What a viewer needs before it that begins with it.
    head: Option<Arc<[u8]>>,
}

impl Window {
    /// An empty one that holds so many bytes at most.
    pub fn new(bytes_max: u64) -> Window {
        Window {
            messages: VecDeque::new(),
            end: 0,
            held_bytes: 0,
            bytes_max,
            due_ns: 0,
            ended: None,
            last_start: 0,
        }
    }

    /// A message has come, with which a viewer may begin. The oldest ones leave for it.
    pub fn push(&mut self, bytes: Arc<[u8]>, due_ns: u64) {
        self.push_piece(Piece { bytes, is_start: true, head: None }, due_ns);
    }

    /// A piece has come, with which a viewer may begin or not.
    pub(crate) fn push_piece(&mut self, piece: Piece, due_ns: u64) {
        let Piece { bytes, is_start, head } = piece;
        if bytes.is_empty() || self.ended.is_some() {
            return;
        }
        let position = self.end;
        self.end += bytes.len() as u64;
        self.due_ns = due_ns;
        self.held_bytes += cost(&bytes);
        let is_start = is_start || position == 0;
        if is_start {
            self.last_start = position;
        }
        self.messages.push_back(Message { position, bytes, due_ns, is_start, head });
        while self.held_bytes > self.bytes_max
            && let Some(oldest) = self.messages.pop_front()
        {
            self.held_bytes -= cost(&oldest.bytes);
        }
    }

    /// Where a viewer begins that is to begin at a position, with what it needs before; `None` if
    /// what it can begin with has not come.
    pub(crate) fn begins(&self, position: u64) -> Option<(u64, Option<Arc<[u8]>>)> {
        // Viewers ask with each message that comes.
        if self.last_start < position {
            return None;
        }
        let first = self.messages.partition_point(|message| message.position < position);
        let begin = self.messages.iter().skip(first).find(|message| message.is_start)?;
        Some((begin.position, begin.head.clone()))
    }

    /// No more comes.
    pub fn end(&mut self, how: PourEnd) {
        self.ended.get_or_insert(how);
    }

    /// The position at which a viewer begins that comes now: that of the oldest byte that is not
    /// due yet. So the viewer has as much ahead as viewers who came before.
    pub fn joins_at(&self, now_ns: u64) -> u64 {
        let first = self.messages.partition_point(|message| message.due_ns < now_ns);
        self.messages.get(first).map_or(self.end, |message| message.position)
    }

    /// Messages from `position` on, which is where one begins: at least one if there is one, and no
    /// more than take `bytes_max` if that is possible.
    pub fn read(&self, position: u64, bytes_max: usize) -> Read {
        if position == self.end {
            return self.ended.map_or(Read::Nothing, Read::Ended);
        }
        let first = self.messages.partition_point(|message| message.position < position);
        let from = self.messages.get(first).filter(|message| message.position == position);
        let Some(due_ns) = from.map(|message| message.due_ns) else { return Read::Behind };
        let mut sum = 0;
        let fits = |message: &&Message| {
            let is_first = sum == 0;
            sum += cost(&message.bytes);
            is_first || sum <= bytes_max as u64
        };
        let messages = self.messages.iter().skip(first).take_while(fits);
        Read::Messages(messages.map(|message| Arc::clone(&message.bytes)).collect(), due_ns)
    }

    /// The position after the newest byte: how many have come.
    pub fn end_position(&self) -> u64 {
        self.end
    }

    /// When the newest byte is due.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// What the messages that it holds take.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Whether it has ended, and its newest byte was due so long ago.
    pub fn was_over_for(&self, ns: u64, now_ns: u64) -> bool {
        self.ended.is_some() && now_ns > self.due_ns.saturating_add(ns)
    }
}

/// What a message takes of the memory of a window.
fn cost(bytes: &[u8]) -> u64 {
    bytes.len() as u64 + MESSAGE_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> Arc<[u8]> {
        Arc::from(text.as_bytes())
    }

    #[test]
    fn a_viewer_gets_what_comes_and_then_the_end() {
        let mut window = Window::new(1000);
        assert_eq!(window.read(0, 10), Read::Nothing);
        window.push(message("abc"), 7);
        window.push(message("de"), 8);
        window.push(message("f"), 9);
        let two = 5 + 2 * MESSAGE_COST_BYTES as usize;
        assert_eq!(window.read(0, two), Read::Messages(vec![message("abc"), message("de")], 7));
        assert_eq!(window.read(0, 1), Read::Messages(vec![message("abc")], 7), "one at least");
        assert_eq!(window.read(5, 5), Read::Messages(vec![message("f")], 9));
        window.end(PourEnd::Complete);
        window.push(message("late"), 10);
        window.end(PourEnd::Broken);
        assert_eq!(window.read(5, 5), Read::Messages(vec![message("f")], 9));
        assert_eq!(window.read(6, 5), Read::Ended(PourEnd::Complete));
    }

    #[test]
    fn a_viewer_begins_with_what_is_not_due_yet() {
        let mut window = Window::new(1000);
        assert_eq!(window.joins_at(5), 0);
        for due_ns in [10, 20, 30] {
            window.push(message("ab"), due_ns);
        }
        assert_eq!([0, 10, 11, 25, 30, 31].map(|now_ns| window.joins_at(now_ns)), [0, 0, 2, 4, 4, 6]);
    }

    #[test]
    fn a_viewer_that_is_too_slow_is_told_so() {
        let mut window = Window::new(2 * (2 + MESSAGE_COST_BYTES));
        for _ in 0..3 {
            window.push(message("ab"), 0);
        }
        assert_eq!(window.read(0, 10), Read::Behind);
        assert!(matches!(window.read(2, 10), Read::Messages(..)));
        assert_eq!(window.read(3, 10), Read::Behind, "no message begins there");
    }

    proptest! {
        /// A viewer that is not cut gets every byte in order; and the window is bounded.
        #[test]
        fn viewers_get_all_or_are_cut(
            messages in prop::collection::vec((1..40_usize, any::<bool>(), 1..300_usize), 1..80),
            bytes_max in 1..600_u64,
        ) {
            let mut window = Window::new(bytes_max);
            let (mut all, mut seen) = (Vec::new(), Vec::new());
            let mut place = Some(0);
            for (number, (bytes, reads, most)) in messages.into_iter().enumerate() {
                let message: Arc<[u8]> = vec![number as u8; bytes].into();
                all.extend_from_slice(&message);
                window.push(message, number as u64);
                prop_assert!(window.held_bytes() <= bytes_max);
                let Some(at) = place.filter(|_| reads) else { continue };
                match window.read(at, most) {
                    Read::Messages(got, _) => {
                        got.iter().for_each(|bytes| seen.extend_from_slice(bytes));
                        prop_assert!(got.len() == 1 || seen.len() as u64 - at <= most as u64);
                        place = Some(seen.len() as u64);
                    }
                    Read::Nothing => prop_assert_eq!(at, window.end_position()),
                    Read::Behind => {
                        // A message that follows it has left.
                        prop_assert!(window.held_bytes() + cost(&[0; 40]) > bytes_max);
                        prop_assert!(at < window.end_position());
                        place = None;
                    }
                    Read::Ended(_) => prop_assert!(false, "it has not ended"),
                }
                prop_assert_eq!(&all[..seen.len()], &seen[..]);
            }
        }
    }
}
