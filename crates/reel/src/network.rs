//! The network to the viewers: which interface it is, and how fast.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::config::Config;
use crate::limits::ROUTES_BYTES_MAX;
use crate::rate::Rate;

/// The rate of the network, if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Network {
    /// Its rate is configured.
    Configured(Rate),
    /// The speed of the interface of the default route.
    Detected(Rate, String),
    /// Unknown: admission does not count it.
    Unknown,
}

impl Network {
    /// The configured rate, or the rate that the system reports.
    pub(crate) fn of(config: &Config) -> Network {
        match config.promise.network_bps {
            Rate(0) => found().unwrap_or(Network::Unknown),
            configured => Network::Configured(configured),
        }
    }

    /// Bits per second; `None` if it is not known.
    pub(crate) fn bps(&self) -> Option<u64> {
        match self {
            Network::Configured(rate) | Network::Detected(rate, _) => Some(rate.0),
            Network::Unknown => None,
        }
    }

    /// A sentence for the log and for display.
    pub(crate) fn text(&self) -> String {
        match self {
            Network::Configured(rate) => format!("the network rate is {rate}, as configured"),
            Network::Detected(rate, interface) => {
                format!("the network rate is {rate}, the speed of {interface}")
            }
            Network::Unknown => {
                "the network rate is unknown and not counted; set promise.network_bps in reel.toml if the network may \
                 become a bottleneck"
                    .to_owned()
            }
        }
    }
}

fn found() -> Option<Network> {
    let interface = default_v4(&read(Path::new("/proc/net/route"))?)
        .or_else(|| default_v6(&read(Path::new("/proc/net/ipv6_route"))?))?;
    // An interface name has no slash; one with a slash must not become another path.
    let speed = read(&Path::new("/sys/class/net").join(interface.replace('/', "")).join("speed"))?;
    speed_of(&speed).map(|rate| Network::Detected(rate, interface))
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
        config.promise.network_bps = Rate(5);
        assert_eq!(Network::of(&config).bps(), Some(5));
        assert_eq!(Network::Unknown.bps(), None);
    }
}
