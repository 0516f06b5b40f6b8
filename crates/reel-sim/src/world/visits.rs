//! What clients do: they come, ask for segments, wait, touch their players, and go.

use super::people::Kind;
use super::{Event, SECOND_NS, World};
use crate::client::{Touch, Want};
use crate::core::{Outcome, Request};
use crate::desk::Terms;
use crate::journal::Deed;
use crate::limits::{CLOSES_PERMILLE, INTERACTIVE_DEADLINE_NS};
use crate::scale::ROW_BYTES;
use crate::shelf::Title;
use reel_qos::{Class, DEADLINE_NONE_NS};
use reel_stream::Due;
use std::sync::Arc;

impl World {
    /// A client looks at the time.
    pub(super) fn wake(&mut self, number: u32) -> Result<(), String> {
        if self.core.is_busy(number) {
            return Ok(());
        }
        let client = &mut self.clients[number as usize];
        match &mut client.kind {
            Kind::Viewer(player) if player.title().is_none() => {
                let title = player.choose(&self.shelf);
                self.open(number, title)
            }
            Kind::Viewer(_) => self.go_on(number),
            Kind::Browser => {
                let title = self.shelf.choose(&mut client.rng);
                let rows = title.map.bytes() / ROW_BYTES as u64;
                let row = client.rng.below(rows);
                let end = (row + client.rng.range(1, 5)).min(rows);
                let range = row * ROW_BYTES as u64..end * ROW_BYTES as u64;
                let (title, due) = (Arc::clone(title), Due::After(INTERACTIVE_DEADLINE_NS));
                self.ask(number, title, range, (Class::INTERACTIVE, due, None))
            }
            Kind::Bulk => {
                let title = Arc::clone(self.shelf.choose(&mut client.rng));
                let range = 0..title.map.bytes();
                self.ask(number, title, range, (Class::APERIODIC, Due::After(DEADLINE_NONE_NS), None))
            }
        }
    }

