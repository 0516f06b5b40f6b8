//! Which files there are, and what is in them.

use crate::command::line_of;
use crate::kept::Kept;
use crate::line::one_line;
use crate::media::NotOpened;
use crate::node::{Field, Group, Node, is_name};
use crate::problem::Problem;
use crate::server::{AskError, ClassFacts, MemberFacts, Server, TitleFacts};
use crate::shares::{permille, with_share};
use crate::streaming::why_not;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The tree of a server.
pub struct Tree<S> {
    server: Kept<S>,
    /// Held while the classes are changed, which takes two requests.
    changing: Mutex<()>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no such file or directory.
    #[error("there is no such file or directory")]
    NoEntry,
    /// It is a file.
    #[error("it is no directory")]
    NoDirectory,
    /// It is a directory.
    #[error("it is a directory")]
    IsDirectory,
    /// The server knows no value.
    #[error("the server knows no value")]
    NoValue,
    /// The server gave no answer.
    #[error(transparent)]
    Asked(#[from] AskError),
}

impl<S: Server> Tree<S> {
    /// The tree of a server.
    pub fn new(server: S) -> Tree<S> {
        Tree { server: Kept::new(server), changing: Mutex::default() }
    }

    /// Whether the server may have to be asked for an entry of a directory, or for all of them. It
    /// is asked for every text.
    pub fn asks_for_entries(&self, directory: &Node) -> bool {
        matches!(directory, Node::Group(_))
    }

    /// What has a name in a directory. `now` is when the kernel asked, and `until` when it has to
    /// be answered.
    ///
    /// # Errors
    /// There is no such entry, or the server does not say.
    pub fn lookup(
        &self,
        directory: &Node,
        name: &str,
        now: Instant,
        until: Instant,
    ) -> Result<Node, TreeError> {
        let named = |nodes: &[Node]| nodes.iter().find(|node| node.name() == name).cloned();
        let node = match directory {
            Node::Root => named(&at_root()),
            Node::Thing(group, thing) => named(&values(*group, thing)),
            Node::Group(group) => {
                // No other name is sent to the server.
                let thing: Arc<str> =
                    Some(name).filter(|name| is_name(name)).ok_or(TreeError::NoEntry)?.into();
                let is_there = match group {
                    Group::Titles => self.server.title(&thing, now, until)?.is_some(),
                    Group::Members | Group::Classes => self.things(*group, now, until)?.contains(&thing),
                };
                is_there.then_some(Node::Thing(*group, thing))
            }
            Node::Capacity | Node::Value(..) | Node::Clone | Node::OfStream(..) => {
                return Err(TreeError::NoDirectory);
            }
            // Which streams there are is no matter of the server.
            Node::Streams | Node::Stream(_) | Node::Out(_) | Node::Branch(..) => None,
        };
        node.ok_or(TreeError::NoEntry)
    }

    /// What is in a directory, in an order that stays.
    ///
    /// # Errors
    /// It is a file, or the server does not say.
    pub fn list(&self, directory: &Node, now: Instant, until: Instant) -> Result<Vec<Node>, TreeError> {
        match directory {
            Node::Root => Ok(at_root()),
            Node::Thing(group, thing) => Ok(values(*group, thing)),
            Node::Group(group) => {
                let things = self.things(*group, now, until)?;
                Ok(things.into_iter().map(|thing| Node::Thing(*group, thing)).collect())
            }
            Node::Capacity | Node::Value(..) | Node::Clone | Node::OfStream(..) => {
                Err(TreeError::NoDirectory)
            }
            Node::Streams | Node::Stream(_) | Node::Out(_) | Node::Branch(..) => Ok(Vec::new()),
        }
    }

