//! Titles as the crate `nfs3_client` reads them, which asks the port mapper for its ports.

use super::rig;
use nfs3_client::tokio::{TokioConnector, TokioIo};
use nfs3_client::{Nfs3Connection, Nfs3ConnectionBuilder};
use nfs3_types::nfs3::{
    CREATE3args, LOOKUP3args, Nfs3Option, Nfs3Result, READ3args, READDIRPLUS3args, READLINK3args,
    REMOVE3args, WRITE3args, cookieverf3, createhow3, diropargs3, nfs_fh3, nfsstat3, sattr3, stable_how,
};
use nfs3_types::xdr_codec::Opaque;
use reel_testkit::Rng;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// So small that a directory of a few files has several pages.
const PAGE_BYTES: u32 = 600;

type Connection = Nfs3Connection<TokioIo<TcpStream>>;

async fn mount(address: SocketAddr, path: &str) -> Connection {
    Nfs3ConnectionBuilder::new(TokioConnector, address.ip().to_string(), path)
        .connect_from_privileged_port(false)
        .portmapper_port(address.port())
        .mount()
        .await
        .expect("mounted")
}

/// The names, handles and lengths in a directory.
async fn list(client: &mut Connection, dir: &nfs_fh3) -> Vec<(String, nfs_fh3, u64)> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    loop {
        let arguments = READDIRPLUS3args {
            dir: dir.clone(),
            cookie,
            cookieverf: cookieverf3::default(),
            dircount: PAGE_BYTES,
            maxcount: PAGE_BYTES,
        };
        let page = client.readdirplus(&arguments).await.expect("an answer").unwrap().reply;
        for entry in page.entries.0 {
            let name = String::from_utf8(entry.name.as_ref().to_vec()).expect("text");
            let (Nfs3Option::Some(handle), Nfs3Option::Some(attributes)) =
                (entry.name_handle, entry.name_attributes)
            else {
                panic!("{name} has no handle or no attributes");
            };
            cookie = entry.cookie;
            entries.push((name, handle, attributes.size));
        }
        if page.eof {
            return entries;
        }
    }
}

async fn lookup(client: &mut Connection, dir: &nfs_fh3, name: &str) -> nfs_fh3 {
    let what = diropargs3 { dir: dir.clone(), name: name.as_bytes().into() };
    client.lookup(&LOOKUP3args { what }).await.expect("an answer").unwrap().object
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn nfs3_client_lists_and_reads_what_is_stored() {
    let (rig, address) = rig(|_| {});
    run(async {
        let mut client = mount(address, "/").await;
        let root = client.root_nfs_fh3();
        let directories = list(&mut client, &root).await;
        let names: Vec<&str> = directories.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, [".", "..", "copy", "play", "open", "status"]);
        for (name, directory, _) in &directories[2..4] {
            let files = list(&mut client, directory).await;
            let (file, handle, bytes) = &files[2];
            assert_eq!((file.as_str(), *bytes), ("film.mp4", rig.film.len() as u64), "{name}");
            let mut rng = Rng::new(11);
            for _ in 0..100 {
                let (offset, count) = (rng.below(*bytes) | 1, 1 + rng.below(200_000) as u32);
                let arguments = READ3args { file: handle.clone(), offset, count };
                let read = client.read(&arguments).await.expect("an answer").unwrap();
                let end = rig.film.len().min(offset as usize + count as usize);
                assert!(read.data[..] == rig.film[end.min(offset as usize)..end], "{count} at {offset}");
                assert_eq!(read.eof, end == rig.film.len());
            }
        }
        client.unmount().await.expect("unmounted");
    });
}

#[test]
fn nfs3_client_reads_links_and_can_write_nothing() {
    let (_rig, address) = rig(|_| {});
    run(async {
        let mut client = mount(address, "/open").await;
        let open = client.root_nfs_fh3();
        let symlink = lookup(&mut client, &open, "film.mp4").await;
        let link = client.readlink(&READLINK3args { symlink }).await.expect("an answer").unwrap();
        assert_eq!(link.data.0.as_ref(), b"play/film.mp4");
        let play = lookup(&mut client, &open, "play").await;
        let file = lookup(&mut client, &play, "film.mp4").await;
        let what = || diropargs3 { dir: play.clone(), name: b"film.mp4"[..].into() };
        let write = WRITE3args {
            file,
            offset: 0,
            count: 4,
            stable: stable_how::FILE_SYNC,
            data: Opaque::borrowed(b"film"),
        };
        let written = client.write(&write).await.expect("an answer");
        assert!(matches!(written, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{written:?}");
        let create = CREATE3args { where_: what(), how: createhow3::UNCHECKED(sattr3::default()) };
        let created = client.create(&create).await.expect("an answer");
        assert!(matches!(created, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{created:?}");
        let removed = client.remove(&REMOVE3args { object: what() }).await.expect("an answer");
        assert!(matches!(removed, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{removed:?}");
    });
}
