//! The sample tables of a `stbl` box (ISO/IEC 14496-12, 8.6 and 8.7), walked in place row by row.

use super::atom::{Atom, Fields, malformed};
use crate::{MediaError, limits};
use std::sync::Arc;

/// A sample as the tables or fragments describe it, on the media's own time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawSample {
    /// Offset in the file.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) bytes: u32,
    /// Decoding time.
    pub(super) dts: i64,
    /// Presentation time minus decoding time.
    pub(super) reorder: i32,
    /// Time to the next sample.
    pub(super) duration: u32,
    /// Decoding can start here.
    pub(super) sync: bool,
    /// Which sample description it needs, from 1.
    pub(super) description: u32,
    /// Ticks of the finer clock by which a picture that is not seen is earlier: presentation and
    /// decoding. See [`super::cuts`].
    pub(super) unseen: (u32, u32),
}

/// The tables of one track. They stay in the bytes of the `moov` box.
pub(super) struct SampleTables {
    moov: Arc<Vec<u8>>,
    durations: Rows,
    reorders: Rows,
    chunk_runs: Rows,
    chunks: Rows,
    sizes: Sizes,
    /// `None`: every sample is a sync sample.
    syncs: Option<Rows>,
    samples: u32,
}

/// Walks the samples of one track in decoding order.
#[derive(Clone)]
pub(super) struct TableCursor {
    tables: Arc<SampleTables>,
    sample: u32,
    dts: i64,
    duration: Run,
    reorder: Run,
    sync_row: u32,
    chunk: u32,
    chunk_run: u32,
    left_in_chunk: u32,
    next_offset: u64,
}

/// Rows of a table: fixed size, contiguous.
#[derive(Clone, Copy, Default)]
struct Rows {
    start: usize,
    count: u32,
    stride: usize,
}

enum Sizes {
    Same(u32),
    /// `stride` bytes each.
    Table(Rows),
    /// `stz2` with four bits each.
    Nibbles(Rows),
}

/// Position in a run-length coded table: how many samples the current row still covers.
#[derive(Clone, Copy, Default)]
struct Run {
    row: u32,
    left: u32,
    value: u32,
}

