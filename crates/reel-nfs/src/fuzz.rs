//! What holds for any bytes of a client: for fuzz targets, without a server.

use crate::answer::{Answer, Asking, answer, answer_datagram};
use crate::handle::{Handles, Node, Space, TitleKey};
use crate::limits::{
    ANSWER_TIMES_MAX, DIRECTORY_BYTES_MAX, READ_BYTES_MAX, RECORD_BYTES_MAX, REQUEST_BYTES_MAX,
};
use crate::listing::{ListedTitle, Listing};
use crate::portmap::Told;
use crate::readers::Readers;
use crate::record::Records;
use crate::tree::Tree;
use nfs3_types::nfs3::nfstime3;
use nfs3_types::{mount, nfs3, portmap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

/// Titles in the tree: more than a page has.
const TITLES: usize = 500;
/// What a reply has beside a page of a directory: its head, and attributes.
const REPLY_REST_BYTES: usize = 256;

/// What a server knows.
struct Known {
    listing: Listing,
    handles: Handles,
    readers: Readers,
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let title = |number: usize| {
            let id = format!("film-{number}");
            let key = TitleKey::new(&id, "first");
            ListedTitle { id, key, bytes: 5 << 20, published_s: 1_700_000_000 }
        };
        let changed = nfstime3 { seconds: 1, nseconds: 2 };
        let listing = Listing::new((0..TITLES).map(title).collect(), changed);
        Known { listing, handles: Handles::new(&[5; 32], [9; 16]), readers: Readers::default() }
    })
}

/// Cuts bytes into records. They arrive in pieces, whose length the first byte says.
///
/// # Panics
/// If a byte is given twice, or more is kept than a request has.
pub fn records(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let (mut records, mut given) = (Records::default(), 0);
    for piece in stream.chunks(usize::from(piece) + 1) {
        let mut rest = piece;
        while !rest.is_empty() {
            let Ok((taken, record)) = records.take(rest) else { return };
            assert!(taken > 0 && taken <= rest.len(), "it continues");
            if let Some(record) = record {
                assert!(record.len() <= REQUEST_BYTES_MAX && !records.is_within());
                // Each record has a mark.
                given += record.len() + 4;
            }
            rest = &rest[taken..];
        }
    }
    assert!(given <= stream.len() && stream.len() as u64 <= RECORD_BYTES_MAX + given as u64);
}

/// Answers a call. A first byte of 0 means that the rest is the record. Else it says the program,
/// the next two the procedure and the file whose handle its arguments begin with: no chance finds
/// the code of a handle.
///
/// # Panics
/// If a reply is longer than a page of a directory, is not that of the call, or a READ is not
/// within its title.
pub fn call(bytes: &[u8]) {
    let record = match bytes {
        [0, record @ ..] => record.to_vec(),
        [program, procedure, file, arguments @ ..] => made(*program, *procedure, *file, arguments),
        _ => return,
    };
    let Known { listing, handles, readers } = known();
    let told = Told { port: 2049, mapper_port: Some(111), server: IpAddr::V4(Ipv4Addr::LOCALHOST) };
    let asking = Asking { is_allowed: true, told };
    if let Some(told) = answer_datagram(asking, &record) {
        assert!(told.len() <= ANSWER_TIMES_MAX * record.len() && told[..4] == record[..4]);
    }
    for (is_fresh, is_allowed) in [(true, true), (false, true), (true, false)] {
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let tree = Tree { listing, is_fresh, handles, fsid: 1, free_bytes: 4096, readers, client, now_ns: 0 };
        match answer(&tree, Asking { is_allowed, told }, &record) {
            Ok(Answer::Reply(reply)) => {
                assert!(reply.len() <= DIRECTORY_BYTES_MAX as usize + REPLY_REST_BYTES);
                assert!(reply.len().is_multiple_of(4) && reply[..4] == record[..4]);
            }
            Ok(Answer::Read(head, read)) => {
                assert!(is_allowed && head.len() <= REPLY_REST_BYTES && head[..4] == record[..4]);
                assert!((1..=READ_BYTES_MAX).contains(&read.bytes));
                assert!(read.offset + u64::from(read.bytes) <= read.title.bytes);
            }
            Ok(Answer::Hold(link, _)) => {
                assert!(is_allowed && link.len() <= REPLY_REST_BYTES && link[..4] == record[..4]);
            }
            Ok(Answer::AwaitListing) => assert!(!is_fresh, "it would wait for ever"),
            Err(_) => {}
        }
    }
}

/// Reads a handle. The first byte says how one of a file is changed first, if it is not 0.
///
/// # Panics
/// If what was never made is accepted, or what was made is not.
pub fn handle(bytes: &[u8]) {
    let handles = &known().handles;
    let Some((&place, handle)) = bytes.split_first() else { return };
    if let Ok(node) = handles.read(handle) {
        assert!(handles.of(node) == handle, "only what was made is accepted");
    }
    let Some((&file, bits)) = handle.split_first() else { return };
    let mut made = handles.of(node(file));
    assert_eq!(handles.read(&made), Ok(node(file)));
    for (at, bits) in bits.iter().enumerate().take(made.len()) {
        let at = (usize::from(place) + at) % made.len();
        made[at] ^= bits;
    }
    // A fuzzer sees codes where they are compared, and writes one handle that is made over another.
    if let Ok(node) = handles.read(&made) {
        assert!(handles.of(node) == made, "only what was made is accepted");
    }
}

/// A file of the tree, or one that is not there.
fn node(file: u8) -> Node {
    let space = Space::ALL[usize::from(file % 4)];
    match file / 4 {
        0 => Node::Root,
        1 => Node::Directory(space),
        number => Node::Title(space, TitleKey::new(&format!("film-{}", u16::from(number) * 9), "first")),
    }
}

/// The record of a call without credentials.
fn made(program: u8, procedure: u8, file: u8, arguments: &[u8]) -> Vec<u8> {
    let (program, version) = match program % 3 {
        0 => (mount::PROGRAM, mount::VERSION),
        1 => (nfs3::PROGRAM, nfs3::VERSION),
        _ => (portmap::PROGRAM, portmap::VERSION),
    };
    let mut words = vec![77, 0, 2, program, version, u32::from(procedure), 0, 0, 0, 0];
    let handle = known().handles.of(node(file));
    let of_file = program == nfs3::PROGRAM;
    if of_file {
        // The cast fits: a handle has at most 64 bytes.
        words.push(handle.len() as u32);
    }
    let words: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    [&words[..], if of_file { &handle } else { &[] }, arguments].concat()
}
