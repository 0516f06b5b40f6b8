//! Configuration: `reel.toml`, its defaults and its limits.
//!
//! The file of that name at the root of the repository explains every key. A test compares it with
//! [`Config::default`].

mod base_path;
mod casts;
mod classes;
mod clients;
mod experimental;
mod join;
mod keys;
mod nfs;
mod tls;

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use reel_admit::limits::{CLIENT_SHARE_PERMILLE, START_WAIT_S};
use reel_admit::{AddressRange, NoAddressRange};
use reel_rt::open_input;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(crate) use casts::CastSection;
pub(crate) use classes::ClassesConfig;
pub(crate) use clients::ClientsConfig;
pub(crate) use experimental::ExperimentalSection;
pub(crate) use join::JoinSection;
pub(crate) use nfs::NfsSection;
pub(crate) use tls::TlsSection;

use crate::failure::Failure;
use crate::limits::{
    CAST_TRAIN_PACKETS_MAX, CLIENTS_MAX, CONFIG_BYTES_MAX, INGESTS_MAX, LOCAL_PROXIES, NETWORK_BPS_MIN,
    REAL_TIME_PRIORITY_MAX, SESSION_IDLE_S_MAX, SESSION_IDLE_S_MIN, START_WAIT_S_MAX, THREADS_MAX,
};
use crate::rate::{NetworkRate, Rate};
use crate::size::Size;

/// The settings of `reel serve`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The address to listen on.
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    /// Names by which browsers may request changes, besides those that are known to be this
    /// machine's.
    pub(crate) hosts: Vec<String>,
    /// The path of a host below which clients see the server; empty for the root.
    pub(crate) base_path: String,
    /// The volume to serve.
    pub(crate) volume: Option<PathBuf>,
    /// A directory whose new films are ingested.
    pub(crate) watch: Option<PathBuf>,
    /// The socket for programs of this machine that read titles in the server's memory.
    pub(crate) programs_socket: Option<PathBuf>,
    /// Data-plane threads; 0 is one for each core.
    pub(crate) serve_threads: usize,
    /// Whether each of these threads stays on its core.
    pub(crate) pin_threads: bool,
    /// Disk threads; 0 chooses by the number of members.
    pub(crate) disk_threads: usize,
    /// Whether disks may stop while nothing is requested, though another host could take the volume
    /// over then.
    pub(crate) standby: bool,
    /// Whether the kernel may send from media memory itself.
    pub(crate) zero_copy: bool,
    /// The congestion control of connections; empty for that of the system.
    pub(crate) congestion_control: String,
    /// Media memory; 0 computes it from the other limits.
    pub(crate) arena_bytes: Size,
    /// Sessions open at once.
    pub(crate) sessions_max: usize,
    /// Addresses that speak for many viewers.
    pub(crate) gateways: Vec<String>,
    /// Reverse proxies that name their clients.
    pub(crate) proxies: Vec<String>,
    /// A session without a request for this many seconds ends. Its next request opens it again, if
    /// there is room.
    pub(crate) session_idle_s: u32,
    /// Whether the key of a session is only for the address that opened it.
    pub(crate) bind_sessions_to_address: bool,
    /// Connections open at once.
    pub(crate) connections_max: usize,
    /// Admission.
    pub(crate) promise: PromiseConfig,
    /// Logging.
    pub(crate) log: LogConfig,
    /// Uploads by HTTP.
    pub(crate) upload: UploadConfig,
    /// The shares of the classes.
    pub(crate) classes: ClassesConfig,
    /// TLS.
    pub(crate) tls: TlsSection,
    /// NFS.
    pub(crate) nfs: NfsSection,
    /// Where sessions may be played to.
    pub(crate) join: JoinSection,
    /// Titles that are sent to groups.
    pub(crate) casts: Vec<CastSection>,
    /// Settings for experiments.
    pub(crate) experimental: ExperimentalSection,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogConfig {
    /// The least important level written.
    pub(crate) level: LogLevel,
    /// The form of a line.
    pub(crate) format: LogFormat,
    /// One line for every request.
    pub(crate) access: bool,
}

