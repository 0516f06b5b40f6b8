//! A client of NFS version 3 that has one call under way, and hides nothing of it.

use super::files::{File, Files, Who};
use anyhow::{Context, Result, bail, ensure};
use nfs3_types::mount::{self, dirpath, mountres3};
use nfs3_types::nfs3::{
    self, LOOKUP3args, LOOKUP3res, NFS_PROGRAM, Nfs3Result, READ3args, READ3res, diropargs3, nfs_fh3,
};
use nfs3_types::rpc::{accept_stat_data, auth_unix, call_body, msg_body, opaque_auth, reply_body, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What a player reads at once.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: u32 = 2 << 20;

/// A mounted directory.
pub(super) struct Mount {
    stream: TcpStream,
    directory: nfs_fh3,
    xid: u32,
    user: u32,
}

impl Mount {
    /// Mounts a directory.
    ///
    /// # Errors
    /// Those of the connection, and the server's refusal.
    pub(super) fn of(mount_address: SocketAddr, address: SocketAddr, path: &str) -> Result<Mount> {
        let connect = |address| -> Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let directory = nfs_fh3 { data: Opaque::owned(Vec::new()) };
        let mut mount = Mount { stream: connect(mount_address)?, directory, xid: 0, user: 0 };
        let answer = mount.call(mount::PROGRAM, 1, &dirpath(Opaque::borrowed(path.as_bytes())))?;
        let (result, _) = mountres3::unpack(&mut &answer[..])?;
        let mountres3::Ok(ok) = result else { bail!("{path} is not mounted: {result:?}") };
        mount.directory = nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) };
        mount.stream = connect(address)?;
        Ok(mount)
    }

    /// The same for the user of this machine that this client runs as.
    pub(super) fn by(self, who: Who) -> Mount {
        let user = match who {
            Who::Player(number) => 1000 + number,
            Who::Person(number) => 2000 + number,
            Who::Reader => 0,
        };
        Mount { user, ..self }
    }

    /// The file at a path below the directory.
    fn at(&mut self, path: &str) -> Result<File> {
        let mut found = File { place: self.directory.data.0.to_vec(), bytes: 0 };
        for name in path.split('/') {
            let what = diropargs3 { dir: handle(&found), name: name.as_bytes().into() };
            let answer =
                self.call(nfs3::PROGRAM, NFS_PROGRAM::NFSPROC3_LOOKUP as u32, &LOOKUP3args { what })?;
            let (result, _) = LOOKUP3res::unpack(&mut &answer[..])?;
            let Nfs3Result::Ok(ok) = result else { bail!("{path} is not there") };
            let nfs3::Nfs3Option::Some(attributes) = ok.obj_attributes else { bail!("{path} has no length") };
            found = File { place: ok.object.data.0.to_vec(), bytes: attributes.size };
        }
        Ok(found)
    }

    fn call(&mut self, prog: u32, proc: u32, arguments: &impl Pack) -> Result<Vec<u8>> {
        self.xid += 1;
        let cred = opaque_auth::auth_unix(&auth_unix { uid: self.user, ..auth_unix::default() });
        let body = call_body { rpcvers: 2, prog, vers: 3, proc, cred, verf: opaque_auth::default() };
        let mut record = vec![0; 4];
        rpc_msg { xid: self.xid, body: msg_body::CALL(body) }.pack(&mut record)?;
        arguments.pack(&mut record)?;
        let mark = u32::try_from(record.len() - 4)? | 1 << 31;
        record[..4].copy_from_slice(&mark.to_be_bytes());
        self.stream.write_all(&record)?;
        let answer = self.answer()?;
        let mut rest = &answer[..];
        let (message, _) = rpc_msg::unpack(&mut rest)?;
        ensure!(message.xid == self.xid, "an answer to another call");
        let msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) = message.body else { bail!("denied") };
        let is_done = matches!(accepted.reply_data, accept_stat_data::SUCCESS);
        ensure!(is_done, "a call was not performed: {:?}", accepted.reply_data);
        Ok(rest.to_vec())
    }

    fn answer(&mut self) -> Result<Vec<u8>> {
        let mut answer = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark).context("the server does not answer")?;
            let mark = u32::from_be_bytes(mark);
            let bytes = mark & !(1 << 31);
            ensure!(bytes <= ANSWER_BYTES_MAX, "an answer of {bytes} bytes");
            let from = answer.len();
            answer.resize(from + bytes as usize, 0);
            self.stream.read_exact(&mut answer[from..])?;
            if mark >> 31 == 1 {
                return Ok(answer);
            }
        }
    }
}

impl Files for Mount {
    fn open(&mut self, name: &str) -> Result<File> {
        // Ganesha has one directory for each disk.
        let mut paths = (0..super::DISKS).map(|disk| format!("{disk}/{name}"));
        self.at(name).or_else(|error| paths.find_map(|path| self.at(&path).ok()).ok_or(error))
    }

    fn read(&mut self, file: &File, offset: u64, count: u64) -> Result<u64> {
        let arguments = READ3args { file: handle(file), offset, count: u32::try_from(count)? };
        let answer = self.call(nfs3::PROGRAM, NFS_PROGRAM::NFSPROC3_READ as u32, &arguments)?;
        let (result, _) = READ3res::unpack(&mut &answer[..])?;
        match result {
            Nfs3Result::Ok(read) => Ok(read.data.len() as u64),
            Nfs3Result::Err((status, _)) => bail!("reading {count} bytes at {offset}: {status}"),
        }
    }
}

fn handle(file: &File) -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(file.place.clone()) }
}
