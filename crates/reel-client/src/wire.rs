//! The messages on the socket: a head of fixed size and some text, in the byte order of the
//! machine. `reel_mms.h` defines the same.

use crate::limits::PROGRAM_TEXT_BYTES_MAX;

/// The first word of every message.
const MAGIC: u32 = u32::from_ne_bytes(*b"RLMS");
/// The version of the socket's messages and of what is in shared memory.
const VERSION: u16 = 3;
const REQUEST_HEAD_BYTES: usize = 32;
const REPLY_HEAD_BYTES: usize = 56;
/// What a request to pour has between its head and its text.
const TERMS_BYTES: usize = 32;

const OPEN: u16 = 1;
const CLOSE: u16 = 2;
const BELL: u16 = 3;
const CHANGE: u16 = 4;
const POUR: u16 = 5;
const RESIZE: u16 = 6;
const OPEN_IN_STEP: u16 = 7;

/// The longest message in either direction.
pub(crate) const MESSAGE_BYTES_MAX: usize = REQUEST_HEAD_BYTES + TERMS_BYTES + PROGRAM_TEXT_BYTES_MAX;

/// A message of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests a title.
    Open {
        /// The program's name for the stream.
        tag: u64,
        /// Where in the title's file to begin, in bytes.
        from_bytes: u64,
        /// Id of the title.
        title: String,
        /// Name of the class; empty for streams with deadlines.
        class: String,
    },
    /// Requests one of the streams of a set in step. They are opened when all were requested.
    OpenInStep(InStepRequest),
    /// Ends a stream.
    Close {
        /// The program's name for the stream.
        tag: u64,
    },
    /// A message that the server waits for was given back, or was written.
    Bell,
    /// Pours a stream. Two descriptors come with the message: the memory that the program writes,
    /// and that in which the server records what it has read.
    Pour(PourRequest),
    /// Changes how much of a stream the program holds at most.
    Resize {
        /// The program's name for the stream.
        tag: u64,
        /// Bytes that were written to the stream and not given back.
        held_bytes: u64,
    },
    /// Has a stream continue in another class.
    Change {
        /// The program's name for the stream.
        tag: u64,
        /// Name of the class; empty for streams with deadlines.
        class: String,
    },
}

/// A request for one of the streams of a set in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InStepRequest {
    /// The program's name for the stream. Those of a set follow each other.
    pub tag: u64,
    /// Which one of the set it is, from 0, and of how many.
    pub number: u16,
    /// See `number`.
    pub of: u16,
    /// The media time at which all of the set begin.
    pub from_ns: u64,
    /// Id of the title, or with `#` and the name or number of a track.
    pub title: String,
    /// Name of the class; empty for streams with deadlines.
    pub class: String,
}

/// What a program declares of a stream that it pours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PourRequest {
    /// The program's name for the stream.
    pub tag: u64,
    /// The name under which it is played.
    pub name: String,
    /// Its media type.
    pub content_type: String,
    /// Bytes in a second.
    pub bytes_per_s: u64,
    /// Bytes that may come before their time.
    pub workahead_bytes: u64,
    /// How long after its time a byte is due at a viewer.
    pub delay_ns: u64,
    /// Length of the memory that the program writes.
    pub producer_bytes: u64,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A stream was opened. Three descriptors come with the message: arena, producer's memory,
    /// consumer's memory.
    Opened(OpenedStream),
    /// A stream was not opened.
    Refused {
        /// The program's name for the stream.
        tag: u64,
        /// The kind of reason.
        code: RefusalCode,
        /// Seconds after which it is worth asking again; 0 if it is not.
        retry_after_s: u64,
        /// The reason.
        text: String,
    },
    /// A message that the program waits for has come.
    Bell,
    /// A stream continues in the class that was asked for.
    Changed {
        /// The program's name for the stream.
        tag: u64,
    },
    /// A stream is poured from now on.
    Poured {
        /// The program's name for the stream.
        tag: u64,
    },
    /// A stream is not poured.
    NotPoured {
        /// The program's name for the stream.
        tag: u64,
        /// The kind of reason.
        code: RefusalCode,
        /// Seconds after which it is worth asking again; 0 if it is not.
        retry_after_s: u64,
        /// The reason.
        text: String,
    },
    /// A stream keeps its class, and all that is reserved for it.
    NotChanged {
        /// The program's name for the stream.
        tag: u64,
        /// The kind of reason.
        code: RefusalCode,
        /// Seconds after which it is worth asking again; 0 if it is not.
        retry_after_s: u64,
        /// The reason.
        text: String,
    },
}