/// Levels of the log, most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    /// Errors only.
    Error,
    /// Also conditions that lead to errors.
    Warn,
    /// Also events that happen once.
    Info,
    /// Also events that happen often.
    Debug,
    /// Everything.
    Trace,
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[upload]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UploadConfig {
    /// The largest body of one upload.
    pub(crate) max_bytes: Size,
    /// The directory for a body until it is complete; the volume's directory if not set.
    pub(crate) spool_dir: Option<PathBuf>,
    /// Titles ingested at once, from uploads and from the watched directory.
    pub(crate) ingests_max: usize,
}

/// `[promise]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PromiseConfig {
    /// Whether a session is admitted only if its demand fits.
    pub(crate) admission: bool,
    /// The network's rate towards the clients; 0 takes the speed of the interface.
    pub(crate) network_bps: NetworkRate,
    /// For how many seconds a start or a seek waits for room before it is refused.
    pub(crate) start_wait_s: u32,
    /// How much of an idle server one client may hold, in thousandths.
    pub(crate) client_share_permille: u32,
}

impl Config {
    /// The ranges of addresses that speak for many viewers.
    pub(crate) fn gateways(&self) -> Result<Vec<AddressRange>, NoAddressRange> {
        self.gateways.iter().map(|gateway| gateway.parse()).collect()
    }

    /// The ranges of addresses of reverse proxies that name their clients.
    pub(crate) fn proxies(&self) -> Result<Vec<AddressRange>, NoAddressRange> {
        self.proxies.iter().map(|proxy| proxy.parse()).collect()
    }

    /// Serve threads: the configured number, or one for each processor.
    pub(crate) fn serve_threads(&self) -> usize {
        match self.serve_threads {
            0 => reel::server::processors(),
            threads => threads,
        }
    }

    /// Threads that serve media beside those of HTTP: one for casts, and one for each front end
    /// that is switched on.
    pub(crate) fn other_serve_threads(&self) -> usize {
        let switched = [self.programs_socket.is_some(), self.nfs.listen.is_some(), self.join.is_used()];
        1 + switched.into_iter().filter(|is_on| *is_on).count()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // Reel has no passwords yet, so it is not open to the network by default.
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            hosts: Vec::new(),
            base_path: String::new(),
            volume: None,
            watch: None,
            programs_socket: None,
            serve_threads: 0,
            pin_threads: false,
            disk_threads: 0,
            standby: false,
            zero_copy: true,
            congestion_control: "cubic".to_owned(),
            arena_bytes: Size(0),
            sessions_max: 4096,
            gateways: Vec::new(),
            proxies: LOCAL_PROXIES.map(str::to_owned).to_vec(),
            session_idle_s: 300,
            bind_sessions_to_address: false,
            connections_max: 16_384,
            log: LogConfig::default(),
            upload: UploadConfig::default(),
            classes: ClassesConfig::default(),
            casts: Vec::new(),
            promise: PromiseConfig::default(),
            tls: TlsSection::default(),
            nfs: NfsSection::default(),
            join: JoinSection::default(),
            experimental: ExperimentalSection::default(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Text, access: false }
    }
}

impl LogConfig {
    /// The log settings of commands that do one thing and end: only warnings and errors are
    /// written, and with `quiet` only errors.
    pub(crate) fn for_commands(quiet: bool) -> Self {
        Self { level: if quiet { LogLevel::Error } else { LogLevel::Warn }, ..Self::default() }
    }
}

impl Default for UploadConfig {
    fn default() -> Self {
        Self { max_bytes: Size(256 << 30), spool_dir: None, ingests_max: 2 }
    }
}

impl Default for PromiseConfig {
    fn default() -> Self {
        Self {
            admission: true,
            network_bps: NetworkRate::Detected,
            start_wait_s: START_WAIT_S as u32,
            client_share_permille: CLIENT_SHARE_PERMILLE,
        }
    }
}

