//! nfs-ganesha over ext4, as it is packaged, and the port mapper that it needs.

use super::client::Mount;
use crate::server::{Server, free_address};
use crate::testbed::Testbed;
use anyhow::{Context, Result};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running ganesha. It ends with this value, as its port mapper does.
pub(super) struct Ganesha {
    server: Server,
    mount_address: SocketAddr,
    root: PathBuf,
    _port_mapper: Server,
}

const PORT_MAPPER: &str = "127.0.0.1:111";
const INSTALL: &str = "apt install nfs-ganesha nfs-ganesha-vfs rpcbind";

impl Ganesha {
    /// Starts both over the file systems of a testbed, with nothing of them in memory.
    pub(super) fn start(testbed: &Testbed) -> Result<Ganesha> {
        let root = testbed.cold("mq-deadline", 128)?.to_owned();
        let (address, mount_address) = (free_address()?, free_address()?);
        let mut mapper = Command::new("rpcbind");
        // With an address to bind to, the one of Debian 12 aborts.
        mapper.arg("-f");
        let port_mapper = Server::start(mapper, PORT_MAPPER.parse()?).context(INSTALL)?;
        let config = testbed.disk_set.dir().join("ganesha.conf");
        fs::write(&config, configuration(&root, address, mount_address))?;
        let mut command = Command::new("ganesha.nfsd");
        let log = config.with_extension("log");
        command.arg("-F").arg("-f").arg(&config).arg("-p").arg(config.with_extension("pid"));
        command.arg("-L").arg(&log);
        let server = Server::start(command, address);
        let server = server.with_context(|| fs::read_to_string(&log).unwrap_or_default()).context(INSTALL)?;
        testbed.disk_set.adopt(&server, Some(crate::reel::MEMORY_BYTES))?;
        Ok(Ganesha { server, mount_address, root, _port_mapper: port_mapper })
    }

    /// Mounts its export.
    pub(super) fn mount(&self) -> Result<Mount> {
        Mount::of(self.mount_address, self.server.address, &self.root.to_string_lossy())
    }

    /// Its process.
    pub(super) fn process(&self) -> Result<u32> {
        self.server.processes()?.first().copied().context("it has ended")
    }
}

fn configuration(root: &Path, address: SocketAddr, mount_address: SocketAddr) -> String {
    let (port, mount_port, root) = (address.port(), mount_address.port(), root.display());
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {port}; MNT_Port = {mount_port}; Enable_NLM = false; Enable_RQUOTA = false; \
         }}\n\
         EXPORT {{ Export_Id = 1; Path = {root}; Pseudo = /films; Protocols = 3; Transports = TCP; Access_Type = RO; Squash = None; \
         SecType = none, sys; FSAL {{ Name = VFS; }} }}\n"
    )
}
