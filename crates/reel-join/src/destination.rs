//! Where a session may be played to: what a client writes, and what the configuration allows. Pure,
//! but for the directory, which was opened before.

use crate::directory::{JoinDirectory, PART_PREFIX};
use crate::limits::{DESTINATION_BYTES_MAX, NAME_BYTES_MAX};
use crate::refused::JoinRefused;
use reel_admit::AddressRange;
use reel_play::uplink_client;
use reel_pour::check_name;
use reel_serve::AllowedClients;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// A destination, as a client writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A new file of this name in the configured directory.
    File(String),
    /// A poured stream of this name, from which others read it.
    Live(String),
    /// An address, reached so.
    To(Carrier, SocketAddr),
}

/// What carries bytes to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A connection, to what listens for TCP.
    Tcp,
    /// Datagrams with seven packets of a transport stream each.
    Udp,
    /// The same with a header of RTP in front (RFC 2250, section 2).
    Rtp,
}

/// What the configuration allows. Without it, nothing is allowed.
#[derive(Clone, Default)]
pub struct Targets {
    /// The directory of `file:`.
    pub directory: Option<Arc<JoinDirectory>>,
    /// Whether sessions may be played into poured streams.
    pub live: bool,
    /// Where connections may be made to.
    pub to: Vec<Target>,
    /// How datagrams to groups leave this machine.
    pub groups: GroupOptions,
    /// Who may have sessions played there.
    pub clients: AllowedClients,
}

/// How datagrams to groups leave this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// The network interface; `None` for that of the routing table.
    pub interface: Option<String>,
    /// How many networks they may cross; with 1 they stay in the first.
    pub ttl: u8,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions { interface: None, ttl: 1 }
    }
}

/// Addresses, a port of each, and what carries bytes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    carrier: Carrier,
    addresses: AddressRange,
    port: u16,
}

/// A text that names no addresses with a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no destination such as tcp:127.0.0.1:5000, tcp:127.0.0.0/8:5000, udp:239.1.1.0/24:5000 or rtp:[::1]:5000"
)]
pub struct NoTarget(String);

impl Carrier {
    /// All of them.
    const ALL: [Carrier; 3] = [Carrier::Tcp, Carrier::Udp, Carrier::Rtp];

    /// The word before the address.
    fn word(self) -> &'static str {
        match self {
            Carrier::Tcp => "tcp",
            Carrier::Udp => "udp",
            Carrier::Rtp => "rtp",
        }
    }

    fn of(word: &str) -> Option<Carrier> {
        Carrier::ALL.into_iter().find(|carrier| carrier.word() == word)
    }
}

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let target = |text: &str| {
            let (word, rest) = text.split_once(':')?;
            let carrier = Carrier::of(word)?;
            let (addresses, port) = rest.rsplit_once(':')?;
            let inner = addresses.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
            let is_bare_ipv6 = inner.is_none() && addresses.contains(':');
            let port = port.parse().ok().filter(|port| *port != 0 && !is_bare_ipv6)?;
            Some(Target { carrier, addresses: inner.unwrap_or(addresses).parse().ok()?, port })
        };
        target(text).ok_or_else(|| NoTarget(text.to_owned()))
    }
}

impl Destination {
    /// Reads a destination.
    ///
    /// # Errors
    /// [`JoinRefused::UnknownDestination`], [`JoinRefused::Name`].
    pub fn parse(text: &str) -> Result<Destination, JoinRefused> {
        let unknown = || JoinRefused::UnknownDestination(text.chars().take(DESTINATION_BYTES_MAX).collect());
        if text.len() > DESTINATION_BYTES_MAX {
            return Err(unknown());
        }
        let (word, rest) = text.split_once(':').ok_or_else(unknown)?;
        if word == "file" {
            return name_of(rest).map(Destination::File);
        }
        if word == "live" {
            check_name(rest)?;
            return Ok(Destination::Live(rest.to_owned()));
        }
        let carrier = Carrier::of(word).ok_or_else(unknown)?;
        // Names are not looked up: who answers for them could send the server anywhere.
        rest.parse().map(|address| Destination::To(carrier, address)).map_err(|_| unknown())
    }
}

