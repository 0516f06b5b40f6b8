//! Language tags: containers use ISO 639-2/T, playlists and manifests BCP 47.

/// The BCP 47 tag for a container's language: two letters where ISO 639-1 has them (RFC 5646,
/// 2.2.1).
pub(crate) fn tag(language: &str) -> String {
    let (primary, rest) = split(language);
    let primary = terminological(primary);
    match PAIRS.as_bytes().chunks(5).find(|pair| pair[2..].eq_ignore_ascii_case(primary.as_bytes())) {
        Some(pair) => String::from_utf8_lossy(&pair[..2]).into_owned() + rest,
        None => language.to_owned(),
    }
}

/// The ISO 639-2/T code of a tag, for `mdhd`; `und` if there is none.
pub(crate) fn iso_639_2(language: &str) -> [u8; 3] {
    let primary = split(language).0.to_ascii_lowercase();
    match PAIRS.as_bytes().chunks(5).find(|pair| pair[..2] == *primary.as_bytes()) {
        Some(pair) => [pair[2], pair[3], pair[4]],
        None => match <[u8; 3]>::try_from(terminological(&primary).as_bytes()) {
            Ok(code) if code.iter().all(u8::is_ascii_lowercase) => code,
            _ => *b"und",
        },
    }
}

/// ISO 639-2/T for the twenty languages that also have a bibliographic code, which Matroska files
/// use.
fn terminological(code: &str) -> &str {
    BIBLIOGRAPHIC.iter().find(|(b, _)| b.eq_ignore_ascii_case(code)).map_or(code, |(_, t)| t)
}

fn split(language: &str) -> (&str, &str) {
    language.split_at(language.find(['-', '_']).unwrap_or(language.len()))
}

/// ISO 639-2/B codes and the 639-2/T codes of the same languages.
const BIBLIOGRAPHIC: [(&str, &str); 20] = [
    ("alb", "sqi"),
    ("arm", "hye"),
    ("baq", "eus"),
    ("bur", "mya"),
    ("chi", "zho"),
    ("cze", "ces"),
    ("dut", "nld"),
    ("fre", "fra"),
    ("geo", "kat"),
    ("ger", "deu"),
    ("gre", "ell"),
    ("ice", "isl"),
    ("mac", "mkd"),
    ("mao", "mri"),
    ("may", "msa"),
    ("per", "fas"),
    ("rum", "ron"),
    ("slo", "slk"),
    ("tib", "bod"),
    ("wel", "cym"),
];

/// ISO 639-1 and 639-2/T codes, five letters a pair.
const PAIRS: &str = "\
aaaarababkaeaveafafrakakaamamhanargararaasasmavavaayaymazazebabakbebelbgbulbibisbmbambnbenbobodbrbre\
bsboscacatcechechchacocoscrcrecscescuchucvchvcycymdadandedeudvdivdzdzoeeeweelellenengeoepoesspaetest\
eueusfafasfffulfifinfjfijfofaofrfrafyfrygaglegdglaglglggngrngugujgvglvhahauhehebhihinhohmohrhrvhthat\
huhunhyhyehzheriainaidindieileigiboiiiiiikipkioidoisislititaiuikujajpnjvjavkakatkgkonkikikkjkuakkkaz\
klkalkmkhmknkankokorkrkaukskaskukurkvkomkwcorkykirlalatlbltzlgluglilimlnlinlolaoltlitlulublvlavmgmlg\
mhmahmimrimkmkdmlmalmnmonmrmarmsmsamtmltmymyananaunbnobndndenenepngndonlnldnnnnononornrnblnvnavnynya\
ocociojojiomormororiososspapanpipliplpolpspusptporququermrohrnrunroronrurusrwkinsasanscsrdsdsndsesme\
sgsagsisinskslkslslvsmsmosnsnasosomsqsqisrsrpsssswstsotsusunsvsweswswatatamteteltgtgkththatitirtktuk\
tltgltntsntotontrturtstsotttattwtwitytahuguigukukrururduzuzbvevenvivievovolwawlnwowolxhxhoyiyidyoyor\
zazhazhzhozuzul";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        for (short, long) in
            [("en", "eng"), ("de", "deu"), ("fr", "fra"), ("ja", "jpn"), ("no", "nor"), ("zh", "zho")]
        {
            assert_eq!(tag(long), short);
            assert_eq!(&iso_639_2(short), long.as_bytes());
        }
        assert_eq!(tag("eng-US"), "en-US");
        assert_eq!((tag("ger").as_str(), &iso_639_2("fre")), ("de", b"fra"));
        assert_eq!(&iso_639_2("pt-BR"), b"por");
        assert_eq!((tag("gsw").as_str(), &iso_639_2("gsw")), ("gsw", b"gsw"));
        assert_eq!(&iso_639_2("x-klingon"), b"und");
    }
}
