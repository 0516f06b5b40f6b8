//! Boxes for tests: built by hand, or taken from a file and written back changed.

/// A box.
pub(crate) fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&(8 + body.len() as u32).to_be_bytes(), kind.as_slice(), body].concat()
}

/// A box with version and flags.
pub(crate) fn full(kind: &[u8; 4], version: u8, flags: u32, body: &[u8]) -> Vec<u8> {
    boxed(kind, &[&(flags | u32::from(version) << 24).to_be_bytes(), body].concat())
}

/// Numbers one after another.
pub(crate) fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The boxes in some bytes: type and body.
pub(crate) fn split(mut bytes: &[u8]) -> Vec<([u8; 4], Vec<u8>)> {
    let mut list = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let [s0, s1, s2, s3, kind @ ..] = *head;
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        assert!(size >= 8, "the tests use plain sizes");
        list.push((kind, rest[..size - 8].to_vec()));
        bytes = &rest[size - 8..];
    }
    list
}

/// Boxes that hold only boxes.
const CONTAINERS: [&[u8; 4]; 6] = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts"];

/// Gets type and body of a box, and returns the whole new box, or `None` to keep it.
pub(crate) type Change<'a> = dyn FnMut(&[u8; 4], &[u8]) -> Option<Vec<u8>> + 'a;

/// Rewrites boxes at any depth
pub(crate) fn rewrite(bytes: &[u8], change: &mut Change<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, body) in split(bytes) {
        out.extend(match change(&kind, &body) {
            Some(new) => new,
            None if CONTAINERS.contains(&&kind) => boxed(&kind, &rewrite(&body, change)),
            None => boxed(&kind, &body),
        });
    }
    out
}
