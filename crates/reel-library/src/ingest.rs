//! Ingest: files are demuxed, packed, stored and published.

use crate::error::IngestError;
use crate::input::{Checked, IngestOptions, Ingested, Input, Phase, Progress, Stop};
use crate::limits::RENDITIONS_MAX;
use crate::meter::Meter;
use crate::naming::{clean_name, is_blank, name_from_file, slug, unique_id};
use crate::opened_file::OpenedFile;
use crate::poster::{Poster, PosterKind, make_poster};
use crate::store::{Counted, Sink, Store};
use crate::summary::summarise;
use reel_media::cmaf::{CutPolicy, Packaged, Packager, Piece};
use reel_media::{MediaError, TitleIndex, TrackKind, ladder};
use reel_volume::{ObjectEntry, Role, SourceFile, TitleRecord, Volume, VolumeError};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// Ingests files as one title. Each is demuxed, its tracks are packed as CMAF and stored as
/// objects, then the title is published in one step. Several files are renditions of one title: the
/// video of each is taken; audio and subtitles come from the first.
///
/// Blocks until the title can be played. After any error, and when the process ends, nothing of it
/// remains.
///
/// # Errors
/// If a file cannot be read or its content is not supported, the files are not renditions of one
/// title, the volume is full or fails, or [`IngestOptions::stop`] was raised.
pub fn ingest(
    volume: &Volume,
    inputs: &[Input],
    options: &IngestOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ingested, IngestError> {
    let mut files = open(inputs, options)?;
    let Some(first) = files.first() else { return Err(IngestError::NoInput) };
    let replaced = options.replaces.as_deref().and_then(|id| volume.title(id));
    let given = options.name.clone().filter(|name| !is_blank(name));
    let kept = replaced.as_ref().map(|old| old.name.clone());
    let name = clean_name(&given.or(kept).unwrap_or_else(|| name_from_file(&first.file_name)));
    let source = SourceFile {
        file_name: first.file_name.clone(),
        bytes: first.bytes,
        modified_unix_s: first.modified_unix_s,
    };
    check_space(volume, &files)?;

    let mut meter = Meter::new(progress, files.iter().map(|file| file.bytes).sum());
    let mut store = Store::new(volume);
    let mut poster = PosterJob::new(&name);
    let (index, tables) = assemble(&mut files, &mut store, &mut meter, &mut poster, &options.stop)?;

    meter.phase(Phase::Finishing, &source.file_name);
    let mut objects = store.tracks()?;
    let poster = poster.finish();
    if options.stop.is_stopped() {
        return Err(IngestError::Cancelled);
    }
    let encoded =
        index.encode().map_err(|source| IngestError::Index { file: source_name(&files), source })?;
    for (role, number, bytes) in [
        (Role::Tables, 0, tables.as_slice()),
        (Role::Index, 0, encoded.as_slice()),
        (Role::Artwork, poster.kind.number(), poster.bytes.as_slice()),
    ] {
        objects.push(ObjectEntry { role, number, object: store.whole(bytes)? });
    }
    let id = publish(volume, &name, source, objects, replaced.map(|old| old.id.clone()))?;
    meter.end();
    Ok(Ingested { id, warnings: warnings(&files) })
}

/// Does what [`ingest`] does with the files, but stores nothing: what the title would be, and
/// everything that would be left out of it.
///
/// # Errors
/// As [`ingest`], except those of the volume.
pub fn check(
    inputs: &[Input],
    options: &IngestOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Checked, IngestError> {
    let mut files = open(inputs, options)?;
    let Some(first) = files.first() else { return Err(IngestError::NoInput) };
    let name = clean_name(&options.name.clone().unwrap_or_else(|| name_from_file(&first.file_name)));
    let mut meter = Meter::new(progress, files.iter().map(|file| file.bytes).sum());
    let (mut counted, mut poster) = (Counted::default(), PosterJob::none());
    let (index, _) = assemble(&mut files, &mut counted, &mut meter, &mut poster, &options.stop)?;
    meter.end();
    let record = TitleRecord {
        id: slug(&name),
        name,
        added_unix_s: 0,
        source: SourceFile::default(),
        objects: Vec::new(),
    };
    let mut title = summarise(&record, &index, PosterKind::Svg);
    title.bytes = counted.bytes();
    Ok(Checked { title, warnings: warnings(&files) })
}

fn open(inputs: &[Input], options: &IngestOptions) -> Result<Vec<OpenedFile>, IngestError> {
    if inputs.len() > RENDITIONS_MAX {
        return Err(IngestError::TooManyInputs { files: inputs.len() });
    }
    let open = |(number, input)| OpenedFile::open(input, number > 0, !options.no_sidecars);
    inputs.iter().enumerate().map(open).collect()
}

/// Packs all files, and makes the index and the tables of the title from them.
fn assemble(
    files: &mut [OpenedFile],
    store: &mut dyn Sink,
    meter: &mut Meter<'_>,
    poster: &mut PosterJob,
    stop: &Stop,
) -> Result<(TitleIndex, Vec<u8>), IngestError> {
    let mut renditions = Vec::new();
    for file in files.iter_mut() {
        renditions.push(pack(file, store, meter, poster, stop)?);
    }
    check_ladder(files, &renditions)?;
    let (index, tables) = TitleIndex::assemble(renditions);
    if index.tracks.iter().all(|track| track.track.kind == TrackKind::Subtitle) {
        let source = MediaError::NoTracks("it has no audio or video samples".to_owned());
        return Err(IngestError::Media { file: source_name(files), source });
    }
    Ok((index, tables))
}

fn warnings(files: &[OpenedFile]) -> Vec<String> {
    files.iter().flat_map(|file| file.warnings(files.len() > 1)).collect()
}

/// The poster is taken this fraction of the way into the title: behind the opening credits, but
/// before the plot is given away.
const POSTER_PART: u64 = 10;

/// A poster that is made on a thread of its own while the title is stored.
struct PosterJob {
    /// The name of the title; `None` makes no poster.
    name: Option<String>,
    thread: Option<JoinHandle<Poster>>,
}

impl PosterJob {
    fn new(name: &str) -> Self {
        Self { name: Some(name.to_owned()), thread: None }
    }

    fn none() -> Self {
        Self { name: None, thread: None }
    }

    /// Begins with the frame at `at_s` of a file, unless it has begun.
    fn begin(&mut self, film: &Path, at_s: f64) {
        if let (None, Some(name)) = (&self.thread, self.name.clone()) {
            let film = film.to_owned();
            self.thread = Some(thread::spawn(move || make_poster(&name, Some(&film), at_s.max(0.0))));
        }
    }

    /// The poster; a card if there is no video.
    fn finish(self) -> Poster {
        let made = self.thread.and_then(|thread| thread.join().ok());
        made.unwrap_or_else(|| make_poster(&self.name.unwrap_or_default(), None, 0.0))
    }
}

/// Checks whether a file could be ingested: opens it and reads its structure.
///
/// # Errors
/// As [`ingest`] for this file.
pub fn probe(input: &Input) -> Result<(), IngestError> {
    OpenedFile::open(input, false, false).map(|_| ())
}

/// Passes all samples of one file through a packager into the store. Packing runs on a thread of
/// its own, so that the next fragment is gathered while the last one is written.
fn pack(
    file: &mut OpenedFile,
    store: &mut dyn Sink,
    meter: &mut Meter<'_>,
    poster: &mut PosterJob,
    stop: &Stop,
) -> Result<Packaged, IngestError> {
    store.begin_rendition(file.tracks().len());
    meter.phase(Phase::Storing, &file.file_name);
    let (steps, packed) = sync_channel(STEPS_AHEAD);
    let (written, recycled) = channel();
    let mut packaged = thread::scope(|scope| {
        let packer = scope.spawn(|| gather(file, steps, recycled, poster, stop));
        let stored = packed.into_iter().try_for_each(|step| {
            meter.read(step.position);
            if let Some(piece) = step.piece {
                store.write(&piece)?;
                // The packer may have ended; its memory is not needed then.
                let _ = written.send(piece);
            }
            Ok::<_, IngestError>(())
        });
        // After a failure the store has dropped its end of the channel, which ends the packer.
        let packaged = packer.join().map_err(|_| IngestError::internal("the packing thread panicked"))?;
        stored.and(packaged)
    })?;
    for piece in std::mem::take(&mut packaged.pieces) {
        store.write(&piece)?;
    }
    file.remark(std::mem::take(&mut packaged.warnings));
    let kept: Vec<bool> = packaged.tracks.iter().map(Option::is_some).collect();
    store.end_rendition(&kept)?;
    meter.file_done(file.bytes);
    Ok(packaged)
}

/// One step of packing: the position in the file, and a piece to be written if there is one.
struct Step {
    position: u64,
    piece: Option<Piece>,
}

/// Pieces that may wait to be written. One is enough to keep both sides busy; a piece may have 64
/// MiB.
const STEPS_AHEAD: usize = 1;

/// Progress is reported at least this often, in bytes read.
const REPORT_EVERY_BYTES: u64 = 4 << 20;

/// Packs a complete file and sends the pieces as they are ready. Pieces that are ready only at the
/// end are part of the result.
fn gather(
    file: &mut OpenedFile,
    steps: SyncSender<Step>,
    recycled: Receiver<Piece>,
    poster: &mut PosterJob,
    stop: &Stop,
) -> Result<Packaged, IngestError> {
    let failed = |file: &OpenedFile, source| IngestError::Pack { file: file.file_name.clone(), source };
    let tracks = file.tracks();
    let mut packager = Packager::new(tracks.clone(), CutPolicy::default()).map_err(|e| failed(file, e))?;
    let mut data = Vec::new();
    let mut reported = 0;
    while let Some(packet) = file.next(&mut data)? {
        if stop.is_stopped() {
            return Err(IngestError::Cancelled);
        }
        packager.push(&packet, &data).map_err(|e| failed(file, e))?;
        let position = file.position();
        let track = &tracks[packet.track];
        if track.kind == TrackKind::Video && position >= file.bytes / POSTER_PART {
            poster.begin(&file.path, packet.sample.pts as f64 / f64::from(track.timescale));
        }
        for piece in packager.take() {
            if steps.send(Step { position, piece: Some(piece) }).is_err() {
                // The store failed and reports the reason.
                return Err(IngestError::Cancelled);
            }
            reported = position;
            recycled.try_iter().for_each(|piece| packager.recycle(piece));
        }
        if position.saturating_sub(reported) >= REPORT_EVERY_BYTES {
            reported = position;
            // A failed store is noticed with the next piece.
            let _ = steps.send(Step { position, piece: None });
        }
    }
    packager.finish().map_err(|e| failed(file, e))
}

/// Fails before anything is written if the title cannot fit.
fn check_space(volume: &Volume, files: &[OpenedFile]) -> Result<(), IngestError> {
    let stripe_bytes = volume.geometry().stripe_bytes() as u64;
    // Every object ends in a stripe of its own: the tracks, and tables, index and poster.
    let objects = files.iter().map(|file| file.tracks().len() as u64).sum::<u64>() + 3;
    let needed_bytes =
        files.iter().map(|file| file.bytes).sum::<u64>().saturating_add(objects * stripe_bytes);
    let free_bytes = volume.free_bytes();
    if needed_bytes > free_bytes {
        return Err(IngestError::NoSpace { needed_bytes, free_bytes });
    }
    Ok(())
}

/// Renditions must be cut at the same times, or players cannot switch between them.
fn check_ladder(files: &[OpenedFile], renditions: &[Packaged]) -> Result<(), IngestError> {
    if renditions.len() < 2 {
        return Ok(());
    }
    let mut videos = Vec::new();
    for (file, rendition) in files.iter().zip(renditions) {
        let before = videos.len();
        videos.extend(rendition.tracks.iter().flatten().filter(|track| track.track.kind == TrackKind::Video));
        if videos.len() == before {
            return Err(IngestError::Ladder { reason: format!("{} has no video", file.file_name) });
        }
    }
    ladder::align(&videos).map_err(|e| IngestError::Ladder { reason: e.to_string() })
}

/// Publishes under the first free id. Another ingest may take an id between the check and the
/// commit; the next id is tried then.
fn publish(
    volume: &Volume,
    name: &str,
    source: SourceFile,
    objects: Vec<ObjectEntry>,
    replaced: Option<String>,
) -> Result<String, IngestError> {
    let stem = slug(name);
    let added_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut record = TitleRecord { id: String::new(), name: name.to_owned(), added_unix_s, source, objects };
    if let Some(id) = replaced {
        record.id = id;
        match volume.publish_over(record.clone()) {
            Ok(()) => return Ok(record.id),
            Err(VolumeError::NoSuchTitle { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    loop {
        record.id = unique_id(&stem, |id| volume.title(id).is_some()).ok_or(IngestError::IdsExhausted)?;
        match volume.publish(record.clone()) {
            Ok(()) => return Ok(record.id),
            Err(VolumeError::TitleExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn source_name(files: &[OpenedFile]) -> String {
    files.iter().map(|file| file.file_name.as_str()).collect::<Vec<_>>().join(", ")
}
