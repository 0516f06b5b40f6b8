//! The network to the viewers: which interface it is, and how fast.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use reel_play::UplinkRate;

use crate::config::Config;
use crate::limits::{INTERFACES_MAX, ROUTES_BYTES_MAX};
use crate::rate::{NetworkRate, Rate};

/// The rate of the network, if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Network {
    /// Its rate is configured.
    Configured(Rate),
    /// The configuration says that the network is neither counted nor scheduled.
    Off,
    /// The speeds of interfaces.
    Detected(Interfaces),
    /// Unknown: admission does not count it.
    Unknown,
}

/// The interface to the viewers, as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interfaces {
    /// The name of the interface of the default route.
    default: String,
    rate: Rate,
    /// The speed of the fastest interface that is up.
    fastest: Rate,
}

impl Network {
    /// The configured rate, or the rate that the system reports.
    pub(crate) fn of(config: &Config) -> Network {
        match config.promise.network_bps {
            NetworkRate::Detected => found(Path::new("/")).map_or(Network::Unknown, Network::Detected),
            NetworkRate::Off => Network::Off,
            NetworkRate::Of(rate) => Network::Configured(rate),
        }
    }

    /// Bits per second that admission counts with; `None` if it counts none.
    pub(crate) fn bps(&self) -> Option<u64> {
        match self {
            Network::Configured(rate) | Network::Detected(Interfaces { rate, .. }) => Some(rate.0),
            Network::Off | Network::Unknown => None,
        }
    }

    /// What may be sent to other machines. A detected rate is the limit of the fastest interface,
    /// since clients may come through any of them. Where nothing is promised, no client needs room
    /// on the link, so only a configured rate limits it.
    pub(crate) fn uplink(&self, has_admission: bool) -> UplinkRate {
        match self {
            Network::Configured(rate) => UplinkRate::Known(rate.0),
            Network::Detected(interfaces) if has_admission => UplinkRate::Known(interfaces.fastest.0),
            Network::Unknown if has_admission => UplinkRate::Learnt,
            Network::Off | Network::Detected(_) | Network::Unknown => UplinkRate::Unlimited,
        }
    }

    /// A sentence for the log and for display.
    pub(crate) fn text(&self) -> String {
        match self {
            Network::Configured(rate) => format!("the network rate is {rate}, as configured"),
            Network::Off => "the network is neither counted nor scheduled, as configured".to_owned(),
            Network::Detected(Interfaces { default, rate, fastest }) if fastest > rate => format!(
                "the network rate is {rate}, the speed of {default}, the interface of the default route; faster interfaces \
                 may carry up to {fastest}: set promise.network_bps in reel.toml if viewers come through them"
            ),
            Network::Detected(Interfaces { default, rate, .. }) => {
                format!("the network rate is {rate}, the speed of {default}")
            }
            Network::Unknown => {
                "the network rate is unknown and not counted; set promise.network_bps in reel.toml if the network may \
                 become a bottleneck"
                    .to_owned()
            }
        }
    }
}

/// What the system below `root` reports.
fn found(root: &Path) -> Option<Interfaces> {
    let routes = |name: &str| read(&root.join("proc/net").join(name));
    let default = default_v4(&routes("route")?).or_else(|| default_v6(&routes("ipv6_route")?))?;
    let class = root.join("sys/class/net");
    let rate = speed(&class, &default)?;
    let names = fs::read_dir(&class).into_iter().flatten().flatten().take(INTERFACES_MAX);
    let others = names.filter_map(|entry| entry.file_name().into_string().ok());
    let up =
        others.filter(|name| read(&class.join(name).join("operstate")).is_some_and(|state| is_up(&state)));
    let fastest = up.filter_map(|name| speed(&class, &name)).fold(rate, Rate::max);
    Some(Interfaces { default, rate, fastest })
}

/// The speed of an interface. A tunnel reports a speed that nothing has measured.
fn speed(class: &Path, interface: &str) -> Option<Rate> {
    // An interface name has no slash; one with a slash must not become another path.
    let interface = class.join(interface.replace('/', ""));
    let is_tunnel = interface.join("tun_flags").exists();
    speed_of(&read(&interface.join("speed"))?).filter(|_| !is_tunnel)
}

fn is_up(operstate: &str) -> bool {
    operstate.trim() == "up"
}

