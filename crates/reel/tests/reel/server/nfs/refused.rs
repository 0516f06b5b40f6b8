//! Clients that are refused: for their addresses, or for their credentials.

use super::{Client, rig};
use crate::server::rig::socket_from;
use nfs3_types::mount::{self, dirpath};
use nfs3_types::nfs3::{self, NFS_PROGRAM, READ3args, nfsstat3};
use nfs3_types::rpc::auth_stat;
use nfs3_types::xdr_codec::{Opaque, Void};
use std::io::{Read, Write};

#[test]
fn other_addresses_are_refused() {
    let (_rig, address) = rig(|config| {
        if let Some(nfs) = &mut config.nfs {
            nfs.clients = vec!["192.0.2.0/24".parse().expect("a range")];
        }
    });
    let mut client = Client::connect(address);
    client.send(mount::PROGRAM, 1, &dirpath(Opaque::borrowed(b"/")));
    let (_, result) = client.receive();
    assert_eq!(result, (mount::mountstat3::MNT3ERR_ACCES as u32).to_be_bytes());
}

/// All procedures but NULL.
const PROCEDURES: std::ops::RangeInclusive<u32> = 1..=21;

/// What was allowed to one address is not allowed to the next, which may know a handle.
#[test]
fn a_handle_gives_no_access_from_another_address() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let mut known = Vec::new();
    for directory in ["/copy", "/play", "/open"] {
        known.extend([client.mount(directory), client.film_in(directory).0]);
    }
    let status = client.mount("/status");
    known.push(client.lookup(&status, "film").expect("listed").0);
    let (file, bytes) = client.film();
    // It is open, and a part of it is in memory.
    assert!(client.read(&file, 0, 100_000) == rig.film[..100_000]);
    rig.await_metric("reel_nfs_read_bytes_total", |read| read >= 100_000.0);
    let (calls, read) = (rig.metric("reel_nfs_calls_total"), rig.metric("reel_nfs_read_bytes_total"));
    let mut stranger = Client { stream: socket_from(2, address), xid: 0, user: 1000 };
    let mut asked = 0;
    for handle in &known {
        for procedure in PROCEDURES {
            // No further than this is read of it.
            let arguments = READ3args { file: handle.clone(), offset: 0, count: 1 << 20 };
            let xid = stranger.send(nfs3::PROGRAM, procedure, &arguments);
            let (answered, result) = stranger.receive();
            assert_eq!(answered, xid);
            assert_eq!(result[..4], (nfsstat3::NFS3ERR_ACCES as u32).to_be_bytes(), "procedure {procedure}");
            assert!(result.len() < 32, "nothing but the refusal: {} bytes", result.len());
            asked += 1;
        }
    }
    stranger.send(nfs3::PROGRAM, NFS_PROGRAM::NFSPROC3_NULL as u32, &Void);
    assert_eq!(stranger.receive().1, [] as [u8; 0], "it hears that there is a server");
    assert_eq!(rig.metric("reel_nfs_calls_total") - calls, f64::from(asked + 1));
    assert_eq!(rig.metric("reel_nfs_read_bytes_total"), read);
    assert!(client.read_until(&file, Vec::new(), bytes) == rig.film);
}

/// A call with such credentials is denied (RFC 5531, section 9), and the next one is heard.
#[test]
fn broken_credentials_are_denied_and_the_connection_continues() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (file, _) = client.film();
    let in_groups = |groups: u32, there: usize| {
        let body = [&[0, 0, 1000, 100, groups][..], &vec![7; there]].concat();
        [&[1, 4 * body.len() as u32][..], &body].concat()
    };
    let bytes = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    for (credentials, why) in [
        (vec![1, 8, 0, 0], auth_stat::AUTH_BADCRED),
        (vec![1, 4000], auth_stat::AUTH_BADCRED),
        (in_groups(17, 17), auth_stat::AUTH_BADCRED),
        (in_groups(16, 3), auth_stat::AUTH_BADCRED),
        ([&[1, 404][..], &[0; 101]].concat(), auth_stat::AUTH_BADCRED),
        // RPCSEC_GSS.
        (vec![6, 4, 1], auth_stat::AUTH_REJECTEDCRED),
        // A verifier of AUTH_SYS.
        ([in_groups(0, 0), vec![1, 0]].concat(), auth_stat::AUTH_BADVERF),
    ] {
        // A call of NULL.
        let call = [&[77, 0, 2, nfs3::PROGRAM, nfs3::VERSION, 0][..], &credentials, &[0, 0]].concat();
        let mark = (1 << 31) | (4 * call.len() as u32);
        client.stream.write_all(&bytes(&[&[mark], &call[..]].concat())).expect("sent");
        let mut reply = [0; 24];
        client.stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[..], bytes(&[(1 << 31) | 20, 77, 1, 1, 1, why as u32]), "{credentials:?}");
        assert!(client.read(&file, 0, 8) == rig.film[..8], "{credentials:?}");
    }
    assert_eq!(rig.metric("reel_nfs_garbage_total"), 0.0);
}
