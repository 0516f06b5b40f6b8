//! Profiles of the members of a volume: where they are stored, which of them are valid, and what a
//! server does without them.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reel_arena::PageKind;
use reel_disk::limits::{PRICE_UNKNOWN, PROFILE_BYTES_MAX};
use reel_disk::{Disturbances, MeasuredPrice, Probe, Profile, ProfileError, identity, probe, written_bytes};
use reel_ring::DriverChoice;
use reel_rt::open_regular;
use reel_volume::{Finding, Volume};

use super::learnt_prices::{self, UsedProfile};
use crate::failure::with_help;
use crate::limits::{PROFILE_OUTGROWN, QUICK_PROBE};
use crate::new_file::NewFile;
use crate::size::Size;

/// The profile of a member, if any.
#[derive(Debug)]
pub(super) enum Known {
    /// It was measured, and it is still the same device.
    Measured(Box<Profile>),
    /// It has no profile.
    Unmeasured,
    /// Its profile is not valid, for this reason.
    Refused(String),
}

/// The path of the profile of a member of the volume in `dir`.
pub(super) fn path_of(dir: &Path, member: usize) -> PathBuf {
    dir.join(format!("profile-{member}.toml"))
}

/// The path of a quick profile for other memory pages, of a member that has a better profile.
fn quick_path_of(dir: &Path, member: usize) -> PathBuf {
    dir.join(format!("profile-{member}.quick.toml"))
}

/// Reads the profile of a member, and checks whether it is for the device that is present.
pub(super) fn load(dir: &Path, finding: &Finding) -> Known {
    load_from(&path_of(dir, finding.member), finding)
}

fn load_from(path: &Path, finding: &Finding) -> Known {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Known::Unmeasured,
        Err(error) => Known::Refused(format!("its profile cannot be read: {error}")),
        Ok(text) => match validated(&text, &finding.path) {
            Ok(profile) => Known::Measured(Box::new(profile)),
            Err(reason) => Known::Refused(format!("its profile is not used: {reason}")),
        },
    }
}

/// Writes a profile to the path from which [`load`] reads it, in one step.
pub(super) fn store(path: &Path, profile: &Profile) -> io::Result<()> {
    let mut file = NewFile::create(path, true)?;
    file.write_all(profile.to_text().as_bytes())?;
    file.publish()
}

/// Seconds since 1970.
pub(super) fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Sets the prices of the disks of an open volume, corrected by what an earlier server has learnt.
/// Members without a valid profile get a quick profile first. Returns the profiles that are used.
pub(super) fn apply(dir: &Path, volume: &Volume, driver: DriverChoice) -> Vec<UsedProfile> {
    let mut used = Vec::new();
    let present: Vec<&Finding> = volume.findings().iter().filter(|finding| finding.state.in_use()).collect();
    let known: Vec<Known> = present.iter().map(|finding| load(dir, finding)).collect();
    let mut unknown: Vec<(&Finding, PathBuf)> = Vec::new();
    for (finding, known) in present.iter().zip(&known) {
        let member = finding.member;
        let path = path_of(dir, member);
        match known {
            Known::Measured(profile) if is_outgrown(profile, &finding.path) => {
                tracing::info!(
                    "member {member} holds far more than when its quick profile was measured; measuring again"
                );
                unknown.push((finding, path));
            }
            Known::Measured(profile) if profile.huge_pages != has_huge_pages(volume) => {
                // The better profile is used again when the memory has its pages again.
                let path = if profile.quick { path } else { quick_path_of(dir, member) };
                match load_from(&path, finding) {
                    Known::Measured(quick)
                        if quick.huge_pages == has_huge_pages(volume)
                            && !is_outgrown(&quick, &finding.path) =>
                    {
                        used.push(use_profile(dir, volume, member, &quick));
                    }
                    _ => {
                        tracing::info!(
                            "member {member} was measured with other memory pages than it reads into; measuring again"
                        );
                        unknown.push((finding, path));
                    }
                }
            }
            Known::Measured(profile) => used.push(use_profile(dir, volume, member, profile)),
            Known::Unmeasured => unknown.push((finding, path)),
            Known::Refused(reason) => {
                tracing::warn!("member {member}: {reason}");
                unknown.push((finding, path));
            }
        }
    }
    if !unknown.is_empty() {
        used.extend(measure_quickly(dir, volume, &present, &unknown, driver));
    }
    used
}

