use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const GIVEN: DiskPrice = DiskPrice {
    read_request_ns: 8 * MS,
    read_mib_ns: 0,
    write_request_ns: 8 * MS,
    write_mib_ns: 0,
    independent_limits: false,
};

/// The price after `requests` requests that take `took_ns` each on a device that is always
/// full, or never.
fn after(requests: u64, took_ns: u64, full: bool, write: bool) -> u64 {
    let mut correction = PriceCorrection::new(GIVEN);
    let mut now_ns = 0;
    correction.filled(full, now_ns);
    let mut shown = GIVEN;
    for _ in 0..requests {
        correction.begun(0, 4096, false, now_ns);
        now_ns += took_ns;
        if let Some(price) = correction.done(4096, write, now_ns) {
            shown = price;
        }
        correction.filled(full, now_ns);
    }
    assert_eq!(shown, correction.price(), "every change is reported");
    shown.read_request_ns
}

#[test]
fn neighbours_on_a_rotational_disk_do_not_make_it_cheap() {
    let given = DiskPrice { read_mib_ns: 4 * MS, ..GIVEN };
    let factor = |offset: fn(u64) -> u64| {
        let mut correction = PriceCorrection::new(given);
        correction.filled(true, 0);
        for number in 0..1000 {
            correction.begun(offset(number), 1 << 18, false, number * MS + number / 10 * 8 * MS);
            // Ten reads of 1 ms for every seek of 8 ms.
            correction.done(1 << 18, false, (number + 1) * MS + number / 10 * 8 * MS);
        }
        correction.price().read_request_ns as f64 / given.read_request_ns as f64
    };
    let runs = factor(|number| (number << 18) + ((number / 10) << 30));
    assert!((0.9..1.1).contains(&runs), "priced as what they are: {runs}");
    let scattered = factor(|number| number << 30);
    assert!(scattered < 0.6, "a disk that is faster than its price: {scattered}");
}

#[test]
fn the_price_follows_the_device() {
    let near = |ns: u64, expected: u64| ns.abs_diff(expected) * 20 < expected;
    assert!(near(after(10_000, 12 * MS, true, false), 12 * MS));
    assert!(near(after(10_000, 6 * MS, true, false), 6 * MS));
    assert_eq!(after(10_000, 8 * MS, true, false), 8 * MS);
}

#[test]
fn it_keeps_within_bounds_and_moves_slowly() {
    let (least, most) = (after(100_000, MS / 10, true, false), after(20_000, 900 * MS, true, false));
    assert!((4 * MS..5 * MS).contains(&least), "{least}");
    assert!((63 * MS..=64 * MS).contains(&most), "{most}");
    assert!(after(200, 16 * MS, true, false) < 14 * MS, "one window does not decide");
}

#[test]
fn time_without_waiting_requests_corrects_nothing() {
    assert_eq!(after(10_000, 80 * MS, false, false), 8 * MS);
    assert_eq!(after(10_000, 80 * MS, true, true), 8 * MS, "nor do writes");
}

#[test]
fn reads_of_a_throttle_are_compared_with_the_longer_of_two_sums() {
    // 10 ms a request, 50 ms a MiB: a block and a quarter of a MiB alternately take 10 ms each,
    // not 10 and 12.5.
    let given =
        DiskPrice { read_request_ns: 10 * MS, read_mib_ns: 50 * MS, independent_limits: true, ..GIVEN };
    for (each_ns, factor) in [(10 * MS, 0.98..1.02), (20 * MS, 1.9..2.1)] {
        let mut correction = PriceCorrection::new(given);
        correction.filled(true, 0);
        for number in 0..4_000 {
            let bytes = if number % 2 == 0 { 4096 } else { 1 << 18 };
            correction.begun(number << 30, bytes, false, number * each_ns);
            correction.done(bytes, false, (number + 1) * each_ns);
        }
        let price = correction.price();
        assert!(
            price.independent_limits
                && factor.contains(&(price.read_request_ns as f64 / given.read_request_ns as f64))
        );
        assert!(factor.contains(&(price.read_mib_ns as f64 / given.read_mib_ns as f64)));
    }
}