impl Config {
    /// Reads `path`. Relative paths in it are relative to the file's own directory.
    ///
    /// # Errors
    /// The file cannot be read. A key does not exist: the message names the nearest one that does.
    /// A value is of the wrong kind or out of its bounds. Every message names the line.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let text = read(path).map_err(|error| unreadable(path, &error))?;
        let mut config = Self::parse(&text).map_err(|fault| fault.failure(path))?;
        let home = path.parent().unwrap_or(Path::new(""));
        let paths = [
            &mut config.volume,
            &mut config.watch,
            &mut config.programs_socket,
            &mut config.upload.spool_dir,
            &mut config.tls.certificate,
            &mut config.tls.key,
            &mut config.join.directory,
        ];
        for entry in paths.into_iter().flatten() {
            *entry = home.join(&*entry);
        }
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        keys::check(text)?;
        let config: Self = toml::from_str(text).map_err(|error| Fault::of_toml(text, &error))?;
        config.check_bounds(text)?;
        config.check_hosts(text)?;
        config.check_base_path(text)?;
        let ranges = [
            ("gateways", config.gateways()),
            ("proxies", config.proxies()),
            ("nfs.clients", config.nfs.clients()),
        ];
        for (key, ranges) in ranges {
            ranges.map_err(|wrong| Fault {
                line: keys::line_of(text, key),
                what: wrong.to_string(),
                help: "write addresses and ranges of addresses, such as [\"192.0.2.7\", \"2001:db8::/48\"]"
                    .into(),
            })?;
        }
        config.join.to().map_err(|wrong| Fault {
            line: keys::line_of(text, "join.to"),
            what: wrong.to_string(),
            help: "write the word, an address or a range of addresses, and a port".into(),
        })?;
        config.join.clients.check("join.clients", text)?;
        config.classes.check(text)?;
        config.tls.check(text)?;
        Ok(config)
    }

    fn check_hosts(&self, text: &str) -> Result<(), Fault> {
        let is_name = |host: &String| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        match self.hosts.iter().find(|host| !is_name(host)) {
            None => Ok(()),
            Some(host) => Err(Fault {
                line: keys::line_of(text, "hosts"),
                what: format!("`{host}` in hosts is not the name of a host"),
                help: "write names alone, without scheme, port or path, such as \"media.example.org\"".into(),
            }),
        }
    }

    fn check_bounds(&self, text: &str) -> Result<(), Fault> {
        const PRIORITY: &str = "experimental.real_time_priority";
        const TRAIN: &str = "experimental.cast_train_packets";
        let bounds = [
            ("serve_threads", self.serve_threads, 0, THREADS_MAX),
            ("disk_threads", self.disk_threads, 0, THREADS_MAX),
            ("sessions_max", self.sessions_max, 1, CLIENTS_MAX),
            ("session_idle_s", self.session_idle_s as usize, SESSION_IDLE_S_MIN, SESSION_IDLE_S_MAX),
            ("connections_max", self.connections_max, 1, CLIENTS_MAX),
            ("promise.start_wait_s", self.promise.start_wait_s as usize, 0, START_WAIT_S_MAX),
            ("promise.client_share_permille", self.promise.client_share_permille as usize, 1, 1000),
            ("upload.ingests_max", self.upload.ingests_max, 1, INGESTS_MAX),
            (PRIORITY, self.experimental.real_time_priority, 0, REAL_TIME_PRIORITY_MAX),
            (TRAIN, self.experimental.cast_train_packets, 0, CAST_TRAIN_PACKETS_MAX),
        ];
        if self.upload.max_bytes.bytes() == 0 {
            return Err(Fault {
                line: keys::line_of(text, "upload.max_bytes"),
                what: "upload.max_bytes = 0 would refuse every upload".to_owned(),
                help: "choose the size of the largest film, such as \"256G\"".to_owned(),
            });
        }
        if let NetworkRate::Of(Rate(bps)) = self.promise.network_bps
            && bps < NETWORK_BPS_MIN
        {
            return Err(Fault {
                line: keys::line_of(text, "promise.network_bps"),
                what: format!(
                    "promise.network_bps = {bps} is too little for any film: no session would ever be admitted"
                ),
                help: format!(
                    "choose at least {}, or 0 for the speed of the interface; it counts bits per second, so that \"1G\" is a gigabit",
                    Rate(NETWORK_BPS_MIN)
                ),
            });
        }
        for (key, value, least, most) in bounds {
            if value < least || value > most {
                return Err(Fault {
                    line: keys::line_of(text, key),
                    what: format!("{key} = {value} is out of bounds"),
                    help: format!("choose a value from {least} to {most}"),
                });
            }
        }
        Ok(())
    }
}

