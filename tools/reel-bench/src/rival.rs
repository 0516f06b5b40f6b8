//! The servers that people run today, and how each is set up as its experts would, or as it is
//! shipped.

use crate::server::{Server, free_address};
use anyhow::{Context, Result, ensure};
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A server that people run today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// nginx.
    Nginx,
    /// Caddy's file server.
    Caddy,
}

/// The rivals of a run, as `--against` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rivals(Vec<Rival>);

/// `--against`, wherever a rival is run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Against {
    /// The rivals to measure, separated by commas: nginx, caddy; or none.
    #[arg(long = "against", value_name = "RIVALS", default_value = "nginx")]
    pub(crate) rivals: Rivals,
}

impl Rival {
    const ALL: [Self; 2] = [Self::Nginx, Self::Caddy];

    /// Its name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
        }
    }

    /// How it is installed.
    fn install(self) -> &'static str {
        match self {
            Self::Nginx => "apt install nginx-light",
            Self::Caddy => "apt install caddy",
        }
    }

    /// As it is delivered.
    pub(crate) fn shipped(self) -> Setup {
        match self {
            Self::Nginx => Setup::Shipped,
            Self::Caddy => Setup::Caddy,
        }
    }

    /// What an expert would try.
    pub(crate) fn expert(self) -> &'static [Setup] {
        match self {
            Self::Nginx => &[Setup::Sendfile, Setup::Threads, Setup::Direct],
            Self::Caddy => &[Setup::Caddy],
        }
    }

    /// What an expert would try for ranges that do not begin at a block, where `directio` fails.
    pub(crate) fn expert_ranges(self) -> &'static [Setup] {
        match self {
            Self::Nginx => &[Setup::Sendfile, Setup::Threads],
            Self::Caddy => &[Setup::Caddy],
        }
    }

    /// What an expert would try where every byte is encrypted, so that nothing can be sent straight
    /// from a file.
    ///
    /// nginx without `directio`: with it, nginx 1.22 breaks off ranges that do not begin at a block
    /// (pread: invalid argument), and took more time where it did not.
    pub(crate) fn expert_tls(self) -> &'static [Setup] {
        match self {
            Self::Nginx => &[Setup::Sendfile, Setup::Buffers, Setup::BufferThreads],
            Self::Caddy => &[Setup::Caddy],
        }
    }
}

impl Rivals {
    /// Which rivals; an experiment that runs them asks [`Self::installed`] first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Rival> + '_ {
        self.0.iter().copied()
    }

    /// Whether Reel is measured alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them can be started.
    ///
    /// # Errors
    /// A rival that is not installed; the message says how to install it.
    pub(crate) fn installed(&self) -> Result<()> {
        for rival in self.iter() {
            ensure!(
                is_installed(rival.name()),
                "{0} is not installed, and --against asks for it; install it ({1}) or choose other rivals",
                rival.name(),
                rival.install()
            );
        }
        Ok(())
    }
}

impl FromStr for Rivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let mut rivals = Vec::new();
        for name in text.split(',') {
            let known = Rival::ALL.into_iter().find(|rival| rival.name() == name);
            let rival = known.ok_or_else(|| {
                let all = Rival::ALL.map(|rival| format!("{} ({})", rival.name(), rival.install()));
                format!("no rival is called {name:?}; there are {}, or none", all.join(" and "))
            })?;
            if !rivals.contains(&rival) {
                rivals.push(rival);
            }
        }
        Ok(Self(rivals))
    }
}

impl fmt::Display for Rivals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Rival::name).collect();
        formatter.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// Whether a program is found where the shell would find it, or where Debian puts servers.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    dirs.any(|dir| dir.join(program).is_file())
}

/// How a rival is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// nginx as Debian's `nginx.conf` has it: sendfile, everything else at its default.
    Shipped,
    /// nginx, `sendfile on`: the worker waits for the disk.
    Sendfile,
    /// nginx, `sendfile on; aio threads`: a pool waits for the disk.
    Threads,
    /// nginx, `sendfile off`, large buffers: what TLS makes of sendfile, without its small reads.
    Buffers,
    /// The same with `aio threads`.
    BufferThreads,
    /// nginx, `directio; aio threads`: past the page cache, in pieces of 1 MiB.
    Direct,
    /// Caddy's file server: it has nothing to choose.
    Caddy,
}

impl Setup {
    /// Whose setup it is.
    pub(crate) fn rival(self) -> Rival {
        if self == Self::Caddy { Rival::Caddy } else { Rival::Nginx }
    }

    /// Its name in reports.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Shipped => "nginx shipped",
            Self::Sendfile => "nginx sendfile",
            Self::Threads => "nginx threads",
            Self::Buffers => "nginx buffers",
            Self::BufferThreads => "nginx buffer threads",
            Self::Direct => "nginx directio",
            Self::Caddy => "caddy",
        }
    }

    /// nginx's directives.
    fn directives(self) -> &'static str {
        match self {
            Self::Shipped => "sendfile on; tcp_nopush on;",
            Self::Sendfile => {
                "sendfile on; sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Threads => {
                "sendfile on; aio threads; sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Buffers => "sendfile off; output_buffers 2 512k; tcp_nodelay on; open_file_cache max=4096;",
            Self::BufferThreads => {
                "sendfile off; aio threads; output_buffers 2 512k; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Direct => {
                "sendfile off; aio threads; directio 512; output_buffers 2 1m; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Caddy => "",
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shipped => "sendfile as shipped",
            Self::Sendfile => "sendfile",
            Self::Threads => "sendfile with aio threads",
            Self::Buffers => "large buffers",
            Self::BufferThreads => "large buffers with aio threads",
            Self::Direct => "directio with aio threads",
            Self::Caddy => "file server",
        })
    }
}

