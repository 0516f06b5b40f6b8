//! The invariants of an index, whatever program wrote it.

use super::{IndexError, TitleIndex, TrackIndex};
use crate::{Codec, TrackKind, limits};

/// Checks the limits, and that the parts agree with each other.
pub(super) fn title(index: &TitleIndex) -> Result<(), IndexError> {
    at_most("the number of tracks", index.tracks.len(), limits::OUT_TRACKS)?;
    for (number, track) in index.tracks.iter().enumerate() {
        self::track(number, track)?;
        if track.nanoseconds(track.end) > index.duration_ns {
            return Err(IndexError::Contradiction { track: number, what: "it ends after the title" });
        }
    }
    at_most("the number of chapters", index.chapters.len(), limits::OUT_CHAPTERS)?;
    for chapter in &index.chapters {
        at_most("a chapter's name", chapter.name.len(), limits::OUT_NAME_BYTES)?;
    }
    if !index.chapters.is_sorted_by_key(|chapter| chapter.start_ns) {
        return Err(IndexError::Form("its chapters are not in order"));
    }
    Ok(())
}

/// Checks that an index can be stored: that of a merged title names objects of two titles.
pub(super) fn stored(index: &TitleIndex) -> Result<(), IndexError> {
    match index.tracks.iter().position(|track| track.tables.object != 0) {
        Some(track) => {
            Err(IndexError::Contradiction { track, what: "its sample tables are those of another title" })
        }
        None => Ok(()),
    }
}

fn track(number: usize, track: &TrackIndex) -> Result<(), IndexError> {
    let wrong = |what| Err(IndexError::Contradiction { track: number, what });
    at_most("a decoder configuration", track.track.config.len(), limits::OUT_CONFIG_BYTES)?;
    at_most("a track's name", track.track.name.as_ref().map_or(0, String::len), limits::OUT_NAME_BYTES)?;
    at_most(
        "a track's language",
        track.track.language.as_ref().map_or(0, String::len),
        limits::OUT_LANGUAGE_BYTES,
    )?;
    at_most("the number of fragments", track.fragments.len(), limits::OUT_FRAGMENTS)?;
    if track.track.timescale == 0 {
        return wrong("its timescale is 0");
    }
    if kind_of(track.track.codec) != track.track.kind {
        return wrong("its codec does not belong to its kind");
    }
    if track.track.video.is_some() != (track.track.kind == TrackKind::Video)
        || track.track.audio.is_some() != (track.track.kind == TrackKind::Audio)
    {
        return wrong("its properties do not belong to its kind");
    }
    let times =
        [track.media_offset, track.media_duration, track.start, track.end, track.first_dts.unsigned_abs()];
    // Twice the limit on sample times: a duration may follow the last one.
    if times.iter().any(|time| *time > 2 * limits::OUT_TICKS) {
        return wrong("its times are out of range");
    }
    if track.start > track.end {
        return wrong("it ends before it starts");
    }
    at_most("the size of the sample tables", track.tables.bytes as usize, 2 * limits::OUT_TABLES_BYTES)?;
    if track.tables.offset.checked_add(track.tables.bytes).is_none() {
        return wrong("its sample tables lie beyond any object");
    }
    if track.frame_rate.is_some_and(|rate| rate.numerator == 0 || rate.denominator == 0) {
        return wrong("its frame rate is 0 or infinite");
    }
    changes(number, track)?;
    if track.track.kind == TrackKind::Subtitle { subtitle(number, track) } else { fragments(number, track) }
}

fn subtitle(number: usize, track: &TrackIndex) -> Result<(), IndexError> {
    if !track.fragments.is_empty() || track.init_bytes != 0 {
        return Err(IndexError::Contradiction { track: number, what: "subtitles have no fragments" });
    }
    Ok(())
}

fn changes(number: usize, track: &TrackIndex) -> Result<(), IndexError> {
    at_most("the number of changes", track.changes.len(), limits::OUT_CHANGES)?;
    let mut before = 0;
    for change in &track.changes {
        at_most("a decoder configuration", change.config.len(), limits::OUT_CONFIG_BYTES)?;
        let placed = change.fragment > before && (change.fragment as usize) < track.fragments.len();
        let same_kind = change.video.is_some() == track.track.video.is_some()
            && change.audio.is_some() == track.track.audio.is_some();
        if !placed || !same_kind || change.init_bytes == 0 {
            return Err(IndexError::Contradiction { track: number, what: "a change is impossible" });
        }
        before = change.fragment;
    }
    Ok(())
}

fn fragments(number: usize, track: &TrackIndex) -> Result<(), IndexError> {
    let wrong = |what| Err(IndexError::Contradiction { track: number, what });
    let (mut offset, mut time, mut samples) = (u64::from(track.init_bytes), track.start, 0);
    let mut changes = track.changes.iter().peekable();
    for (position, fragment) in track.fragments.iter().enumerate() {
        if let Some(change) = changes.next_if(|change| change.fragment as usize == position) {
            offset += u64::from(change.init_bytes);
        }
        if fragment.offset != offset || fragment.time != time {
            return wrong("its fragments do not follow each other");
        }
        if fragment.samples == 0
            || fragment.header_bytes < 8
            || fragment.key_bytes < fragment.header_bytes
            || fragment.bytes < fragment.key_bytes
        {
            return wrong("a fragment's sizes are impossible");
        }
        offset += u64::from(fragment.bytes);
        samples += u64::from(fragment.samples);
        time = match time.checked_add(fragment.duration) {
            Some(time) => time,
            None => return wrong("its times are out of range"),
        };
    }
    if track.fragments.is_empty() || offset != track.bytes || time != track.end || samples != track.samples {
        return wrong("its fragments do not add up to the whole");
    }
    Ok(())
}

fn kind_of(codec: Codec) -> TrackKind {
    match codec {
        Codec::Av1 | Codec::H264 | Codec::Hevc | Codec::Vp9 => TrackKind::Video,
        Codec::Aac | Codec::Ac3 | Codec::Eac3 | Codec::Flac | Codec::Mp3 | Codec::Opus => TrackKind::Audio,
        Codec::WebVtt => TrackKind::Subtitle,
    }
}

fn at_most(what: &'static str, value: usize, limit: usize) -> Result<(), IndexError> {
    if value > limit {
        Err(IndexError::Limit { what, value: value as u64, limit: limit as u64 })
    } else {
        Ok(())
    }
}
