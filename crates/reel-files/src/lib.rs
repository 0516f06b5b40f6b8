//! A running server as a tree of files (`reel mount`), with streams that are controlled by them.
//!
//! A [`Tree`] is pure: it says which files there are and what is in them, from what a [`Server`]
//! says. [`HttpServer`] is a server whose HTTP API is asked. [`MountPoint`] checks where the tree
//! is to be mounted, and [`Mounted`] answers the kernel (FUSE) until it is unmounted.
//!
//! ```text
//! titles/TITLE/{name,seconds,rate}
//! capacity
//! members/MEMBER/{state,price}
//! classes/CLASS/{kind,share}
//! streams/clone
//! streams/N/{title,class,rate,position,ctl,state,error,refusal,data}
//! streams/N/out/K/{dest,state,bytes,late,error}
//! ```
//!
//! A file has one value and a newline. Its text is made when it is opened. Each question of the
//! kernel is answered within a second, with an error number if the server has not answered by then.
//!
//! A [`Stream`] of the [`StreamTable`] is pure, too. What they want of a server ([`Media`]) is
//! asked, and told to them, by threads.
#![forbid(unsafe_code)]

mod asking;
mod branches;
mod command;
mod file_system;
mod http;
mod http_media;
mod http_outlets;
mod http_poured;
mod kept;
pub mod limits;
mod line;
mod media;
mod merged;
mod mounted;
mod node;
mod nodes;
mod opened;
mod outlets;
mod pace;
mod place;
mod poured;
mod problem;
mod reach;
mod reference;
mod server;
mod shares;
mod stream;
mod stream_table;
mod streaming;
mod times;
mod tree;

pub use http::HttpServer;
pub use media::{
    Connection, FileForm, Media, MediaSession, NotOpened, OpenAs, PouredBytes, PouredStream, Refused,
};
pub use mounted::{MountError, MountOptions, Mounted};
pub use node::{BranchFile, Field, Group, Node, StreamFile};
pub use outlets::{OutletFacts, Outlets};
pub use place::{MountPoint, PlaceError};
pub use problem::Problem;
pub use server::{AskError, ClassFacts, MemberFacts, Server, TitleFacts};
pub use stream::{Answer, ClassChange, Joining, Look, Owner, PieceWanted, Stream, Wanted};
pub use stream_table::StreamTable;
pub use times::FileTimes;
pub use tree::{Tree, TreeError};
