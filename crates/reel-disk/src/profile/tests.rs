use super::*;
use proptest::prelude::*;

const NOW: u64 = 1_790_000_000;

fn identity() -> DeviceIdentity {
    DeviceIdentity {
        kind: DeviceKind::BlockDevice,
        major: 8,
        minor: 16,
        partition: 0,
        inode: 0,
        bytes: 1 << 40,
        model: "A disk \"of\" ours".to_owned(),
        serial: "S/N 1".to_owned(),
    }
}

fn cell(bytes: u64, p50_ns: u64) -> Cell {
    let locality = Locality::Random;
    Cell { bytes, depth: 1, locality, beside_writes: false, requests: 50, p50_ns, p99_ns: 2 * p50_ns }
}

fn window(bytes: u64, p50_ns: u64) -> Window {
    let kind = WindowKind::Read;
    Window { kind, bytes, requests: 100, writes: 0, windows: 5, p50_ns, p99_ns: p50_ns + p50_ns / 4 }
}

pub(crate) fn measured() -> Measured {
    Measured {
        measured_unix_s: NOW,
        quick: false,
        huge_pages: true,
        together: 5,
        data_bytes: 1 << 38,
        device: identity(),
        cells: vec![cell(4096, 100_000), cell(1 << 20, 1_000_000)],
        windows: vec![window(4096, 10_000_000), window(1 << 20, 100_000_000)],
        disturbances: Some(Disturbances { windows: 12, left_out: 2, stall_ns: 400_000_000, unsettled: 0 }),
    }
}

