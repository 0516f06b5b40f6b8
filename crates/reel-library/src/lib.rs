//! Titles in a volume: ingest, opened indexes, export.
#![forbid(unsafe_code)]

mod card;
mod charset;
mod entity_tag;
mod error;
mod export;
mod ffmpeg;
mod guard;
mod ingest;
mod input;
mod library;
pub mod limits;
mod merged;
mod meter;
mod naming;
mod opened_file;
mod opened_titles;
mod poster;
mod poster_job;
mod removed;
mod sidecar;
mod source;
mod store;
mod stream;
mod stream_made;
mod stream_places;
mod stream_store;
mod stream_sums;
mod stream_writer;
mod subtitles;
mod summary;
mod text_file;
mod title;
mod warnings;
mod watch;

pub use card::card_svg;
pub use entity_tag::entity_tag;
pub use error::{IngestError, LibraryError, StreamError, SubtitleError};
pub use ingest::{check, ingest, probe};
pub use input::{Checked, IngestOptions, Ingested, Input, Phase, Progress, Stop};
pub use library::Library;
pub use merged::{is_merged, titles_of};
pub use naming::{clean_file_name, clean_name, is_blank, name_from_file, slug, unique_id};
pub use poster::{Poster, PosterKind, PosterSource, make_poster};
pub use sidecar::{SUBTITLE_EXTENSIONS, Sidecar, find_sidecars, parse_sidecar, read_sidecar};
pub use stream::Stream;
pub use stream_made::AddedStream;
pub use stream_places::{StreamPlaces, SymbolPlace};
pub use subtitles::SubtitleFile;
pub use summary::{
    AudioSummary, Form, FormSummary, PlainFileSummary, SubtitleSummary, TitleSummary, VideoSummary,
};
pub use title::Title;
pub use watch::{
    Arrival, KnownTitles, Now, Stamp, WatchLife, WatchReport, WatchState, WatchedFile, Watcher, media_files,
    stamp_of, watch,
};
