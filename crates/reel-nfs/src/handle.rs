//! File handles: what they stand for is written in them, under a message authentication code. So
//! nothing is kept for a client, and a handle is as good after a restart or on another machine that
//! has the volume.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

/// The directories of titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Space {
    /// Titles to copy: they are read in class aperiodic.
    Copy = 1,
    /// Titles to play: a reader that plays one is admitted as a viewer.
    Play = 2,
    /// Links to titles to play. To read one is to ask for a place.
    Open = 3,
    /// Texts about the readers of titles.
    Status = 4,
    /// Titles to play, in the directory of links. Kernels of clients would move a directory that is
    /// in two others.
    Linked = 5,
}

/// Stands for one edition of a title: a title of the same id with other bytes has another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TitleKey {
    /// The same for all editions. Its three highest bits are clear.
    pub(crate) number: u64,
    pub(crate) edition: u64,
}

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Root,
    Directory(Space),
    Title(Space, TitleKey),
}

/// Why a handle is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHandle {
    /// It was never made by a server of this volume.
    Bad,
    /// It is one of another volume.
    Stale,
}

/// Makes and reads handles.
pub(crate) struct Handles {
    key: Key,
    volume: [u8; 8],
}

const VERSION: u8 = 1;
/// No other use of the secret has the same key.
const PURPOSE: &[u8] = b"handles of NFS";
const CODE_BYTES: usize = 8;
/// Version, kind, space, zero, volume, number, edition, code.
const HANDLE_BYTES: usize = 4 + 8 + 16 + CODE_BYTES;

impl TitleKey {
    /// The key of a title of this id whose bytes are those of this edition.
    pub(crate) fn new(id: &str, edition: &str) -> Self {
        Self { number: Self::number_of(id), edition: hash(edition) }
    }

    /// The number of the title of this id.
    pub(crate) fn number_of(id: &str) -> u64 {
        hash(id) >> 3
    }
}

/// 64 bits of a digest: no two of a million titles share them by chance.
fn hash(text: &str) -> u64 {
    let mut bits = [0; 8];
    bits.copy_from_slice(&digest(&SHA256, text.as_bytes()).as_ref()[..8]);
    u64::from_be_bytes(bits)
}

impl Space {
    /// Those that the root lists.
    pub(crate) const LISTED: [Space; 4] = [Space::Copy, Space::Play, Space::Open, Space::Status];
    pub(crate) const ALL: [Space; 5] = [Space::Copy, Space::Play, Space::Open, Space::Status, Space::Linked];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Copy => "copy",
            Space::Play | Space::Linked => "play",
            Space::Open => "open",
            Space::Status => "status",
        }
    }

    pub(crate) fn by_name(name: &[u8]) -> Option<Space> {
        Space::LISTED.into_iter().find(|space| space.name().as_bytes() == name)
    }
}

impl Handles {
    /// Handles of a volume, under a secret that every server of this volume has. The key has the
    /// volume's id, too, of which handles show a half.
    pub(crate) fn new(secret: &[u8; 32], volume: [u8; 16]) -> Self {
        let key = [PURPOSE, &secret[..], &volume].concat();
        let [a, b, c, d, e, f, g, h, ..] = volume;
        Self { key: Key::new(HMAC_SHA256, &key), volume: [a, b, c, d, e, f, g, h] }
    }

    /// The handle of a node.
    pub(crate) fn of(&self, node: Node) -> Vec<u8> {
        let none = TitleKey { number: 0, edition: 0 };
        let (kind, space, key) = match node {
            Node::Root => (0, 0, none),
            Node::Directory(space) => (1, space as u8, none),
            Node::Title(space, key) => (2, space as u8, key),
        };
        let mut handle = Vec::with_capacity(HANDLE_BYTES);
        handle.extend([VERSION, kind, space, 0]);
        handle.extend(self.volume);
        handle.extend(key.number.to_be_bytes());
        handle.extend(key.edition.to_be_bytes());
        handle.extend(self.code(&handle));
        handle
    }

    /// What a handle stands for.
    ///
    /// # Errors
    /// [`NoHandle`].
    pub(crate) fn read(&self, handle: &[u8]) -> Result<Node, NoHandle> {
        let (claim, code) = handle.split_last_chunk::<CODE_BYTES>().ok_or(NoHandle::Bad)?;
        if handle.len() != HANDLE_BYTES || claim[0] != VERSION {
            return Err(NoHandle::Bad);
        }
        if claim[4..12] != self.volume {
            return Err(NoHandle::Stale);
        }
        if aws_lc_rs::constant_time::verify_slices_are_equal(&self.code(claim), code).is_err() {
            return Err(NoHandle::Bad);
        }
        let space = Space::ALL.into_iter().find(|space| *space as u8 == claim[2]);
        let word = |at: usize| claim[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let key = TitleKey { number: word(12), edition: word(20) };
        match (claim[1], space) {
            (0, _) => Ok(Node::Root),
            (1, Some(space)) => Ok(Node::Directory(space)),
            (2, Some(space)) => Ok(Node::Title(space, key)),
            _ => Err(NoHandle::Bad),
        }
    }

    fn code(&self, claim: &[u8]) -> [u8; CODE_BYTES] {
        let mut code = [0; CODE_BYTES];
        code.copy_from_slice(&sign(&self.key, claim).as_ref()[..CODE_BYTES]);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Node> {
        let mut nodes = vec![Node::Root];
        for space in Space::ALL {
            nodes.extend([Node::Directory(space), Node::Title(space, TitleKey::new("film", "film-1"))]);
        }
        nodes
    }

    #[test]
    fn a_handle_means_the_same_for_every_server_of_the_volume() {
        let (one, other) = (Handles::new(&[1; 32], [7; 16]), Handles::new(&[1; 32], [7; 16]));
        for node in nodes() {
            let handle = one.of(node);
            assert!(handle.len() <= 64, "the most of NFS version 3");
            assert_eq!(other.read(&handle), Ok(node));
        }
    }

    #[test]
    fn changed_and_cut_handles_are_refused() {
        let handles = Handles::new(&[1; 32], [7; 16]);
        for node in nodes() {
            let handle = handles.of(node);
            for bit in 0..handle.len() * 8 {
                let mut changed = handle.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(handles.read(&changed).is_err(), "bit {bit} of {node:?}");
            }
            for bytes in 0..handle.len() {
                assert_eq!(handles.read(&handle[..bytes]), Err(NoHandle::Bad));
            }
            assert_eq!(handles.read(&[&handle[..], &[0]].concat()), Err(NoHandle::Bad));
            assert_eq!(Handles::new(&[2; 32], [7; 16]).read(&handle), Err(NoHandle::Bad), "another secret");
            assert_eq!(Handles::new(&[1; 32], [8; 16]).read(&handle), Err(NoHandle::Stale), "another volume");
        }
    }

    #[test]
    fn editions_of_a_title_have_keys_of_their_own() {
        assert_ne!(TitleKey::new("film", "1"), TitleKey::new("film", "2"));
        assert_ne!(TitleKey::new("film", "1"), TitleKey::new("film1", ""));
    }
}
