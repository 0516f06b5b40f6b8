//! The actions of clients that read titles as files: they play, look at films, wait, and leave.

use super::clients::{Kind, lanes};
use super::nfs_readers::{NfsReaders, Standing};
use super::{Event, Simulation};
use crate::client::{Mounted, MountedControl};
use crate::core::Request;
use crate::journal::ClientAction;
use crate::sessions::address;
use crate::title::Title;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A client that reads files.
pub(super) struct MountedClient {
    pub(super) player: Mounted,
    /// What the server knows of it.
    readers: NfsReaders,
    /// How its last read of what it plays was answered; `None` before the first one.
    standing: Option<Standing>,
    /// Its buffer was full since it was admitted, and since its last seek.
    is_filled: bool,
    /// Its viewer has done something since the last read that was reserved.
    is_touched: bool,
    /// What a thumbnailer still reads of another film.
    looks: VecDeque<(Arc<Title>, Range<u64>)>,
}

impl MountedClient {
    pub(super) fn new(player: Mounted) -> MountedClient {
        MountedClient {
            player,
            readers: NfsReaders::default(),
            standing: None,
            is_filled: false,
            is_touched: false,
            looks: VecDeque::new(),
        }
    }

    /// It begins somewhere, or leaves: nothing is known of its reads.
    fn forgets(&mut self) {
        (self.standing, self.is_filled, self.is_touched) = (None, false, false);
    }
}

impl Simulation {
    /// A player of files checks the time.
    pub(super) fn wake_mounted(&mut self, number: u32) -> Result<(), String> {
        let (now_ns, client) = (self.now_ns, &mut self.clients[number as usize]);
        let Kind::Mounted(mounted) = &mut client.kind else { return Ok(()) };
        if mounted.player.title().is_none() {
            let title = Arc::clone(self.stored.choose(&mut client.rng));
            let opened = title.number as u64;
            mounted.player.open(title);
            mounted.forgets();
            let (at_ns, generation) = (mounted.player.next_control_ns(now_ns), client.generation);
            self.report.mounted.films += 1;
            self.note_action(number, ClientAction::Opens, opened);
            self.at(at_ns, Event::PlayerControl { client: number, generation });
        }
        self.continue_reading(number)
    }

    /// A player of files takes what there is, and its kernel reads ahead of it.
    fn continue_reading(&mut self, number: u32) -> Result<(), String> {
        let now_ns = self.now_ns;
        let Kind::Mounted(mounted) = &mut self.clients[number as usize].kind else { return Ok(()) };
        if mounted.player.ends_ns(now_ns) == Some(now_ns) {
            self.leave_file(number);
            return Ok(());
        }
        mounted.is_filled |= mounted.standing == Some(Standing::Admitted) && mounted.player.is_full(now_ns);
        let Some(title) = mounted.player.title().cloned() else { return Ok(()) };
        for (lane, range) in mounted.player.sends(now_ns) {
            let standing = self.read_file(number, lane as u32, &title, range)?;
            self.note_standing(number, &title, standing)?;
        }
        let client = &mut self.clients[number as usize];
        let Kind::Mounted(mounted) = &client.kind else { return Ok(()) };
        let next_ns = [mounted.player.sends_next_ns(now_ns), mounted.player.ends_ns(now_ns)];
        if let Some(at_ns) = next_ns.into_iter().flatten().min() {
            client.turn += 1;
            let turn = client.turn;
            self.at(at_ns, Event::Wake { client: number, turn });
        }
        Ok(())
    }

    /// A read of a file comes to the server. Returns how its reader stands.
    fn read_file(
        &mut self,
        number: u32,
        lane: u32,
        title: &Arc<Title>,
        range: Range<u64>,
    ) -> Result<Standing, String> {
        let client = &mut self.clients[number as usize];
        let bytes_per_s = client.bytes_per_s;
        let Kind::Mounted(mounted) = &mut client.kind else { return Ok(Standing::Looks) };
        let engine = (&mut self.core, &mut self.sessions);
        let terms = mounted.readers.terms(engine, (number, title), &range, self.now_ns);
        self.report.mounted.reads += 1;
        self.note_action(number, ClientAction::Reads, range.start);
        let (address, track, in_runs) = (address(number), Arc::clone(title.best()), false);
        let (session, policy) = (terms.session, terms.policy);
        let request = Request { address, track, range, session, policy, bytes_per_s, in_runs };
        let lane = lanes::lane(number, lane);
        let outcome = self.core.begin(lane, request, self.now_ns)?;
        outcome.map_or(Ok(()), |outcome| self.handle_outcome(lane, outcome))?;
        Ok(terms.standing)
    }

