//! Ingest: files are demuxed, packed, stored and published.

use crate::error::IngestError;
use crate::input::{Checked, IngestOptions, Ingested, Input, Phase, Progress, Stop};
use crate::limits::{INDEX_BYTES_MAX, RENDITIONS_MAX, SIDECARS_MAX};
use crate::meter::Meter;
use crate::naming::{clean_name, is_blank, name_from_file, slug, unique_id};
use crate::opened_file::OpenedFile;
use crate::poster::{Poster, PosterKind, PosterSource, make_poster};
use crate::poster_job::PosterJob;
use crate::sidecar::find_sidecars;
use crate::store::{Counted, Sink, Store};
use crate::stream_made::Tracks;
use crate::stream_places::StreamPlaces;
use crate::stream_store::{StreamInput, places};
use crate::summary::{cmaf, summarise};
use crate::warnings;
use reel_media::cmaf::{CutPolicy, Packaged, Packager, Piece};
use reel_media::index::IndexError;
use reel_media::transport::{PACKET_BYTES, StreamIndex, TICKS_PER_S, check_carried};
use reel_media::{MediaError, TitleIndex, TrackKind, ladder};
use reel_volume::{ObjectEntry, Role, SourceFile, TitleRecord, Volume, VolumeError};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
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
    let StreamPlan { as_it_is: stream, made } = plan_stream(volume, inputs, options)?;
    let (mut files, mut unplayable) = match open(inputs, options) {
        Err(error) if stream.is_some() && is_unplayable(&error) => (Vec::new(), Some(error)),
        opened => (opened?, None),
    };
    check_made(&files, made)?;
    let source = match (files.first(), &stream) {
        (Some(first), _) => source_of(first),
        (None, Some(stream)) => stream.source().clone(),
        (None, None) => return Err(IngestError::NoInput),
    };
    let replaced = options.replaces.as_deref().and_then(|id| volume.title(id));
    let given = options.name.clone().filter(|name| !is_blank(name));
    let kept = replaced.as_ref().map(|old| old.name.clone());
    let name = clean_name(&given.or(kept).unwrap_or_else(|| name_from_file(&source.file_name)));
    check_space(volume, &files, stream.as_ref(), made)?;

    let of_stream = stream.as_ref().map_or(0, |stream| stream.source().bytes);
    let mut meter = Meter::new(progress, files.iter().map(|file| file.bytes).sum::<u64>() + of_stream);
    let mut objects = Vec::new();
    if unplayable.is_none() {
        match store_tracks(volume, &mut files, &name, &mut meter, (options, made)) {
            Err(error) if stream.is_some() && is_unplayable(&error) => unplayable = Some(error),
            stored => objects = stored?,
        }
    }
    let mut warnings = warnings_of(&files);
    if let Some(stream) = stream {
        let stored = stream.store(volume, &mut meter, &options.stop)?;
        warnings.extend(stored.warnings.iter().map(|text| format!("form ts: {text}")));
        if let Some(error) = unplayable {
            warnings.push(format!(
                "only the form ts is stored, which players get at /watch/TITLE/stream.m3u8: {error}"
            ));
            let (poster, warning) = stream_poster(&inputs[0], &name, &stored.index, &options.stop);
            objects.push(poster_entry(&Store::new(volume), &poster)?);
            warnings.extend(warning);
        }
        objects.extend(stored.objects);
    }
    objects.extend(warnings::entry(&Store::new(volume), &warnings)?);
    if options.stop.is_stopped() {
        return Err(IngestError::Cancelled);
    }
    let id = publish(volume, &name, source, objects, replaced.map(|old| old.id.clone()))?;
    meter.end();
    Ok(Ingested { id, warnings })
}

/// Where the form `ts` comes from, if it is wanted.
struct StreamPlan {
    /// The file is a transport stream, and stored as it is.
    as_it_is: Option<StreamInput>,
    /// It is made of the tracks.
    made: Option<StreamPlaces>,
}