/// Why a stream was not opened, or does not change its class, as a number on the wire. The names
/// are those of the problem types of the HTTP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// Only the text says it.
    Other = 1,
    /// The volume has no such title.
    NoSuchTitle = 2,
    /// The request cannot be granted at any time.
    BadRequest = 3,
    /// The deadlines of the stream cannot be reserved now.
    NotAdmitted = 4,
    /// The title is too long to be reserved.
    TooLong = 5,
    /// The server cannot open the stream at the moment.
    Unavailable = 6,
}

/// The sizes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedStream {
    /// The program's name for the stream.
    pub tag: u64,
    /// Length of the whole file.
    pub file_bytes: u64,
    /// Length of the arena.
    pub arena_bytes: u64,
    /// Length of the producer's memory.
    pub producer_bytes: u64,
    /// Length of the consumer's memory.
    pub consumer_bytes: u64,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They do not begin like one, or are of another version.
    #[error("this is not a message of version {VERSION} of Reel's streams for programs")]
    Foreign,
    /// They are shorter or longer than the head says.
    #[error("the length field of a stream message does not match its length")]
    Length,
    /// The text is not UTF-8.
    #[error("the text in a message for streams is not UTF-8")]
    Text,
}

impl RefusalCode {
    /// The code of a number that is not 0. What this version does not know is
    /// [`RefusalCode::Other`].
    fn from_number(number: u16) -> RefusalCode {
        use RefusalCode::{BadRequest, NoSuchTitle, NotAdmitted, Other, TooLong, Unavailable};
        let known = [NoSuchTitle, BadRequest, NotAdmitted, TooLong, Unavailable];
        known.into_iter().find(|code| *code as u16 == number).unwrap_or(Other)
    }
}

