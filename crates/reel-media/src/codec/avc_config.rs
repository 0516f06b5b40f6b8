//! `avcC`, the decoder configuration of H.264 (ISO 14496-15 section 5.3.3.1).

use super::h264::{Sps, has_chroma_fields, take_byte};

/// Body of `avcC` (ISO 14496-15 section 5.3.3.1) for samples with four-byte lengths; `None` if the
/// first parameter set is damaged or a set is too long.
pub(crate) fn avc_config(sps: &[Vec<u8>], pps: &[Vec<u8>]) -> Option<Vec<u8>> {
    let first = Sps::parse(sps.first()?)?;
    let mut body = vec![1, first.profile, first.constraints, first.level, 0xff];
    body.push(0xe0 | u8::try_from(sps.len()).ok().filter(|count| *count < 32)?);
    for set in sps {
        push_set(set, &mut body)?;
    }
    body.push(u8::try_from(pps.len()).ok()?);
    for set in pps {
        push_set(set, &mut body)?;
    }
    if has_chroma_fields(first.profile) {
        body.extend([
            0xfc | first.chroma_format,
            0xf8 | (first.luma_bits - 8),
            0xf8 | (first.chroma_bits - 8),
            0,
        ]);
    }
    Some(body)
}

/// The contents of `avcC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AvcConfig<'a> {
    /// Bytes of the length before each unit of a sample: 1, 2 or 4.
    pub(crate) length_bytes: usize,
    /// Sequence parameter sets.
    pub(crate) sps: Vec<&'a [u8]>,
    /// Picture parameter sets.
    pub(crate) pps: Vec<&'a [u8]>,
}

impl<'a> AvcConfig<'a> {
    /// Reads the body of `avcC`.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        if *body.first()? != 1 {
            return None;
        }
        let length_bytes = usize::from(body.get(4)? & 3) + 1;
        let mut rest = body.get(5..)?;
        let sps_count = take_byte(&mut rest)? & 0x1f;
        let sps = (0..sps_count).map(|_| take_set(&mut rest)).collect::<Option<Vec<_>>>()?;
        let pps_count = take_byte(&mut rest)?;
        let pps = (0..pps_count).map(|_| take_set(&mut rest)).collect::<Option<Vec<_>>>()?;
        Some(Self { length_bytes, sps, pps })
    }
}

fn push_set(set: &[u8], body: &mut Vec<u8>) -> Option<()> {
    body.extend(u16::try_from(set.len()).ok()?.to_be_bytes());
    body.extend_from_slice(set);
    Some(())
}

fn take_set<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16::from_be_bytes([take_byte(rest)?, take_byte(rest)?]));
    let (set, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// High profile, 320x180 interlaced, 12:11 pixels, BT.709 full range, 30000/1001.
    const INTERLACED: &[u8] = &[
        0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x41, 0x43, 0x3f, 0x26, 0x04, 0xdc, 0x04, 0x04, 0x05, 0x00, 0x00,
        0x03, 0x03, 0xe9, 0x00, 0x00, 0xea, 0x60, 0x1f, 0x14, 0x29, 0x96,
    ];
    /// Constrained baseline, 318x178, odd pixels.
    const BASELINE: &[u8] = &[
        0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x06, 0x7a, 0x88, 0xff, 0xc1, 0x64, 0x01, 0x65, 0xc4, 0x00, 0x00,
        0x0f, 0xa4, 0x00, 0x03, 0xa9, 0x80, 0x3c, 0x50, 0xaa, 0x80,
    ];
    const PPS: &[u8] = &[0x68, 0xfe, 0x8f, 0xcb];

    #[test]
    fn a_configuration_is_read_back() {
        let body = avc_config(&[INTERLACED.to_vec()], &[PPS.to_vec()]).unwrap();
        assert_eq!(body[..6], [1, 0x64, 0, 0x15, 0xff, 0xe1]);
        assert_eq!(body[body.len() - 4..], [0xfd, 0xf8, 0xf8, 0]);
        let read = AvcConfig::parse(&body).unwrap();
        assert_eq!((read.length_bytes, &read.sps[..], &read.pps[..]), (4, &[INTERLACED][..], &[PPS][..]));
        let body = avc_config(&[BASELINE.to_vec()], &[PPS.to_vec()]).unwrap();
        assert_eq!(
            body.len(),
            6 + 2 + BASELINE.len() + 1 + 2 + PPS.len(),
            "no chroma fields in this profile"
        );
        assert_eq!(AvcConfig::parse(&body[..20]), None);
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..40, value: u8, cut in 0usize..44) {
            let mut body = avc_config(&[INTERLACED.to_vec()], &[PPS.to_vec()]).unwrap();
            body[at] = value;
            body.truncate(cut);
            if let Some(config) = AvcConfig::parse(&body) {
                let total: usize = config.sps.iter().chain(&config.pps).map(|set| set.len()).sum();
                prop_assert!(total <= body.len());
            }
        }
    }
}
