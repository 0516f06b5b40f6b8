//! What the server knows of a program's stream beside its bytes.

use super::ProgramsShared;
use crate::data::film::Film;
use crate::data::terms::{Terms, TermsDesk};
use reel_admit::Session;
use reel_cache::SessionKey;
use reel_qos::{Class, ClassTable};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A stream that is open.
pub(super) struct Playing {
    program: u64,
    tag: u64,
    session: Arc<Session<Film>>,
    class: Class,
    /// Where in its film it begins, if its schedule follows what the program takes.
    paced_from: Option<u64>,
    taken_bytes: u64,
    /// When the program last gave something back, or had nothing to give.
    free_since_ns: u64,
}

impl Playing {
    pub(super) fn new(
        (program, tag): (u64, u64),
        session: Arc<Session<Film>>,
        class: Class,
        paced_from: Option<u64>,
        now_ns: u64,
    ) -> Self {
        Self { program, tag, session, class, paced_from, taken_bytes: 0, free_since_ns: now_ns }
    }

    pub(super) fn program(&self) -> u64 {
        self.program
    }

    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    pub(super) fn class(&self) -> Class {
        self.class
    }

    pub(super) fn key(&self) -> SessionKey {
        self.session.key()
    }

    pub(super) fn title(&self) -> &str {
        self.session.title_id()
    }

    /// The program gave `bytes` back.
    pub(super) fn taken(&mut self, bytes: u64, now_ns: u64) {
        self.taken_bytes += bytes;
        self.free_since_ns = now_ns;
        self.session.sent(bytes, now_ns);
    }

    /// For how long the program has held messages and given none back.
    pub(super) fn has_held(&mut self, held: bool, now_ns: u64) -> u64 {
        if !held {
            self.free_since_ns = now_ns;
        }
        now_ns.saturating_sub(self.free_since_ns)
    }

    /// The terms from here on, where the program is in its film now. What cannot be promised again after a pause goes on as well as it can,
    /// like a response whose head is out.
    pub(super) fn terms(
        &mut self,
        shared: &ProgramsShared,
        classes: &ClassTable,
        now_ns: u64,
    ) -> Option<Terms> {
        let paced_from = self.paced_from?;
        let offset = paced_from + self.taken_bytes;
        let desk = TermsDesk { sessions: &shared.sessions, classes, now_ns };
        let terms = desk.paced(&self.session, paced_from, offset).unwrap_or_else(|refusal| {
            shared.counters.not_admitted(&refusal);
            Terms::unhurried(Class::APERIODIC)
        });
        if terms.class != self.class && terms.class == Class::APERIODIC {
            shared.counters.unpromised.fetch_add(1, Ordering::Relaxed);
        }
        self.class = terms.class;
        Some(terms)
    }
}