/// The interface of the first route to everywhere: `eth0 00000000 ...`.
fn default_v4(routes: &str) -> Option<String> {
    let words = routes.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000"))
        .find_map(|words| words.first().map(|name| (*name).to_owned()))
}

/// The same for IPv6, where the name comes last and unreachable routes use the loopback.
fn default_v6(routes: &str) -> Option<String> {
    let words = routes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| {
            words.first().is_some_and(|to| to.bytes().all(|c| c == b'0')) && words.get(1) == Some(&"00")
        })
        .filter_map(|words| words.last().map(|name| (*name).to_owned()))
        .find(|name| name != "lo")
}

/// Megabits per second; virtual interfaces report -1 or nothing.
fn speed_of(text: &str) -> Option<Rate> {
    let mbps: u64 = text.trim().parse().ok()?;
    mbps.checked_mul(1_000_000).filter(|bps| *bps > 0).map(Rate)
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(ROUTES_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_is_found_among_others() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                  eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert_eq!(default_v4(v4).as_deref(), Some("eth0"));
        assert_eq!(default_v4("Iface\n"), None);
        let zeros = "0".repeat(32);
        let v6 = format!(
            "{zeros} 00 {zeros} 00 {zeros} ffffffff 1 0 00200200 lo\n{zeros} 00 {zeros} 00 fe80 64 1 0 3 eth2\n"
        );
        assert_eq!(default_v6(&v6).as_deref(), Some("eth2"));
        assert_eq!(default_v6(""), None);
    }

    #[test]
    fn an_unknown_speed_is_not_counted() {
        assert_eq!(speed_of("10000\n"), Some(Rate(10_000_000_000)));
        for text in ["-1\n", "0\n", "", "fast", "99999999999999999999"] {
            assert_eq!(speed_of(text), None, "{text}");
        }
    }

    #[test]
    fn the_configuration_overrides_the_system() {
        let mut config = Config::default();
        config.promise.network_bps = NetworkRate::Of(Rate(5));
        let network = Network::of(&config);
        assert_eq!((network.bps(), network.uplink(false)), (Some(5), UplinkRate::Known(5)));
        config.promise.network_bps = NetworkRate::Off;
        let network = Network::of(&config);
        assert_eq!((network.bps(), network.uplink(true)), (None, UplinkRate::Unlimited));
        assert_eq!((Network::Unknown.bps(), Network::Unknown.uplink(true)), (None, UplinkRate::Learnt));
    }

    /// Interfaces with their speed and state, in a directory that stands for the system's.
    fn system(default: &str, interfaces: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/net")).unwrap();
        let routes = format!("Iface\n{default}\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
        fs::write(root.path().join("proc/net/route"), routes).unwrap();
        for (name, speed, state) in interfaces {
            let directory = root.path().join("sys/class/net").join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("speed"), speed).unwrap();
            fs::write(directory.join("operstate"), state).unwrap();
        }
        root
    }

    #[test]
    fn a_faster_interface_is_not_held_to_the_speed_of_the_default_route() {
        let root = system(
            "eth0",
            &[("eth0", "1000\n", "up\n"), ("eth1", "10000\n", "up\n"), ("lo", "", "unknown\n")],
        );
        let network = Network::Detected(found(root.path()).unwrap());
        assert_eq!(
            (network.bps(), network.uplink(true)),
            (Some(1_000_000_000), UplinkRate::Known(10_000_000_000))
        );
        assert_eq!(network.uplink(false), UplinkRate::Unlimited, "nothing is promised");
        assert!(network.text().contains("up to 10.0 Gb/s"), "{}", network.text());
        let down = system("eth0", &[("eth0", "1000\n", "up\n"), ("eth1", "10000\n", "down\n")]);
        assert_eq!(found(down.path()).unwrap().fastest, Rate(1_000_000_000));
    }

    #[test]
    fn the_speed_of_a_tunnel_is_not_believed() {
        let root = system("tun0", &[("tun0", "10\n", "unknown\n"), ("eth0", "1000\n", "up\n")]);
        assert_eq!(found(root.path()).unwrap().rate, Rate(10_000_000));
        fs::write(root.path().join("sys/class/net/tun0/tun_flags"), "0x1001\n").unwrap();
        assert_eq!(found(root.path()), None);
    }
}
