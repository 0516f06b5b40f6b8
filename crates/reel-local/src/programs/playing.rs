//! What the front end records of a program's stream beside its bytes.

use reel_admit::Session;
use reel_play::PlayableTitle;
use reel_serve::{OpenedSession, Viewing};
use std::sync::Arc;

/// A stream that is open. Its session ends with it, or with the last one of its set.
pub(super) struct Playing {
    program: u64,
    tag: u64,
    pub(super) session: Arc<OpenedSession>,
    /// Set while a poured stream is read of which more may come.
    pub(super) live: Option<Viewing>,
    /// It reads a poured stream, also after that has ended.
    is_poured: bool,
    /// When the program last gave a message back, or had no message to give back.
    free_since_ns: u64,
}

impl Playing {
    pub(super) fn new(
        (program, tag): (u64, u64),
        session: impl Into<Arc<OpenedSession>>,
        now_ns: u64,
    ) -> Self {
        let session = session.into();
        Self { program, tag, session, live: None, is_poured: false, free_since_ns: now_ns }
    }

    /// One that reads a poured stream.
    pub(super) fn of_live(names: (u64, u64), session: OpenedSession, live: Viewing, now_ns: u64) -> Self {
        Self { live: Some(live), is_poured: true, ..Self::new(names, session, now_ns) }
    }

    /// Whether nothing of it is in the arena: it reads a poured stream.
    pub(super) fn is_poured(&self) -> bool {
        self.is_poured
    }

    pub(super) fn program(&self) -> u64 {
        self.program
    }

    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    pub(super) fn session(&self) -> &Session<PlayableTitle> {
        &self.session
    }

    pub(super) fn title(&self) -> &str {
        self.session.title_id()
    }

    /// The program gave bytes back.
    pub(super) fn taken(&mut self, now_ns: u64) {
        self.free_since_ns = now_ns;
    }

    /// For how long the program has held messages without giving one back.
    pub(super) fn has_held(&mut self, held: bool, now_ns: u64) -> u64 {
        if !held {
            self.free_since_ns = now_ns;
        }
        now_ns.saturating_sub(self.free_since_ns)
    }
}
