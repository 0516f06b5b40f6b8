//! What clients are told, read by the decoders of `nfs3_types`.

use crate::answer::{Answer, Asking, answer, answer_datagram};
use crate::handle::{Handles, Node, Space, TitleKey};
use crate::limits::{ANSWER_TIMES_MAX, DIRECTORY_BYTES_MAX, READ_BYTES_MAX};
use crate::listing::Listing;
use crate::listing::tests::listing;
use crate::portmap::Told;
use crate::readers::Readers;
use crate::tree::Tree;
use nfs3_types::nfs3::*;
use nfs3_types::rpc::{accept_stat_data, auth_unix, msg_body, opaque_auth, reply_body, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack, Void};
use nfs3_types::{mount, portmap};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

const TOLD: Told = Told { port: 2049, mapper_port: Some(111), server: IpAddr::V4(Ipv4Addr::LOCALHOST) };
const ALLOWED: Asking = Asking { is_allowed: true, told: TOLD };
const SECRET: [u8; 32] = [5; 32];
const VOLUME: [u8; 16] = [9; 16];
static NO_READERS: OnceLock<Readers> = OnceLock::new();

fn handles() -> Handles {
    Handles::new(&SECRET, VOLUME)
}

/// A record of a call with these arguments.
fn call(program: u32, procedure: u32, arguments: &impl Pack) -> Vec<u8> {
    let version = if program == portmap::PROGRAM { portmap::VERSION } else { 3 };
    call_of((program, version), procedure, arguments)
}

/// The same of a version of a program.
fn call_of((program, version): (u32, u32), procedure: u32, arguments: &impl Pack) -> Vec<u8> {
    let cred = opaque_auth::auth_unix(&auth_unix::default());
    let body = nfs3_types::rpc::call_body {
        rpcvers: 2,
        prog: program,
        vers: version,
        proc: procedure,
        cred,
        verf: opaque_auth::default(),
    };
    let mut record = Vec::new();
    rpc_msg { xid: 77, body: msg_body::CALL(body) }.pack(&mut record).expect("packed");
    arguments.pack(&mut record).expect("packed");
    record
}

fn tree<'a>(listing: &'a Listing, handles: &'a Handles, is_fresh: bool) -> Tree<'a> {
    let readers = NO_READERS.get_or_init(Readers::default);
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Tree { listing, is_fresh, handles, fsid: 1, free_bytes: 4096, readers, client, now_ns: 0 }
}

/// The result in a reply, whose head must say that the procedure was performed.
fn result<T: Unpack>(reply: &[u8]) -> T {
    let mut rest = reply;
    let (message, _) = rpc_msg::unpack(&mut rest).expect("a message");
    assert_eq!(message.xid, 77);
    let msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) = message.body else { panic!("not accepted") };
    assert!(matches!(accepted.reply_data, accept_stat_data::SUCCESS), "{:?}", accepted.reply_data);
    let (result, _) = T::unpack(&mut rest).expect("a result");
    assert_eq!(rest, [] as [u8; 0], "nothing follows");
    result
}

fn ask<T: Unpack>(listing: &Listing, procedure: NFS_PROGRAM, arguments: &impl Pack) -> T {
    let handles = handles();
    let record = call(PROGRAM, procedure as u32, arguments);
    match answer(&tree(listing, &handles, true), ALLOWED, &record) {
        Ok(Answer::Reply(reply)) => result(&reply),
        other => panic!("{other:?}"),
    }
}

fn handle(node: Node) -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(handles().of(node)) }
}

fn film(number: usize) -> Node {
    Node::Title(Space::Copy, TitleKey::new(&format!("film-{number}"), "first"))
}

