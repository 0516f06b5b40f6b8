//! Clients that are refused for their addresses.

use super::{Client, rig};
use crate::server::rig::socket_from;
use nfs3_types::mount::{self, dirpath};
use nfs3_types::nfs3::{self, NFS_PROGRAM, READ3args, nfsstat3};
use nfs3_types::xdr_codec::{Opaque, Void};

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
