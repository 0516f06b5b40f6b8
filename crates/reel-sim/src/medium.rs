//! The bytes of a member: those that would survive a crash, and those that would not.
//!
//! Superblocks and catalogues lie in a file, where a volume that is opened finds them. Of units
//! only rows are kept, in memory; those of the titles that viewers play are a function of their
//! place, and not kept at all.

use crate::content::Unit;
use crate::fault::FaultSpan;
use crate::scale::{ROW_BYTES, UNIT_BYTES};
use crate::stored_titles::StoredTitles;
use reel_disk::MemberFile;
use reel_testkit::{Rng, mix};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of one member.
#[derive(Debug)]
pub(crate) struct Medium {
    member: usize,
    data_offset: u64,
    path: PathBuf,
    file: Option<MemberFile>,
    /// Units that hold nothing of a title that viewers play, by number.
    kept: BTreeMap<u64, Arc<Unit>>,
    /// Units of such titles that it lacks.
    blank: BTreeSet<u64>,
    /// By place: what was written since the last sync, oldest first, each with its number.
    pending: BTreeMap<u64, Vec<(u64, Written)>>,
    writes: u64,
    rot: Option<Rot>,
}

/// One block on its way to be durable.
#[derive(Clone, Debug)]
enum Written {
    /// What the title has there.
    Title,
    Unit(Arc<Unit>),
    Block(Arc<[u8]>),
}

/// Units that have become unreadable, until they are written again.
#[derive(Clone, Debug)]
struct Rot {
    span: FaultSpan,
    repaired: BTreeSet<u64>,
}

/// What a disk loses or keeps of a block as a whole.
const SECTOR_BYTES: usize = 512;

impl Medium {
    /// A member of a volume whose units begin at `data_offset`; its file is there.
    pub(crate) fn new(member: usize, path: &Path, data_offset: u64) -> Medium {
        Medium {
            member,
            data_offset,
            path: path.to_owned(),
            file: None,
            kept: BTreeMap::new(),
            blank: BTreeSet::new(),
            pending: BTreeMap::new(),
            writes: 0,
            rot: None,
        }
    }

    /// The same as a new disk, which holds none of the titles' units.
    pub(crate) fn blank(member: usize, path: &Path, data_offset: u64, stored: &StoredTitles) -> Medium {
        // A new disk reads as zeros, which is what the end of a title may be.
        let lacks = |unit: &u64| stored.unit(member, *unit) != Some(NOTHING);
        let blank = stored.units_on(member).filter(lacks).collect();
        Medium { blank, ..Medium::new(member, path, data_offset) }
    }

    /// A new disk in the place of this one.
    pub(crate) fn replacement(&self, path: &Path, stored: &StoredTitles) -> Medium {
        Medium::blank(self.member, path, self.data_offset, stored)
    }

    /// Where its units begin.
    pub(crate) fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Where its file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opened by a volume.
    pub(crate) fn opened(&mut self, file: MemberFile) {
        self.path = file.path().to_owned();
        self.file = Some(file);
    }

    /// Closed again: a later volume may lock the file.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Units of titles that it should hold and does not.
    pub(crate) fn blank_units(&self) -> usize {
        self.blank.len()
    }

    /// Units go bad, or no others do from here on.
    pub(crate) fn rot(&mut self, span: Option<FaultSpan>) {
        self.rot = span.map(|span| Rot { span, repaired: BTreeSet::new() });
    }

    /// Units of titles that have become unreadable and were not written again.
    pub(crate) fn rotten_units(&self, stored: &StoredTitles) -> usize {
        let Some(rot) = &self.rot else { return 0 };
        stored.units_on(self.member).filter(|unit| rot.meets(*unit) && !self.blank.contains(unit)).count()
    }

