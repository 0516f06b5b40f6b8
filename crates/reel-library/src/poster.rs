//! A picture for a title: its cover or a frame if ffmpeg is installed, else a card.

use crate::card::card_svg;
use crate::ffmpeg::Ffmpeg;
use crate::input::Stop;
use reel_media::Cover;
use std::path::{Path, PathBuf};

/// The kind of a poster, stored as the object number of the catalogue's `Artwork` role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PosterKind {
    /// A cover or a frame of the video: `image/jpeg`, object number 0.
    Jpeg,
    /// A generated card: `image/svg+xml`, object number 1.
    Svg,
}

impl PosterKind {
    /// The object number in the catalogue.
    pub const fn number(self) -> u32 {
        match self {
            PosterKind::Jpeg => 0,
            PosterKind::Svg => 1,
        }
    }

    /// The kind of an object number; `None` for one that this version does not know.
    pub const fn from_number(number: u32) -> Option<PosterKind> {
        match number {
            0 => Some(PosterKind::Jpeg),
            1 => Some(PosterKind::Svg),
            _ => None,
        }
    }

    /// The media type for `Content-Type`.
    pub const fn media_type(self) -> &'static str {
        match self {
            PosterKind::Jpeg => "image/jpeg",
            PosterKind::Svg => "image/svg+xml",
        }
    }

    /// The extension in `/img/{id}.{extension}`.
    pub const fn extension(self) -> &'static str {
        match self {
            PosterKind::Jpeg => "jpg",
            PosterKind::Svg => "svg",
        }
    }
}

/// A picture and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poster {
    /// The kind.
    pub kind: PosterKind,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// What a poster can be made of.
#[derive(Clone, Debug)]
pub struct PosterSource {
    /// The file of the film.
    pub film: PathBuf,
    /// The picture that it holds as its cover.
    pub cover: Option<Cover>,
    /// Where to take a frame from, in seconds; `None` if there is no picture that could be shown.
    pub frame_at_s: Option<f64>,
}

/// Makes the poster of a title: its cover, else the key frame at or before a time, else a card.
/// Never fails, since a title without a picture is still a title. Looking for a picture ends when
/// one of `stops` is raised. Also returns what the person who ingests should know.
pub fn make_poster(name: &str, source: Option<&PosterSource>, stops: &[Stop]) -> (Poster, Option<String>) {
    let mut warning = None;
    if let Some(PosterSource { film, cover, frame_at_s }) = source {
        let ffmpeg = || Ffmpeg::new(Path::new("ffmpeg"), stops);
        if let Some(cover) = cover {
            match ffmpeg().cover(film, cover) {
                Ok(bytes) => return (Poster { kind: PosterKind::Jpeg, bytes }, None),
                Err(why) => warning = Some(format!("the cover is not used as the poster: {why}")),
            }
        }
        match frame_at_s.map(|at_s| ffmpeg().frame(film, at_s)) {
            Some(Ok(bytes)) => return (Poster { kind: PosterKind::Jpeg, bytes }, warning),
            Some(Err(why)) => {
                tracing::info!(file = %film.display(), %why, "no frame for the poster: a card is drawn instead")
            }
            None => {}
        }
    }
    (Poster { kind: PosterKind::Svg, bytes: card_svg(name).into_bytes() }, warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_video_there_is_a_card() {
        let (poster, warning) = make_poster("Song", None, &[]);
        assert_eq!(warning, None);
        assert_eq!(poster.kind, PosterKind::Svg);
        assert!(String::from_utf8(poster.bytes).expect("text").contains("Song"));
        for kind in [PosterKind::Jpeg, PosterKind::Svg] {
            assert_eq!(PosterKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(PosterKind::from_number(7), None);
    }
}