impl Destination {
    /// Whose turn on the uplink is taken by what is sent there; `None` for this machine.
    pub(crate) fn uplink_client(&self) -> Option<IpAddr> {
        match self {
            Destination::File(_) | Destination::Live(_) => None,
            Destination::To(_, address) => uplink_client(address.ip()),
        }
    }

    /// Whether it takes whole packets of a transport stream, each at its time.
    pub(crate) fn takes_packets(&self) -> bool {
        matches!(self, Destination::Live(_)) || self.datagrams_to().is_some()
    }

    /// Where datagrams are sent to, if they are.
    pub(crate) fn datagrams_to(&self) -> Option<SocketAddr> {
        match self {
            Destination::File(_) | Destination::Live(_) | Destination::To(Carrier::Tcp, _) => None,
            Destination::To(Carrier::Udp | Carrier::Rtp, address) => {
                let ip = address.ip().to_canonical();
                // The scope of an address of one link stays.
                Some(if ip == address.ip() { *address } else { SocketAddr::new(ip, address.port()) })
            }
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::File(name) => write!(out, "file:{name}"),
            Destination::Live(name) => write!(out, "live:{name}"),
            Destination::To(carrier, address) => write!(out, "{}:{address}", carrier.word()),
        }
    }
}

impl Targets {
    /// Whether any destination is allowed.
    pub fn are_any(&self) -> bool {
        self.directory.is_some() || self.live || !self.to.is_empty()
    }

    /// Whether this address may be sent to so.
    ///
    /// # Errors
    /// [`JoinRefused::NotAllowed`].
    pub(crate) fn check(&self, carrier: Carrier, address: SocketAddr) -> Result<(), JoinRefused> {
        let is_allowed = |target: &Target| {
            let is_there = target.addresses.contains(address.ip()) && target.port == address.port();
            is_there && target.carrier == carrier
        };
        if self.to.iter().any(is_allowed) {
            return Ok(());
        }
        Err(JoinRefused::NotAllowed {
            what: Destination::To(carrier, address).to_string(),
            help: "write it to the list `to = [\"tcp:ADDRESS:PORT\", \"udp:ADDRESS:PORT\"]` below `[join]` in reel.toml",
        })
    }

    /// Whether sessions may be played into poured streams.
    ///
    /// # Errors
    /// [`JoinRefused::NotAllowed`].
    pub(crate) fn check_live(&self) -> Result<(), JoinRefused> {
        let refused = || JoinRefused::NotAllowed {
            what: "poured streams as destinations".to_owned(),
            help: "write `live = true` below `[join]` in reel.toml",
        };
        if self.live { Ok(()) } else { Err(refused()) }
    }

    /// The directory of files.
    ///
    /// # Errors
    /// [`JoinRefused::NotAllowed`] if none is configured.
    pub(crate) fn directory(&self) -> Result<&Arc<JoinDirectory>, JoinRefused> {
        self.directory.as_ref().ok_or_else(|| JoinRefused::NotAllowed {
            what: "files".to_owned(),
            help: "write `directory = \"...\"` below `[join]` in reel.toml",
        })
    }
}

