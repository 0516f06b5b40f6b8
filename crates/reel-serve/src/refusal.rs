//! Why a client does not get a title.

use reel_play::SessionRefused;

/// Why a title or a session was not opened. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The volume has no such title.
    #[error("there is no title {title}; GET /api/v1/titles lists all")]
    NoSuchTitle {
        /// As the client wrote it.
        title: String,
    },
    /// The title is not stored in the form that is asked for, or two titles cannot be merged.
    #[error("{reason}")]
    NoSuchForm {
        /// What the library says.
        reason: String,
    },
    /// The index of the title cannot be read. It was logged.
    #[error("the title cannot be opened: {reason}")]
    Unreadable {
        /// What the library says.
        reason: String,
    },
    /// The threads that open titles have enough to do.
    #[error("too many titles are being opened at once; try again in a second")]
    TooManyOpenings,
    /// Merged titles that are played take as much memory as they may.
    #[error("{reason}")]
    TooManyMerged {
        /// What the library says.
        reason: String,
    },
    /// No thread has opened the title in time.
    #[error(
        "the title could not be opened in time, because the disks of the server answer slowly or not at all; try again in a few seconds"
    )]
    OpeningTooLong,
    /// A thread panicked while it opened the title. It was logged.
    #[error(
        "the title {title} cannot be opened because of a defect of the server, which is in its log; try again once"
    )]
    Panicked {
        /// As the client wrote it.
        title: String,
    },
    /// Threads panicked on the title more than once. It was logged.
    #[error(
        "the title {title} is set aside because of a defect of the server, which is in its log; a restart of the server, \
         or ingesting the title again, ends this"
    )]
    SetAside {
        /// As the client wrote it.
        title: String,
    },
    /// No class has this name.
    #[error("there is no class {class}; GET /api/v1/classes lists all")]
    NoSuchClass {
        /// As the client wrote it.
        class: String,
    },
    /// The class is for other clients.
    #[error(
        "the class {class} is not for this client; leave `class` out, or let classes.{class}.clients in reel.toml name the client"
    )]
    ClassOfOthers {
        /// As the client wrote it.
        class: String,
    },
    /// The key is for another title.
    #[error(
        "this key is for the title {title}; open {other} with /watch/{other}/{other}.mp4, which gives a key for it"
    )]
    KeyOfTitle {
        /// The title of the key.
        title: String,
        /// As the client wrote it.
        other: String,
    },
    /// The key is for another class.
    #[error(
        "this key is for the class {class}; change that with PATCH /api/v1/sessions/KEY, or open the title again with \
         /watch/{title}/master.m3u8?class={other}"
    )]
    KeyOfClass {
        /// The title of the key.
        title: String,
        /// The class of the key.
        class: String,
        /// As the client wrote it.
        other: String,
    },
    /// The key is for another client.
    #[error(
        "this key was given to another address, and bind_sessions_to_address is set in reel.toml; open the title again with \
         /watch/TITLE/master.m3u8, which gives a key for this address"
    )]
    KeyOfClient,
    /// The key is for a user of this machine.
    #[error(
        "this key was given to another user of this machine, and is for the programs of that user; open the title again with \
         /watch/TITLE/master.m3u8, which gives another key"
    )]
    KeyOfUser,
    /// The session was refused.
    #[error(transparent)]
    Session(#[from] SessionRefused),
}

impl Refusal {
    /// After how many seconds a new request makes sense; 0 if waiting does not help.
    pub fn retry_after_s(&self) -> u64 {
        match self {
            Refusal::TooManyOpenings => 1,
            Refusal::OpeningTooLong => 5,
            Refusal::TooManyMerged { .. } => 30,
            Refusal::Session(refused) if refused.is_too_long() => 0,
            Refusal::Session(SessionRefused::Refused(refused)) => refused.retry_after_s(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_admit::OpenRefused;

    #[test]
    fn only_what_passes_is_worth_another_request() {
        let full = OpenRefused::Full { max: 2, retry_after_s: 30 };
        assert_eq!(Refusal::from(SessionRefused::from(full)).retry_after_s(), 30);
        assert_eq!(Refusal::TooManyOpenings.retry_after_s(), 1);
        assert_eq!(Refusal::OpeningTooLong.retry_after_s(), 5);
        assert_eq!(Refusal::TooManyMerged { reason: "a".into() }.retry_after_s(), 30);
        for lasting in [
            Refusal::from(SessionRefused::TooLong),
            Refusal::NoSuchTitle { title: "a".into() },
            Refusal::NoSuchClass { class: "a".into() },
            Refusal::ClassOfOthers { class: "a".into() },
            Refusal::SetAside { title: "a".into() },
        ] {
            assert_eq!(lasting.retry_after_s(), 0, "{lasting}");
        }
    }
}
