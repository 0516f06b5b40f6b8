//! Subtitles that are added to a stored title.

use crate::error::{IngestError, LibraryError, SubtitleError};
use crate::limits::INDEX_BYTES_MAX;
use crate::naming::{clean_file_name, clean_name, is_blank};
use crate::sidecar::{Sidecar, is_language, parse_sidecar};
use crate::store::Store;
use crate::warnings;
use reel_media::cmaf::Packager;
use reel_media::{Packet, TitleIndex, Track, TrackKind};
use reel_volume::{ObjectEntry, Role, TitleRecord, Volume};

/// A file of subtitles for a stored title.
#[derive(Clone, Debug, Default)]
pub struct SubtitleFile {
    /// Its name. What follows the name of the film says the language, if none is given.
    pub file_name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its language, such as `en` or `pt-BR`.
    pub language: Option<String>,
    /// What players show for it; the language if `None`.
    pub label: Option<String>,
    /// Whether it is shown even if no subtitles are chosen.
    pub forced: bool,
}

/// Adds subtitles to the title of a record, which has this index and these warnings.
pub(crate) fn add(
    volume: &Volume,
    record: &TitleRecord,
    (mut index, warned): (TitleIndex, Vec<String>),
    file: &SubtitleFile,
) -> Result<Vec<String>, SubtitleError> {
    let name = clean_file_name(&file.file_name);
    let unusable = |reason| SubtitleError::Unusable { file: name.clone(), reason };
    let mut sidecar = parse_sidecar(&file.bytes, &name, &record.source.file_name).map_err(unusable)?;
    describe(&mut sidecar.track, file)?;
    refuse_second(&index, &sidecar.track)?;
    let (text, warnings) = append(&mut index, sidecar, &name)?;
    let encoded = index.encode().map_err(|source| IngestError::Index { file: name.clone(), source })?;
    if encoded.len() as u64 > INDEX_BYTES_MAX {
        let (id, bytes) = (record.id.clone(), encoded.len() as u64);
        return Err(LibraryError::TooLarge { id, what: "index", bytes, limit: INDEX_BYTES_MAX }.into());
    }
    let store = Store::new(volume);
    let number = index.tracks.last().map_or(0, |track| track.object);
    let mut objects = vec![
        ObjectEntry { role: Role::Track, number, object: store.whole(&text)? },
        ObjectEntry { role: Role::Index, number: 0, object: store.whole(&encoded)? },
    ];
    if !warnings.is_empty() {
        let of_file = warnings.iter().map(|text| format!("{name}: {text}"));
        let all: Vec<String> = warned.into_iter().chain(of_file).collect();
        objects.extend(warnings::entry(&store, &all)?);
    }
    volume.replace_objects(record, objects).map_err(IngestError::from)?;
    Ok(warnings)
}

/// Gives a track the language and the label that were given with its file.
fn describe(track: &mut Track, file: &SubtitleFile) -> Result<(), SubtitleError> {
    let given = |text: &Option<String>| text.clone().filter(|text| !is_blank(text));
    if let Some(language) = given(&file.language) {
        let tag = language.trim().replace('_', "-");
        if !is_language(&tag.to_ascii_lowercase()) {
            return Err(SubtitleError::Language { language: clean_name(&language) });
        }
        track.language = Some(tag);
    }
    track.name = given(&file.label).map(|label| clean_name(&label));
    track.forced |= file.forced;
    Ok(())
}

/// Refuses subtitles that a viewer could not tell from others of the title.
fn refuse_second(index: &TitleIndex, new: &Track) -> Result<(), SubtitleError> {
    let of = |track: &Track| {
        let language = track.language.as_ref().map(|language| language.to_ascii_lowercase());
        (language, track.name.clone(), track.forced)
    };
    if !index.of_kind(TrackKind::Subtitle).any(|(_, old)| of(&old.track) == of(new)) {
        return Ok(());
    }
    let language = new.language.as_ref().map_or("without a language".to_owned(), |tag| format!("in {tag}"));
    let label = new.name.as_ref().map_or("without a label".to_owned(), |name| format!("labelled {name:?}"));
    Err(SubtitleError::Taken { what: format!("{language} and {label}") })
}

/// Appends a track to the index: the numbers of the others are in use by sessions. Returns the file
/// to be stored, and warnings.
fn append(
    index: &mut TitleIndex,
    sidecar: Sidecar,
    name: &str,
) -> Result<(Vec<u8>, Vec<String>), SubtitleError> {
    let failed = |source| IngestError::Pack { file: name.to_owned(), source };
    let mut packager = Packager::for_subtitles(sidecar.track, index.duration_ns).map_err(failed)?;
    for (sample, text) in sidecar.cues {
        packager.push(&Packet { track: 0, sample, change: None }, text.as_bytes()).map_err(failed)?;
    }
    let packed = packager.finish().map_err(failed)?;
    let (Some(Some(mut track)), Some(piece)) =
        (packed.tracks.into_iter().next(), packed.pieces.into_iter().next())
    else {
        let reason = packed.warnings.first().map_or("there is no cue in the file", String::as_str);
        return Err(SubtitleError::Unusable { file: name.to_owned(), reason: reason.to_owned() });
    };
    track.object = index.tracks.iter().map(|track| track.object.saturating_add(1)).max().unwrap_or_default();
    index.tracks.push(track);
    Ok((piece.bytes, sidecar.warning.into_iter().chain(packed.warnings).collect()))
}