    /// Notes how a read of what is played was answered. A player whose reads are reserved, and that
    /// plays on, keeps that.
    fn note_standing(&mut self, number: u32, title: &Title, standing: Standing) -> Result<(), String> {
        let is_promised = self.is_promised();
        let Kind::Mounted(mounted) = &mut self.clients[number as usize].kind else { return Ok(()) };
        let before = mounted.standing.replace(standing);
        let plays_on = before == Some(Standing::Admitted) && mounted.is_filled && !mounted.is_touched;
        let counts = &mut self.report.mounted;
        if standing == Standing::Admitted {
            mounted.is_touched = false;
        } else {
            mounted.is_filled = false;
            counts.unreserved_reads += 1;
        }
        if before == Some(standing) {
            return Ok(());
        }
        let (count, action) = match standing {
            Standing::Admitted => (&mut counts.admitted, ClientAction::Admitted),
            Standing::Refused => (&mut counts.refused, ClientAction::Refused),
            Standing::Waits => (&mut counts.waited, ClientAction::Waits),
            Standing::Displaced | Standing::Beyond => (&mut counts.displaced, ClientAction::Displaced),
            Standing::Looks | Standing::Copies => (&mut counts.looks, ClientAction::Looks),
        };
        *count += 1;
        self.note_action(number, action, title.number as u64);
        if plays_on && is_promised {
            return Err(format!("client {number} continues with a file, and what it reads is {standing:?}"));
        }
        Ok(())
    }

    /// A read of a file has come.
    pub(super) fn file_read(&mut self, number: u32, lane: u32) -> Result<(), String> {
        let now_ns = self.now_ns;
        let Kind::Mounted(mounted) = &mut self.clients[number as usize].kind else { return Ok(()) };
        if lane == lanes::LOOKS {
            return self.continue_looking(number);
        }
        let begins = mounted.player.begins();
        let late_ns = mounted.player.received(lane as usize, now_ns);
        if begins && !mounted.player.begins() {
            self.note_action(number, ClientAction::Plays, 0);
        }
        if let Some(late_ns) = late_ns {
            self.file_late(number, late_ns)?;
        }
        self.continue_reading(number)
    }

    /// A player of files has stood still for so long.
    pub(super) fn file_late(&mut self, number: u32, late_ns: u64) -> Result<(), String> {
        let is_promised = self.is_promised();
        let Kind::Mounted(mounted) = &mut self.clients[number as usize].kind else { return Ok(()) };
        let (standing, is_filled) = (mounted.standing, mounted.is_filled);
        mounted.is_filled = false;
        let counts = &mut self.report.mounted;
        counts.stalls += 1;
        let exempt = match standing {
            Some(Standing::Admitted) if is_filled && is_promised => None,
            Some(Standing::Admitted) if is_filled => Some(&mut counts.stalls_exempt.strained),
            Some(Standing::Admitted) => Some(&mut counts.stalls_exempt.filling),
            Some(Standing::Displaced | Standing::Beyond) => Some(&mut counts.stalls_exempt.displaced),
            _ => Some(&mut counts.stalls_exempt.not_admitted),
        };
        let is_exempt = exempt.is_some();
        if let Some(count) = exempt {
            *count += 1;
        }
        self.note_action(number, ClientAction::Stalls, 0);
        if is_exempt {
            return Ok(());
        }
        let late_us = late_ns / 1000;
        Err(format!("client {number} stood still for {late_us} us in a file: an admitted reader is late"))
    }

    /// A viewer controls a player of files.
    pub(super) fn control_file(&mut self, number: u32) -> Result<(), String> {
        let (now_ns, client) = (self.now_ns, &mut self.clients[number as usize]);
        let Kind::Mounted(mounted) = &mut client.kind else { return Ok(()) };
        let Some(control) = mounted.player.control(now_ns) else { return Ok(()) };
        let action = match control {
            MountedControl::Pause => ClientAction::Pauses,
            MountedControl::Resume => ClientAction::Resumes,
            MountedControl::Seek => ClientAction::Seeks,
            MountedControl::Look => ClientAction::Looks,
            MountedControl::Stop => {
                self.leave_file(number);
                return Ok(());
            }
        };
        if control == MountedControl::Seek {
            mounted.forgets();
        }
        mounted.is_touched |= control != MountedControl::Look;
        let other = Arc::clone(self.stored.choose(&mut client.rng));
        if control == MountedControl::Look
            && mounted.player.title().is_some_and(|title| title.number != other.number)
        {
            let ranges = mounted.player.looks_at(other.best().map.bytes());
            mounted.looks.extend(ranges.into_iter().map(|range| (Arc::clone(&other), range)));
        }
        let (at_ns, generation) = (mounted.player.next_control_ns(now_ns), client.generation);
        self.at(at_ns, Event::PlayerControl { client: number, generation });
        self.note_action(number, action, 0);
        self.continue_looking(number)?;
        self.continue_reading(number)
    }

    /// The thumbnailer of a client reads the next piece.
    fn continue_looking(&mut self, number: u32) -> Result<(), String> {
        let is_busy = self.core.is_busy(lanes::lane(number, lanes::LOOKS));
        let Kind::Mounted(mounted) = &mut self.clients[number as usize].kind else { return Ok(()) };
        let Some((title, range)) = mounted.looks.pop_front_if(|_| !is_busy) else { return Ok(()) };
        self.read_file(number, lanes::LOOKS, &title, range).map(|_| ())
    }

    fn leave_file(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let Kind::Mounted(mounted) = &mut client.kind else { return };
        let title = mounted.player.title().map_or(0, |title| title.number as u64);
        let at_ns = mounted.player.leave(self.now_ns);
        mounted.forgets();
        client.turn += 1;
        let turn = client.turn;
        self.note_action(number, ClientAction::Leaves, title);
        self.at(at_ns, Event::Wake { client: number, turn });
    }
}
