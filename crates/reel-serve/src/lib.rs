//! What every front end does around the engine, whatever its protocol.
//!
//! A front end is a [`Protocol`] on [`ServeThreads`]: each thread has one core, one engine, and the
//! protocol's connections. Titles and sessions are opened by an [`Opener`], or refused with a
//! reason. A front end writes a [`Refusal`] in its own protocol: as a status code, a field, a
//! message. The server starts, watches and stops a list of [`FrontEnd`]s.
#![forbid(unsafe_code)]

mod accept;
mod allowed_clients;
mod base_path;
mod class_clients;
mod forwarded;
mod front_end;
mod http_date;
mod key_use;
pub mod limits;
mod local_users;
mod opened_session;
mod opening;
mod openings;
mod path;
mod places;
mod poured;
mod proxies;
mod reader_table;
mod refusal;
mod relative;
mod room;
mod set_aside;
pub mod streams;
mod thread;
mod titles;
mod writing;

pub use accept::{Accepted, Counted, OpenConnections};
pub use allowed_clients::AllowedClients;
pub use base_path::{BasePath, NoBasePath};
pub use class_clients::ClassRights;
pub use forwarded::ForwardedFor;
pub use front_end::{FrontEnd, Listening, ServeThreads, ThreadsConfig, Waker};
pub use http_date::{http_date, last_modified, seconds_of_http_date};
pub use key_use::{KeyOf, KeyUse};
pub use local_users::{LocalSocket, USER_FIELD, client_of};
pub use opened_session::OpenedSession;
pub use opening::Opener;
pub use path::normal_path;
pub use places::{NoPlace, Place, PlaceShares, Places};
pub use poured::{LIVE, Poured, Viewing};
pub use proxies::{Proxies, ProxyHeader};
pub use reader_table::{KnownReader, ReaderName, ReaderTable};
pub use refusal::Refusal;
pub use relative::relative_address;
pub use room::Leaving;
pub use thread::{OpenResult, Parts, Protocol, Serve, Step};
pub use titles::{OpenIndex, Titles};
pub use writing::Writing;
