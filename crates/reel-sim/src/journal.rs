//! The events of a run: a digest of all of them, and the last ones for the report on a broken
//! invariant.

use crate::limits::STORY_ENTRIES;
use reel_testkit::mix;
use std::collections::VecDeque;
use std::fmt;

/// One event. It holds only numbers, so that noting it costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEvent {
    /// A request came to a member.
    Asked {
        /// The member.
        member: u32,
        /// Names the request on the member until it is answered.
        job: u32,
        /// The class.
        class: u32,
        /// Where, in simulated bytes.
        offset: u64,
        /// When it is due.
        deadline_ns: u64,
    },
    /// The device got it.
    Started {
        /// The member.
        member: u32,
        /// The request.
        job: u32,
    },
    /// It was answered.
    Answered {
        /// The member.
        member: u32,
        /// The request.
        job: u32,
        /// Without an error.
        well: bool,
        /// How long the device took.
        device_ns: u64,
    },
    /// No reader waited for it any more, and it had not been given to the device.
    Withdrawn {
        /// The member.
        member: u32,
        /// The request.
        job: u32,
    },
    /// A fault began or ended.
    Fault {
        /// The member.
        member: u32,
        /// See [`crate::fault::Fault::code`].
        code: u32,
        /// It began.
        began: bool,
    },
    /// A client did something.
    Client {
        /// Which.
        client: u32,
        /// What.
        what: ClientAction,
        /// Of what: a segment, a title, a number of bytes.
        number: u64,
    },
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAction {
    /// Opens a title.
    Opens,
    /// Is refused it.
    Refused,
    /// Asks for a segment.
    Asks,
    /// Has all of what it asked for.
    Has,
    /// Begins to show a title.
    Plays,
    /// Shows nothing, because nothing is there.
    Stalls,
    /// Is given a part of a segment after it was due.
    Late,
    /// Pauses.
    Pauses,
    /// Continues after a pause.
    Resumes,
    /// Goes elsewhere in its title.
    Seeks,
    /// Jumps ahead within what it has; the segment it asks for next.
    Skips,
    /// Takes another rendition.
    Steps,
    /// Goes away.
    Leaves,
    /// Could not be given what it asked for.
    Fails,
    /// Reads a file from this byte.
    Reads,
    /// Is taken for a player, and what it reads is reserved.
    Admitted,
    /// Is taken for a player, and waits for its start.
    Waits,
    /// Is read without a reservation.
    Displaced,
    /// Looks at a film, or is taken for one that does.
    Looks,
}

/// All that happened in one part of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    digest: u64,
    entries: u64,
    last: VecDeque<(u64, JournalEvent)>,
}

impl Journal {
    /// Notes something.
    pub fn note(&mut self, now_ns: u64, happened: JournalEvent) {
        let word = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let (kind, one, two) = match happened {
            JournalEvent::Asked { member, job, class, offset, deadline_ns } => {
                (1, word(member, job), offset ^ deadline_ns.rotate_left(20) ^ u64::from(class) << 60)
            }
            JournalEvent::Started { member, job } => (2, word(member, job), 0),
            JournalEvent::Answered { member, job, well, device_ns } => {
                (3, word(member, job), device_ns << 1 | u64::from(well))
            }
            JournalEvent::Withdrawn { member, job } => (6, word(member, job), 0),
            JournalEvent::Fault { member, code, began } => (4, word(member, code), u64::from(began)),
            JournalEvent::Client { client, what, number } => (5, word(client, what as u32), number),
        };
        self.entries += 1;
        self.digest =
            mix(self.digest ^ mix(now_ns ^ one.rotate_left(17) ^ two.rotate_left(41)).wrapping_add(kind));
        if self.last.len() == STORY_ENTRIES {
            self.last.pop_front();
        }
        self.last.push_back((now_ns, happened));
    }

    /// A number that differs, as good as surely, if anything noted differs.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// How much was noted.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The last things, oldest first.
    pub fn last(&self) -> impl Iterator<Item = (u64, JournalEvent)> {
        self.last.iter().copied()
    }
}

impl fmt::Display for JournalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalEvent::Asked { member, job, class, offset, deadline_ns } => {
                write!(f, "member {member}: request {job} of class {class} for {offset}, due at ")?;
                if *deadline_ns == u64::MAX {
                    f.write_str("no time")
                } else {
                    write!(f, "{}", Seconds(*deadline_ns))
                }
            }
            JournalEvent::Started { member, job } => {
                write!(f, "member {member}: request {job} goes to the device")
            }
            JournalEvent::Answered { member, job, well, device_ns } => {
                let how = if *well { "done" } else { "failed" };
                write!(f, "member {member}: request {job} {how} after {} us in the device", device_ns / 1000)
            }
            JournalEvent::Withdrawn { member, job } => {
                write!(f, "member {member}: request {job} is withdrawn")
            }
            JournalEvent::Fault { member, code, began } => {
                let what = crate::fault::name_of(*code);
                write!(f, "member {member}: {what} {}", if *began { "begins" } else { "ends" })
            }
            JournalEvent::Client { client, what, number } => {
                write!(f, "client {client} {} {number}", what.name())
            }
        }
    }
}

impl ClientAction {
    fn name(self) -> &'static str {
        match self {
            ClientAction::Opens => "opens title",
            ClientAction::Refused => "is refused title",
            ClientAction::Asks => "asks for segment",
            ClientAction::Has => "has segment",
            ClientAction::Plays => "plays from segment",
            ClientAction::Stalls => "STALLS before segment",
            ClientAction::Late => "is given LATE segment",
            ClientAction::Pauses => "pauses in segment",
            ClientAction::Resumes => "resumes in segment",
            ClientAction::Seeks => "seeks to segment",
            ClientAction::Skips => "skips ahead, to ask next for segment",
            ClientAction::Steps => "steps to rendition",
            ClientAction::Leaves => "leaves title",
            ClientAction::Fails => "cannot be given segment",
            ClientAction::Reads => "reads from byte",
            ClientAction::Admitted => "is admitted to title",
            ClientAction::Waits => "waits for room for title",
            ClientAction::Displaced => "has no reservation for title",
            ClientAction::Looks => "looks at title",
        }
    }
}

/// A virtual time, as text.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_sees_order_time_and_numbers() {
        let event = |number| JournalEvent::Client { client: 1, what: ClientAction::Asks, number };
        let digest = |events: &[(u64, u64)]| {
            let mut journal = Journal::default();
            events.iter().for_each(|&(now_ns, number)| journal.note(now_ns, event(number)));
            journal.digest()
        };
        let base = digest(&[(1, 1), (2, 2)]);
        assert_eq!(base, digest(&[(1, 1), (2, 2)]));
        for other in [&[(2, 2), (1, 1)][..], &[(1, 1), (2, 3)], &[(1, 1), (3, 2)], &[(1, 1)]] {
            assert_ne!(base, digest(other));
        }
    }
}
