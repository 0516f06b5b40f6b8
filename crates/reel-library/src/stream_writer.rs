//! Writes the objects of a transport stream.

use crate::error::IngestError;
use crate::limits::STREAM_INDEX_BYTES_MAX;
use crate::store::Store;
use crate::stream_places::{StreamPlaces, padding};
use crate::stream_sums::SumsMaker;
use reel_media::index::IndexError;
use reel_media::transport::{SYMBOL_PAYLOAD_BYTES, StreamIndex};
use reel_qos::Class;
use reel_volume::{
    ObjectEntry, ObjectRecord, ObjectWriter, Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, STREAM_SUMS_NUMBER,
    Volume,
};

/// A transport stream that was stored.
pub(crate) struct StoredStream {
    /// Its objects.
    pub(crate) objects: Vec<ObjectEntry>,
    /// Its index.
    pub(crate) index: StreamIndex,
    /// Notes for the person who ingests.
    pub(crate) warnings: Vec<String>,
}

/// A transport stream that is being stored. If it is dropped, everything written is freed.
pub(crate) struct StreamWriter<'v> {
    volume: &'v Volume,
    places: StreamPlaces,
    symbols: Symbols,
}

impl<'v> StreamWriter<'v> {
    pub(crate) fn new(volume: &'v Volume, places: StreamPlaces) -> Result<StreamWriter<'v>, IngestError> {
        let symbols = Symbols::new(volume.writer(Class::APERIODIC)?, places.symbol_bytes());
        Ok(StreamWriter { volume, places, symbols })
    }

    /// Appends packets.
    pub(crate) fn write(&mut self, packets: &[u8]) -> Result<(), IngestError> {
        self.symbols.write(packets)
    }

    /// Fills the last stripe with null packets, and writes the index and the checksums. `name` is
    /// for errors.
    pub(crate) fn finish(
        mut self,
        name: &str,
        index: StreamIndex,
        warnings: Vec<String>,
    ) -> Result<StoredStream, IngestError> {
        for packet in padding(&self.places, index.packets) {
            self.symbols.write(&packet)?;
        }
        let failed = |source| IngestError::Index { file: name.to_owned(), source };
        let encoded = index.encode().map_err(failed)?;
        if encoded.len() as u64 > STREAM_INDEX_BYTES_MAX {
            let (value, limit) = (encoded.len() as u64, STREAM_INDEX_BYTES_MAX);
            return Err(failed(IndexError::Limit { what: "its number of bytes", value, limit }));
        }
        let (stream, sums) = self.symbols.finish()?;
        let store = Store::new(self.volume);
        let mut objects = vec![
            ObjectEntry { role: Role::Track, number: STREAM_NUMBER, object: stream },
            ObjectEntry { role: Role::Index, number: STREAM_INDEX_NUMBER, object: store.whole(&encoded)? },
        ];
        if let Some(sums) = sums {
            let object = store.whole(&sums)?;
            objects.push(ObjectEntry { role: Role::Index, number: STREAM_SUMS_NUMBER, object });
        }
        Ok(StoredStream { objects, index, warnings })
    }
}

/// Cuts bytes into the payloads of symbols, and sums these up.
struct Symbols {
    writer: ObjectWriter,
    sums: SumsMaker,
    /// What follows each payload.
    zeros: Vec<u8>,
    /// Bytes of the payload that is not complete.
    begun: usize,
}

impl Symbols {
    fn new(writer: ObjectWriter, symbol_bytes: usize) -> Symbols {
        let zeros = vec![0; symbol_bytes - SYMBOL_PAYLOAD_BYTES];
        Symbols { writer, sums: SumsMaker::default(), zeros, begun: 0 }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), IngestError> {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(SYMBOL_PAYLOAD_BYTES - self.begun));
            self.writer.write(head)?;
            self.sums.add(head);
            self.begun += head.len();
            if self.begun == SYMBOL_PAYLOAD_BYTES {
                self.sums.end_symbol();
                self.writer.write(&self.zeros)?;
                self.begun = 0;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// The record of the stream, and its checksums as they are stored.
    fn finish(self) -> Result<(ObjectRecord, Option<Vec<u8>>), IngestError> {
        Ok((self.writer.finish()?, self.sums.finish()))
    }
}