impl SampleTables {
    /// Finds the tables in `stbl`. `moov_offset` is the offset of the bytes of `moov` in the file.
    pub(super) fn parse(moov: &Arc<Vec<u8>>, moov_offset: u64, stbl: &Atom<'_>) -> Result<Self, MediaError> {
        let rows = |fields: &Fields<'_>, name: &str, stride: usize, count: u32| {
            let room = fields.rest().len() / stride;
            if count as usize > room {
                let what = format!("`{name}` claims {count} entries where there is room for {room}");
                return Err(malformed(fields.offset(), what));
            }
            // Lossless: the table lies in `moov`, which is in memory.
            Ok(Rows { start: (fields.offset() - moov_offset) as usize, count, stride })
        };
        let table = |kind: &[u8; 4], name: &str, stride: usize| -> Result<Option<Rows>, MediaError> {
            let Some(atom) = stbl.child(kind)? else { return Ok(None) };
            let (_, _, mut fields) = atom.full()?;
            let count = fields.u32()?;
            rows(&fields, name, stride, count).map(Some)
        };
        let (samples, sizes) = if let Some(atom) = stbl.child(b"stsz")? {
            let (_, _, mut fields) = atom.full()?;
            let [same, count] = [fields.u32()?, fields.u32()?];
            let sizes =
                if same > 0 { Sizes::Same(same) } else { Sizes::Table(rows(&fields, "stsz", 4, count)?) };
            (count, sizes)
        } else if let Some(atom) = stbl.child(b"stz2")? {
            let (_, _, mut fields) = atom.full()?;
            let [.., bits] = fields.array::<4>()?;
            let count = fields.u32()?;
            let sizes = match bits {
                4 => Sizes::Nibbles(rows(&fields, "stz2", 1, count.div_ceil(2))?),
                8 | 16 => Sizes::Table(rows(&fields, "stz2", usize::from(bits / 8), count)?),
                _ => return Err(malformed(atom.offset, format!("`stz2` has sizes of {bits} bits"))),
            };
            (count, sizes)
        } else {
            (0, Sizes::Table(Rows::default()))
        };
        if u64::from(samples) > limits::MP4_SAMPLES {
            let what = "the number of samples of a track";
            return Err(MediaError::Limit { what, value: samples.into(), limit: limits::MP4_SAMPLES });
        }
        // Fragmented files leave out tables that other files must have. Samples without a position
        // are found by walking.
        Ok(Self {
            moov: Arc::clone(moov),
            durations: table(b"stts", "stts", 8)?.unwrap_or_default(),
            reorders: table(b"ctts", "ctts", 8)?.unwrap_or_default(),
            chunk_runs: table(b"stsc", "stsc", 12)?.unwrap_or_default(),
            chunks: match table(b"stco", "stco", 4)? {
                Some(chunks) => chunks,
                None => table(b"co64", "co64", 8)?.unwrap_or_default(),
            },
            sizes,
            // An empty table would say that nothing can be decoded; writers leave it empty when
            // they do not know.
            syncs: table(b"stss", "stss", 4)?,
            samples,
        })
    }

    /// They have no samples.
    pub(super) fn is_empty(&self) -> bool {
        self.samples == 0
    }

    fn row(&self, rows: Rows, index: u32) -> Option<&[u8]> {
        if index >= rows.count {
            return None;
        }
        self.moov.get(rows.start + index as usize * rows.stride..)?.get(..rows.stride)
    }

    fn number(&self, rows: Rows, index: u32) -> Option<u64> {
        Some(self.row(rows, index)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Column `column` of a table of 32-bit numbers.
    fn column(&self, rows: Rows, index: u32, column: usize) -> Option<u32> {
        let bytes = self.row(rows, index)?.get(column * 4..column * 4 + 4)?;
        Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn size(&self, sample: u32) -> Option<u32> {
        match self.sizes {
            Sizes::Same(bytes) => Some(bytes),
            Sizes::Table(rows) => self.number(rows, sample).and_then(|bytes| u32::try_from(bytes).ok()),
            Sizes::Nibbles(rows) => {
                let pair = self.number(rows, sample / 2)? as u32;
                Some(if sample.is_multiple_of(2) { pair >> 4 } else { pair & 15 })
            }
        }
    }
}

/// The sample description of the first chunk, from 1, which identifies a track's samples.
pub(super) fn first_description(stbl: &Atom<'_>) -> Result<u32, MediaError> {
    let Some(stsc) = stbl.child(b"stsc")? else { return Ok(1) };
    let (_, _, mut fields) = stsc.full()?;
    if fields.u32()? == 0 {
        return Ok(1);
    }
    fields.skip(8)?;
    fields.u32()
}

impl TableCursor {
    /// Starts at the first sample.
    pub(super) fn new(tables: Arc<SampleTables>) -> Self {
        Self {
            tables,
            sample: 0,
            dts: 0,
            duration: Run::default(),
            reorder: Run::default(),
            sync_row: 0,
            chunk: 0,
            chunk_run: 0,
            left_in_chunk: 0,
            next_offset: 0,
        }
    }

    /// The decoding time after the samples returned so far.
    pub(super) fn dts(&self) -> i64 {
        self.dts
    }

    /// How many samples the tables count but cannot place in the file; known at the end.
    pub(super) fn missing(&self) -> u32 {
        self.tables.samples - self.sample
    }

    /// The next sample; `None` when the tables end.
    pub(super) fn next(&mut self) -> Option<RawSample> {
        if self.sample >= self.tables.samples {
            return None;
        }
        let tables = Arc::clone(&self.tables);
        let description = self.enter_chunk(&tables)?;
        let bytes = tables.size(self.sample)?;
        // The last row also covers samples that the table omits.
        self.duration.step(&tables, tables.durations, true);
        self.reorder.step(&tables, tables.reorders, false);
        // Durations above i32 are negative ones of faulty writers: one tick, as players treat them.
        let duration = if self.duration.value > i32::MAX as u32 { 1 } else { self.duration.value };
        let sample = RawSample {
            offset: self.next_offset,
            bytes,
            dts: self.dts,
            reorder: self.reorder.value as i32,
            duration,
            sync: self.is_sync(&tables),
            description,
            unseen: (0, 0),
        };
        self.sample += 1;
        self.left_in_chunk -= 1;
        // At most 2^26 samples of less than 2^31 ticks.
        self.dts += i64::from(duration);
        self.next_offset = self.next_offset.saturating_add(bytes.into());
        Some(sample)
    }

    /// Advances to a chunk with a sample left; returns its sample description.
    fn enter_chunk(&mut self, tables: &SampleTables) -> Option<u32> {
        while self.left_in_chunk == 0 {
            self.next_offset = tables.number(tables.chunks, self.chunk)?;
            self.chunk += 1;
            // A row holds from a chunk number (from 1) on.
            while tables
                .column(tables.chunk_runs, self.chunk_run + 1, 0)
                .is_some_and(|first| first <= self.chunk)
            {
                self.chunk_run += 1;
            }
            self.left_in_chunk = tables.column(tables.chunk_runs, self.chunk_run, 1)?;
        }
        tables.column(tables.chunk_runs, self.chunk_run, 2)
    }

    fn is_sync(&mut self, tables: &SampleTables) -> bool {
        let Some(syncs) = tables.syncs else { return true };
        if syncs.count == 0 {
            return self.sample == 0;
        }
        let number = u64::from(self.sample) + 1;
        while tables.number(syncs, self.sync_row).is_some_and(|row| row < number) {
            self.sync_row += 1;
        }
        tables.number(syncs, self.sync_row) == Some(number)
    }
}

impl Run {
    fn step(&mut self, tables: &SampleTables, rows: Rows, repeat_last: bool) {
        while self.left == 0 {
            let (Some(count), Some(value)) =
                (tables.column(rows, self.row, 0), tables.column(rows, self.row, 1))
            else {
                if !repeat_last {
                    self.value = 0;
                }
                return;
            };
            self.row += 1;
            (self.left, self.value) = (count, value);
        }
        self.left -= 1;
    }
}
