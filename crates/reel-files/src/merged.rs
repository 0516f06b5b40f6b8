//! The names of merged titles: `A+B` is the pictures of A with the sound of B. Pure.

use std::sync::Arc;

/// Stands between the two titles. The id of a title has no such character.
const BETWEEN: char = '+';

/// Whether this is the name of a merged title. No list of the server has it.
pub(crate) fn is_merged(title: &str) -> bool {
    title.contains(BETWEEN)
}

/// The pictures of one title with the sound of another. Both may be merged ones themselves.
pub(crate) fn merged(pictures: &str, sound: &str) -> Arc<str> {
    let pictures = pictures.split(BETWEEN).next().unwrap_or_default();
    let sound = sound.rsplit(BETWEEN).next().unwrap_or_default();
    format!("{pictures}{BETWEEN}{sound}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_come_from_the_first_and_sound_from_the_second() {
        for (first, second, both) in [
            ("a", "b", "a+b"),
            ("a+b", "c", "a+c"),
            ("a", "b+c", "a+c"),
            ("a+b", "c+d", "a+d"),
            ("a", "a", "a+a"),
        ] {
            assert_eq!(&*merged(first, second), both);
        }
        assert!(is_merged("a+b") && !is_merged("a-b"));
    }
}
