//! 3GPP timed text samples (3GPP TS 26.245, 5.17), and QuickTime's, which begin the same way.

use super::{Style, Styled};

/// The cue text of a sample; `None` if it shows nothing.
pub(crate) fn text(sample: &[u8]) -> Option<String> {
    let (length, rest) = sample.split_first_chunk::<2>()?;
    let (text, boxes) =
        rest.split_at_checked(usize::from(u16::from_be_bytes(*length))).unwrap_or((rest, &[]));
    let text = decode(text);
    let styles = styles(boxes);
    let mut styled = Styled::default();
    for (at, c) in text.chars().enumerate() {
        for (bit, style) in Style::ALL.into_iter().enumerate() {
            let on = styles.iter().any(|run| run.from <= at && at < run.to && run.face >> bit & 1 == 1);
            styled.set(style, on);
        }
        styled.push(c);
    }
    styled.finish()
}

/// The text of a sample without its styles, as it is stored; empty if there is none.
pub(crate) fn plain(sample: &[u8]) -> String {
    let Some((length, rest)) = sample.split_first_chunk::<2>() else { return String::new() };
    decode(&rest[..rest.len().min(usize::from(u16::from_be_bytes(*length)))])
}

/// The characters that a style covers, and bold, italic, underline from the lowest bit.
struct StyleRun {
    from: usize,
    to: usize,
    face: u8,
}

const STYLE_RECORD_BYTES: usize = 12;
/// Style records that are read; more would cost more time than they are worth.
const MAX_STYLES: usize = 256;

/// UTF-8, or UTF-16 if it begins with a byte order mark.
fn decode(text: &[u8]) -> String {
    let wide = |from: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = text[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match text {
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        _ => String::from_utf8_lossy(text).into_owned(),
    }
}

/// The records of the `styl` boxes after the text.
fn styles(mut boxes: &[u8]) -> Vec<StyleRun> {
    let mut runs = Vec::new();
    while let Some((head, _)) = boxes.split_first_chunk::<8>() {
        let [s0, s1, s2, s3, kind @ ..] = *head;
        let Some((whole, rest)) = boxes.split_at_checked(u32::from_be_bytes([s0, s1, s2, s3]) as usize)
        else {
            break;
        };
        let Some(body) = whole.get(8..) else { break };
        boxes = rest;
        let Some((count, records)) = body.split_first_chunk::<2>() else { continue };
        // QuickTime's own text has a box of the same name with longer records.
        if kind == *b"styl" && records.len() == usize::from(u16::from_be_bytes(*count)) * STYLE_RECORD_BYTES {
            let records = records.chunks_exact(STYLE_RECORD_BYTES);
            runs.extend(records.map(|record| StyleRun {
                from: usize::from(u16::from_be_bytes([record[0], record[1]])),
                to: usize::from(u16::from_be_bytes([record[2], record[3]])),
                face: record[6],
            }));
        }
    }
    runs.truncate(MAX_STYLES);
    runs
}

#[cfg(test)]
mod tests {
    use super::{plain, text};
    use proptest::prelude::*;

    fn sample(plain: &str, styles: &[(u16, u16, u8)]) -> Vec<u8> {
        let mut bytes = (plain.len() as u16).to_be_bytes().to_vec();
        bytes.extend(plain.as_bytes());
        bytes.extend((10 + 12 * styles.len() as u32).to_be_bytes());
        bytes.extend(b"styl");
        bytes.extend((styles.len() as u16).to_be_bytes());
        for (from, to, face) in styles {
            bytes.extend(from.to_be_bytes());
            bytes.extend(to.to_be_bytes());
            bytes.extend([0, 1, *face, 18, 255, 255, 255, 255]);
        }
        bytes
    }

    #[test]
    fn styles_and_encodings() {
        assert_eq!(
            text(&sample("ab çd", &[(1, 4, 2), (3, 5, 1)])).as_deref(),
            Some("a<i>b <b>ç</b></i><b>d</b>")
        );
        assert_eq!(text(&[0, 6, 0xfe, 0xff, 0, b'h', 0, b'i']).as_deref(), Some("hi"));
        assert_eq!(plain(&sample("<a> & b", &[(1, 4, 2)])), "<a> & b");
        assert_eq!((plain(&[0, 200, b'x']), plain(&[7])), ("x".to_owned(), String::new()));
        assert_eq!(text(&[0, 0]), None);
        assert_eq!(text(&[0]), None);
        assert_eq!(text(&[0, 200, b'x']).as_deref(), Some("x"));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(cue) = text(&bytes) {
                prop_assert!(!cue.is_empty() && !cue.contains("-->"));
            }
        }
    }
}
