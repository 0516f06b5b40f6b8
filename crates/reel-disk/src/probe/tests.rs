use super::*;
use crate::profile::{ProfileError, WindowKind};
use std::io::Write;

const NOW: u64 = 1_790_000_000;

/// A directory on the disk of the build: files in memory have no direct I/O on older kernels.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn written(directory: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = directory.join(name);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
    file.sync_all().unwrap();
    path
}

fn short(quick: bool, writes: bool) -> Probe {
    Probe {
        time_ns: 300_000_000,
        quick,
        writes,
        unit_bytes: 264 << 10,
        driver: DriverChoice::Auto,
        huge_pages: true,
    }
}

/// Measures again as long as a profile is not plausible, as one of a short time on a disk that is
/// heavily used by others may be.
fn plausible(
    mut measure: impl FnMut() -> Vec<Result<Profile, ProbeError>>,
) -> Vec<Result<Profile, ProbeError>> {
    let is_implausible = |found: &Result<Profile, ProbeError>| {
        matches!(found, Err(ProbeError::Profile { source: ProfileError::Implausible(_), .. }))
    };
    let tries = (0..30).map(|_| measure());
    let mut found = tries.skip_while(|found| found.iter().any(is_implausible));
    found.next().expect("no plausible profile in 30 measurements")
}

fn proceed(_done_ns: u64, _total_ns: u64) -> bool {
    true
}

#[test]
fn every_member_gets_a_profile_of_its_own_and_is_not_changed() {
    let directory = directory();
    let paths = ["a", "b"].map(|name| written(directory.path(), name, 6 << 20));
    let before = paths.clone().map(|path| std::fs::read(path).unwrap());
    let mut reported = Vec::new();
    let mut measure = |time_ns| {
        let full = Probe { time_ns, ..short(false, true) };
        let found = plausible(|| {
            probe(&paths, &full, NOW, &mut |done_ns, total_ns| {
                reported.push((done_ns, total_ns));
                true
            })
        });
        found.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    // Cells come last. On a busy machine, windows may take all of a short time.
    let times_ns = [300_000_000, 1_500_000_000, 7_500_000_000].into_iter();
    let all_have_cells = |found: &Vec<Profile>| found.iter().all(|profile| !profile.cells.is_empty());
    let found = times_ns.map(&mut measure).find(all_have_cells).expect("no time for a single cell");
    assert_eq!(found.len(), 2);
    for (profile, path) in found.into_iter().zip(&paths) {
        assert_eq!(profile.check_device(&identity(path).unwrap()), Ok(()));
        assert_eq!((profile.together, profile.data_bytes, profile.quick), (2, 6 << 20, false));
        assert!(profile.has_writes());
        for kind in [WindowKind::Read, WindowKind::ReadBesideWrites, WindowKind::Write] {
            let sizes: Vec<u64> = profile
                .windows
                .iter()
                .filter(|window| window.kind == kind)
                .map(|window| window.bytes)
                .collect();
            assert_eq!(sizes, [4 << 10, 68 << 10, 264 << 10], "{kind:?}");
        }
        let runs: Vec<u64> = (profile.windows.iter().filter(|window| window.kind == WindowKind::ReadRun))
            .map(|window| window.bytes)
            .collect();
        assert_eq!(runs, [4 * (264 << 10)]);
        let mixed = profile.windows.iter().filter(|window| window.kind == WindowKind::ReadMixed);
        let averages: Vec<u64> = mixed.map(|window| window.bytes).collect();
        assert!(averages.len() <= 2 && averages.iter().all(|bytes| (4 << 10..264 << 10).contains(bytes)));
        // All of them, except those that had no time left.
        assert!((1..=48).contains(&profile.cells.len()), "{}", profile.cells.len());
        assert_eq!(Profile::parse(profile.to_text().as_bytes(), NOW), Ok(profile));
    }
    assert!(reported.iter().all(|&(_, total_ns)| total_ns > 300_000_000) && !reported.is_empty());
    assert_eq!(paths.map(|path| std::fs::read(path).unwrap()), before);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn a_quick_one_makes_a_price_on_either_driver() {
    let directory = directory();
    let path = written(directory.path(), "a", 6 << 20);
    for driver in [DriverChoice::Auto, DriverChoice::Portable] {
        let quick = Probe { driver, ..short(true, false) };
        let measure = || probe(std::slice::from_ref(&path), &quick, NOW, &mut proceed);
        let profile = plausible(measure).remove(0).unwrap();
        assert!(profile.quick && profile.cells.len() <= 2 && !profile.has_writes());
        // Runs are used for rotational disks only.
        for window in profile.windows.iter().filter(|window| window.kind == WindowKind::Read) {
            let each_ns = profile.price().read_ns(window.bytes);
            assert!(each_ns * u64::from(window.requests) >= window.p99_ns, "{profile:?}");
        }
    }
}

#[test]
fn space_that_was_never_written_is_not_measured() {
    let directory = directory();
    let path = written(directory.path(), "new", 64 << 10);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    let set_aside = directory.path().join("set-aside");
    let file = std::fs::File::create(&set_aside).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 64 << 20).unwrap();
    for (path, least) in [(path, 64 << 10), (set_aside, 0)] {
        match probe(&[path], &short(true, false), NOW, &mut proceed).remove(0) {
            Err(ProbeError::TooLittleData { data_bytes, .. }) => assert_eq!(data_bytes, least),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_member_that_cannot_be_measured_does_not_delay_the_others() {
    let directory = directory();
    let paths = [directory.path().join("absent"), written(directory.path(), "a", 6 << 20)];
    let found = plausible(|| probe(&paths, &short(true, false), NOW, &mut proceed));
    assert!(matches!(found[0], Err(ProbeError::Disk(_))), "{found:?}");
    assert_eq!(found[1].as_ref().unwrap().together, 1);
    assert!(probe(&[], &short(true, false), NOW, &mut proceed).is_empty());
}

#[test]
fn a_caller_can_stop_a_measurement() {
    let directory = directory();
    let path = written(directory.path(), "a", 6 << 20);
    let long = Probe { time_ns: 3_600_000_000_000, ..short(false, false) };
    let found = probe(&[path], &long, NOW, &mut |done_ns, _| done_ns < 500_000_000);
    assert!(matches!(found[0], Err(ProbeError::Stopped)), "{found:?}");
}