/// A name that stands for one file of one directory, whatever is done with it.
fn name_of(name: &str) -> Result<String, JoinRefused> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_BYTES_MAX {
        "it is too long"
    } else if name == "." || name == ".." {
        "it is a directory"
    } else if name.contains('/') {
        "it has a slash"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else if name.starts_with(PART_PREFIX) {
        "names that begin so are for files that are not complete"
    } else {
        return Ok(name.to_owned());
    };
    Err(JoinRefused::Name { name: name.chars().take(NAME_BYTES_MAX).collect(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_files() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for name in ["copy.mp4", "a b", "film: the second.mp4", ".hidden", "...", "žluťoučký kůň", &longest]
        {
            let parsed = Destination::parse(&format!("file:{name}")).expect(name);
            assert_eq!(parsed, Destination::File(name.to_owned()));
            assert_eq!(parsed.to_string(), format!("file:{name}"));
        }
        let longer = format!("{longest}a");
        let part = format!("{PART_PREFIX}1-1");
        for name in ["", ".", "..", "/", "/etc/passwd", "a/b", "../a", "a\0b", "a\nb", &longer, &part] {
            let refused = Destination::parse(&format!("file:{name}"));
            assert!(matches!(refused, Err(JoinRefused::Name { .. })), "{name:?}");
        }
    }

    #[test]
    fn other_words_are_no_destinations() {
        let long = format!("file:{}", "a".repeat(DESTINATION_BYTES_MAX));
        let live = Destination::parse("live:studio-1").expect("a name");
        assert_eq!((&live, &*live.to_string()), (&Destination::Live("studio-1".to_owned()), "live:studio-1"));
        assert!(matches!(Destination::parse("live:a/b"), Err(JoinRefused::Pour(_))));
        let wrong = ["", "file", "copy.mp4", "FILE:a", " file:a", "fd:3", "http://a/", &long];
        let addresses = ["", "127.0.0.1", "localhost:5000", "::1:5000", "127.0.0.1:70000"];
        let wrong_addresses =
            ["tcp", "udp", "rtp"].map(|word| addresses.map(|address| format!("{word}:{address}")));
        let wrong = wrong.into_iter().map(str::to_owned).chain(wrong_addresses.into_iter().flatten());
        for text in wrong {
            let text = text.as_str();
            let refused = Destination::parse(text);
            assert!(matches!(refused, Err(JoinRefused::UnknownDestination(_))), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        assert!(!Targets::default().are_any());
        let refused = Targets::default().check(Carrier::Tcp, "127.0.0.1:5000".parse().expect("an address"));
        assert!(matches!(refused, Err(JoinRefused::NotAllowed { .. })));
        assert!(Targets::default().check_live().is_err());
        let Err(refused) = Targets::default().directory() else { panic!("no directory is configured") };
        assert!(refused.to_string().contains("[join]"), "{refused}");
    }

    #[test]
    fn addresses_are_allowed_with_their_port_alone() {
        let to = [
            "tcp:127.0.0.0/8:5000",
            "tcp:[::1]:5001",
            "tcp:192.0.2.7:5000",
            "udp:239.1.1.0/24:5000",
            "rtp:[ff15::1]:5004",
        ];
        let to = to.map(|text| text.parse::<Target>().expect(text)).to_vec();
        let targets = Targets { to, ..Targets::default() };
        let check = |text: &str| match Destination::parse(text).expect(text) {
            Destination::To(carrier, address) => targets.check(carrier, address),
            other => panic!("{other} is no address"),
        };
        let to_others = ["tcp:192.0.2.7:5000", "tcp:[::ffff:192.0.2.7]:5000"];
        let to_this = ["tcp:127.0.0.1:5000", "tcp:127.9.9.9:5000", "tcp:[::ffff:127.0.0.1]:5000"];
        let to_groups = ["udp:239.1.1.7:5000", "rtp:[ff15::1]:5004", "tcp:[::1]:5001"];
        for allowed in to_this.into_iter().chain(to_others).chain(to_groups) {
            assert!(check(allowed).is_ok(), "{allowed}");
        }
        let others = ["tcp:127.0.0.1:5001", "tcp:[::1]:5000", "tcp:192.0.2.8:5000", "tcp:0.0.0.0:5000"];
        let otherwise =
            ["udp:127.0.0.1:5000", "rtp:239.1.1.7:5000", "tcp:239.1.1.7:5000", "udp:239.1.2.7:5000"];
        for refused in others.into_iter().chain(otherwise) {
            assert!(matches!(check(refused), Err(JoinRefused::NotAllowed { .. })), "{refused}");
        }
        for wrong in
            ["", "tcp:", "tcp:127.0.0.1", "127.0.0.1:5000", "tcp:::1:5000", "udp:a:5", "rtp:127.0.0.1:0"]
        {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