impl Request {
    /// The bytes of the message.
    ///
    /// # Errors
    /// The title and the class are too long together.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let (op, tag, from, title, class) = match self {
            Request::Open { tag, from_bytes, title, class } => {
                (OPEN, *tag, *from_bytes, title.as_str(), class.as_str())
            }
            Request::OpenInStep(request) => {
                let InStepRequest { tag, from_ns, title, class, .. } = request;
                (OPEN_IN_STEP, *tag, *from_ns, title.as_str(), class.as_str())
            }
            Request::Close { tag } => (CLOSE, *tag, 0, "", ""),
            Request::Bell => (BELL, 0, 0, "", ""),
            Request::Resize { tag, held_bytes } => (RESIZE, *tag, *held_bytes, "", ""),
            Request::Change { tag, class } => (CHANGE, *tag, 0, "", class.as_str()),
            Request::Pour(pour) => (POUR, pour.tag, 0, pour.name.as_str(), pour.content_type.as_str()),
        };
        if title.len() + class.len() > PROGRAM_TEXT_BYTES_MAX {
            return Err(WireError::Length);
        }
        let mut bytes = head(op);
        bytes.extend(tag.to_ne_bytes());
        bytes.extend(from.to_ne_bytes());
        // The casts fit: the lengths were checked above.
        bytes.extend((title.len() as u16).to_ne_bytes());
        bytes.extend((class.len() as u16).to_ne_bytes());
        let [number, of] = match self {
            Request::OpenInStep(request) => [request.number, request.of],
            _ => [0, 0],
        };
        bytes.extend(number.to_ne_bytes());
        bytes.extend(of.to_ne_bytes());
        if let Request::Pour(pour) = self {
            for number in [pour.bytes_per_s, pour.workahead_bytes, pour.delay_ns, pour.producer_bytes] {
                bytes.extend(number.to_ne_bytes());
            }
        }
        bytes.extend(title.as_bytes());
        bytes.extend(class.as_bytes());
        Ok(bytes)
    }

    /// Decodes bytes from an untrusted program.
    ///
    /// # Errors
    /// The bytes are not a request.
    pub fn decode(bytes: &[u8]) -> Result<Request, WireError> {
        let op = op_of(bytes)?;
        let head_bytes = if op == POUR { REQUEST_HEAD_BYTES + TERMS_BYTES } else { REQUEST_HEAD_BYTES };
        let (head, text) = bytes.split_at_checked(head_bytes).ok_or(WireError::Length)?;
        let title_bytes = usize::from(u16::from_ne_bytes(field(head, 24)));
        let class_bytes = usize::from(u16::from_ne_bytes(field(head, 26)));
        if text.len() != title_bytes + class_bytes {
            return Err(WireError::Length);
        }
        let tag = u64::from_ne_bytes(field(head, 8));
        let texts = || {
            let text = str::from_utf8(text).map_err(|_| WireError::Text)?;
            let (title, class) = text.split_at_checked(title_bytes).ok_or(WireError::Text)?;
            Ok((title.to_owned(), class.to_owned()))
        };
        match op {
            CHANGE => Ok(Request::Change { tag, class: texts()?.1 }),
            OPEN => {
                let (title, class) = texts()?;
                Ok(Request::Open { tag, from_bytes: u64::from_ne_bytes(field(head, 16)), title, class })
            }
            OPEN_IN_STEP => {
                let (title, class) = texts()?;
                let [number, of] = [28, 30].map(|at| u16::from_ne_bytes(field(head, at)));
                let from_ns = u64::from_ne_bytes(field(head, 16));
                Ok(Request::OpenInStep(InStepRequest { tag, number, of, from_ns, title, class }))
            }
            CLOSE => Ok(Request::Close { tag }),
            RESIZE => Ok(Request::Resize { tag, held_bytes: u64::from_ne_bytes(field(head, 16)) }),
            BELL => Ok(Request::Bell),
            POUR => {
                let (name, content_type) = texts()?;
                let number = |number: usize| u64::from_ne_bytes(field(head, REQUEST_HEAD_BYTES + 8 * number));
                let [bytes_per_s, workahead_bytes, delay_ns, producer_bytes] = [0, 1, 2, 3].map(number);
                let terms = PourRequest {
                    tag,
                    name,
                    content_type,
                    bytes_per_s,
                    workahead_bytes,
                    delay_ns,
                    producer_bytes,
                };
                Ok(Request::Pour(terms))
            }
            _ => Err(WireError::Foreign),
        }
    }
}

impl Reply {
    /// The bytes of the message. A text that is too long is cut.
    pub fn encode(&self) -> Vec<u8> {
        let (op, tag, refused, retry_after_s, sizes, text) = match self {
            Reply::Opened(opened) => {
                let OpenedStream { tag, file_bytes, arena_bytes, producer_bytes, consumer_bytes } = *opened;
                (OPEN, tag, 0, 0, [file_bytes, arena_bytes, producer_bytes, consumer_bytes], "")
            }
            Reply::Refused { tag, code, retry_after_s, text } => {
                (OPEN, *tag, *code as u16, *retry_after_s, [0; 4], text.as_str())
            }
            Reply::Bell => (BELL, 0, 0, 0, [0; 4], ""),
            Reply::Changed { tag } => (CHANGE, *tag, 0, 0, [0; 4], ""),
            Reply::NotChanged { tag, code, retry_after_s, text } => {
                (CHANGE, *tag, *code as u16, *retry_after_s, [0; 4], text.as_str())
            }
            Reply::Poured { tag } => (POUR, *tag, 0, 0, [0; 4], ""),
            Reply::NotPoured { tag, code, retry_after_s, text } => {
                (POUR, *tag, *code as u16, *retry_after_s, [0; 4], text.as_str())
            }
        };
        let mut cut = text.len().min(PROGRAM_TEXT_BYTES_MAX);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut bytes = head(op);
        bytes.extend(tag.to_ne_bytes());
        bytes.extend(u16::to_ne_bytes(refused));
        // The cast fits: the text was cut above.
        bytes.extend((cut as u16).to_ne_bytes());
        bytes.extend(u32::try_from(retry_after_s).unwrap_or(u32::MAX).to_ne_bytes());
        for size in sizes {
            bytes.extend(size.to_ne_bytes());
        }
        bytes.extend(&text.as_bytes()[..cut]);
        bytes
    }