/// The machine's name; empty if it has none.
pub(crate) fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Parses an address and a port, as the configuration and the command line write them.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not an address and a port, such as 127.0.0.1:8080 or [::]:8080 (names are not looked up)")
    })
}

fn address<'de, D: Deserializer<'de>>(source: D) -> Result<SocketAddr, D::Error> {
    parse_address(&String::deserialize(source)?).map_err(D::Error::custom)
}

fn address_if_any<'de, D: Deserializer<'de>>(source: D) -> Result<Option<SocketAddr>, D::Error> {
    address(source).map(Some)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_input(path)?.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {CONFIG_BYTES_MAX} bytes"),
        ));
    }
    Ok(text)
}

/// A directory, a file of another kind and a huge file are mistakes of the operator. All other
/// errors are errors of the file.
fn unreadable(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidData
        | io::ErrorKind::FileTooLarge => {
            Failure::usage(format!("cannot read the configuration {}: {error}", path.display()))
                .help("name a file like the example reel.toml")
        }
        _ => Failure::path("read the configuration", path, error),
    }
}

/// An error in the text of a configuration.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    /// Counted from 1; 0 when the error belongs to no line.
    line: usize,
    what: String,
    help: String,
}

impl Fault {
    fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or(0, |span| keys::line_at(text, span.start));
        let shown = if line > 0 { text.lines().nth(line - 1).unwrap_or("").trim() } else { "" };
        let what = error.message().trim_end().replace('\n', ", ");
        let help = match shown {
            "" => "the example reel.toml explains every key and its values".into(),
            shown => {
                format!("the line is `{shown}`; the example reel.toml explains every key and its values")
            }
        };
        Self { line, what, help }
    }

    fn failure(self, path: &Path) -> Failure {
        let place = match self.line {
            0 => path.display().to_string(),
            line => format!("{} line {line}", path.display()),
        };
        Failure::usage(format!("{place}: {}", self.what)).help(self.help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../reel.toml");

    #[test]
    fn example_holds_the_defaults() {
        assert_eq!(Config::parse(EXAMPLE).unwrap(), Config::default());
    }

    #[test]
    fn example_explains_every_key() {
        for key in keys::KEYS {
            let name = key.rsplit('.').next().unwrap();
            let shown = EXAMPLE.lines().any(|line| {
                let line = line.strip_prefix("# ").unwrap_or(line);
                let is_section =
                    line.strip_prefix("[[").and_then(|line| line.strip_suffix("]]")) == Some(name);
                is_section || line.split_once(" = ").is_some_and(|(left, _)| left == name)
            });
            assert!(shown, "{key} is not in reel.toml");
        }
    }

    /// As the example shows them.
    #[test]
    fn casts_are_sections() {
        let config = Config::parse("[[casts]]\ntitle = \"news\"\ngroup = \"239.1.1.1:5000\"\n").unwrap();
        assert_eq!(config.casts.len(), 1);
        let fault = Config::parse("[[casts]]\ntitel = \"news\"\n").unwrap_err();
        assert!(fault.what.contains("titel"), "{fault:?}");
    }

    #[test]
    fn empty_file_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn values_are_taken() {
        let config = Config::parse(
            "listen = \"[::]:80\"\narena_bytes = \"512M\"\nsessions_max = 5\n[log]\nformat = \"json\"\n[upload]\nmax_bytes = 7\n",
        )
        .unwrap();
        assert_eq!(config.listen, "[::]:80".parse().unwrap());
        assert_eq!(config.arena_bytes, Size(512 << 20));
        assert_eq!(config.sessions_max, 5);
        assert_eq!(config.log.format, LogFormat::Json);
        assert_eq!(config.upload.max_bytes, Size(7));
    }

    #[test]
    fn a_typo_names_key_line_and_nearest() {
        let fault = Config::parse("# hello\n\nlisen = \"127.0.0.1:1\"\n").unwrap_err();
        assert_eq!(fault.line, 3);
        assert_eq!(fault.what, "unknown key `lisen`");
        assert_eq!(fault.help, "did you mean `listen`?");
    }

    #[test]
    fn wrong_kind_names_its_line() {
        let fault = Config::parse("serve_threads = 2\nsessions_max = \"many\"\n").unwrap_err();
        assert_eq!(fault.line, 2);
        assert!(fault.help.contains("sessions_max = \"many\""), "{fault:?}");
        let fault = Config::parse("[log]\nlevel = \"loud\"\n").unwrap_err();
        assert_eq!(fault.line, 2);
        assert!(fault.what.contains("loud"), "{fault:?}");
        let fault = Config::parse("[experimental]\npolicy = \"elevator\"\n").unwrap_err();
        assert_eq!(fault.line, 2);
        assert!(fault.what.contains("choose one of rounds, fifo"), "{fault:?}");
        let fault = Config::parse("listen = \"localhost:80\"\n").unwrap_err();
        assert_eq!(fault.line, 1);
        assert!(fault.what.contains("names are not looked up"), "{fault:?}");
        assert_eq!(Config::parse("listen = \n").unwrap_err().line, 1);
        assert_eq!(Config::parse("upload.max_bytes = -1").unwrap_err().line, 1);
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        let fault = Config::parse("\n[upload]\ningests_max = 0\n").unwrap_err();
        assert_eq!((fault.line, fault.what.as_str()), (3, "upload.ingests_max = 0 is out of bounds"));
        assert_eq!(fault.help, "choose a value from 1 to 16");
    }

    #[test]
    fn impossible_values_are_refused() {
        let fault = Config::parse("[upload]\nmax_bytes = 0\n").unwrap_err();
        assert_eq!((fault.line, fault.what.as_str()), (2, "upload.max_bytes = 0 would refuse every upload"));
        let fault = Config::parse("[promise]\nnetwork_bps = \"10\"\n").unwrap_err();
        assert!(fault.line == 2 && fault.help.contains("64.0 kb/s"), "{fault:?}");
        for good in ["0", "64000", "\"10G\"", "\"off\""] {
            Config::parse(&format!("[promise]\nnetwork_bps = {good}\n")).unwrap();
        }
    }

    #[test]
    fn hosts_are_names() {
        let config = Config::parse("hosts = [\"media.example.org\", \"nas_2\"]\n").unwrap();
        assert_eq!(config.hosts, ["media.example.org", "nas_2"]);
        for host in ["", "http://media.example.org", "media.example.org:443", "a/b", "*"] {
            let fault = Config::parse(&format!("\nhosts = [\"{host}\"]\n")).unwrap_err();
            assert_eq!(fault.line, 2);
            assert!(fault.what.contains("is not the name of a host"), "{fault:?}");
        }
    }

    #[test]
    fn gateways_are_addresses_or_ranges() {
        let config = Config::parse("gateways = [\"192.0.2.7\", \"2001:db8::/48\"]\n").unwrap();
        assert_eq!(config.gateways().map(|gateways| gateways.len()), Ok(2));
        assert_eq!(config.proxies().map(|proxies| proxies.len()), Ok(2), "this machine's");
        let fault = Config::parse("\n\nproxies = [\"localhost\"]\n").unwrap_err();
        assert!(fault.line == 3 && fault.what.contains("localhost"), "{fault:?}");
        let fault = Config::parse("\ngateways = [\"192.0.2.7\", \"proxy\"]\n").unwrap_err();
        assert!(fault.line == 2 && fault.what.contains("`proxy` is not an address"), "{fault:?}");
    }

    #[test]
    fn a_huge_file_and_one_without_end_are_refused() {
        let failure = Config::load(Path::new("/dev/zero")).unwrap_err();
        assert!(failure.to_string().contains("it is not a regular file"), "{failure}");
        let huge = tempfile::NamedTempFile::new().unwrap();
        huge.as_file().set_len(CONFIG_BYTES_MAX + 1).unwrap();
        let failure = Config::load(huge.path()).unwrap_err();
        assert!(failure.to_string().contains("more than 1048576 bytes"), "{failure}");
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reel.toml");
        std::fs::write(&path, "volume = \"films\"\nwatch = \"/incoming\"\n").unwrap();
        let config = Config::load(&path).unwrap();
        assert_eq!(config.volume, Some(dir.path().join("films")));
        assert_eq!(config.watch, Some("/incoming".into()));
    }
}
