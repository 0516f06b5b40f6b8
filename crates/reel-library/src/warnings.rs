//! The warnings of an ingest, kept with the title: what was left out of it or changed.
//!
//! They are an object of the title, a text with a warning on each line. A title without warnings
//! has no such object.

use crate::error::IngestError;
use crate::limits::{WARNING_BYTES_MAX, WARNINGS_MAX};
use crate::store::Store;
use reel_volume::{ObjectEntry, Role, WARNINGS_NUMBER};

/// Bytes of all of them.
pub(crate) const WARNINGS_BYTES_MAX: u64 = (WARNINGS_MAX * (WARNING_BYTES_MAX + 1)) as u64;

/// Warnings as they are kept and shown: the first ones, each on a line and of bounded length, and
/// how many more there are.
pub(crate) fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        warnings.truncate(WARNINGS_MAX - 1);
        warnings.push(format!("and {} more, which are in the log", more + 1));
    }
    warnings.iter_mut().for_each(shorten);
    warnings
}

fn shorten(warning: &mut String) {
    if warning.contains(char::is_control) {
        *warning = warning.replace(char::is_control, " ");
    }
    if warning.len() > WARNING_BYTES_MAX {
        let ellipsis = "...";
        warning.truncate(warning.floor_char_boundary(WARNING_BYTES_MAX - ellipsis.len()));
        warning.push_str(ellipsis);
    }
}

/// The object with these warnings; `None` without any.
pub(crate) fn entry(store: &Store<'_>, warnings: &[String]) -> Result<Option<ObjectEntry>, IngestError> {
    if warnings.is_empty() {
        return Ok(None);
    }
    let object = store.whole(encode(warnings).as_bytes())?;
    Ok(Some(ObjectEntry { role: Role::Index, number: WARNINGS_NUMBER, object }))
}

fn encode(warnings: &[String]) -> String {
    bounded(warnings.to_vec()).join("\n")
}

/// The warnings in the bytes of such an object. Bytes that are no text are shown as far as they
/// are.
pub(crate) fn decode(bytes: &[u8]) -> Vec<String> {
    bounded(String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_warning_keeps_its_line() {
        let kept = decode(encode(&words(&["a\nb.mkv: 3 pictures are missing", "no sound"])).as_bytes());
        assert_eq!(kept, words(&["a b.mkv: 3 pictures are missing", "no sound"]));
    }

    #[test]
    fn what_is_not_kept_is_counted() {
        let all: Vec<String> = (0..WARNINGS_MAX + 5).map(|number| number.to_string()).collect();
        let kept = bounded(all);
        assert_eq!(kept.len(), WARNINGS_MAX);
        assert_eq!(kept[WARNINGS_MAX - 2], (WARNINGS_MAX - 2).to_string());
        assert_eq!(kept[WARNINGS_MAX - 1], "and 6 more, which are in the log");
    }

    proptest! {
        #[test]
        fn what_is_stored_is_bounded_and_read_as_it_was(
            texts in prop::collection::vec("[^\\r]{1,600}", 0..30),
        ) {
            let stored = encode(&texts);
            prop_assert!(stored.len() as u64 <= WARNINGS_BYTES_MAX);
            prop_assert_eq!(decode(stored.as_bytes()), bounded(texts));
        }

        #[test]
        fn any_bytes_are_bounded_warnings(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
            let warnings = decode(&bytes);
            prop_assert!(warnings.len() <= WARNINGS_MAX);
            prop_assert!(warnings.iter().all(|warning| warning.len() <= WARNING_BYTES_MAX));
        }
    }
}
