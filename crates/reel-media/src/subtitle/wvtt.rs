//! WebVTT in MP4 samples (ISO/IEC 14496-30, 7.5): boxes of cues.

use super::webvtt;

/// The cue text of a sample: the payloads of its cues, one below the other. `None` if it shows
/// nothing.
pub(crate) fn text(sample: &[u8]) -> Option<String> {
    let mut payloads = Vec::new();
    for (kind, cue) in boxes(sample) {
        if kind == *b"vttc" {
            let payload = boxes(cue).find(|(kind, _)| kind == b"payl");
            payloads.extend(payload.map(|(_, text)| String::from_utf8_lossy(text)));
        }
    }
    webvtt::cue_text(&payloads.join("\n"))
}

fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let [s0, s1, s2, s3, kind @ ..] = *bytes.first_chunk::<8>()?;
        let (whole, rest) = bytes.split_at_checked(u32::from_be_bytes([s0, s1, s2, s3]) as usize)?;
        bytes = rest;
        Some((kind, whole.get(8..)?))
    })
}

#[cfg(test)]
mod tests {
    use super::text;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(8 + body.len() as u32).to_be_bytes(), kind.as_slice(), body].concat()
    }

    #[test]
    fn cues_and_gaps() {
        let one = boxed(b"vttc", &[boxed(b"iden", b"1"), boxed(b"payl", b"<v Ann>Hello")].concat());
        let two = boxed(b"vttc", &boxed(b"payl", b"World\n\n!"));
        assert_eq!(text(&[one, two].concat()).as_deref(), Some("<v Ann>Hello\nWorld\n!"));
        assert_eq!(text(&boxed(b"vtte", b"")), None);
        assert_eq!(text(&[0, 0, 0, 1, b'v', b't', b't', b'c']), None);
    }
}
