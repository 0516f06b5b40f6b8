//! Stores a transport stream as it is.

use crate::error::IngestError;
use crate::guard::media_error;
use crate::input::{Input, Phase, Stop};
use crate::meter::Meter;
use crate::source::FileSource;
use crate::stream_places::StreamPlaces;
use crate::stream_writer::{StoredStream, StreamWriter};
use crate::watch::stamp_of;
use reel_media::transport::{PACKET_BYTES, SYMBOL_PACKETS, StreamReader};
use reel_volume::{SourceFile, Volume};

/// Packets read at once: about as many bytes as are read of a file.
const PACKETS_AT_ONCE: usize = 200 * SYMBOL_PACKETS;

/// A transport stream that is about to be stored.
pub(crate) struct StreamInput {
    reader: StreamReader,
    places: StreamPlaces,
    source: SourceFile,
}

impl StreamInput {
    /// Opens a file that must be a transport stream, for a volume that must have space for it and
    /// symbols that can hold it.
    pub(crate) fn open(volume: &Volume, input: &Input, stop: &Stop) -> Result<StreamInput, IngestError> {
        let places = places(volume)?;
        let failed = |source| IngestError::Open { path: input.path.clone(), source };
        let stamp = stamp_of(&input.path).map_err(failed)?;
        let source = FileSource::open(&input.path, stop).map_err(failed)?;
        let (file_name, bytes) = (input.name(), stamp.bytes);
        let reader = StreamReader::open(Box::new(source)).map_err(|error| media_error(&file_name, error))?;
        let source = SourceFile { file_name, bytes, modified_unix_s: stamp.modified_unix_s };
        Ok(StreamInput { reader, places, source })
    }

    /// The file.
    pub(crate) fn source(&self) -> &SourceFile {
        &self.source
    }

    /// Bytes of its objects, at most: its index needs less than a stripe for each GB.
    pub(crate) fn needed_bytes(&self, stripe_bytes: u64) -> u64 {
        self.places.object_bytes(self.source.bytes.div_ceil(PACKET_BYTES as u64)) + stripe_bytes
    }

    /// Stores the stream and its index.
    pub(crate) fn store(
        mut self,
        volume: &Volume,
        meter: &mut Meter<'_>,
        stop: &Stop,
    ) -> Result<StoredStream, IngestError> {
        meter.phase(Phase::Storing, &self.source.file_name);
        let mut writer = StreamWriter::new(volume, self.places)?;
        let mut packets = Vec::with_capacity(PACKETS_AT_ONCE * PACKET_BYTES);
        loop {
            packets.clear();
            let count = self.reader.read(PACKETS_AT_ONCE, &mut packets);
            if count.map_err(|error| media_error(&self.source.file_name, error))? == 0 {
                break;
            }
            if stop.is_stopped() {
                return Err(IngestError::Cancelled);
            }
            writer.write(&packets)?;
            meter.read(self.reader.position());
        }
        let (index, warnings) =
            self.reader.finish().map_err(|error| media_error(&self.source.file_name, error))?;
        let stored = writer.finish(&self.source.file_name, index, warnings)?;
        meter.file_done(self.source.bytes);
        Ok(stored)
    }
}

/// The places of packets in a volume, whose symbols must be large enough.
pub(crate) fn places(volume: &Volume) -> Result<StreamPlaces, IngestError> {
    let symbol_bytes = volume.geometry().symbol_bytes();
    StreamPlaces::new(*volume.geometry()).ok_or(IngestError::SmallSymbols { symbol_bytes })
}