/// All names of a directory, read in pages of so many bytes.
fn names(listing: &Listing, dir: Node, page_bytes: u32) -> Vec<Vec<u8>> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let arguments = READDIRPLUS3args {
            dir: handle(dir),
            cookie,
            cookieverf: cookieverf3::default(),
            dircount: page_bytes,
            maxcount: page_bytes,
        };
        let page: READDIRPLUS3res<'_> = ask(listing, NFS_PROGRAM::NFSPROC3_READDIRPLUS, &arguments);
        // The status does not count.
        let size = page.packed_size() - 4;
        let Nfs3Result::Ok(page) = page else { panic!("{page:?}") };
        assert!(size <= page_bytes.min(DIRECTORY_BYTES_MAX) as usize, "{size} bytes of {page_bytes}");
        for entry in page.reply.entries.0 {
            assert!(entry.name_attributes.is_some() && entry.name_handle.is_some());
            cookie = entry.cookie;
            names.push(entry.name.as_ref().to_vec());
        }
        if page.reply.eof {
            return names;
        }
    }
}

#[test]
fn a_directory_of_3000_titles_is_listed_in_pages_each_name_once() {
    let listing = listing(3000);
    for page_bytes in [512, 8192, 1 << 20] {
        let found = names(&listing, Node::Directory(Space::Copy), page_bytes);
        assert_eq!(found[..2], [b".".to_vec(), b"..".to_vec()]);
        let set: BTreeSet<&Vec<u8>> = found.iter().collect();
        assert_eq!((found.len(), set.len()), (3002, 3002));
        assert!(set.contains(&b"film-2999.mp4".to_vec()));
    }
    let spaces = names(&listing, Node::Root, 8192);
    assert_eq!(spaces, [&b"."[..], b"..", b"copy", b"play", b"open", b"status"].map(<[u8]>::to_vec));
    let small = READDIR3args {
        dir: handle(Node::Directory(Space::Copy)),
        cookie: 0,
        cookieverf: cookieverf3::default(),
        count: 40,
    };
    let refused: READDIR3res<'_> = ask(&listing, NFS_PROGRAM::NFSPROC3_READDIR, &small);
    assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_TOOSMALL, _))), "{refused:?}");
}

/// A page behind a cookie: how many bytes its result has, its names, the last cookie, and whether
/// it is the end. `None` if so few bytes are too few. READDIR without `dircount`.
fn page(
    listing: &Listing,
    cookie: u64,
    dircount: Option<u32>,
    maxcount: u32,
) -> Option<(usize, Vec<Vec<u8>>, u64, bool)> {
    let (dir, cookieverf) = (handle(Node::Directory(Space::Copy)), cookieverf3::default());
    let name = |name: &filename3<'_>| name.as_ref().to_vec();
    let Some(dircount) = dircount else {
        let arguments = READDIR3args { dir, cookie, cookieverf, count: maxcount };
        let page: READDIR3res<'_> = ask(listing, NFS_PROGRAM::NFSPROC3_READDIR, &arguments);
        let Nfs3Result::Ok(page) = page else {
            assert!(matches!(page, Nfs3Result::Err((nfsstat3::NFS3ERR_TOOSMALL, _))), "{page:?}");
            return None;
        };
        let (bytes, entries) = (page.packed_size(), &page.reply.entries.0);
        let last = entries.last().map_or(cookie, |entry| entry.cookie);
        return Some((bytes, entries.iter().map(|entry| name(&entry.name)).collect(), last, page.reply.eof));
    };
    let arguments = READDIRPLUS3args { dir, cookie, cookieverf, dircount, maxcount };
    let page: READDIRPLUS3res<'_> = ask(listing, NFS_PROGRAM::NFSPROC3_READDIRPLUS, &arguments);
    let Nfs3Result::Ok(page) = page else {
        assert!(matches!(page, Nfs3Result::Err((nfsstat3::NFS3ERR_TOOSMALL, _))), "{page:?}");
        return None;
    };
    let (bytes, entries) = (page.packed_size(), &page.reply.entries.0);
    let last = entries.last().map_or(cookie, |entry| entry.cookie);
    Some((bytes, entries.iter().map(|entry| name(&entry.name)).collect(), last, page.reply.eof))
}

