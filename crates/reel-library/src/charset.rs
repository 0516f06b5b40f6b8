//! How the bytes of a subtitle file become text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

/// The text of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    /// Without a byte order mark, lines ended by `\n`.
    pub(crate) text: String,
    /// The name of its encoding (WHATWG Encoding Standard), if it had to be guessed.
    pub(crate) guessed: Option<&'static str>,
}

/// Decodes a whole file. A byte order mark decides; without one, valid UTF-8 is UTF-8. Files of
/// older programs are in the code page of the computer that wrote them and do not state it, so it
/// is guessed from the frequencies of letters. Takes time in proportion to the bytes.
pub(crate) fn decode(bytes: &[u8]) -> Decoded {
    let (encoding, guessed) = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => (encoding, None),
        None if std::str::from_utf8(bytes).is_ok() => (UTF_8, None),
        None => {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
            detector.feed(bytes, true);
            let encoding = detector.guess(None, Utf8Detection::Deny);
            (encoding, Some(encoding.name()))
        }
    };
    let (text, _) = encoding.decode_with_bom_removal(bytes);
    Decoded { text: text.replace("\r\n", "\n").replace('\r', "\n"), guessed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{GBK, SHIFT_JIS, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253};
    use proptest::prelude::*;

    #[test]
    fn code_pages_are_guessed() {
        for (encoding, text) in [
            (WINDOWS_1252, "It’s 5 €…"),
            (WINDOWS_1252, "Où êtes-vous allés hier soir, mon frère ? “À Noël”, dit-elle."),
            (WINDOWS_1250, "Příliš žluťoučký kůň úpěl ďábelské ódy. Děkuji, to je všechno."),
            (WINDOWS_1251, "Здравствуйте, как ваши дела? Мы пришли домой."),
            (WINDOWS_1253, "Καλημέρα, πώς είστε σήμερα; Είμαι πολύ καλά."),
            (SHIFT_JIS, "おはようございます。今日はいい天気ですね。"),
            (GBK, "你好，今天我们去哪里？我不知道。"),
        ] {
            let (bytes, _, lost) = encoding.encode(text);
            assert!(!lost, "{text}");
            let decoded = decode(&bytes);
            assert_eq!(decoded.text, text);
            assert_eq!(decoded.guessed, Some(encoding.name()), "{text}");
        }
    }

    #[test]
    fn marks_and_utf8_need_no_guess() {
        let text = "Été – 5 €…\n二";
        let units = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect()
        };
        let marked = format!("\u{feff}{text}").into_bytes();
        for bytes in [units(u16::to_le_bytes), units(u16::to_be_bytes), marked, text.as_bytes().to_vec()] {
            assert_eq!(decode(&bytes), Decoded { text: text.to_owned(), guessed: None });
        }
        assert_eq!(decode(b"a\r\nb\rc").text, "a\nb\nc");
        assert_eq!(decode(&[0xff, 0xfe, 0x41]).text, "\u{fffd}", "half a character");
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(!decode(&bytes).text.contains('\r'));
        }
    }
}
