//! How fast the way out to the viewers is.

use std::fs;
use std::path::Path;

/// The speed of the interface of the default route, in bits per second; `None` where the kernel does not say: virtual interfaces, and
/// machines without a default route.
pub(crate) fn default_route_bps() -> Option<u64> {
    speed_of(&fs::read_to_string("/proc/net/route").ok()?, Path::new("/sys/class/net"))
}

fn speed_of(routes: &str, interfaces: &Path) -> Option<u64> {
    let interface = default_interface(routes)?;
    let megabits: u64 =
        fs::read_to_string(interfaces.join(interface).join("speed")).ok()?.trim().parse().ok()?;
    // The kernel writes -1 for unknown, some drivers 0 or the largest number there is.
    (1..10_000_000).contains(&megabits).then(|| megabits * 1_000_000)
}

/// The interface of the default route with the lowest metric, from `/proc/net/route`.
fn default_interface(routes: &str) -> Option<&str> {
    let default = |line: &'_ str| -> Option<u64> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000"))
            .then(|| fields.get(6)?.parse().ok())?
    };
    let (_, line) = routes.lines().skip(1).filter_map(|line| Some((default(line)?, line))).min()?;
    line.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        wlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";

    #[test]
    fn the_default_route_with_the_lowest_metric_counts() {
        assert_eq!(default_interface(ROUTES), Some("eth0"));
        assert_eq!(default_interface("Iface\tDestination\n"), None);
    }

    #[test]
    fn what_the_kernel_does_not_know_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("eth0")).unwrap();
        let speed = |text: &str| {
            fs::write(dir.path().join("eth0/speed"), text).unwrap();
            speed_of(ROUTES, dir.path())
        };
        assert_eq!(speed("10000\n"), Some(10_000_000_000));
        assert_eq!((speed("-1\n"), speed("0\n"), speed("4294967295\n"), speed("")), (None, None, None, None));
    }
}