/// How many bytes of names there may be is a hint (RFC 1813, section 3.3.17).
#[test]
fn small_counts_of_names_keep_no_client_from_getting_on() {
    let listing = listing(300);
    let pages_of = |dircount| {
        let (mut found, mut cookie, mut pages) = (BTreeSet::new(), 0, 0);
        loop {
            let page = page(&listing, cookie, Some(dircount), 8192).expect("not too small");
            let (_, names, last, is_end) = page;
            assert!(names.len() == 1 || dircount == 0 || dircount > 40, "{dircount}: {names:?}");
            assert!(names.into_iter().all(|name| found.insert(name)), "each once");
            (cookie, pages) = (last, pages + 1);
            if is_end {
                assert_eq!(found.len(), 302, "{dircount}");
                return pages;
            }
        }
    };
    for dircount in [1, 7, 40] {
        assert_eq!(pages_of(dircount), 302, "{dircount}");
    }
    // Zero says nothing.
    assert_eq!(pages_of(0), pages_of(u32::MAX));
    assert!(pages_of(512) > pages_of(8192));
}

#[test]
fn a_page_has_an_entry_or_is_too_small() {
    let listing = listing(300);
    for dircount in [None, Some(0), Some(8192)] {
        // Each count of bytes, from the beginning, in the middle, and at the end.
        let (_, names, middle, _) = page(&listing, 0, dircount, 4096).expect("not too small");
        assert!(names.len() > 3);
        let mut end = middle;
        while let Some((_, _, last, false)) = page(&listing, end, dircount, 16384) {
            end = last;
        }
        let end = page(&listing, end, dircount, 16384).expect("the last page").2;
        for cookie in [0, middle, end] {
            let pages: Vec<_> = (0..600).map(|bytes| page(&listing, cookie, dircount, bytes)).collect();
            let least = pages.iter().position(Option::is_some).expect("600 bytes are enough");
            for (bytes, page) in pages.iter().enumerate() {
                assert_eq!(page.is_some(), bytes >= least, "{bytes} bytes, cookie {cookie}");
                let Some((page_bytes, names, ..)) = page else { continue };
                assert!(*page_bytes <= bytes && (cookie == end) == names.is_empty(), "{bytes}: {names:?}");
            }
            let first = pages[least].as_ref().expect("a page");
            assert_eq!((first.0, first.1.len()), (least, usize::from(cookie != end)), "no byte is left over");
        }
    }
}

#[test]
fn a_title_has_the_same_attributes_wherever_they_are_asked_for() {
    let listing = listing(10);
    let name = filename3::from(&b"film-7.mp4"[..]);
    let what = diropargs3 { dir: handle(Node::Directory(Space::Copy)), name };
    let found: LOOKUP3res = ask(&listing, NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what });
    let found = found.unwrap();
    assert_eq!(found.object, handle(film(7)));
    let looked_up = found.obj_attributes.unwrap();
    let asked: GETATTR3res =
        ask(&listing, NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object: handle(film(7)) });
    let asked = asked.unwrap().obj_attributes;
    assert_eq!(format!("{looked_up:?}"), format!("{asked:?}"));
    assert_eq!((asked.type_, asked.size, asked.mode), (ftype3::NF3REG, 1024, 0o444));
    for name in ["film-10.mp4", "film-7", "copy", ""] {
        let what = diropargs3 { dir: handle(Node::Directory(Space::Copy)), name: name.as_bytes().into() };
        let missing: LOOKUP3res = ask(&listing, NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what });
        assert!(matches!(missing, Nfs3Result::Err((nfsstat3::NFS3ERR_NOENT, _))), "{name}: {missing:?}");
    }
    let access: ACCESS3res =
        ask(&listing, NFS_PROGRAM::NFSPROC3_ACCESS, &ACCESS3args { object: handle(film(7)), access: 0xff });
    assert_eq!(access.unwrap().access, ACCESS3_READ);
}

