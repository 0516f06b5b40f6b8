//! The body of a catalogue area: the titles, one after another.

use crate::catalogue::record::{Extent, ObjectEntry, ObjectRecord, Role, SourceFile, Sums, TitleRecord};
use crate::encoding::{Decoder, Encoder, EncodingError};
use crate::hold::Hold;
use crate::limits::{
    EXTENTS_MAX, MEMBERS_MAX, NAME_BYTES_MAX, SUMS_DEPTH_MAX, TITLE_ID_BYTES_MAX, TITLE_OBJECTS_MAX,
    TITLES_MAX, UNIT_ROWS_MAX,
};

const SUMS_INLINE: u8 = 0;
const SUMS_OBJECT: u8 = 1;

/// The least bytes that a title, an object entry or an extent can take. They bound what a count may
/// claim.
const TITLE_BYTES_MIN: usize = 34;
const ENTRY_BYTES_MIN: usize = 22;
const EXTENT_BYTES: usize = 16;

/// The encoding of all titles.
pub(crate) fn encode_body<'a>(titles: impl ExactSizeIterator<Item = &'a TitleRecord>) -> Vec<u8> {
    let mut to = Encoder::default();
    to.u32(titles.len() as u32);
    for title in titles {
        to.text(&title.id);
        to.text(&title.name);
        to.u64(title.added_unix_s);
        to.text(&title.source.file_name);
        to.u64(title.source.bytes);
        to.u64(title.source.modified_unix_s);
        to.u32(title.objects.len() as u32);
        for entry in &title.objects {
            to.u8(entry.role.number());
            to.u32(entry.number);
            encode_object(&mut to, &entry.object);
        }
    }
    to.finish()
}

/// The titles of a body whose checksum has matched. The caller checks what they say about slots.
pub(crate) fn decode_body(body: &[u8]) -> Result<Vec<TitleRecord>, EncodingError> {
    let mut from = Decoder::new(body);
    let count = from.count(TITLES_MAX, TITLE_BYTES_MIN)?;
    let mut titles = Vec::with_capacity(count);
    for _ in 0..count {
        titles.push(decode_title(&mut from)?);
    }
    if from.left() > 0 {
        return Err(from.error("bytes follow the last title"));
    }
    Ok(titles)
}

fn encode_object(to: &mut Encoder, object: &ObjectRecord) {
    to.u64(object.bytes);
    to.u32(object.extents.len() as u32);
    for extent in &object.extents {
        to.u64(extent.first_slot);
        to.u64(extent.slots);
    }
    match &object.sums {
        Sums::Inline(sums) => {
            to.u8(SUMS_INLINE);
            to.u32(sums.len() as u32);
            sums.iter().for_each(|&sum| to.u32(sum));
        }
        Sums::Object(object) => {
            to.u8(SUMS_OBJECT);
            encode_object(to, object);
        }
    }
}

fn decode_title(from: &mut Decoder<'_>) -> Result<TitleRecord, EncodingError> {
    let id = from.text(TITLE_ID_BYTES_MAX)?;
    let name = from.text(NAME_BYTES_MAX)?;
    let added_unix_s = from.u64()?;
    let file_name = from.text(NAME_BYTES_MAX)?;
    let source = SourceFile { file_name, bytes: from.u64()?, modified_unix_s: from.u64()? };
    let count = from.count(TITLE_OBJECTS_MAX, ENTRY_BYTES_MIN)?;
    let mut objects = Vec::with_capacity(count);
    for _ in 0..count {
        let role =
            Role::from_number(from.u8()?).ok_or_else(|| from.error("the role of an object is not known"))?;
        objects.push(ObjectEntry { role, number: from.u32()?, object: decode_object(from, SUMS_DEPTH_MAX)? });
    }
    Ok(TitleRecord { id, name, added_unix_s, source, objects })
}

fn decode_object(from: &mut Decoder<'_>, depth: usize) -> Result<ObjectRecord, EncodingError> {
    let bytes = from.u64()?;
    let count = from.count(EXTENTS_MAX, EXTENT_BYTES)?;
    let mut extents = Vec::with_capacity(count);
    for _ in 0..count {
        extents.push(Extent { first_slot: from.u64()?, slots: from.u64()? });
    }
    let sums = match from.u8()? {
        SUMS_INLINE => {
            let count = from.count(MEMBERS_MAX * UNIT_ROWS_MAX, 4)?;
            let mut sums = Vec::with_capacity(count);
            for _ in 0..count {
                sums.push(from.u32()?);
            }
            Sums::Inline(sums)
        }
        SUMS_OBJECT if depth > 0 => Sums::Object(Box::new(decode_object(from, depth - 1)?)),
        SUMS_OBJECT => return Err(from.error("checksums are nested too deep")),
        _ => return Err(from.error("the kind of checksums is not known")),
    };
    Ok(ObjectRecord { bytes, extents, sums, hold: Hold::default() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_object() -> impl Strategy<Value = ObjectRecord> {
        let extents = proptest::collection::vec((any::<u64>(), any::<u64>()), 0..5).prop_map(|runs| {
            runs.into_iter().map(|(first_slot, slots)| Extent { first_slot, slots }).collect::<Vec<_>>()
        });
        let leaf = (any::<u64>(), extents, proptest::collection::vec(any::<u32>(), 0..70)).prop_map(
            |(bytes, extents, sums)| ObjectRecord {
                bytes,
                extents,
                sums: Sums::Inline(sums),
                hold: Hold::default(),
            },
        );
        leaf.prop_recursive(3, 4, 1, |inner| {
            inner.prop_map(|object| ObjectRecord {
                bytes: object.bytes / 2,
                extents: vec![Extent { first_slot: 1, slots: 2 }],
                sums: Sums::Object(Box::new(object)),
                hold: Hold::default(),
            })
        })
    }

    fn any_titles() -> impl Strategy<Value = Vec<TitleRecord>> {
        let entry = (1u8..5, any::<u32>(), any_object()).prop_map(|(role, number, object)| ObjectEntry {
            role: Role::from_number(role).unwrap(),
            number,
            object,
        });
        let title =
            ("[a-z0-9-]{1,64}", ".{0,40}", any::<u64>(), ".{0,40}", proptest::collection::vec(entry, 0..4))
                .prop_map(|(id, name, number, file_name, objects)| TitleRecord {
                    id,
                    name,
                    added_unix_s: number,
                    source: SourceFile { file_name, bytes: number / 3, modified_unix_s: number / 5 },
                    objects,
                });
        proptest::collection::vec(title, 0..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn titles_round_trip(titles in any_titles()) {
            prop_assert_eq!(decode_body(&encode_body(titles.iter())), Ok(titles));
        }

        #[test]
        fn cut_bodies_are_refused(titles in any_titles(), cut in 1usize..100) {
            let body = encode_body(titles.iter());
            let kept = body.len().saturating_sub(cut);
            prop_assert!(decode_body(&body[..kept]).is_err());
        }

        #[test]
        fn changed_bodies_do_no_harm(titles in any_titles(), changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
            let mut body = encode_body(titles.iter());
            for (at, value) in changes {
                let at = at % body.len();
                body[at] = value;
            }
            let _ = decode_body(&body);
        }
    }

    #[test]
    fn a_count_cannot_claim_more_than_follows() {
        let error = decode_body(&[0xff, 0xff, 0, 0]).unwrap_err();
        assert_eq!(error.what, "a count is larger than the bytes that follow");
        let error = decode_body(&[0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert_eq!(error.what, "a count is larger than allowed");
    }
}
