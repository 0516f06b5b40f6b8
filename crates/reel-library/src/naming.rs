//! Names and ids of titles: a name is for display, an id is for URLs.

use crate::limits::{FILE_NAME_BYTES_MAX, ID_CHARS_MAX, ID_SUFFIX_MAX, NAME_CHARS_MAX};
use std::path::Path;

/// The name of a title whose own name has no visible character.
const NAMELESS: &str = "Untitled";

/// Makes a name safe to display. Control characters and invisible marks that reorder or hide text
/// become spaces, runs of spaces become one space, and the length is limited. Joiners stay within
/// the scripts and the emoji that are written with them. Never empty.
pub fn clean_name(raw: &str) -> String {
    let mut name = String::new();
    let mut chars = 0;
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        let joins = is_joiner(c)
            && name.chars().last().is_some_and(is_joined)
            && rest.peek().is_some_and(|&next| is_joined(next));
        if !joins && is_hidden(c) {
            if !name.is_empty() && !name.ends_with(' ') {
                name.push(' ');
                chars += 1;
            }
        } else {
            name.push(c);
            chars += 1;
        }
        if chars >= NAME_CHARS_MAX {
            break;
        }
    }
    let name = name.trim_end_matches(is_hidden);
    if name.is_empty() { NAMELESS.to_owned() } else { name.to_owned() }
}

/// Whether a name has no visible character, so that it counts as missing.
pub fn is_blank(raw: &str) -> bool {
    raw.chars().all(is_hidden)
}

/// The title name made from a file name: its last component without the extension, underscores as
/// spaces.
pub fn name_from_file(file_name: &str) -> String {
    let file_name = base_name(file_name);
    let stem = match file_name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && extension.len() <= 5 && !extension.contains(' ') => {
            stem
        }
        _ => file_name,
    };
    clean_name(&stem.replace('_', " "))
}

/// The last component of a file name as a client or shell reports it, cut to what the catalogue
/// stores. Both kinds of slash separate: browsers on Windows have sent whole paths.
pub fn clean_file_name(raw: &str) -> String {
    let mut name = clean_name(base_name(raw));
    while name.len() > FILE_NAME_BYTES_MAX {
        name.pop();
    }
    name.truncate(name.trim_end_matches(is_hidden).len());
    name
}

/// The file name of a path, lossily as text.
pub(crate) fn path_file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| clean_file_name(&name.to_string_lossy()))
        .unwrap_or_else(|| NAMELESS.to_owned())
}

/// A file name as files are told apart by: names that were stored before joiners stayed in them
/// have spaces there, and are those of the same files.
pub(crate) fn compared_file_name(name: &str) -> String {
    clean_file_name(&name.replace(is_joiner, " "))
}

/// The id made from a name: `[a-z0-9-]{1,64}`, words joined by single dashes. Latin letters lose
/// their accents, Greek and Cyrillic are transliterated. Other scripts are dropped, and an id that
/// would be empty becomes `title`.
pub fn slug(name: &str) -> String {
    let mut id = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            id.push(c);
        } else if is_combining_mark(c) || c == '\'' || c == '’' {
            // "e" + U+0301 is one letter, and "don't" one word.
        } else if let Some(latin) = to_latin(c) {
            id.push_str(latin);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    // All characters are ASCII here, so a byte offset is a character offset.
    id.truncate(ID_CHARS_MAX);
    let id = id.trim_matches('-');
    if id.is_empty() { "title".to_owned() } else { id.to_owned() }
}

/// The first free id of `slug`, `slug-2`, `slug-3`, ...; `None` when all of them are taken.
pub fn unique_id(slug: &str, taken: impl Fn(&str) -> bool) -> Option<String> {
    if !taken(slug) {
        return Some(slug.to_owned());
    }
    (2..=ID_SUFFIX_MAX).find_map(|number| {
        let suffix = format!("-{number}");
        let stem = slug.get(..ID_CHARS_MAX - suffix.len()).unwrap_or(slug).trim_end_matches('-');
        let id = format!("{stem}{suffix}");
        (!taken(&id)).then_some(id)
    })
}

fn base_name(raw: &str) -> &str {
    raw.rsplit(['/', '\\']).next().unwrap_or(raw)
}