#[test]
fn idle_time_does_not_count() {
    let mut correction = PriceCorrection::new(GIVEN);
    let mut now_ns = 0;
    for _ in 0..2_000 {
        correction.begun(0, 4096, false, now_ns);
        correction.filled(true, now_ns);
        now_ns += 8 * MS;
        assert_eq!(correction.done(4096, false, now_ns), None);
        correction.filled(false, now_ns);
        now_ns += 5_000 * MS;
    }
}

/// A device that does one request after another.
#[derive(Clone)]
struct Disk {
    correction: PriceCorrection,
    now_ns: u64,
    place: u64,
}

impl Disk {
    fn new() -> Disk {
        Disk::given(GIVEN.into())
    }

    fn given(given: MeasuredPrice) -> Disk {
        Disk { correction: PriceCorrection::new(given), now_ns: 0, place: 0 }
    }

    /// `count` reads that take `took_ms` each, with others waiting behind them or a pause after
    /// each.
    fn reads(&mut self, count: u64, took_ms: u64, full: bool) -> f64 {
        for _ in 0..count {
            self.place += 1 << 30;
            self.correction.begun(self.place, 4096, false, self.now_ns);
            self.correction.filled(full, self.now_ns);
            self.now_ns += took_ms * MS;
            self.correction.done(4096, false, self.now_ns);
        }
        self.correction.filled(false, self.now_ns);
        self.now_ns += 1000 * MS;
        self.factor()
    }

    fn factor(&self) -> f64 {
        self.correction.price().read_request_ns as f64 / GIVEN.read_request_ns as f64
    }
}

/// Reads of the price that was given in which half of what was learnt is forgotten.
const HALF: u64 = CORRECTION_FORGET_NS / (8 * MS);

#[test]
fn a_slow_minute_is_forgotten_though_the_device_is_never_full_again() {
    // However long single requests take: on flash longer than among others, behind a throttle
    // no time at all.
    for lone_ms in [1, 8, 30] {
        let mut disk = Disk::new();
        let learnt = disk.reads(2_000, 24, true);
        assert!((2.8..=3.0).contains(&learnt), "{learnt}");
        let half = disk.reads(HALF, lone_ms, false);
        assert!((1.9..=2.05).contains(&half), "{half}");
        let rest = disk.reads(4 * HALF, lone_ms, false);
        assert!((1.0..1.1).contains(&rest), "{rest}");
    }
}

#[test]
fn nothing_is_forgotten_while_nothing_is_read() {
    let mut disk = Disk::new();
    let learnt = disk.reads(2_000, 24, true);
    disk.now_ns += 3_600_000 * MS;
    assert!(disk.reads(1, 8, false) > learnt - 0.1);
}

#[test]
fn what_was_forgotten_is_learnt_again_within_eight_windows() {
    let mut disk = Disk::new();
    disk.reads(2_000, 24, true);
    assert!(disk.reads(20 * HALF, 24, false) < 1.1);
    let windows = 8 * u64::from(CORRECTION_WINDOW_REQUESTS);
    let again = disk.reads(windows + 1, 24, true);
    assert!(again > 2.7, "nine tenths of it: {again}");
}

/// Nine reads of ten that no other waits behind, until half would have been forgotten; then the
/// device is full for so many windows.
fn cycle(disk: &mut Disk, took_ms: u64, windows: u64) -> f64 {
    let least = disk.reads(HALF, took_ms, false);
    disk.reads(windows * u64::from(CORRECTION_WINDOW_REQUESTS) + 1, took_ms, true);
    least
}

#[test]
fn a_price_that_is_too_low_for_good_is_forgotten_more_slowly_each_time() {
    let mut disk = Disk::new();
    disk.reads(5_000, 40, true);
    let least: Vec<f64> = (0..12).map(|_| cycle(&mut disk, 40, 8)).collect();
    assert!(least[0] < 3.1 && least.is_sorted(), "{least:?}");
    assert!(least[10..].iter().all(|factor| *factor > 4.8), "nearly all is remembered: {least:?}");
    // A device that does again what its price says is not held for slow any longer than others.
    cycle(&mut disk, 8, 20);
    disk.reads(2_000, 24, true);
    let half = disk.reads(HALF, 8, false);
    assert!((1.9..=2.05).contains(&half), "{half}");
}