#[test]
fn reads_end_with_the_file_and_are_no_longer_than_the_server_says() {
    let (listing, handles) = (listing(3), handles());
    let tree = tree(&listing, &handles, true);
    let read = |offset, count| {
        let arguments = READ3args { file: handle(film(1)), offset, count };
        let record = call(PROGRAM, NFS_PROGRAM::NFSPROC3_READ as u32, &arguments);
        answer(&tree, ALLOWED, &record).expect("a call")
    };
    for (offset, count) in [(1024, 1), (1024, 0), (5000, 100), (u64::MAX, u32::MAX), (0, 0)] {
        let Answer::Reply(reply) = read(offset, count) else { panic!("no bytes at {offset}") };
        let end: READ3res<'_> = result(&reply);
        let end = end.unwrap();
        assert_eq!((end.count, end.eof, end.data.len()), (0, offset >= 1024, 0), "{offset} {count}");
    }
    for (offset, count, wanted, eof) in
        [(0, 1024, 1024, true), (1000, 100, 24, true), (3, 20, 20, false), (0, u32::MAX, 1024, true)]
    {
        let Answer::Read(mut head, call) = read(offset, count) else { panic!("bytes at {offset}") };
        assert_eq!((call.offset, call.bytes), (offset, wanted));
        head.extend(vec![1; wanted.next_multiple_of(4) as usize]);
        let read: READ3res<'_> = result(&head);
        let read = read.unwrap();
        assert_eq!((read.count, read.eof, read.data.len()), (wanted, eof, wanted as usize));
    }
    assert!(READ_BYTES_MAX.is_multiple_of(4096));
}