    pub(super) fn open(&mut self, number: u32, title: Arc<Title>) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        match self.desk.open(number, &title, self.now_ns) {
            Ok(seat) => client.seat = Some(seat),
            Err(_) => {
                self.report.refused += 1;
                self.deed(number, Deed::Refused, title.number as u64);
                self.leave(number);
                return Ok(());
            }
        }
        let opened = title.number as u64;
        player.open(title);
        client.visit += 1;
        let (at_ns, visit) = (player.next_touch_ns(self.now_ns), client.visit);
        self.at(at_ns, Event::Touch { client: number, visit });
        self.report.opened += 1;
        self.deed(number, Deed::Opens, opened);
        self.go_on(number)
    }

    /// A viewer with nothing under way does what it wants next.
    pub(super) fn go_on(&mut self, number: u32) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        match player.want(self.now_ns) {
            Want::Segment(segment) => {
                let Some(title) = player.title().cloned() else { return Ok(()) };
                let Some(seat) = client.seat.clone() else { return Ok(()) };
                let Ok(Terms { class, due, due_ns, plan }) = self.desk.ask(&seat, segment, self.now_ns)
                else {
                    self.report.refused += 1;
                    self.deed(number, Deed::Refused, title.number as u64);
                    self.leave(number);
                    return Ok(());
                };
                self.core.plan(seat.key(), plan);
                self.deed(number, Deed::Asks, segment as u64);
                let promised_ns = (class == Class::PERIODIC).then_some(due_ns);
                self.ask(number, title.clone(), title.segment(segment), (class, due, promised_ns))
            }
            Want::Sleep(at_ns) => {
                client.turn += 1;
                let turn = client.turn;
                self.at(at_ns, Event::Wake { client: number, turn });
                Ok(())
            }
            Want::Leave => {
                self.leave(number);
                Ok(())
            }
        }
    }

    pub(super) fn ask(
        &mut self,
        number: u32,
        title: Arc<Title>,
        range: std::ops::Range<u64>,
        (class, due, promised_ns): (Class, Due, Option<u64>),
    ) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        client.asked_ns = self.now_ns;
        let request = Request { title, range, class, due, promised_ns, bytes_per_s: client.bytes_per_s };
        let outcome = self.core.begin(number, request, self.now_ns)?;
        outcome.map_or(Ok(()), |outcome| self.came(number, outcome))
    }

    /// Something came of what a client asked for.
    pub(super) fn came(&mut self, number: u32, outcome: Outcome) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        match outcome {
            Outcome::Sends(until_ns) => {
                let visit = client.visit;
                self.at(until_ns, Event::Sent { client: number, visit });
                Ok(())
            }
            Outcome::Late(late_ns) => {
                let Kind::Viewer(player) = &client.kind else { return Ok(()) };
                let segment = player.next_segment() as u64;
                self.report.late_units += 1;
                self.deed(number, Deed::Late, segment);
                if !self.is_promised() {
                    return Ok(());
                }
                let late_us = late_ns / 1000;
                Err(format!(
                    "segment {segment} of client {number} came into memory {late_us} us after it was due"
                ))
            }
            Outcome::Failed(why) => {
                self.deed(number, Deed::Fails, 0);
                Err(format!("client {number} cannot be given what is stored: {why}"))
            }
            Outcome::Done => match &mut client.kind {
                Kind::Viewer(_) => self.has(number),
                Kind::Browser => {
                    let took_ns = self.now_ns - client.asked_ns;
                    let at_ns = self.now_ns + 1 + client.rng.wait_ns(self.scenario.browse_ns);
                    client.turn += 1;
                    let turn = client.turn;
                    self.report.browsed(took_ns);
                    self.at(at_ns, Event::Wake { client: number, turn });
                    Ok(())
                }
                Kind::Bulk => {
                    self.report.downloads += 1;
                    client.turn += 1;
                    let turn = client.turn;
                    self.at(self.now_ns + SECOND_NS, Event::Wake { client: number, turn });
                    Ok(())
                }
            },
        }
    }

    /// A viewer has a whole segment.
    pub(super) fn has(&mut self, number: u32) -> Result<(), String> {
        let (now_ns, client) = (self.now_ns, &mut self.clients[number as usize]);
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let segment = player.next_segment() as u64;
        self.report.segments += 1;
        let began = player.begins();
        let late_ns = player.has(now_ns);
        if began {
            self.report.started(now_ns - client.asked_ns);
        }
        self.deed(number, if began { Deed::Plays } else { Deed::Has }, segment);
        if let Some(late_ns) = late_ns {
            self.late(number, segment, late_ns)?;
        }
        self.go_on(number)
    }

    pub(super) fn late(&mut self, number: u32, segment: u64, late_ns: u64) -> Result<(), String> {
        self.deed(number, Deed::Stalls, segment);
        self.report.stalls += 1;
        self.report.stalled_ns += late_ns;
        if !self.is_promised() {
            return Ok(());
        }
        let late_us = late_ns / 1000;
        Err(format!(
            "client {number} stood still for {late_us} us before segment {segment}: an admitted stream is late"
        ))
    }

    /// A person does something to a player.
    pub(super) fn touch(&mut self, number: u32) -> Result<(), String> {
        let now_ns = self.now_ns;
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let touch = player.touch(now_ns);
        let segment = player.next_segment() as u64;
        let at_ns = player.next_touch_ns(now_ns);
        if matches!(touch, Touch::Seek | Touch::Stop) {
            self.core.cancel(number);
            client.visit += 1;
        }
        let visit = client.visit;
        match touch {
            Touch::Pause => self.deed(number, Deed::Pauses, segment),
            Touch::Resume => self.deed(number, Deed::Resumes, segment),
            Touch::Seek => self.deed(number, Deed::Seeks, segment),
            Touch::Skip => self.deed(number, Deed::Skips, segment),
            Touch::Stop => {
                self.leave(number);
                return Ok(());
            }
        }
        self.at(at_ns, Event::Touch { client: number, visit });
        if self.core.is_busy(number) { Ok(()) } else { self.go_on(number) }
    }

    pub(super) fn leave(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return };
        let title = player.title().map_or(0, |title| title.number as u64);
        if let Some(seat) = client.seat.take()
            && client.rng.permille(CLOSES_PERMILLE)
        {
            self.desk.close(&seat);
        }
        let at_ns = player.leave(self.now_ns);
        client.visit += 1;
        client.turn += 1;
        let turn = client.turn;
        self.deed(number, Deed::Leaves, title);
        self.at(at_ns, Event::Wake { client: number, turn });
    }
}