#[test]
fn a_device_that_is_full_now_and_then_does_not_become_cheap() {
    // Each second eight reads, four of them with none waiting behind: a reservation of seven
    // tenths at the corrected price can still be kept.
    let mut disk = Disk::new();
    disk.reads(2_000, 24, true);
    for _ in 0..5_000 {
        disk.reads(5, 24, true);
        let factor = disk.reads(4, 24, false);
        assert!(factor > 0.7 * 3.0, "{factor}");
    }
}

#[test]
fn short_runs_do_not_make_a_rotational_disk_expensive() {
    // Three neighbours at a time, of which the last waits: what goes into a full device is
    // answered when it is no longer full.
    let mut correction = PriceCorrection::new(GIVEN);
    let transfer_ns = GIVEN.transfer_ns(1 << 18);
    for run in 0..5_000_u64 {
        let (place, now_ns) = ((run * 7_919 % 1_000) << 30, run * 100 * MS);
        correction.begun(place, 1 << 18, false, now_ns);
        correction.begun(place + (1 << 18), 1 << 18, false, now_ns);
        correction.filled(true, now_ns);
        let first_ns = now_ns + GIVEN.read_ns(1 << 18);
        assert_eq!(correction.done(1 << 18, false, first_ns), None);
        correction.begun(place + (2 << 18), 1 << 18, false, first_ns);
        correction.filled(run % 2 == 0, first_ns);
        assert_eq!(correction.done(1 << 18, false, first_ns + transfer_ns), None);
        correction.filled(false, first_ns + transfer_ns);
        assert_eq!(correction.done(1 << 18, false, first_ns + 2 * transfer_ns), None);
    }
}

#[test]
fn short_bursts_do_not_make_a_parallel_device_expensive() {
    // Eight at a time, each in eight times its share: nine come at once, and the last waits
    // until the first is done.
    let given = DiskPrice { read_request_ns: MS / 4, ..GIVEN };
    let mut correction = PriceCorrection::new(given);
    for rush in 0..5_000_u64 {
        let now_ns = rush * 20 * MS;
        (0..8).for_each(|number| correction.begun((rush * 10 + number) << 30, 4096, false, now_ns));
        correction.filled(true, now_ns);
        assert_eq!(correction.done(4096, false, now_ns + 2 * MS), None);
        correction.begun((rush * 10 + 9) << 30, 4096, false, now_ns + 2 * MS);
        correction.filled(false, now_ns + 2 * MS);
        for number in 0..8 {
            assert_eq!(correction.done(4096, false, now_ns + (2 + number / 7 * 2) * MS), None);
        }
    }
}

/// Measured with a price two hundred times too high, while single requests took what they take.
const MISMEASURED: MeasuredPrice = MeasuredPrice { price: GIVEN, floor_permille: 5, learnt_permille: 1000 };

#[test]
fn a_price_that_is_far_too_high_falls_within_ten_minutes_of_light_load() {
    let mut disk = Disk::given(MISMEASURED);
    let (mut before, mut steps) = (1.0, Vec::new());
    // Twenty reads a second of 0.04 ms, none of which waits: what the price allows is 87.
    while disk.now_ns < 600_000 * MS {
        for _ in 0..20 {
            disk.place += 1 << 30;
            disk.correction.begun(disk.place, 4096, false, disk.now_ns);
            disk.now_ns += MS / 25;
            disk.correction.done(4096, false, disk.now_ns);
            disk.now_ns += 50 * MS;
        }
        if disk.factor() != before {
            steps.push(disk.factor() / before);
            before = disk.factor();
        }
    }
    assert!((0.005..0.0052).contains(&before), "{before}");
    assert!(steps.iter().all(|step| (0.79..1.0).contains(step)), "never by more than a fifth: {steps:?}");
    // It was too low after all: that is seen while requests wait, within some windows.
    let again = disk.reads(64 * 30, 8, true);
    assert!(again > 0.9, "{again}");
}

