//! The window of time that is measured: it begins when all viewers have come.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// Reads meters at the beginning and the end of the window.
pub(crate) struct Window<R, F> {
    began: Instant,
    ahead: Duration,
    lasts: Duration,
    read: F,
    first: Option<(Instant, u64, R)>,
    last: Option<Result<(f64, u64, R)>>,
}

impl<R, F: FnMut() -> Result<R>> Window<R, F> {
    /// A window that begins `ahead` from now and has this length.
    pub(crate) fn new(ahead: Duration, lasts: Duration, read: F) -> Self {
        Self { began: Instant::now(), ahead, lasts, read, first: None, last: None }
    }

    /// Takes the bytes that have arrived; returns whether to continue.
    pub(crate) fn poll(&mut self, bytes: u64) -> bool {
        match &self.first {
            None if self.began.elapsed() < self.ahead => true,
            None => match (self.read)() {
                Ok(read) => {
                    self.first = Some((Instant::now(), bytes, read));
                    true
                }
                Err(error) => {
                    self.last = Some(Err(error));
                    false
                }
            },
            Some((at, _, _)) if at.elapsed() < self.lasts => true,
            Some((at, before, _)) => {
                if self.last.is_none() {
                    let took_s = at.elapsed().as_secs_f64();
                    self.last = Some((self.read)().map(|read| (took_s, bytes - before, read)));
                }
                false
            }
        }
    }

    /// Its seconds, the bytes that arrived in them, and what was read before and after.
    pub(crate) fn result(self) -> Result<(f64, u64, (R, R))> {
        let gone = "the viewers were gone before anything could be measured";
        let (took_s, bytes, after) = self.last.context(gone)??;
        let (_, _, before) = self.first.context(gone)?;
        Ok((took_s, bytes, (before, after)))
    }
}
