//! Programs on this machine: their socket, and the memory that they map.

use super::ServeError;
use super::front_ends::{Bound, FrontEndPlan, Starting};
use reel_cache::limits::READER_STRIPES_MAX;
use reel_local::{ArenaMap, LocalCounters, LocalFrontEnd, LocalMetrics};
use reel_rt::RtError;
use reel_serve::FrontEnd;
use reel_volume::Volume;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The socket of programs, and the memory that they map.
pub(super) struct BoundPrograms {
    listener: OwnedFd,
    path: PathBuf,
    arena: ArenaMap,
    window_buffers: usize,
}

impl BoundPrograms {
    /// Binds the socket.
    ///
    /// # Errors
    /// It cannot be used, or media memory cannot be mapped.
    pub(super) fn bind(path: &Path, volume: &Volume) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Programs { path: path.to_owned(), source };
        let arena = ArenaMap::new(volume.arena().clone())
            .ok_or_else(|| failed(io::Error::other("media memory cannot be mapped by others")))?;
        let listener = reel_client::listen(path).map_err(failed)?;
        // A window of pictures, and the units that a few seconds of sound touch.
        let window_buffers = READER_STRIPES_MAX * volume.geometry().data_rows() + 4;
        Ok(Self { listener, path: path.to_owned(), arena, window_buffers })
    }
}

impl Bound for BoundPrograms {
    fn plan(&self) -> FrontEndPlan {
        FrontEndPlan { is_local: true, ..FrontEndPlan::of_one_thread("programs") }
    }

    fn start(self: Box<Self>, place: usize, starting: &Starting<'_>) -> Result<Box<dyn FrontEnd>, RtError> {
        let counters = Arc::new(LocalCounters::default());
        starting.metrics.register(Arc::new(LocalMetrics(Arc::clone(&counters))));
        let front_end = LocalFrontEnd {
            front_end: place,
            counters,
            arena: self.arena,
            window_buffers: self.window_buffers,
            pours: starting.pours.clone(),
            listener: Arc::new(self.listener),
            path: self.path,
        };
        Ok(Box::new(front_end.start(starting.parts, starting.config.driver)?))
    }
}