#[test]
fn no_price_falls_below_what_single_requests_took() {
    // A throttle that has saved up: requests take no time for as long as few come.
    let mut disk = Disk::given(MeasuredPrice { floor_permille: 900, ..GIVEN.into() });
    for _ in 0..600 {
        disk.correction.begun(0, 4096, false, disk.now_ns);
        disk.correction.done(4096, false, disk.now_ns + 1);
        disk.now_ns += 1000 * MS;
    }
    assert!((0.9..1.0).contains(&disk.factor()), "{}", disk.factor());
    // And not at all where those are not known.
    let mut disk = Disk::new();
    for _ in 0..600 {
        disk.correction.begun(0, 4096, false, disk.now_ns);
        assert_eq!(disk.correction.done(4096, false, disk.now_ns + 1), None);
        disk.now_ns += 1000 * MS;
    }
}

#[test]
fn a_server_begins_with_what_the_one_before_has_learnt() {
    let begins = |learnt_permille| Disk::given(MeasuredPrice { learnt_permille, ..MISMEASURED }).factor();
    assert_eq!((begins(250), begins(2_000)), (0.25, 2.0));
    assert_eq!((begins(0), begins(u32::MAX)), (0.005, CORRECTION_MAX), "within the limits");
    let unknown = Disk::given(MeasuredPrice { learnt_permille: 250, ..GIVEN.into() });
    assert_eq!(unknown.factor(), 1.0, "its single requests were not measured");
}

#[test]
fn a_member_that_fails_at_once_does_not_become_cheap() {
    let mut disk = Disk::given(MISMEASURED);
    for number in 0..100_000_u64 {
        disk.correction.begun(0, 4096, false, disk.now_ns);
        disk.correction.filled(true, disk.now_ns);
        disk.now_ns += MS;
        // One of a hundred is read, and takes what it takes.
        if number % 100 > 0 {
            disk.correction.failed(disk.now_ns);
        } else {
            disk.now_ns += 7 * MS;
            disk.correction.done(4096, false, disk.now_ns);
        }
    }
    assert!(disk.factor() >= 1.0, "{}", disk.factor());
}

#[test]
fn a_device_that_stands_still_for_a_minute_is_not_taken_for_one_that_always_does() {
    let mut disk = Disk::new();
    disk.reads(64 * 8, 8, true);
    disk.correction.begun(0, 4096, false, disk.now_ns);
    disk.correction.filled(true, disk.now_ns);
    disk.now_ns += 80_000 * MS;
    disk.correction.done(4096, false, disk.now_ns);
    let after = disk.reads(64, 8, true);
    assert!(after < 1.8, "one window: {after}");
}

proptest! {
    #[test]
    fn no_device_that_takes_what_its_price_says_becomes_cheaper(
        rushes in proptest::collection::vec((1_u64..200, 8_u64..60, any::<bool>()), 1..60),
    ) {
        let mut disk = Disk::new();
        for (count, took_ms, full) in rushes {
            let before = disk.factor();
            let factor = disk.reads(count, took_ms, full);
            prop_assert!((1.0..=CORRECTION_MAX).contains(&factor), "{factor}");
            prop_assert!(full || factor <= before, "{before} to {factor} with no request waiting");
        }
    }
}

#[test]
fn a_disk_that_spins_up_before_its_first_answer_costs_no_more_than_before() {
    for full in [true, false] {
        let mut correction = PriceCorrection::new(GIVEN);
        correction.filled(full, 0);
        correction.begun(0, 4096, false, 0);
        let mut now_ns = 15_000 * MS;
        correction.woke(now_ns);
        for _ in 0..1000 {
            assert_eq!(correction.done(4096, false, now_ns), None);
            correction.begun(0, 4096, false, now_ns);
            correction.filled(full, now_ns);
            now_ns += 8 * MS;
        }
        assert_eq!(correction.price(), GIVEN);
    }
}
