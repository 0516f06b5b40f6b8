//! How many different segments a window of slots can hold, for recursive frequency splitting.
//!
//! Splitting makes a tree of each channel: a place of period p and its parts of period p x m, which
//! come in turn. A window that contains v slots of the place contains floor(v / m) slots of each
//! part, and one more of v mod m consecutive parts. So the most different segments of a place
//! follow from those of its parts. The most of all parts need not meet in one window: what is
//! counted is never too small. It is exact for 1, 3, 9, 25 and 73 segments.

/// The places of all channels.
pub(super) struct Tree {
    places: Vec<Place>,
    /// Places that are whole channels: the first ones.
    channels: usize,
}

#[derive(Clone, Copy)]
struct Place {
    /// Whether it holds a segment; not if it is free or has parts.
    is_used: bool,
    /// Its parts.
    first_part: usize,
    parts: usize,
}

const FREE: Place = Place { is_used: false, first_part: 0, parts: 0 };

impl Tree {
    /// Free channels, which are the places 0 to `channels` - 1.
    pub(super) fn new(channels: usize) -> Tree {
        Tree { places: vec![FREE; channels], channels }
    }

    /// Splits a free place into parts, of which the first holds a segment. Returns the number of
    /// the first; the others follow.
    pub(super) fn split(&mut self, place: usize, parts: usize) -> usize {
        if parts == 1 {
            self.places[place].is_used = true;
            return place;
        }
        let first_part = self.places.len();
        self.places.resize(first_part + parts, FREE);
        self.places[first_part].is_used = true;
        self.places[place] = Place { is_used: false, first_part, parts };
        first_part
    }

    /// The most segments of a client that has received all channels for some slots, and has played
    /// one segment less than that.
    pub(super) fn buffer_segments(&self, segments: u32) -> u32 {
        let received = |slots: u32| (0..self.channels).map(|channel| self.different(channel, slots).0).sum();
        let kept = |slots: u32| u32::min(received(slots), segments) - (slots - 1);
        (1..=segments).map(kept).max().unwrap_or(0)
    }

    /// The most different segments of a window with so many slots of a place, and of a window with
    /// one more.
    fn different(&self, place: usize, slots: u32) -> (u32, u32) {
        let Place { is_used, first_part, parts } = self.places[place];
        if parts == 0 {
            return (u32::from(is_used && slots > 0), u32::from(is_used));
        }
        let (each, rest) = (slots / parts as u32, slots as usize % parts);
        let counts: Vec<(u32, u32)> =
            (first_part..first_part + parts).map(|part| self.different(part, each)).collect();
        let all: u32 = counts.iter().map(|count| count.0).sum();
        let more: Vec<u32> = counts.iter().map(|count| count.1 - count.0).collect();
        (all + largest_sum(&more, rest), all + largest_sum(&more, rest + 1))
    }
}

/// The largest sum of so many consecutive values of a circle.
fn largest_sum(circle: &[u32], count: usize) -> u32 {
    let mut sum: u32 = circle.iter().take(count).sum();
    let mut largest = sum;
    for first in 0..circle.len() {
        sum = sum + circle[(first + count) % circle.len()] - circle[first];
        largest = largest.max(sum);
    }
    largest
}