fn plan_stream(
    volume: &Volume,
    inputs: &[Input],
    options: &IngestOptions,
) -> Result<StreamPlan, IngestError> {
    let mut plan = StreamPlan { as_it_is: None, made: None };
    if !options.stream {
        return Ok(plan);
    }
    for input in inputs {
        match StreamInput::open(volume, input, &options.stop) {
            Ok(_) if inputs.len() > 1 => return Err(IngestError::SeveralStreams { files: inputs.len() }),
            Ok(stream) => plan.as_it_is = Some(stream),
            Err(IngestError::Media { source: MediaError::NotTransportStream, .. }) => {
                plan.made = Some(places(volume)?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(plan)
}

/// Refuses files of which no transport stream can be made, before anything is stored.
fn check_made(files: &[OpenedFile], made: Option<StreamPlaces>) -> Result<(), IngestError> {
    files.iter().filter(|_| made.is_some()).try_for_each(|file| {
        let failed = |source| IngestError::Multiplex { file: file.file_name.clone(), source };
        check_carried(&file.tracks()).map_err(failed)
    })
}

/// Whether an error says that players could not play what is in a file that can be read.
fn is_unplayable(error: &IngestError) -> bool {
    match error {
        IngestError::Media { source, .. } => !matches!(source, MediaError::Io(_)),
        IngestError::Pack { .. } | IngestError::Index { .. } => true,
        _ => false,
    }
}

/// Stores all files as tracks, with tables, index and poster, and the form `ts` if it is to be
/// made.
fn store_tracks(
    volume: &Volume,
    files: &mut [OpenedFile],
    name: &str,
    meter: &mut Meter<'_>,
    (options, made): (&IngestOptions, Option<StreamPlaces>),
) -> Result<Vec<ObjectEntry>, IngestError> {
    let mut store = Store::new(volume);
    let mut poster = PosterJob::new(name, &options.stop);
    let (index, tables) = assemble(files, &mut store, meter, &mut poster, &options.stop)?;
    meter.phase(Phase::Finishing, files.first().map_or("", |file| &file.file_name));
    let mut objects = store.tracks()?;
    let (poster, warning) = poster.finish();
    if let Some(first) = files.first_mut() {
        first.remark(warning.into_iter().collect());
    }
    if options.stop.is_stopped() {
        return Err(IngestError::Cancelled);
    }
    let encoded = index.encode().and_then(bounded_index);
    let encoded = encoded.map_err(|source| IngestError::Index { file: source_name(files), source })?;
    for (role, bytes) in [(Role::Tables, tables.as_slice()), (Role::Index, encoded.as_slice())] {
        objects.push(ObjectEntry { role, number: 0, object: store.whole(bytes)? });
    }
    objects.push(poster_entry(&store, &poster)?);
    if let Some(places) = made {
        let tracks = Tracks { volume, index: &index, objects: &objects };
        let stored = tracks.multiplex(&source_name(files), places, &options.stop, &mut |_, _| ())?;
        if let Some(first) = files.first_mut() {
            first.remark(stored.warnings.iter().map(|text| format!("form ts: {text}")).collect());
        }
        objects.extend(stored.objects);
    }
    Ok(objects)
}

fn poster_entry(store: &Store<'_>, poster: &Poster) -> Result<ObjectEntry, IngestError> {
    let (role, number) = (Role::Artwork, poster.kind.number());
    Ok(ObjectEntry { role, number, object: store.whole(&poster.bytes)? })
}

/// A poster of a title that is a transport stream alone: ffmpeg may decode what players do not.
fn stream_poster(input: &Input, name: &str, index: &StreamIndex, stop: &Stop) -> (Poster, Option<String>) {
    let frame_at_s = index.duration_ticks() as f64 / TICKS_PER_S as f64 / POSTER_PART as f64;
    let source = PosterSource { film: input.path.clone(), cover: None, frame_at_s: Some(frame_at_s) };
    make_poster(name, Some(&source), std::slice::from_ref(stop))
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
    let source = source_of(first);
    let name = clean_name(&options.name.clone().unwrap_or_else(|| name_from_file(&first.file_name)));
    let mut meter = Meter::new(progress, files.iter().map(|file| file.bytes).sum());
    let (mut counted, mut poster) = (Counted::default(), PosterJob::none());
    let (index, _) = assemble(&mut files, &mut counted, &mut meter, &mut poster, &options.stop)?;
    meter.end();
    let record = TitleRecord { id: slug(&name), name, added_unix_s: 0, source, objects: Vec::new() };
    let mut title = summarise(&record, &index, PosterKind::Svg);
    title.bytes = counted.bytes();
    title.forms = vec![cmaf(&index, title.bytes)];
    let all = warnings_of(&files);
    title.warnings = warnings::bounded(all.clone());
    Ok(Checked { title, warnings: all })
}

fn source_of(first: &OpenedFile) -> SourceFile {
    SourceFile {
        file_name: first.file_name.clone(),
        bytes: first.bytes,
        modified_unix_s: first.modified_unix_s,
    }
}

fn open(inputs: &[Input], options: &IngestOptions) -> Result<Vec<OpenedFile>, IngestError> {
    if inputs.len() > RENDITIONS_MAX {
        return Err(IngestError::TooManyInputs { files: inputs.len() });
    }
    let open = |(number, input)| {
        let mut file = OpenedFile::open(input, number > 0, &options.stop)?;
        if number == 0 {
            file.add_sidecars(sidecars(input, options));
        }
        Ok(file)
    };
    inputs.iter().enumerate().map(open).collect()
}

/// The subtitle files of the first input: those beside it, and those that were given.
fn sidecars(film: &Input, options: &IngestOptions) -> Vec<Input> {
    let beside = if options.no_sidecars { Vec::new() } else { find_sidecars(&film.path) };
    let mut all: Vec<Input> = beside.into_iter().map(Input::new).collect();
    all.extend(options.sidecars.iter().take(SIDECARS_MAX).cloned());
    all
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
    let (mut index, tables) = TitleIndex::assemble(renditions);
    if index.tracks.iter().all(|track| track.track.kind == TrackKind::Subtitle) {
        let source = MediaError::NoTracks("it has no audio or video samples".to_owned());
        return Err(IngestError::Media { file: source_name(files), source });
    }
    if let Some(first) = files.first_mut() {
        let warning = index.set_chapters(first.chapters().to_vec());
        first.remark(warning.into_iter().collect());
    }
    Ok((index, tables))
}

fn warnings_of(files: &[OpenedFile]) -> Vec<String> {
    files.iter().flat_map(|file| file.warnings(files.len() > 1)).collect()
}

/// Checks whether a file could be ingested: opens it and reads its structure. Ends when `stop` is
/// raised.
///
/// # Errors
/// As [`ingest`] for this file.
pub fn probe(input: &Input, stop: &Stop) -> Result<(), IngestError> {
    OpenedFile::open(input, false, stop).map(|_| ())
}

/// The poster is taken this fraction of the way into the title: behind the opening credits, but
/// before the plot is given away.
const POSTER_PART: u64 = 10;

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
    poster.offer(file);
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
        // ffmpeg has no Dolby Vision: a frame that needs it would have wrong colours.
        let shown = track.kind == TrackKind::Video && !track.needs_dolby_vision();
        if shown && position >= file.bytes / POSTER_PART {
            poster.begin(packet.sample.pts as f64 / f64::from(track.timescale));
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

/// Refuses an index that the library would not open.
fn bounded_index(encoded: Vec<u8>) -> Result<Vec<u8>, IndexError> {
    let (value, limit) = (encoded.len() as u64, INDEX_BYTES_MAX);
    if value > limit {
        return Err(IndexError::Limit { what: "its number of bytes", value, limit });
    }
    Ok(encoded)
}

/// Fails before anything is written if the title cannot fit.
fn check_space(
    volume: &Volume,
    files: &[OpenedFile],
    stream: Option<&StreamInput>,
    made: Option<StreamPlaces>,
) -> Result<(), IngestError> {
    let stripe_bytes = volume.geometry().stripe_bytes() as u64;
    // Every object ends in a stripe of its own: the tracks, and tables, index, poster and warnings.
    let objects = files.iter().map(|file| file.tracks().len() as u64).sum::<u64>() + 4;
    let tracks_bytes =
        files.iter().map(|file| file.bytes).sum::<u64>().saturating_add(objects * stripe_bytes);
    let largest = files.iter().map(|file| file.bytes).max().unwrap_or(0);
    let made_bytes = made.map_or(0, |places| places.object_bytes(largest.div_ceil(PACKET_BYTES as u64)));
    let stream_bytes = stream.map_or(made_bytes, |stream| stream.needed_bytes(stripe_bytes));
    let needed_bytes = tracks_bytes.saturating_add(stream_bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_could_not_be_opened_is_not_stored() {
        let bytes = INDEX_BYTES_MAX as usize;
        assert!(bounded_index(vec![0; bytes]).is_ok());
        let error = bounded_index(vec![0; bytes + 1]).expect_err("too large to be opened");
        assert!(matches!(error, IndexError::Limit { limit: INDEX_BYTES_MAX, .. }), "{error}");
    }
}
