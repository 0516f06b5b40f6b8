//! The texts of a title, each of them written once.

use crate::files::{SessionFile, Unwritten};
use crate::limits::TEXT_FRAGMENTS_AT_ONCE;
use std::sync::{Arc, OnceLock};

/// The playlists and manifests of a title. None of them contains the key of a session, so sessions
/// share them.
pub(crate) struct TextCache {
    /// Writing a text takes longer than a serving thread may.
    is_long: bool,
    /// For each choice that a session may be offered.
    titles: Vec<TitleTexts>,
    tracks: Vec<TrackTexts>,
    transport: Text,
}

/// The place of a text.
pub(crate) struct Slot<'a> {
    kept: &'a Text,
    is_long: bool,
}

/// `None` if the title has no such text.
type Text = OnceLock<Option<Arc<[u8]>>>;

#[derive(Default)]
struct TitleTexts {
    master: Text,
    manifest: Text,
}

#[derive(Default)]
struct TrackTexts {
    media: Text,
    iframes: Text,
    text_playlist: Text,
}

impl TextCache {
    /// For a title with so many choices, tracks, and fragments of all tracks.
    pub(crate) fn new(choices: usize, tracks: usize, fragments: usize) -> Self {
        Self {
            is_long: fragments > TEXT_FRAGMENTS_AT_ONCE,
            titles: (0..choices).map(|_| TitleTexts::default()).collect(),
            tracks: (0..tracks).map(|_| TrackTexts::default()).collect(),
            transport: Text::new(),
        }
    }

    /// The place of a text; `None` for what is none, or of no track or choice of the title.
    pub(crate) fn slot(&self, file: SessionFile, choice: usize) -> Option<Slot<'_>> {
        let kept = match file {
            SessionFile::Master => &self.titles.get(choice)?.master,
            SessionFile::Manifest => &self.titles.get(choice)?.manifest,
            SessionFile::Media(number) => &self.tracks.get(number)?.media,
            SessionFile::IFrames(number) => &self.tracks.get(number)?.iframes,
            SessionFile::TextPlaylist(number) => &self.tracks.get(number)?.text_playlist,
            SessionFile::TransportList => &self.transport,
            _ => return None,
        };
        Some(Slot { kept, is_long: self.is_long })
    }
}

impl<'a> Slot<'a> {
    /// The text, which is written now if that is short work.
    pub(crate) fn read(
        &self,
        compose: impl FnOnce() -> Option<String>,
    ) -> Result<Option<&'a Arc<[u8]>>, Unwritten> {
        if self.is_long && self.kept.get().is_none() {
            return Err(Unwritten);
        }
        Ok(self.write(compose))
    }

    /// The text, which is written now if it was not yet. Of several callers one writes it.
    pub(crate) fn write(&self, compose: impl FnOnce() -> Option<String>) -> Option<&'a Arc<[u8]>> {
        let composed = || compose().map(|text| Arc::from(text.into_bytes()));
        self.kept.get_or_init(composed).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_not_written_where_they_are_read() {
        for file in
            [SessionFile::Master, SessionFile::Manifest, SessionFile::Media(0), SessionFile::IFrames(0)]
        {
            let short = TextCache::new(1, 1, TEXT_FRAGMENTS_AT_ONCE);
            let slot = short.slot(file, 0).expect("a text");
            assert!(slot.read(|| Some("text".to_owned())).is_ok_and(|text| text.is_some()));
            let long = TextCache::new(1, 1, TEXT_FRAGMENTS_AT_ONCE + 1);
            let slot = long.slot(file, 0).expect("a text");
            assert_eq!(slot.read(|| panic!("long work on a serving thread")), Err(Unwritten));
            slot.write(|| Some("text".to_owned()));
            let written = slot.read(|| panic!("written twice")).expect("it was written");
            assert_eq!(written.map(|text| &text[..]), Some(&b"text"[..]));
        }
    }

    #[test]
    fn only_texts_of_the_title_have_a_place() {
        let texts = TextCache::new(1, 1, 1);
        assert!(texts.slot(SessionFile::Media(1), 0).is_none());
        assert!(texts.slot(SessionFile::Manifest, 1).is_none());
        assert!(texts.slot(SessionFile::Segment(0, 1), 0).is_none());
        let absent = texts.slot(SessionFile::IFrames(0), 0).expect("a track");
        assert_eq!(absent.read(|| None), Ok(None));
    }
}