/// What disturbed a measurement, if anything did.
pub(super) fn disturbance_text(profile: &Profile) -> Option<String> {
    disturbance_of(profile.disturbances, profile.contradiction_permille())
}

fn disturbance_of(disturbances: Option<Disturbances>, contradiction: Option<u32>) -> Option<String> {
    let Disturbances { windows, left_out, stall_ns, unsettled } = disturbances.unwrap_or_default();
    let stall_s = Duration::from_nanos(stall_ns).as_secs_f64();
    let left_out = (left_out > 0).then(|| {
        format!("{left_out} of {windows} windows were disturbed and are left out, with requests of up to {stall_s:.1} s")
    });
    let unsettled = (unsettled > 0).then(|| "its windows do not agree, so the slower ones count".to_owned());
    let contradiction = contradiction.map(|permille| {
        format!(
            "half of its single requests took less than {:.1} % of what its price says",
            permille as f64 / 10.0
        )
    });
    let found: Vec<String> = left_out.into_iter().chain(unsettled).chain(contradiction).collect();
    (!found.is_empty()).then(|| format!("{}: something else may be using this disk", found.join("; ")))
}

/// The profile of a member in one line. `volume` is the argument of the command that measures it.
pub(super) fn line(known: &Known, volume: &Path, now_unix_s: u64) -> String {
    let again = format!("reel probe {}", volume.display());
    match known {
        Known::Unmeasured => format!("not measured; {again}"),
        Known::Refused(reason) => match reason.rsplit_once("; ") {
            Some((reason, _)) => format!("{reason}; {again}"),
            None => format!("{reason}; {again}"),
        },
        Known::Measured(profile) => {
            let how = if profile.quick { ", quick profile" } else { "" };
            let age = age_text(now_unix_s.saturating_sub(profile.measured_unix_s));
            format!("a read takes {}; measured {age}{how}", profile.price().read_text())
        }
    }
}

/// Whether the media memory has huge pages: the cost of a read depends on the pages of its buffer.
fn has_huge_pages(volume: &Volume) -> bool {
    volume.arena().region().pages != PageKind::Normal
}

fn use_profile(dir: &Path, volume: &Volume, member: usize, profile: &Profile) -> UsedProfile {
    let used = UsedProfile { member, measured_unix_s: profile.measured_unix_s };
    let learnt_permille = learnt_prices::load(dir, &used);
    volume.disks().set_price(member, MeasuredPrice { learnt_permille, ..profile.measured_price() });
    let how = if profile.quick { ", quick profile" } else { "" };
    let found = match volume.disks().price(member) {
        price if price == profile.price() => String::new(),
        price => format!("; the last server found it to take {}", price.read_text()),
    };
    tracing::info!("member {member}: a read takes {}{how}{found}", profile.price().read_text());
    used
}