    /// The text of a file: its value and a newline.
    ///
    /// # Errors
    /// It is a directory, what it tells of is gone, or the server does not say.
    pub fn text(&self, file: &Node, now: Instant, until: Instant) -> Result<String, TreeError> {
        let value = match file {
            directory if directory.is_directory() => return Err(TreeError::IsDirectory),
            Node::Root
            | Node::Group(_)
            | Node::Thing(..)
            | Node::Streams
            | Node::Stream(_)
            | Node::Out(_)
            | Node::Branch(..)
            | Node::Clone
            | Node::OfStream(..) => return Err(TreeError::NoEntry),
            Node::Capacity => self.server.more_viewers(now, until)?.to_string(),
            Node::Value(Group::Titles, id, field) => {
                let title = self.server.title(id, now, until)?.ok_or(TreeError::NoEntry)?;
                of_title(&title, *field).ok_or(TreeError::NoValue)?
            }
            Node::Value(Group::Members, number, field) => {
                let members = self.server.members(now, until)?;
                let member = members.iter().find(|member| *member.member.to_string() == **number);
                of_member(member.ok_or(TreeError::NoEntry)?, *field).ok_or(TreeError::NoValue)?
            }
            Node::Value(Group::Classes, name, field) => {
                let classes = self.server.classes(now, until)?;
                let class = classes.iter().find(|class| class.name == *name);
                of_class(class.ok_or(TreeError::NoEntry)?, *field).ok_or(TreeError::NoValue)?
            }
        };
        Ok(one_line(&value))
    }

    /// Writes the share of a class: one line, with the number that a read gives. The difference is
    /// taken from the class `aperiodic`, or given to it.
    ///
    /// # Errors
    /// It is no such file (any more) or no share, the server refuses it, or does not say.
    pub fn write(&self, file: &Node, written: &[u8], now: Instant, until: Instant) -> Result<(), Problem> {
        let Node::Value(Group::Classes, class, Field::Share) = file else {
            return Err(Problem::new(Errno::ROFS, "only the share of a class can be written"));
        };
        let share_permille = permille(line_of(written)?)?;
        let why_not = |not_done: NotOpened| why_not(not_done).0;
        // Of two that are written at once, none is lost. One that waits has no less time than the
        // one that it waits for.
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let classes = self.server.classes_now(now, until).map_err(|error| why_not(error.into()))?;
        let changed = with_share(classes, class, share_permille);
        let changed =
            changed.ok_or_else(|| Problem::new(Errno::NOENT, format!("there is no class {class:?}")))?;
        self.server.set_classes(&changed, now, until).map_err(why_not)
    }

    /// The names of the things of a group.
    fn things(&self, group: Group, now: Instant, until: Instant) -> Result<Vec<Arc<str>>, AskError> {
        Ok(match group {
            Group::Titles => self.server.titles(now, until)?.keys().cloned().collect(),
            Group::Members => {
                let members = self.server.members(now, until)?;
                members.iter().map(|member| member.member.to_string().into()).collect()
            }
            Group::Classes => {
                let classes = self.server.classes(now, until)?;
                classes.iter().map(|class| class.name.clone()).collect()
            }
        })
    }
}

fn at_root() -> Vec<Node> {
    let groups = Group::ALL.into_iter().map(Node::Group);
    groups.chain([Node::Streams, Node::Capacity]).collect()
}

fn values(group: Group, thing: &Arc<str>) -> Vec<Node> {
    group.fields().iter().map(|field| Node::Value(group, thing.clone(), *field)).collect()
}

fn of_title(title: &TitleFacts, field: Field) -> Option<String> {
    match field {
        Field::Name => Some(title.name.clone()),
        Field::Seconds => Some(title.seconds.to_string()),
        Field::Rate => title.rate_bps.map(|rate| rate.to_string()),
        _ => None,
    }
}

fn of_member(member: &MemberFacts, field: Field) -> Option<String> {
    match field {
        Field::State => Some(member.state.clone()),
        Field::Price => Some(format!("{} {}", member.request_us, member.mib_us)),
        _ => None,
    }
}

fn of_class(class: &ClassFacts, field: Field) -> Option<String> {
    match field {
        Field::Kind => Some(class.kind.clone()),
        Field::Share => Some(class.share_permille.to_string()),
        _ => None,
    }
}