fn refusal(change: impl FnOnce(&mut Measured)) -> String {
    let mut all = measured();
    change(&mut all);
    match Profile::new(all) {
        Ok(profile) => panic!("believed: {profile:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_profile_is_read_back_from_its_text() {
    let profile = Profile::new(measured()).unwrap();
    assert_eq!(Profile::parse(profile.to_text().as_bytes(), NOW), Ok(profile));
}

#[test]
fn what_no_device_does_is_refused() {
    for (text, says) in [
        (refusal(|all| all.cells[0].p50_ns = 0), "took no time"),
        (refusal(|all| all.windows[0].p99_ns = 0), "took no time"),
        (refusal(|all| all.cells[0].p99_ns = 99_999), "below the median"),
        (refusal(|all| all.windows[1].p99_ns = 1_000_000), "below the median"),
        (refusal(|all| all.cells[1].p50_ns = 10_000), "faster than memory"),
        (refusal(|all| all.windows[1].p50_ns = 1_000_000), "faster than memory"),
        (refusal(|all| all.windows[0].p50_ns = 10_000), "faster than memory"),
        (refusal(|all| all.windows[0].p99_ns = u64::MAX), "longer than any device"),
        (refusal(|all| all.cells[0] = cell(4096, 17_000_000)), "requests of 1048576 bytes take"),
        (refusal(|all| all.windows[0] = window(4096, 1_500_000_000)), "requests of 1048576 bytes take"),
        (refusal(|all| all.windows.truncate(1)), "two sizes"),
        (refusal(|all| all.windows.clear()), "two sizes"),
        (refusal(|all| all.windows[0].requests = 0), "nothing"),
        (refusal(|all| all.data_bytes = 1 << 41), "more than the device holds"),
        (refusal(|all| all.cells = vec![cell(4096, 100_000); 1000]), "more cells"),
        (
            refusal(|all| all.disturbances = Some(Disturbances { left_out: 1, ..Default::default() })),
            "disturb",
        ),
        (refusal(|all| all.device.serial = "x".repeat(1000)), "longer than a name"),
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn the_future_is_refused_and_a_clock_set_back_by_an_hour_is_not() {
    let text = Profile::new(measured()).unwrap().to_text();
    assert!(Profile::parse(text.as_bytes(), NOW - 3600).is_ok());
    let error = Profile::parse(text.as_bytes(), NOW - 30 * 86_400).unwrap_err().to_string();
    assert!(error.contains("in the future"), "{error}");
}

#[test]
fn a_price_that_was_written_in_by_hand_is_refused() {
    let profile = Profile::new(measured()).unwrap();
    let line = format!("read_request_ns = {}", profile.price().read_request_ns);
    let text = profile.to_text();
    assert!(text.contains(&line));
    let lie = text.replace(&line, "read_request_ns = 1");
    let error = Profile::parse(lie.as_bytes(), NOW).unwrap_err().to_string();
    assert!(error.contains("does not follow"), "{error}");
}

/// As the version before mixtures wrote it.
const EARLIER: &str = r#"# What `reel probe` measured of a member.
version = 2
measured_unix_s = 1790000000
quick = false
huge_pages = true
together = 5
data_bytes = 274877906944

[device]
kind = "block-device"
major = 8
minor = 16
partition = 0
inode = 0
bytes = 1099511627776
model = "A disk"
serial = "S/N 1"

[price]
read_request_ns = 9933079
read_mib_ns = 42731559
write_request_ns = 19866158
write_mib_ns = 85463118

[[windows]]
kind = "read"
bytes = 4096
requests = 50
writes = 0
windows = 5
p50_ns = 500000000
p99_ns = 505000000

[[windows]]
kind = "read"
bytes = 270336
requests = 50
writes = 0
windows = 5
p50_ns = 675000000
p99_ns = 680000000

[[windows]]
kind = "read-run"
bytes = 1081344
requests = 12
writes = 0
windows = 5
p50_ns = 640000000
p99_ns = 648000000
"#;

#[test]
fn a_profile_of_the_version_before_is_read_and_adds_up() {
    let profile = Profile::parse(EARLIER.as_bytes(), NOW).unwrap();
    let price = profile.price();
    assert!(
        !price.independent_limits && price.is_rotational() && !profile.is_rotational(),
        "a throttle, priced as a sum: {price:?}"
    );
    assert_eq!(Profile::parse(profile.to_text().as_bytes(), NOW), Ok(profile), "and is kept as it is");
    // It does not say that its parts have independent limits.
    let lie = EARLIER
        .replace("[[windows]]\nkind = \"read-run\"", "[[windows]]\nkind = \"read\"")
        .replace("write_mib_ns = 85463118", "write_mib_ns = 85463118\nindependent_limits = true");
    let error = Profile::parse(lie.as_bytes(), NOW).unwrap_err().to_string();
    assert!(error.contains("does not follow"), "{error}");
    let first = EARLIER.replace("version = 2", "version = 1");
    assert_eq!(Profile::parse(first.as_bytes(), NOW), Err(ProfileError::Version { found: 1 }));
}

#[test]
fn independent_limits_are_stored() {
    let read = |kind, bytes, ns: u64| Window {
        kind,
        bytes,
        requests: 50,
        writes: 0,
        windows: 5,
        p50_ns: 50 * ns,
        p99_ns: 51 * ns,
    };
    let windows = vec![
        read(WindowKind::Read, 4096, 10_000_000),
        read(WindowKind::Read, 270_336, 13_516_800),
        read(WindowKind::ReadRun, 4 * 270_336, 4 * 13_516_800),
        read(WindowKind::ReadMixed, 200_000, 10_000_000),
    ];
    let profile = Profile::new(Measured { windows, ..measured() }).unwrap();
    assert!(
        profile.price().independent_limits
            && profile.expected_price().independent_limits
            && !profile.is_rotational()
    );
    let text = profile.to_text();
    assert!(
        text.contains("version = 4")
            && text.contains("independent_limits = true")
            && text.contains("\"read-mixed\""),
        "{text}"
    );
    assert_eq!(Profile::parse(text.as_bytes(), NOW), Ok(profile));
    let earlier = text.replace("independent_limits = true", "apart = true");
    assert_eq!(Profile::parse(earlier.as_bytes(), NOW), Profile::parse(text.as_bytes(), NOW));
    let lie = text.replace("independent_limits = true", "independent_limits = false");
    assert!(Profile::parse(lie.as_bytes(), NOW).is_err());
}

#[test]
fn another_version_and_an_endless_file_are_refused_with_the_reason() {
    let text = Profile::new(measured()).unwrap().to_text().replace("version = 4", "version = 5\nnew = true");
    assert_eq!(Profile::parse(text.as_bytes(), NOW), Err(ProfileError::Version { found: 5 }));
    assert_eq!(Profile::parse(&vec![b'#'; PROFILE_BYTES_MAX + 1], NOW), Err(ProfileError::TooLarge));
    assert!(matches!(Profile::parse(b"\xff", NOW), Err(ProfileError::Malformed(_))));
    assert!(matches!(Profile::parse(b"", NOW), Err(ProfileError::Malformed(_))));
}

#[test]
fn another_device_is_distinguished_from_a_moved_cable() {
    let profile = Profile::new(measured()).unwrap();
    let moved = DeviceIdentity { major: 65, minor: 0, ..identity() };
    assert_eq!(profile.check_device(&moved), Ok(()));
    for other in [
        DeviceIdentity { serial: "S/N 2".to_owned(), ..identity() },
        DeviceIdentity { bytes: 1 << 39, ..identity() },
        DeviceIdentity { partition: 1, ..identity() },
        DeviceIdentity { kind: DeviceKind::File, inode: 12, ..identity() },
        DeviceIdentity { serial: String::new(), ..moved },
    ] {
        let text = profile.check_device(&other).unwrap_err().to_string();
        assert!(text.contains("measured on another device"), "{text}");
    }
}

proptest! {
    #[test]
    fn a_damaged_file_is_an_error_or_a_profile_that_holds(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>(),
    ) {
        let mut text = Profile::new(measured()).unwrap().to_text().into_bytes();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = Profile::parse(&text[..cut.index(text.len())], NOW);
        if let Ok(profile) = Profile::parse(&text, NOW) {
            let price = profile.price();
            for window in &profile.windows {
                prop_assert!(price.read_ns(window.bytes) >= window.request_p99_ns());
            }
        }
    }

    #[test]
    fn numbers_beyond_all_bounds_do_not_panic(
        key in prop::sample::select(vec!["bytes", "requests", "p50_ns", "p99_ns", "windows", "depth", "writes", "data_bytes", "measured_unix_s"]),
        value in prop_oneof![Just(0i64), Just(1), Just(-1), Just(i64::MAX), Just(i64::from(u32::MAX)), any::<i64>()],
    ) {
        let text = Profile::new(measured()).unwrap().to_text();
        let prefix = format!("{key} = ");
        let lines = text.lines().map(|line| match line.strip_prefix(&prefix) {
            Some(_) => format!("{prefix}{value}"),
            None => line.to_owned(),
        });
        let _ = Profile::parse(lines.collect::<Vec<_>>().join("\n").as_bytes(), NOW);
    }
}
