//! Languages of media headers (ISO/IEC 14496-12, 8.4.2; QuickTime File Format, language codes).

/// Macintosh language codes, as ISO 639-2/T. Some also name a region or script, which is lost.
const MACINTOSH: &str = "\
eng fra deu ita nld swe spa dan por nor heb jpn ara fin ell isl mlt tur hrv zho urd hin tha kor lit pol hun est lav \
sme fao fas rus zho nld gle sqi ron ces slk slv yid srp mkd bul ukr bel uzb kaz aze aze hye kat ron kir tgk tuk mon \
mon pus kur kas snd bod nep san mar ben asm guj pan ori mal kan tam tel sin mya khm lao vie ind tgl msa msa amh tir \
orm som swa kin run nya mlg epo";
/// Codes from here on are three letters of five bits; lower ones are Macintosh codes.
const FIRST_PACKED: u16 = 0x400;
/// Longest language tag that is accepted (BCP 47 recommends room for 35).
const MAX_TAG_BYTES: usize = 35;

/// The language of an `mdhd` box. `quicktime` says whether it may be a Macintosh code.
pub(super) fn packed(code: u16, quicktime: bool) -> Option<String> {
    if code < FIRST_PACKED {
        let known = quicktime.then(|| MACINTOSH.split(' ').nth(code.into())).flatten();
        return known.map(str::to_owned);
    }
    let letters = [code >> 10, code >> 5, code].map(|letter| (letter & 31) as u8 + 0x60);
    let text: String = letters.iter().map(|letter| char::from(*letter)).collect();
    (letters.iter().all(u8::is_ascii_lowercase) && text != "und").then_some(text)
}

/// The language tag of an `elng` box.
pub(super) fn extended(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|byte| *byte == 0).next()?;
    let sound = !text.is_empty()
        && text.len() <= MAX_TAG_BYTES
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let text = std::str::from_utf8(text).ok().filter(|_| sound)?;
    (!text.eq_ignore_ascii_case("und")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_macintosh() {
        assert_eq!(packed(0x15c7, false).as_deref(), Some("eng"));
        assert_eq!(packed(0x55c4, false), None, "und");
        assert_eq!(packed(0x7fff, true), None, "unspecified");
        assert_eq!(packed(0, false), None);
        assert_eq!(packed(2, true).as_deref(), Some("deu"));
        assert_eq!(packed(94, true).as_deref(), Some("epo"));
        assert_eq!(packed(95, true), None);
    }

    #[test]
    fn tags() {
        assert_eq!(extended(b"pt-BR\0").as_deref(), Some("pt-BR"));
        assert_eq!(extended(b"und\0"), None);
        assert_eq!(extended(b""), None);
        assert_eq!(extended(b"<b>\0"), None);
    }
}