#[test]
fn nothing_can_be_changed() {
    let listing = listing(3);
    let what = || diropargs3 { dir: handle(Node::Directory(Space::Copy)), name: (&b"film-1.mp4"[..]).into() };
    let write = WRITE3args {
        file: handle(film(1)),
        offset: 0,
        count: 4,
        stable: stable_how::FILE_SYNC,
        data: Opaque::borrowed(b"film"),
    };
    let written: WRITE3res = ask(&listing, NFS_PROGRAM::NFSPROC3_WRITE, &write);
    assert!(matches!(written, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{written:?}");
    let removed: REMOVE3res = ask(&listing, NFS_PROGRAM::NFSPROC3_REMOVE, &REMOVE3args { object: what() });
    assert!(matches!(removed, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{removed:?}");
    let moved = RENAME3args { from: what(), to: what() };
    let moved: RENAME3res = ask(&listing, NFS_PROGRAM::NFSPROC3_RENAME, &moved);
    assert!(matches!(moved, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{moved:?}");
    let linked = LINK3args { file: handle(film(1)), link: what() };
    let linked: LINK3res = ask(&listing, NFS_PROGRAM::NFSPROC3_LINK, &linked);
    assert!(matches!(linked, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{linked:?}");
}

#[test]
fn stale_and_forged_handles_are_told_apart() {
    let listing = listing(3);
    let status = |handle: Vec<u8>| {
        let object = nfs_fh3 { data: Opaque::owned(handle) };
        let found: GETATTR3res = ask(&listing, NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object });
        match found {
            Nfs3Result::Err((status, Void)) => status,
            Nfs3Result::Ok(found) => panic!("{found:?}"),
        }
    };
    let gone = Node::Title(Space::Copy, TitleKey::new("film-1", "second"));
    assert_eq!(status(handles().of(gone)), nfsstat3::NFS3ERR_STALE);
    assert_eq!(status(Handles::new(&SECRET, [1; 16]).of(Node::Root)), nfsstat3::NFS3ERR_STALE);
    assert_eq!(status(Handles::new(&[6; 32], VOLUME).of(Node::Root)), nfsstat3::NFS3ERR_BADHANDLE);
    assert_eq!(status(vec![0; 64]), nfsstat3::NFS3ERR_BADHANDLE);
    assert_eq!(status(Vec::new()), nfsstat3::NFS3ERR_BADHANDLE);
}

/// What is not in an old listing may be in the next one.
#[test]
fn an_old_listing_answers_only_what_it_knows() {
    let (listing, handles) = (listing(3), handles());
    let tree = tree(&listing, &handles, false);
    let asks = |node| {
        let record =
            call(PROGRAM, NFS_PROGRAM::NFSPROC3_GETATTR as u32, &GETATTR3args { object: handle(node) });
        answer(&tree, ALLOWED, &record).expect("a call")
    };
    // Entries of directories have the times of their last changes, also in that of spaces.
    for node in [Node::Root, Node::Directory(Space::Copy)] {
        let list = READDIRPLUS3args {
            dir: handle(node),
            cookie: 0,
            cookieverf: cookieverf3::default(),
            dircount: 8192,
            maxcount: 8192,
        };
        let record = call(PROGRAM, NFS_PROGRAM::NFSPROC3_READDIRPLUS as u32, &list);
        assert!(matches!(answer(&tree, ALLOWED, &record), Ok(Answer::AwaitListing)), "{node:?}");
    }
    assert!(matches!(asks(film(2)), Answer::Reply(_)));
    assert!(matches!(asks(film(3)), Answer::AwaitListing));
    assert!(matches!(asks(Node::Directory(Space::Copy)), Answer::AwaitListing));
}

#[test]
fn directories_are_mounted_and_other_clients_refused() {
    let (listing, handles) = (listing(3), handles());
    let tree = tree(&listing, &handles, true);
    let mounts = |path: &str, asking| {
        let record = call(mount::PROGRAM, 1, &mount::dirpath(Opaque::borrowed(path.as_bytes())));
        let Ok(Answer::Reply(reply)) = answer(&tree, asking, &record) else { panic!("a reply") };
        match result::<mount::mountres3<'_>>(&reply) {
            mount::mountres3::Ok(ok) => Ok(handles.read(&ok.fhandle.0).expect("a handle")),
            mount::mountres3::Err(status) => Err(status as u32),
        }
    };
    for path in ["", "/", "//"] {
        assert_eq!(mounts(path, ALLOWED), Ok(Node::Root), "{path:?}");
    }
    for path in ["/copy", "copy", "/copy/"] {
        assert_eq!(mounts(path, ALLOWED), Ok(Node::Directory(Space::Copy)), "{path:?}");
    }
    assert_eq!(mounts("/other", ALLOWED), Err(mount::mountstat3::MNT3ERR_NOENT as u32));
    let other = Asking { is_allowed: false, ..ALLOWED };
    assert_eq!(mounts("/", other), Err(mount::mountstat3::MNT3ERR_ACCES as u32));
    let record =
        call(PROGRAM, NFS_PROGRAM::NFSPROC3_GETATTR as u32, &GETATTR3args { object: handle(Node::Root) });
    let Ok(Answer::Reply(reply)) = answer(&tree, other, &record) else { panic!("a reply") };
    let refused: GETATTR3res = result(&reply);
    assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_ACCES, _))), "{refused:?}");
}

#[test]
fn the_port_mapper_knows_all_programs() {
    let (listing, handles) = (listing(1), handles());
    let tree = tree(&listing, &handles, true);
    let port = |prog, prot| {
        let wanted = portmap::mapping { prog, vers: 3, prot, port: 0 };
        let Ok(Answer::Reply(reply)) = answer(&tree, ALLOWED, &call(portmap::PROGRAM, 3, &wanted)) else {
            panic!("a reply")
        };
        result::<u32>(&reply)
    };
    assert_eq!(port(PROGRAM, portmap::IPPROTO_TCP), 2049);
    assert_eq!(port(mount::PROGRAM, portmap::IPPROTO_TCP), 2049);
    assert_eq!(port(PROGRAM, portmap::IPPROTO_UDP), 0);
    assert_eq!(port(100_021, portmap::IPPROTO_TCP), 0, "there is no lock manager");
}

/// The programs that the port mapper lists, each with its version, protocol and port.
fn listed(told: Told) -> Vec<(u32, u32, u32, u32)> {
    let record = call(portmap::PROGRAM, 4, &Void);
    let reply = answer_datagram(Asking { is_allowed: true, told }, &record).expect("a reply");
    let list: portmap::pmaplist = result(&reply);
    list.0.into_iter().map(|known| (known.prog, known.vers, known.prot, known.port)).collect()
}

#[test]
fn the_port_mapper_lists_itself_where_it_is() {
    let here = listed(TOLD);
    for version in 2..=4 {
        assert!(here.contains(&(portmap::PROGRAM, version, portmap::IPPROTO_UDP, 111)), "{here:?}");
        assert!(here.contains(&(portmap::PROGRAM, version, portmap::IPPROTO_TCP, 111)), "{here:?}");
    }
    assert_eq!(here.iter().filter(|known| known.3 == 2049).count(), 3, "{here:?}");
    let without = listed(Told { mapper_port: None, ..TOLD });
    assert!(without.iter().all(|known| known.0 != portmap::PROGRAM), "{without:?}");
}

#[test]
fn addresses_are_told_for_the_transport_that_is_asked_for() {
    let address = |server: &str, (procedure, version): (u32, u32), transport: &str| {
        let told = Told { server: server.parse().expect("an address"), ..TOLD };
        let mut record = call_of((portmap::PROGRAM, 4), procedure, &PROGRAM);
        version.pack(&mut record).expect("packed");
        for text in [transport, "", ""] {
            Opaque::borrowed(text.as_bytes()).pack(&mut record).expect("packed");
        }
        let reply = answer_datagram(Asking { is_allowed: true, told }, &record).expect("a reply");
        String::from_utf8(result::<Opaque<'_>>(&reply).to_vec()).expect("text")
    };
    assert_eq!(address("192.0.2.7", (3, 3), "tcp"), "192.0.2.7.8.1");
    assert_eq!(address("::ffff:192.0.2.7", (3, 4), "tcp"), "192.0.2.7.8.1", "of any version");
    assert_eq!(address("192.0.2.7", (9, 4), "tcp"), "", "there is no version 4");
    assert_eq!(address("192.0.2.7", (9, 3), "tcp"), "192.0.2.7.8.1");
    assert_eq!(address("2001:db8::7", (3, 3), "tcp6"), "2001:db8::7.8.1");
    assert_eq!(address("192.0.2.7", (3, 3), "udp"), "");
    assert_eq!(address("192.0.2.7", (3, 3), "tcp6"), "");
}

/// A datagram may have been sent in the name of another machine.
#[test]
fn answers_by_udp_are_not_much_longer_than_their_questions() {
    let mut longest = 0;
    for (version, procedure) in (0..6).flat_map(|version| (0..16).map(move |procedure| (version, procedure)))
    {
        let body = nfs3_types::rpc::call_body {
            rpcvers: 2,
            prog: portmap::PROGRAM,
            vers: version,
            proc: procedure,
            cred: opaque_auth::default(),
            verf: opaque_auth::default(),
        };
        let mut question = Vec::new();
        rpc_msg { xid: 77, body: msg_body::CALL(body) }.pack(&mut question).expect("packed");
        let told = answer_datagram(ALLOWED, &question).map_or(0, |answer| answer.len());
        assert!(told <= ANSWER_TIMES_MAX * question.len(), "{told} bytes for version {version}: {procedure}");
        longest = longest.max(told);
    }
    assert!(longest > 200, "the list of version 2 is told");
    for no_question in [&[][..], &[0; 8], &[1; 40]] {
        assert_eq!(answer_datagram(ALLOWED, no_question), None);
    }
    let nfs = call(PROGRAM, 0, &Void);
    let other = answer_datagram(ALLOWED, &nfs).expect("a reply");
    assert_eq!(other[20..], 1_u32.to_be_bytes());
}

#[test]
fn old_versions_of_mount_tell_what_there_is_and_mount_nothing() {
    let (listing, handles) = (listing(1), handles());
    let tree = tree(&listing, &handles, true);
    let ask = |version, procedure| {
        let record = call_of((mount::PROGRAM, version), procedure, &Void);
        let Ok(Answer::Reply(reply)) = answer(&tree, ALLOWED, &record) else { panic!("a reply") };
        reply
    };
    for version in [1, 2, 3] {
        let exports: mount::exports<'_, '_> = result(&ask(version, 5));
        assert_eq!(exports.0.len(), 5, "version {version}");
    }
    assert_eq!(ask(1, 1)[20..], 3_u32.to_be_bytes(), "no such procedure");
}

proptest! {
    /// Whatever is sent, there is a reply of bounded length, or none.
    #[test]
    fn no_record_is_too_much(
        mut record in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            (0_u32..24, prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(procedure, arguments)| {
                let mut record = call(PROGRAM, procedure, &handle(Node::Directory(Space::Copy)));
                record.extend(arguments);
                record
            }),
        ],
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        if !record.is_empty() {
            for (at, bits) in &flips {
                let at = at.index(record.len());
                record[at] ^= bits;
            }
        }
        let (listing, handles) = (listing(100), handles());
        if let Ok(Answer::Reply(reply)) = answer(&tree(&listing, &handles, true), ALLOWED, &record) {
            prop_assert!(reply.len() <= DIRECTORY_BYTES_MAX as usize + 100);
        }
    }
}

#[test]
fn links_ask_for_places_and_texts_are_read() {
    let listing = listing(3);
    let handles = handles();
    let key = TitleKey::new("film-1", "first");
    let link = |node| {
        let record = call(PROGRAM, NFS_PROGRAM::NFSPROC3_READLINK as u32, &handle(node));
        answer(&tree(&listing, &handles, true), ALLOWED, &record)
    };
    match link(Node::Title(Space::Open, key)) {
        Ok(Answer::Hold(reply, hold)) => {
            let Nfs3Result::Ok(link) = result::<READLINK3res<'_>>(&reply) else { panic!("no link") };
            assert_eq!((link.data.0.as_ref(), &*hold.title.id), (&b"play/film-1.mp4"[..], "film-1"));
        }
        other => panic!("{other:?}"),
    }
    let what = diropargs3 { dir: handle(Node::Directory(Space::Open)), name: b"play"[..].into() };
    let below: LOOKUP3res = ask(&listing, NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what });
    assert_eq!(below.unwrap().object, handle(Node::Directory(Space::Linked)), "where the link leads");
    let what = diropargs3 { dir: handle(Node::Directory(Space::Linked)), name: b".."[..].into() };
    let above: LOOKUP3res = ask(&listing, NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what });
    assert_eq!(above.unwrap().object, handle(Node::Directory(Space::Open)));
    for other in [Node::Root, Node::Title(Space::Play, key), Node::Title(Space::Status, key)] {
        let Ok(Answer::Reply(reply)) = link(other) else { panic!("held") };
        let refused: READLINK3res<'_> = result(&reply);
        assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_INVAL, _))), "{refused:?}");
    }
    let read = |space, offset, count| -> READ3res<'static> {
        let file = handle(Node::Title(space, key));
        ask(&listing, NFS_PROGRAM::NFSPROC3_READ, &READ3args { file, offset, count })
    };
    let text = read(Space::Status, 0, 4096).unwrap();
    assert_eq!((&text.data[..], text.eof), (&b"no user of 127.0.0.1 reads film-1 in /play\n"[..], true));
    let rest = read(Space::Status, 3, 4).unwrap();
    assert_eq!((&rest.data[..], rest.eof), (&b"user"[..], false));
    assert_eq!(read(Space::Status, u64::MAX, u32::MAX).unwrap().data.len(), 0);
    assert!(matches!(read(Space::Open, 0, 1), Nfs3Result::Err((nfsstat3::NFS3ERR_INVAL, _))));
}
