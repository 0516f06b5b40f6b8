//! Files in: demuxed, packed, stored, published.

use crate::error::IngestError;
use crate::input::{IngestOptions, Ingested, Input, Phase, Progress, Stop};
use crate::limits::RENDITIONS_MAX;
use crate::meter::Meter;
use crate::naming::{clean_name, name_from_file, slug, unique_id};
use crate::opened::Opened;
use crate::poster::make_poster;
use crate::store::Store;
use reel_media::cmaf::{CutPolicy, Packaged, Packager};
use reel_media::{MediaError, TitleIndex, TrackKind, ladder};
use reel_volume::{ObjectEntry, Role, SourceFile, TitleRecord, Volume, VolumeError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Takes files as one title: each is demuxed, its tracks are packed as CMAF and stored as objects, then the title is
/// published in one step. Several files are renditions of the same film: the video of each is taken, sound and
/// subtitles come from the first.
///
/// Blocks until the title can be played. On any error, and when the process ends, nothing of it remains.
pub fn ingest(
    volume: &Volume,
    inputs: &[Input],
    options: &IngestOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ingested, IngestError> {
    if inputs.len() > RENDITIONS_MAX {
        return Err(IngestError::TooManyInputs { files: inputs.len() });
    }
    let mut files = Vec::new();
    for (number, input) in inputs.iter().enumerate() {
        files.push(Opened::open(input, number > 0, !options.no_sidecars)?);
    }
    let Some(first) = files.first() else { return Err(IngestError::NoInput) };
    let name = clean_name(&options.name.clone().unwrap_or_else(|| name_from_file(&first.file_name)));
    let source = SourceFile {
        file_name: first.file_name.clone(),
        bytes: first.bytes,
        modified_unix_s: first.modified_unix_s,
    };
    check_space(volume, &files)?;

    let mut meter = Meter::new(progress, files.iter().map(|file| file.bytes).sum());
    let mut store = Store::new(volume);
    let mut renditions = Vec::new();
    for file in &mut files {
        renditions.push(pack(file, &mut store, &mut meter, &options.stop)?);
    }
    check_ladder(&files, &renditions)?;
    let (index, tables) = TitleIndex::assemble(renditions);
    if index.tracks.iter().all(|track| track.track.kind == TrackKind::Subtitle) {
        let source = MediaError::NoTracks("no sample of sound or pictures is in it".to_owned());
        return Err(IngestError::Media { file: source_name(&files), source });
    }

    meter.phase(Phase::Finishing, &source.file_name);
    let mut objects = store.tracks()?;
    let duration_s = index.duration_ns as f64 / 1e9;
    let video = files.iter().find(|file| file.has_video()).map(|file| file.path.as_path());
    let poster = make_poster(&name, video, duration_s);
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
    let id = publish(volume, &name, source, objects)?;
    meter.end();
    let warnings = files.iter().flat_map(|file| file.warnings(files.len() > 1)).collect();
    Ok(Ingested { id, warnings })
}

/// Says whether a file could be taken: opens it and reads its structure.
pub fn probe(input: &Input) -> Result<(), IngestError> {
    Opened::open(input, false, false).map(|_| ())
}

/// All samples of one file through a packager into the store.
fn pack(
    file: &mut Opened,
    store: &mut Store<'_>,
    meter: &mut Meter<'_>,
    stop: &Stop,
) -> Result<Packaged, IngestError> {
    let failed = |file: &Opened, source| IngestError::Pack { file: file.file_name.clone(), source };
    let mut packager = Packager::new(file.tracks(), CutPolicy::default()).map_err(|e| failed(file, e))?;
    store.begin_rendition(file.tracks().len());
    meter.phase(Phase::Storing, &file.file_name);
    let mut data = Vec::new();
    while let Some(packet) = file.next(&mut data)? {
        if stop.is_stopped() {
            return Err(IngestError::Cancelled);
        }
        packager.push(&packet, &data).map_err(|e| failed(file, e))?;
        for piece in packager.take() {
            store.write(piece)?;
        }
        meter.read(file.position());
    }
    let mut packaged = packager.finish().map_err(|e| failed(file, e))?;
    for piece in std::mem::take(&mut packaged.pieces) {
        store.write(piece)?;
    }
    let kept: Vec<bool> = packaged.tracks.iter().map(Option::is_some).collect();
    store.end_rendition(&kept)?;
    meter.file_done(file.bytes);
    Ok(packaged)
}

/// Fails before anything is written when the title cannot fit.
fn check_space(volume: &Volume, files: &[Opened]) -> Result<(), IngestError> {
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
fn check_ladder(files: &[Opened], renditions: &[Packaged]) -> Result<(), IngestError> {
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

/// Publishes under the first free id. Another ingest may take an id between the look and the step: then the next is
/// tried.
fn publish(
    volume: &Volume,
    name: &str,
    source: SourceFile,
    objects: Vec<ObjectEntry>,
) -> Result<String, IngestError> {
    let stem = slug(name);
    let added_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut record = TitleRecord { id: String::new(), name: name.to_owned(), added_unix_s, source, objects };
    loop {
        record.id = unique_id(&stem, |id| volume.title(id).is_some()).ok_or(IngestError::IdsExhausted)?;
        match volume.publish(record.clone()) {
            Ok(()) => return Ok(record.id),
            Err(VolumeError::TitleExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn source_name(files: &[Opened]) -> String {
    files.iter().map(|file| file.file_name.as_str()).collect::<Vec<_>>().join(", ")
}
