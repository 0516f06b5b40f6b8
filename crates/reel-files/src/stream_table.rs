//! All streams of a mount. Pure: the time is an argument.

use crate::limits::{POURED_MAX, STREAMS_MAX, STREAMS_PER_USER_MAX, UNUSED_TIME};
use crate::media::MediaSession;
use crate::merged::merged;
use crate::problem::Problem;
use crate::stream::{Owner, Stream};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The streams, by number. A number is never used again.
#[derive(Debug, Default)]
pub struct StreamTable {
    last: u64,
    streams: BTreeMap<u64, Stream>,
    /// Sessions of streams that are closed, which are to be ended.
    left: Vec<Arc<MediaSession>>,
}

impl StreamTable {
    /// Makes a stream for a user.
    ///
    /// # Errors
    /// There are too many (`ENOSPC`).
    pub fn add(&mut self, owner: Owner, now: Instant) -> Result<u64, Problem> {
        let of_user = self.streams.values().filter(|stream| stream.owner().uid == owner.uid).count();
        if of_user >= STREAMS_PER_USER_MAX || self.streams.len() >= STREAMS_MAX {
            let text = format!("{of_user} streams of this user and {} in all are open", self.streams.len());
            return Err(Problem::new(Errno::NOSPC, text));
        }
        self.last += 1;
        self.streams.insert(self.last, Stream::new(owner, now));
        Ok(self.last)
    }

    /// A stream.
    ///
    /// # Errors
    /// It is closed, or never was (`ENOENT`).
    pub fn stream(&mut self, number: u64) -> Result<&mut Stream, Problem> {
        self.streams.get_mut(&number).ok_or_else(Problem::gone)
    }

    /// The numbers of all, ascending.
    pub fn numbers(&self) -> Vec<u64> {
        self.streams.keys().copied().collect()
    }

    /// The name of the pictures of one stream with the sound of another of the same user.
    ///
    /// # Errors
    /// There is no such stream (`ENOENT`), it is for another user (`EACCES`), one of them has no
    /// title (`EINVAL`), or the first one was started ([`Stream::may_set`]).
    pub fn merged_title(&mut self, pictures: u64, sound: u64) -> Result<Arc<str>, Problem> {
        let no_title = |number| Problem::invalid(format!("stream {number} has no title; write one first"));
        let owner = self.stream(pictures)?.owner();
        let of_sound = self.stream(sound).map_err(|problem| Problem {
            text: format!("there is no stream {sound}; `ls streams` shows them"),
            ..problem
        })?;
        if of_sound.owner().uid != owner.uid {
            return Err(Problem::new(Errno::ACCESS, format!("stream {sound} is for the user who made it")));
        }
        let of_sound = Arc::clone(of_sound.title().ok_or_else(|| no_title(sound))?);
        let stream = self.stream(pictures)?;
        stream.may_set()?;
        Ok(merged(stream.title().ok_or_else(|| no_title(pictures))?, &of_sound))
    }

    /// Whether another poured stream may be read.
    ///
    /// # Errors
    /// So many are as may be at once (`EAGAIN`).
    pub fn check_poured(&self) -> Result<(), Problem> {
        match self.streams.values().filter(|stream| stream.plays_poured()).count() {
            POURED_MAX.. => Err(Problem::new(
                Errno::AGAIN,
                format!("{POURED_MAX} poured streams are read, the most of a mount; `pause` one"),
            )),
            _ => Ok(()),
        }
    }

    /// Closes a stream.
    ///
    /// # Errors
    /// As [`StreamTable::stream`].
    pub fn close(&mut self, number: u64) -> Result<(), Problem> {
        let stream = self.streams.remove(&number).ok_or_else(Problem::gone)?;
        self.left.extend(stream.close());
        Ok(())
    }

    /// Closes all streams that were not used for too long. Returns when to look again, if any file
    /// is not open.
    pub fn close_unused(&mut self, now: Instant) -> Option<Instant> {
        let until = |stream: &Stream| stream.unused_since().map(|since| since + UNUSED_TIME);
        let unused =
            self.streams.iter().filter(|(_, stream)| until(stream).is_some_and(|until| until <= now));
        let unused: Vec<u64> = unused.map(|(number, _)| *number).collect();
        for number in unused {
            // It is there: the table is held.
            let _ = self.close(number);
        }
        self.streams.values().filter_map(until).min()
    }

    /// Ends a session that belongs to no stream.
    pub fn leave(&mut self, session: MediaSession) {
        self.left.push(Arc::new(session));
    }

    /// Sessions that are to be ended.
    pub fn take_left(&mut self) -> Vec<Arc<MediaSession>> {
        let left = std::mem::take(&mut self.left);
        left.into_iter().chain(self.streams.values_mut().flat_map(Stream::take_left)).collect()
    }
}