fn is_hidden(c: char) -> bool {
    c.is_whitespace() || c.is_control() || is_invisible(c)
}

/// The zero-width non-joiner, with which words of Persian and Sinhala are spelt, and the zero-width
/// joiner of scripts of India and of emoji (Unicode 16, sections 9.2, 12.1 and 23.2).
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Whether a joiner beside this character may show. Beside letters of Latin, Greek and Cyrillic it
/// shows nothing, so it would only disguise a name.
fn is_joined(c: char) -> bool {
    !c.is_ascii() && c.to_lowercase().all(|c| to_latin(c).is_none()) && !is_hidden(c)
}

/// Zero-width characters, direction marks and the byte order mark: they can disguise a name.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn is_combining_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

fn to_latin(c: char) -> Option<&'static str> {
    LATIN.iter().find(|(letters, _)| letters.contains(c)).map(|(_, latin)| *latin)
}

/// Lower-case letters and their replacements.
const LATIN: &[(&str, &str)] = &[
    ("àáâãåāăąǎạảấầẩẫậắằẳẵặ", "a"),
    ("ä", "ae"),
    ("æ", "ae"),
    ("çćĉċč", "c"),
    ("ðďđ", "d"),
    ("èéêëēĕėęěẹẻẽếềểễệ", "e"),
    ("ĝğġģ", "g"),
    ("ĥħ", "h"),
    ("ìíîïĩīĭįıỉị", "i"),
    ("ĵ", "j"),
    ("ķ", "k"),
    ("ĺļľŀł", "l"),
    ("ñńņňŉŋ", "n"),
    ("òóôõøōŏőọỏốồổỗộơớờởỡợ", "o"),
    ("ö", "oe"),
    ("œ", "oe"),
    ("ŕŗř", "r"),
    ("śŝşšș", "s"),
    ("ß", "ss"),
    ("ţťŧț", "t"),
    ("þ", "th"),
    ("ùúûũūŭůűųụủưứừửữự", "u"),
    ("ü", "ue"),
    ("ŵ", "w"),
    ("ýÿŷỳỵỷỹ", "y"),
    ("źżž", "z"),
    ("αά", "a"),
    ("β", "v"),
    ("γ", "g"),
    ("δ", "d"),
    ("εέ", "e"),
    ("ζ", "z"),
    ("ηήιίϊΐ", "i"),
    ("θ", "th"),
    ("κ", "k"),
    ("λ", "l"),
    ("μ", "m"),
    ("ν", "n"),
    ("ξ", "x"),
    ("οόωώ", "o"),
    ("π", "p"),
    ("ρ", "r"),
    ("σς", "s"),
    ("τ", "t"),
    ("υύϋΰ", "y"),
    ("φ", "f"),
    ("χ", "ch"),
    ("ψ", "ps"),
    ("а", "a"),
    ("б", "b"),
    ("в", "v"),
    ("гґ", "g"),
    ("д", "d"),
    ("еэ", "e"),
    ("ё", "yo"),
    ("є", "ye"),
    ("ж", "zh"),
    ("з", "z"),
    ("иі", "i"),
    ("ї", "yi"),
    ("й", "y"),
    ("к", "k"),
    ("л", "l"),
    ("м", "m"),
    ("н", "n"),
    ("о", "o"),
    ("п", "p"),
    ("р", "r"),
    ("с", "s"),
    ("т", "t"),
    ("у", "u"),
    ("ф", "f"),
    ("х", "kh"),
    ("ц", "ts"),
    ("ч", "ch"),
    ("ш", "sh"),
    ("щ", "shch"),
    ("ъь", ""),
    ("ы", "y"),
    ("ю", "yu"),
    ("я", "ya"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slugs_of_many_scripts() {
        for (name, id) in [
            ("Big Buck Bunny", "big-buck-bunny"),
            ("Amélie (2001)", "amelie-2001"),
            ("Ame\u{301}lie", "amelie"),
            ("Die Blechtrommel – Größe", "die-blechtrommel-groesse"),
            ("Don't Look Now", "dont-look-now"),
            ("Солярис", "solyaris"),
            ("Ζορμπάς", "zormpas"),
            ("七人の侍", "title"),
            ("../../etc/passwd", "etc-passwd"),
            ("\0\n..", "title"),
            ("", "title"),
        ] {
            assert_eq!(slug(name), id, "{name:?}");
        }
    }

    #[test]
    fn names_lose_invisible_characters() {
        assert_eq!(clean_name("  a\u{202e}b\0c\t\n d "), "a b c d");
        assert_eq!(clean_name("\u{feff}\u{200b}"), "Untitled");
        assert_eq!(clean_name(&"ö".repeat(1000)).chars().count(), NAME_CHARS_MAX);
        assert_eq!(name_from_file("C:\\films\\My_film.2019.mkv"), "My film.2019");
        assert_eq!(name_from_file("../.hidden"), ".hidden");
        assert_eq!(name_from_file("Mr. Robot"), "Mr. Robot");
        assert_eq!(clean_file_name("/a/b/../c d.mp4"), "c d.mp4");
        assert!(clean_file_name(&"é".repeat(300)).len() <= FILE_NAME_BYTES_MAX);
    }

    #[test]
    fn joiners_stay_where_words_and_emoji_need_them_and_nowhere_else() {
        for kept in [
            "\u{645}\u{6cc}\u{200c}\u{631}\u{648}\u{645}",
            "\u{dc1}\u{dca}\u{200d}\u{dbb}\u{dd3}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} 2",
            "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
        ] {
            assert_eq!(clean_name(kept), kept, "{kept:?}");
            assert_eq!(name_from_file(&format!("/films/{kept}.mkv")), kept, "{kept:?}");
        }
        // As the name of a file was stored before.
        let file = "\u{645}\u{6cc}\u{200c}\u{631}.mkv";
        assert_eq!(compared_file_name(file), "\u{645}\u{6cc} \u{631}.mkv");
        assert_eq!(compared_file_name(&compared_file_name(file)), compared_file_name(file));
        for (raw, clean) in [
            ("pay\u{200d}pal", "pay pal"),
            ("\u{200c}\u{645}\u{200c}", "\u{645}"),
            ("\u{645}\u{200c}\u{200d}\u{6cc}", "\u{645} \u{6cc}"),
            ("\u{645}\u{200c} \u{6cc}", "\u{645} \u{6cc}"),
            ("\u{e4}\u{200c}\u{e4}", "\u{e4} \u{e4}"),
            ("\u{c4}\u{200c}\u{411}", "\u{c4} \u{411}"),
        ] {
            assert_eq!(clean_name(raw), clean, "{raw:?}");
        }
    }

    #[test]
    fn taken_ids_get_numbers_and_stay_short() {
        assert_eq!(unique_id("film", |_| false).as_deref(), Some("film"));
        assert_eq!(unique_id("film", |id| id == "film").as_deref(), Some("film-2"));
        let long = "x".repeat(ID_CHARS_MAX);
        let id = unique_id(&long, |id| id == long || id.ends_with("-2")).expect("a third is free");
        assert!(id.ends_with("x-3") && id.len() == ID_CHARS_MAX);
        assert_eq!(unique_id("film", |_| true), None);
    }

    proptest! {
        #[test]
        fn every_slug_is_an_id(name in any::<String>(), taken in 0_u32..30) {
            let first = slug(&name);
            let id = unique_id(&first, |id| {
                id == first && taken > 0 || id.rsplit('-').next().and_then(|n| n.parse().ok()).is_some_and(|n: u32| n < taken)
            });
            for id in [Some(first.clone()), id].into_iter().flatten() {
                prop_assert!((1..=ID_CHARS_MAX).contains(&id.len()), "{id}");
                prop_assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{id}");
                prop_assert!(!id.starts_with('-') && !id.ends_with('-'));
            }
        }

        #[test]
        fn every_clean_name_is_printable_and_stable(raw in any::<String>()) {
            let name = clean_name(&raw);
            prop_assert!(!name.is_empty() && name.chars().count() <= NAME_CHARS_MAX);
            prop_assert!(name.chars().all(|c| !c.is_control() && (is_joiner(c) || !is_invisible(c))));
            prop_assert!(!name.starts_with(is_hidden) && !name.ends_with(is_hidden));
            prop_assert_eq!(clean_name(&name), name);
        }
    }
}