    /// Reads blocks.
    pub(crate) fn read(
        &self,
        offset: u64,
        target: &mut [u8],
        stored: Option<&StoredTitles>,
    ) -> Result<(), String> {
        for (number, place) in target.chunks_mut(UNIT_BYTES).enumerate() {
            let at = offset + (number * UNIT_BYTES) as u64;
            if at >= self.data_offset {
                let unit = self.unit((at - self.data_offset) / UNIT_BYTES as u64, stored);
                place[..unit.len()].copy_from_slice(&unit);
                place[unit.len()..].fill(0);
            } else if let Some((_, Written::Block(block))) = self.newest(at) {
                place.copy_from_slice(block);
            } else if let Some(file) = &self.file {
                file.read_at(at, place).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// The rows of a unit that no title has that viewers play, as if it had not gone bad.
    pub(crate) fn intact_unit(&self, unit: u64) -> Unit {
        match self.newest(self.data_offset + unit * UNIT_BYTES as u64) {
            Some((_, Written::Unit(rows))) => **rows,
            _ => self.kept.get(&unit).map_or(NOTHING, |kept| **kept),
        }
    }

    /// The rows of a unit as a read gives them.
    pub(crate) fn unit(&self, unit: u64, stored: Option<&StoredTitles>) -> Unit {
        let title = || stored.and_then(|stored| stored.unit(self.member, unit));
        match self.newest(self.data_offset + unit * UNIT_BYTES as u64) {
            Some((_, Written::Unit(rows))) => return **rows,
            Some((_, Written::Title)) => return title().unwrap_or(NOTHING),
            Some((_, Written::Block(_))) | None => {}
        }
        let mut rows = match self.kept.get(&unit) {
            Some(kept) => **kept,
            None if self.blank.contains(&unit) => NOTHING,
            None => title().unwrap_or(NOTHING),
        };
        if self.rot.as_ref().is_some_and(|rot| rot.meets(unit)) {
            rows[mix(unit) as usize % size_of::<Unit>()] ^= 0x20;
        }
        rows
    }

    /// Writes blocks, which become durable with a later [`Medium::sync`]. The error is a broken
    /// invariant: a title that viewers play got other bytes.
    pub(crate) fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        stored: Option<&StoredTitles>,
    ) -> Result<(), String> {
        for (number, block) in bytes.chunks(UNIT_BYTES).enumerate() {
            let at = offset + (number * UNIT_BYTES) as u64;
            let written = if at < self.data_offset {
                Written::Block(block.into())
            } else {
                self.unit_written((at - self.data_offset) / UNIT_BYTES as u64, block, stored)?
            };
            self.writes += 1;
            self.pending.entry(at).or_default().push((self.writes, written));
        }
        Ok(())
    }

    /// What has been written so far, for [`Medium::sync`].
    pub(crate) fn written(&self) -> u64 {
        self.writes
    }

    /// Makes durable what had been written when [`Medium::written`] said this.
    pub(crate) fn sync(&mut self, written: u64) -> Result<(), String> {
        let mut durable = Vec::new();
        self.pending.retain(|&at, blocks| {
            let later = blocks.partition_point(|(number, _)| *number <= written);
            // Of several writes to one place the last is what is there.
            durable.extend(blocks.drain(..later).next_back().map(|(_, block)| (at, block)));
            !blocks.is_empty()
        });
        durable.into_iter().try_for_each(|(at, block)| self.keep(at, &block))
    }

    /// What a crash at this moment leaves in `path`: of what was not synced some blocks, and parts
    /// of others.
    pub(crate) fn after_crash(&self, path: &Path, rng: &mut Rng) -> std::io::Result<Medium> {
        let mut left = Medium {
            kept: self.kept.clone(),
            blank: self.blank.clone(),
            rot: self.rot.clone(),
            ..Medium::new(self.member, path, self.data_offset)
        };
        copy_head(&self.path, path, self.data_offset)?;
        left.opened(open(path)?);
        let mut pending: Vec<_> =
            self.pending.iter().flat_map(|(at, blocks)| blocks.iter().map(move |one| (*at, one))).collect();
        pending.sort_unstable_by_key(|(_, (number, _))| *number);
        for (at, (_, block)) in pending {
            if rng.permille(500) {
                let torn = rng.permille(200).then(|| rng.clone());
                left.keep_part(at, block, torn).map_err(std::io::Error::other)?;
            }
        }
        left.close();
        Ok(left)
    }

    fn unit_written(
        &self,
        unit: u64,
        block: &[u8],
        stored: Option<&StoredTitles>,
    ) -> Result<Written, String> {
        let (member, bytes) = (self.member, block.len());
        let (Some(rows), true) = (block.first_chunk::<{ size_of::<Unit>() }>(), bytes == UNIT_BYTES) else {
            return Err(format!("{bytes} bytes were written to unit {unit} of member {member}"));
        };
        if block[rows.len()..].iter().any(|byte| *byte != 0) {
            return Err(format!("the spare bytes of unit {unit} of member {member} are not zeros"));
        }
        match stored.and_then(|stored| stored.unit(member, unit)) {
            Some(should) if should == *rows => Ok(Written::Title),
            Some(_) => Err(format!("unit {unit} of member {member} belongs to a title and got other bytes")),
            None => Ok(Written::Unit(Arc::new(*rows))),
        }
    }

    fn newest(&self, at: u64) -> Option<&(u64, Written)> {
        self.pending.get(&at)?.last()
    }

    fn keep(&mut self, at: u64, block: &Written) -> Result<(), String> {
        self.keep_part(at, block, None)
    }

    /// Keeps a block, or of one that is `torn` the parts that chance leaves.
    fn keep_part(&mut self, at: u64, block: &Written, torn: Option<Rng>) -> Result<(), String> {
        let unit = at.saturating_sub(self.data_offset) / UNIT_BYTES as u64;
        match (block, torn) {
            (Written::Block(bytes), torn) => {
                let Some(file) = &self.file else { return Ok(()) };
                let mut torn = torn;
                for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    if torn.as_mut().is_none_or(|rng| rng.permille(500)) {
                        let at = at + (number * SECTOR_BYTES) as u64;
                        file.write_at(at, sector).map_err(|error| error.to_string())?;
                    }
                }
                return Ok(());
            }
            // Half a unit of a title is none: its rows are distinguished by their checksums.
            (Written::Title, Some(_)) => return Ok(()),
            (Written::Title, None) => {
                self.blank.remove(&unit);
            }
            (Written::Unit(rows), None) => {
                self.kept.insert(unit, Arc::clone(rows));
            }
            (Written::Unit(rows), Some(mut rng)) => {
                let mut left = self.kept.get(&unit).map_or(NOTHING, |kept| **kept);
                for (row, new) in left.chunks_mut(ROW_BYTES).zip(rows.chunks(ROW_BYTES)) {
                    if rng.permille(500) {
                        row.copy_from_slice(new);
                    }
                }
                self.kept.insert(unit, Arc::new(left));
            }
        }
        if let Some(rot) = &mut self.rot {
            rot.repaired.insert(unit);
        }
        Ok(())
    }
}

impl Rot {
    fn meets(&self, unit: u64) -> bool {
        self.span.fault.meets(&self.span, unit) && !self.repaired.contains(&unit)
    }
}

/// A unit to which nothing was written.
const NOTHING: Unit = [0; size_of::<Unit>()];

/// Opens a member's file by itself.
fn open(path: &Path) -> std::io::Result<MemberFile> {
    MemberFile::open(path, reel_disk::OpenMode::ReadWrite).map_err(std::io::Error::other)
}

/// Copies the front of a member's file, as long as the whole.
pub(crate) fn copy_head(from: &Path, to: &Path, bytes: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let (from, to) = (std::fs::File::open(from)?, std::fs::File::create(to)?);
    to.set_len(from.metadata()?.len())?;
    let mut block = vec![0; 64 << 10];
    for at in (0..bytes).step_by(64 << 10) {
        from.read_exact_at(&mut block, at)?;
        if block.iter().any(|byte| *byte != 0) {
            to.write_all_at(&block, at)?;
        }
    }
    Ok(())
}