/// Measures all members, since shared bottlenecks show only then. Members without a profile get
/// theirs, at these paths.
fn measure_quickly(
    dir: &Path,
    volume: &Volume,
    present: &[&Finding],
    unknown: &[(&Finding, PathBuf)],
    driver: DriverChoice,
) -> Vec<UsedProfile> {
    let paths: Vec<PathBuf> = present.iter().map(|finding| finding.path.clone()).collect();
    let quick = Probe {
        time_ns: QUICK_PROBE.as_nanos() as u64,
        quick: true,
        writes: false,
        unit_bytes: volume.geometry().unit_bytes(),
        driver,
        huge_pages: has_huge_pages(volume),
    };
    let measured = probe(&paths, &quick, now_unix_s(), &mut |_, _| true);
    let (mut failed, mut used) = (0, Vec::new());
    for (finding, measured) in present.iter().zip(measured) {
        let member = finding.member;
        let Some((_, path)) = unknown.iter().find(|(one, _)| one.member == member) else { continue };
        match measured {
            Ok(profile) => {
                used.push(use_profile(dir, volume, member, &profile));
                if let Some(disturbance) = disturbance_text(&profile) {
                    tracing::warn!("member {member}: {disturbance}");
                }
                if let Err(error) = store(path, &profile) {
                    tracing::warn!("the profile of member {member} cannot be stored: {error}");
                }
            }
            Err(error) => {
                failed += 1;
                let reason = with_help(&error.to_string(), error.help().as_deref());
                tracing::warn!("member {member} has no profile: {reason}");
            }
        }
    }
    let pages = if has_huge_pages(volume) { "" } else { " --small-pages" };
    let again = format!("reel probe {}{pages}", dir.display());
    if failed > 0 {
        tracing::warn!(
            "{failed} members count as slow hard disks ({} a read), so that too few viewers may be admitted, but never \
             too many; stop the server and run `{again}` when it has titles",
            PRICE_UNKNOWN.read_text()
        );
    }
    if failed < unknown.len() {
        tracing::info!("members have quick profiles; `{again}` measures better");
    }
    used
}

/// A quick measurement over few titles is not valid for a full disk, where seeks are longer.
fn is_outgrown(profile: &Profile, member: &Path) -> bool {
    let now_bytes = written_bytes(member).unwrap_or(0);
    profile.quick && now_bytes / PROFILE_OUTGROWN > profile.data_bytes
}

fn validated(text: &[u8], member: &Path) -> Result<Profile, String> {
    let refused = |error: ProfileError| with_help(&error.to_string(), error.help().as_deref());
    let profile = Profile::parse(text, now_unix_s()).map_err(refused)?;
    let found = identity(member).map_err(|error| with_help(&error.to_string(), error.help().as_deref()))?;
    profile.check_device(&found).map_err(refused)?;
    Ok(profile)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than a profile may have, to detect longer files.
    open_regular(path)?.take(PROFILE_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn age_text(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..120 => return "just now".to_owned(),
        120..7_200 => (seconds / 60, "minutes"),
        7_200..172_800 => (seconds / 3_600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit} ago")
}

/// `12.3 GiB of 40.0 GiB`: the range of the measurement.
pub(super) fn spread_text(profile: &Profile) -> String {
    format!("{} of {}", Size(profile.data_bytes), Size(profile.device.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        for (seconds, text) in [
            (0, "just now"),
            (119, "just now"),
            (180, "3 minutes ago"),
            (7_200, "2 hours ago"),
            (864_000, "10 days ago"),
        ] {
            assert_eq!(age_text(seconds), text);
        }
    }

    #[test]
    fn what_disturbed_a_measurement_is_named() {
        let text = |left_out, unsettled| {
            let disturbances =
                Some(Disturbances { windows: 19, left_out, stall_ns: 76_020_000_000, unsettled });
            disturbance_of(disturbances, None)
        };
        assert_eq!(text(0, 0), None);
        assert_eq!(
            text(2, 0).as_deref(),
            Some(
                "2 of 19 windows were disturbed and are left out, with requests of up to 76.0 s: \
                 something else may be using this disk"
            )
        );
        assert_eq!(
            text(0, 1).as_deref(),
            Some("its windows do not agree, so the slower ones count: something else may be using this disk")
        );
        assert_eq!(disturbance_of(None, None), None);
        assert_eq!(
            disturbance_of(None, Some(7)).as_deref(),
            Some(
                "half of its single requests took less than 0.7 % of what its price says: \
                 something else may be using this disk"
            )
        );
    }

    #[test]
    fn an_invalid_profile_names_the_command_to_run() {
        let refused = Known::Refused("it is old; run reel probe again".to_owned());
        assert_eq!(line(&refused, Path::new("films"), 0), "it is old; reel probe films");
        assert_eq!(line(&Known::Unmeasured, Path::new("films"), 0), "not measured; reel probe films");
    }
}