    /// Decodes bytes from a server.
    ///
    /// # Errors
    /// The bytes are not a reply.
    pub fn decode(bytes: &[u8]) -> Result<Reply, WireError> {
        let op = op_of(bytes)?;
        let (head, text) = bytes.split_at_checked(REPLY_HEAD_BYTES).ok_or(WireError::Length)?;
        if text.len() != usize::from(u16::from_ne_bytes(field(head, 18))) {
            return Err(WireError::Length);
        }
        let tag = u64::from_ne_bytes(field(head, 8));
        let size = |number: usize| u64::from_ne_bytes(field(head, 24 + 8 * number));
        let retry_after_s = u32::from_ne_bytes(field(head, 20)).into();
        let text = || str::from_utf8(text).map(str::to_owned).map_err(|_| WireError::Text);
        match (op, u16::from_ne_bytes(field(head, 16))) {
            (OPEN, 0) => Ok(Reply::Opened(OpenedStream {
                tag,
                file_bytes: size(0),
                arena_bytes: size(1),
                producer_bytes: size(2),
                consumer_bytes: size(3),
            })),
            (OPEN, refused) => Ok(Reply::Refused {
                tag,
                code: RefusalCode::from_number(refused),
                retry_after_s,
                text: text()?,
            }),
            (CHANGE, 0) => Ok(Reply::Changed { tag }),
            (CHANGE, refused) => Ok(Reply::NotChanged {
                tag,
                code: RefusalCode::from_number(refused),
                retry_after_s,
                text: text()?,
            }),
            (POUR, 0) => Ok(Reply::Poured { tag }),
            (POUR, refused) => Ok(Reply::NotPoured {
                tag,
                code: RefusalCode::from_number(refused),
                retry_after_s,
                text: text()?,
            }),
            (BELL, _) => Ok(Reply::Bell),
            _ => Err(WireError::Foreign),
        }
    }
}

fn head(op: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REPLY_HEAD_BYTES);
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend(VERSION.to_ne_bytes());
    bytes.extend(op.to_ne_bytes());
    bytes
}

fn op_of(bytes: &[u8]) -> Result<u16, WireError> {
    if bytes.len() < 8 {
        return Err(WireError::Length);
    }
    if u32::from_ne_bytes(field(bytes, 0)) != MAGIC || u16::from_ne_bytes(field(bytes, 4)) != VERSION {
        return Err(WireError::Foreign);
    }
    Ok(u16::from_ne_bytes(field(bytes, 6)))
}

