//! What a file may cost: work while it is parsed, and samples that come of it. Everything is
//! counted, so that the same file is refused at the same place on every machine.

use crate::{Chapter, Cover, Demux, MediaError, Packet, Source, Track, limits};
use std::io;

/// A source that counts the work of its parser, refuses it beyond the budget of the file, and
/// serves small reads that lie close together from one.
pub(crate) struct Metered {
    source: Box<dyn Source>,
    work: Work,
    /// The last small read, and its offset.
    held: Vec<u8>,
    held_at: u64,
}

/// Units of work, see [`limits::WORK_UNITS`].
struct Work {
    spent: u64,
    allowed: u64,
    /// Spent units of which the source was not told.
    untold: u64,
}

/// Units after which the source is told of the work: about a tenth of a millisecond.
const TELL_UNITS: u64 = 4096;

impl Metered {
    /// Meters a source by its length.
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        let allowed = limits::WORK_UNITS + source.bytes() / limits::WORK_BYTES;
        let work = Work { spent: 0, allowed, untold: 0 };
        Self { source, work, held: Vec::new(), held_at: 0 }
    }

    fn read_source(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.work(limits::WORK_READ_UNITS + target.len() as u64 / limits::WORK_READ_BYTES)?;
        self.source.read_at(offset, target)
    }

    /// The `count` bytes at `offset`, if they are held.
    fn held(&self, offset: u64, count: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.held_at)?).ok()?;
        self.held.get(from..from.checked_add(count)?)
    }

    /// Holds the bytes from `offset` on.
    fn hold(&mut self, offset: u64) -> io::Result<()> {
        let left = self.bytes().saturating_sub(offset).min(limits::SMALL_READ_BYTES as u64);
        let mut held = std::mem::take(&mut self.held);
        held.resize(left as usize, 0);
        self.read_source(offset, &mut held)?;
        (self.held, self.held_at) = (held, offset);
        Ok(())
    }
}

impl Source for Metered {
    fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        if target.len() > limits::SMALL_READ_BYTES / 4 {
            return self.read_source(offset, target);
        }
        if self.held(offset, target.len()).is_none() {
            self.hold(offset)?;
        }
        let held = self.held(offset, target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(held);
        Ok(())
    }

    fn work(&mut self, units: u64) -> io::Result<()> {
        self.work.spent += units;
        self.work.untold += units;
        if self.work.spent > self.work.allowed {
            let (value, limit, bytes) = (self.work.spent, self.work.allowed, self.source.bytes());
            let budget = MediaError::Budget { what: "steps of work", value, limit, bytes };
            return Err(io::Error::other(budget));
        }
        if self.work.untold >= TELL_UNITS {
            let told = std::mem::take(&mut self.work.untold);
            return self.source.work(told);
        }
        Ok(())
    }
}

/// Samples that a file may have, and bytes in them.
pub(super) struct SampleBudget {
    file_bytes: u64,
    samples: u64,
    bytes: u64,
}

impl SampleBudget {
    pub(super) fn new(file_bytes: u64) -> Self {
        Self { file_bytes, samples: 0, bytes: 0 }
    }

    /// One more sample, of `bytes`.
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), MediaError> {
        self.samples += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let samples = limits::SAMPLES + self.file_bytes / limits::SAMPLE_PAID_BYTES;
        let of_file = self.file_bytes.saturating_mul(limits::SAMPLE_BYTES_PER_BYTE);
        self.within("samples", self.samples, samples)?;
        let limit = of_file.saturating_add(limits::SAMPLE_BYTES_MORE);
        self.within("bytes in samples, some of them several times", self.bytes, limit)
    }

    fn within(&self, what: &'static str, value: u64, limit: u64) -> Result<(), MediaError> {
        if value <= limit {
            return Ok(());
        }
        Err(MediaError::Budget { what, value, limit, bytes: self.file_bytes })
    }
}

/// A demuxer whose packets are counted.
pub(super) struct Bounded {
    demux: Box<dyn Demux>,
    budget: SampleBudget,
}

impl Bounded {
    pub(super) fn new(demux: Box<dyn Demux>, file_bytes: u64) -> Self {
        Self { demux, budget: SampleBudget::new(file_bytes) }
    }
}

impl Demux for Bounded {
    fn tracks(&self) -> &[Track] {
        self.demux.tracks()
    }

    fn warnings(&self) -> &[String] {
        self.demux.warnings()
    }

    fn chapters(&self) -> &[Chapter] {
        self.demux.chapters()
    }

    fn cover(&mut self) -> Result<Option<Cover>, MediaError> {
        self.demux.cover()
    }

    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, MediaError> {
        let packet = self.demux.next(data)?;
        if packet.is_some() {
            self.budget.add(data.len() as u64)?;
        }
        Ok(packet)
    }

    fn position(&self) -> u64 {
        self.demux.position()
    }
}
