//! A running server as a tree of files (`reel mount`), read-only.
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
//! ```
//!
//! A file has one value and a newline. Its text is made when it is opened. Each question of the
//! kernel is answered within a second, with an error number if the server has not answered by then.
#![forbid(unsafe_code)]

mod asking;
mod file_system;
mod http;
mod kept;
pub mod limits;
mod mounted;
mod node;
mod nodes;
mod opened;
mod place;
mod reach;
mod server;
mod tree;

pub use http::HttpServer;
pub use mounted::{MountError, MountOptions, Mounted};
pub use node::{Field, Group, Node};
pub use place::{MountPoint, PlaceError};
pub use server::{AskError, ClassFacts, MemberFacts, Server, TitleFacts};
pub use tree::{Tree, TreeError};
