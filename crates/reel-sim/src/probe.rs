//! What requests to a simulated device cost, measured as `reel probe` measures real ones: windows
//! of a round's worth of requests in ascending order at the scheduler's own depth, and the cost
//! that 99 of 100 windows keep to.

use crate::device::{DeviceSpec, Transfer};
use crate::scale::REAL_UNIT_BYTES;
use reel_qos::DiskPrice;
use reel_qos::limits::ROUND_NS;
use reel_testkit::Rng;

/// The price of real bytes on devices like this one.
pub fn price(spec: &DeviceSpec, depth: usize, rng: &Rng) -> DiskPrice {
    let fit = |write: bool| {
        let one = request_ns(spec, depth, REAL_UNIT_BYTES, write, &rng.part(u64::from(write)));
        let two = request_ns(spec, depth, 2 * REAL_UNIT_BYTES, write, &rng.part(u64::from(write) + 2));
        let unit_ns = two.saturating_sub(one).min(one);
        (one - unit_ns, unit_ns * (1 << 20) / REAL_UNIT_BYTES)
    };
    let ((read_request_ns, read_mib_ns), (write_request_ns, write_mib_ns)) = (fit(false), fit(true));
    DiskPrice { read_request_ns, read_mib_ns, write_request_ns, write_mib_ns, independent_limits: false }
}

/// Windows of each size.
const WINDOWS: usize = 100;

/// What a window costs per request, at the 99th percentile.
fn request_ns(spec: &DeviceSpec, depth: usize, bytes: u64, write: bool, rng: &Rng) -> u64 {
    let mut count = 8;
    loop {
        let windows = windows_ns(spec, depth, Transfer { offset: count, bytes, write }, rng);
        // A window that fills the periodic share of a round: fewer requests cost more each, and
        // less in all.
        if windows[WINDOWS / 2] >= ROUND_NS * 7 / 10 || count >= 1 << 14 {
            return windows[WINDOWS * 99 / 100].div_ceil(count);
        }
        count *= 2;
    }
}

/// How long windows of `like.offset` requests take, shortest first.
fn windows_ns(spec: &DeviceSpec, depth: usize, like: Transfer, rng: &Rng) -> Vec<u64> {
    let (mut device, mut rng) = (spec.make(rng.part(7)), rng.part(8));
    let count = like.offset;
    let units = spec.bytes() / REAL_UNIT_BYTES - 2;
    let (mut now_ns, mut windows) = (0, Vec::with_capacity(WINDOWS));
    for _ in 0..WINDOWS {
        let began_ns = now_ns;
        let mut places: Vec<u64> = (0..count).map(|_| rng.below(units) * REAL_UNIT_BYTES).collect();
        places.sort_unstable();
        let mut places = places.into_iter();
        let mut in_device = 0;
        loop {
            for offset in places.by_ref().take(depth - in_device) {
                device.push(0, Transfer { offset, ..like }, now_ns);
                in_device += 1;
            }
            let Some(end_ns) = device.next_ns() else { break };
            now_ns = end_ns;
            while device.pop(now_ns).is_some() {
                in_device -= 1;
            }
        }
        windows.push(now_ns - began_ns);
    }
    windows.sort_unstable();
    windows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{HddSpec, SsdSpec, ThrottledSpec};

    #[test]
    fn prices_are_those_of_the_devices() {
        let unit_ns = |spec| price(&spec, 8, &Rng::new(1)).read_ns(REAL_UNIT_BYTES);
        let hdd = unit_ns(DeviceSpec::Hdd(HddSpec::default()));
        assert!((6_000_000..12_000_000).contains(&hdd), "{hdd}");
        let ssd = unit_ns(DeviceSpec::Ssd(SsdSpec::default()));
        assert!((450_000..700_000).contains(&ssd), "{ssd}");
        let throttled = unit_ns(DeviceSpec::Throttled(ThrottledSpec::default()));
        assert!((2_400_000..3_200_000).contains(&throttled), "{throttled}");
    }
}
