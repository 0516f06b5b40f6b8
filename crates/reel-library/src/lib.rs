//! Titles in a volume: ingest, opened indexes, export.
#![forbid(unsafe_code)]

mod card;
mod charset;
mod error;
mod export;
mod ingest;
mod input;
mod library;
pub mod limits;
mod meter;
mod naming;
mod opened_file;
mod opened_titles;
mod poster;
mod removed;
mod sidecar;
mod source;
mod store;
mod summary;
mod text_file;
mod title;
mod watch;

pub use card::card_svg;
pub use error::{IngestError, LibraryError};
pub use ingest::{check, ingest, probe};
pub use input::{Checked, IngestOptions, Ingested, Input, Phase, Progress, Stop};
pub use library::Library;
pub use naming::{clean_file_name, clean_name, is_blank, name_from_file, slug, unique_id};
pub use poster::{Poster, PosterKind, make_poster};
pub use sidecar::{Sidecar, find_sidecars, read_sidecar};
pub use summary::{AudioSummary, SubtitleSummary, TitleSummary, VideoSummary};
pub use title::Title;
pub use watch::{
    Arrival, KnownTitles, Now, Stamp, WatchReport, WatchState, WatchedFile, Watcher, media_files, stamp_of,
    watch,
};