/// What a rival serves, and with what.
pub(crate) struct Site<'a> {
    /// The directory with its files.
    pub(crate) root: &'a Path,
    /// A directory for the rival's own files.
    pub(crate) run: &'a Path,
    /// Worker processes, where the rival has them.
    pub(crate) workers: usize,
    /// A certificate and its key, for TLS 1.3.
    pub(crate) tls: Option<(&'a Path, &'a Path)>,
}

impl<'a> Site<'a> {
    /// A site in the clear, with as many workers as there are processors.
    pub(crate) fn new(root: &'a Path, run: &'a Path) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { root, run, workers, tls: None }
    }

    /// Starts a rival on loopback.
    ///
    /// # Errors
    /// Those of [`Self::start_at`].
    pub(crate) fn start(&self, setup: Setup) -> Result<Server> {
        self.start_at(free_address()?, setup)
    }

    /// Starts a rival at an address.
    ///
    /// # Errors
    /// A rival that is not installed or does not listen.
    pub(crate) fn start_at(&self, address: SocketAddr, setup: Setup) -> Result<Server> {
        fs::create_dir_all(self.run)?;
        let (run, root) = (fs::canonicalize(self.run)?, fs::canonicalize(self.root)?);
        let rival = setup.rival();
        let server = match rival {
            Rival::Nginx => self.nginx(address, setup, &run, &root),
            Rival::Caddy => self.caddy(address, &run, &root),
        };
        server.with_context(|| format!("is {} installed? ({})", rival.name(), rival.install()))
    }

    fn nginx(&self, address: SocketAddr, setup: Setup, run: &Path, root: &Path) -> Result<Server> {
        let (run, root, directives, workers) =
            (run.display(), root.display(), setup.directives(), self.workers);
        let ssl = match self.tls {
            None => String::new(),
            Some((certificate, key)) => format!(
                " ssl; ssl_protocols TLSv1.3; ssl_certificate {}; ssl_certificate_key {}",
                fs::canonicalize(certificate)?.display(),
                fs::canonicalize(key)?.display()
            ),
        };
        let text = format!(
            "daemon off; worker_processes {workers}; pid {run}/nginx.pid; error_log {run}/error.log; user root;\n\
             worker_rlimit_nofile 16384; events {{ worker_connections 8192; }}\n\
             http {{ access_log off; types {{ video/mp4 mp4; application/vnd.apple.mpegurl m3u8; }}\n\
             {directives}\n\
             client_body_temp_path {run}/body; proxy_temp_path {run}/proxy; fastcgi_temp_path {run}/fastcgi;\n\
             uwsgi_temp_path {run}/uwsgi; scgi_temp_path {run}/scgi;\n\
             server {{ listen {address}{ssl}; root {root}; }} }}\n"
        );
        let config = format!("{run}/nginx.conf");
        fs::write(&config, text).with_context(|| format!("writing {config}"))?;
        let mut command = Command::new("nginx");
        command.args(["-e", &format!("{run}/error.log"), "-c", &config]);
        let server = Server::start(command, address)?;
        // It listens before it has its workers, whose time is measured.
        let started = Instant::now();
        while server.processes()?.len() <= workers && started.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn caddy(&self, address: SocketAddr, run: &Path, root: &Path) -> Result<Server> {
        let mut text = String::from("{\n\tadmin off\n\tauto_https off\n");
        if self.tls.is_some() {
            // By the address: a client that names no host gets the certificate too.
            text += &format!("\tdefault_sni {}\n", address.ip());
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        text += &format!("}}\n{scheme}://{address} {{\n\troot * {}\n\tfile_server\n", root.display());
        if let Some((certificate, key)) = self.tls {
            let (certificate, key) = (fs::canonicalize(certificate)?, fs::canonicalize(key)?);
            text += &format!(
                "\ttls {} {} {{\n\t\tprotocols tls1.3\n\t}}\n",
                certificate.display(),
                key.display()
            );
        }
        text += "}\n";
        let config = run.join("Caddyfile");
        fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&config);
        command.env("XDG_DATA_HOME", run).env("XDG_CONFIG_HOME", run).stderr(Stdio::null());
        Server::start(command, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_are_named_once_each() {
        let rivals = |text: &str| Rivals::from_str(text).map(|rivals| rivals.0);
        assert_eq!(rivals("nginx,caddy,nginx").unwrap(), [Rival::Nginx, Rival::Caddy]);
        assert_eq!(rivals("none").unwrap(), []);
    }

    #[test]
    fn an_unknown_rival_is_an_error_that_says_what_to_install() {
        let said = Rivals::from_str("nginx,apache").unwrap_err();
        assert!(said.contains("\"apache\"") && said.contains("apt install caddy"), "{said}");
        assert!(Rivals::from_str("").is_err());
    }

    #[test]
    fn a_missing_program_is_found_missing() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-server"));
    }
}