/// The bytes of a number at `at`, which is within the head that was checked.
fn field<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut field = [0; BYTES];
    field.copy_from_slice(&bytes[at..at + BYTES]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = Request> {
        let open = (any::<u64>(), any::<u64>(), "[a-z\u{e9}-]{0,40}", "[a-z]{0,20}")
            .prop_map(|(tag, from_bytes, title, class)| Request::Open { tag, from_bytes, title, class });
        let in_step = (any::<(u64, u16, u16, u64)>(), "[a-z#\u{e9}-]{0,40}", "[a-z]{0,20}").prop_map(
            |((tag, number, of, from_ns), title, class)| {
                Request::OpenInStep(InStepRequest { tag, number, of, from_ns, title, class })
            },
        );
        let change = (any::<u64>(), "[a-z]{0,20}").prop_map(|(tag, class)| Request::Change { tag, class });
        let resize = any::<(u64, u64)>().prop_map(|(tag, held_bytes)| Request::Resize { tag, held_bytes });
        let pour = (any::<[u64; 5]>(), "[a-z0-9-]{0,40}", "[a-z/]{0,20}").prop_map(
            |([tag, bytes_per_s, workahead_bytes, delay_ns, producer_bytes], name, content_type)| {
                Request::Pour(PourRequest {
                    tag,
                    name,
                    content_type,
                    bytes_per_s,
                    workahead_bytes,
                    delay_ns,
                    producer_bytes,
                })
            },
        );
        prop_oneof![
            open,
            in_step,
            change,
            resize,
            pour,
            any::<u64>().prop_map(|tag| Request::Close { tag }),
            Just(Request::Bell)
        ]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let opened =
            any::<[u64; 5]>().prop_map(|[tag, file_bytes, arena_bytes, producer_bytes, consumer_bytes]| {
                Reply::Opened(OpenedStream { tag, file_bytes, arena_bytes, producer_bytes, consumer_bytes })
            });
        let refused = (0..3_u8, any::<u64>(), 1..7_u16, any::<u32>(), ".{0,80}").prop_map(
            |(what, tag, code, retry_after_s, text)| {
                let (code, retry_after_s) = (RefusalCode::from_number(code), retry_after_s.into());
                match what {
                    0 => Reply::Refused { tag, code, retry_after_s, text },
                    1 => Reply::NotPoured { tag, code, retry_after_s, text },
                    _ => Reply::NotChanged { tag, code, retry_after_s, text },
                }
            },
        );
        let changed = any::<u64>().prop_map(|tag| Reply::Changed { tag });
        let poured = any::<u64>().prop_map(|tag| Reply::Poured { tag });
        prop_oneof![opened, refused, changed, poured, Just(Reply::Bell)]
    }

    proptest! {
        #[test]
        fn encoded_messages_are_decoded(request in requests(), reply in replies()) {
            prop_assert_eq!(Request::decode(&request.encode().unwrap()), Ok(request));
            prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::decode(&bytes);
            let _ = Reply::decode(&bytes);
        }

        #[test]
        fn a_changed_message_is_decoded_or_refused(
            request in requests(), at in 0..64usize, with in any::<u8>(), cut in 0..64usize,
        ) {
            let mut bytes = request.encode().unwrap();
            let at = at % bytes.len();
            bytes[at] = with;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let _ = Request::decode(&bytes);
        }
    }

    /// The C header defines the same number for every code.
    #[test]
    fn the_header_defines_the_same_codes() {
        let header = include_str!("../c/reel_mms.h");
        for (name, code) in [
            ("OTHER", RefusalCode::Other),
            ("NO_SUCH_TITLE", RefusalCode::NoSuchTitle),
            ("BAD_REQUEST", RefusalCode::BadRequest),
            ("NOT_ADMITTED", RefusalCode::NotAdmitted),
            ("TOO_LONG", RefusalCode::TooLong),
            ("UNAVAILABLE", RefusalCode::Unavailable),
        ] {
            let number = code as u16;
            assert_eq!(RefusalCode::from_number(number), code);
            assert!(header.contains(&format!(" REEL_REFUSED_{name} = {number}")), "{name}");
        }
        assert_eq!(RefusalCode::from_number(u16::MAX), RefusalCode::Other);
        let ops = [("OPEN", OPEN), ("CLOSE", CLOSE), ("BELL", BELL), ("CHANGE", CHANGE)];
        let later = [("POUR", POUR), ("RESIZE", RESIZE), ("OPEN_IN_STEP", OPEN_IN_STEP)];
        for (name, op) in ops.into_iter().chain(later) {
            assert!(header.contains(&format!("REEL_OP_{name} = {op}")), "{name}");
        }
    }

    #[test]
    fn long_texts_are_cut_or_refused() {
        let title = "x".repeat(PROGRAM_TEXT_BYTES_MAX + 1);
        let long = Request::Open { tag: 1, from_bytes: 0, title: title.clone(), class: String::new() };
        assert_eq!(long.encode(), Err(WireError::Length));
        let reply = Reply::Refused { tag: 1, code: RefusalCode::Other, retry_after_s: 0, text: title };
        assert_eq!(reply.encode().len(), REPLY_HEAD_BYTES + PROGRAM_TEXT_BYTES_MAX);
    }
}
