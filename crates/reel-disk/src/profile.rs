//! What a member was measured to do. Pure, and strict: a stored profile may be damaged, old, of
//! another device or forged.

mod check;
mod fit;
mod price;

use price::{expected_price_of, floor_permille};

pub(crate) use price::{price_of, runs_need_one_seek};

use crate::limits::{PROBE_SINGLES_PERMILLE_MIN, PROFILE_BYTES_MAX};
use crate::measured_price::MeasuredPrice;
use reel_qos::DiskPrice;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The version of the format that is written. Since 2 it has reads in runs, and rotational disks
/// are measured as deep as they are used. Since 3 it has reads of mixed sizes, and prices with
/// independent limits. Since 4 disturbed windows are left out.
const VERSION: u32 = 4;

/// The earliest version that is read. What it lacks was not measured, and its price says so.
const VERSION_MIN: u32 = 2;

/// What was measured of one member, and the price that admission counts with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    version: u32,
    /// When it was measured, seconds since 1970 UTC.
    pub measured_unix_s: u64,
    /// Measured for a short time when a server started, not by `reel probe`: a quick profile.
    pub quick: bool,
    /// Whether reads went into huge pages. Profiles that do not say so were measured before it was
    /// known to matter.
    #[serde(default)]
    pub huge_pages: bool,
    /// Members that were measured at the same time, including this one: shared hardware is in the
    /// figures.
    pub together: u32,
    /// Bytes that reads were spread over: the written parts of the member.
    pub data_bytes: u64,
    /// The device that it is true of.
    pub device: DeviceIdentity,
    #[serde(with = "PriceFields")]
    price: DiskPrice,
    /// Times of single requests: for display, and as the lower limit of a corrected price.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<Cell>,
    /// Times of windows: what the price follows from.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// What disturbed the measurement. Earlier versions did not look for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbances: Option<Disturbances>,
}

/// What distinguishes one device from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceIdentity {
    /// What it is.
    pub kind: DeviceKind,
    /// Number of the block device, or of the one that holds the file's file system.
    pub major: u32,
    /// The second part of that number.
    pub minor: u32,
    /// The partition's number; 0 for a whole device.
    pub partition: u32,
    /// The file's inode; 0 for a device.
    pub inode: u64,
    /// Length of the device or file.
    pub bytes: u64,
    /// The model that the device reports; empty if it reports none.
    pub model: String,
    /// Its serial number, or what is reported in place of it; empty if there is none.
    pub serial: String,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A file of a file system.
    File,
    /// A block device.
    BlockDevice,
}

/// Where the requests of a cell are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// One after another.
    Sequential,
    /// Random places in ascending order, as a scheduler sorts them.
    Sorted,
    /// Random places as they come.
    Random,
}

/// Times of single requests of one kind, from the submission to the device to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Bytes of each.
    pub bytes: u64,
    /// Requests in the device at once, at most.
    pub depth: u32,
    /// Where they were.
    pub locality: Locality,
    /// Whether something was written at the same time.
    pub beside_writes: bool,
    /// How many were measured.
    pub requests: u32,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer; the slowest, of fewer than 100.
    pub p99_ns: u64,
}

/// What is done in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowKind {
    /// Only reads.
    Read,
    /// Only reads of units, some of which are behind one another and need one seek. On a rotational
    /// disk these take as long as one read of as many bytes.
    ReadRun,
    /// Only reads, of blocks and of units, mixed so that the requests take as long as the bytes if
    /// the two have independent limits: there the sum of both differs most from the longer of them.
    ReadMixed,
    /// Reads, and one write in the device at any time.
    ReadBesideWrites,
    /// Only writes, durable at the end.
    Write,
}

/// Times of whole windows: batches of requests at random places, sorted, at the scheduler's depth,
/// from the first submission to the last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// What was done.
    pub kind: WindowKind,
    /// Bytes of each request, or of a run, or on average.
    pub bytes: u64,
    /// Requests of each window, or runs.
    pub requests: u32,
    /// Least number of writes beside the reads of a window.
    pub writes: u32,
    /// How many windows were measured.
    pub windows: u32,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer; the slowest, of fewer than 100.
    pub p99_ns: u64,
}

/// What disturbed a measurement: probably something else that used the device. Such stalls have to
/// be covered by what is buffered. They are not in the price of each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disturbances {
    /// Windows of reads that were measured.
    pub windows: u32,
    /// Those that took longer than the others, and do not count.
    pub left_out: u32,
    /// The longest request in those.
    pub stall_ns: u64,
    /// Kinds and sizes of reads whose windows do not agree. All of these count.
    pub unsettled: u32,
}

/// Why a profile is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Larger than any profile.
    #[error("it has more than {PROFILE_BYTES_MAX} bytes, the limit for a profile")]
    TooLarge,
    /// Not the text of a profile.
    #[error("it cannot be parsed: {0}")]
    Malformed(String),
    /// Written in another version of the format.
    #[error(
        "it is of version {found} of the format, and this program reads versions {VERSION_MIN} to {VERSION}"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// No device does what it says.
    #[error("it is not plausible: {0}")]
    Implausible(String),
    /// It is true of another device.
    #[error("this profile was measured on another device ({measured}, not {found})")]
    OtherDevice {
        /// The device it is true of.
        measured: String,
        /// The device it was to be used for.
        found: String,
    },
}

impl ProfileError {
    /// What to do about it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        Some("run reel probe again".into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DiskPrice", deny_unknown_fields)]
struct PriceFields {
    read_request_ns: u64,
    read_mib_ns: u64,
    write_request_ns: u64,
    write_mib_ns: u64,
    // `apart` is its earlier name.
    #[serde(default, alias = "apart")]
    independent_limits: bool,
}

/// The result of a measurement, before it is checked.
pub(crate) struct Measured {
    pub(crate) measured_unix_s: u64,
    pub(crate) quick: bool,
    pub(crate) huge_pages: bool,
    pub(crate) together: u32,
    pub(crate) data_bytes: u64,
    pub(crate) device: DeviceIdentity,
    pub(crate) cells: Vec<Cell>,
    pub(crate) windows: Vec<Window>,
    pub(crate) disturbances: Option<Disturbances>,
}

impl Profile {
    /// A profile of a measurement, if that is plausible.
    pub(crate) fn new(measured: Measured) -> Result<Profile, ProfileError> {
        let Measured { measured_unix_s, quick, huge_pages, together, data_bytes, device, .. } = measured;
        let Measured { cells, windows, disturbances, .. } = measured;
        let price = price_of(&windows).ok_or_else(|| check::too_few_windows(&windows))?;
        let profile = Profile {
            version: VERSION,
            measured_unix_s,
            quick,
            huge_pages,
            together,
            data_bytes,
            device,
            price,
            cells,
            windows,
            disturbances,
        };
        profile.check(measured_unix_s)?;
        Ok(profile)
    }

    /// Reads the text of a profile and checks everything that can be checked without its device.
    ///
    /// # Errors
    /// It is too large, not a profile, of another version, or not plausible.
    pub fn parse(text: &[u8], now_unix_s: u64) -> Result<Profile, ProfileError> {
        #[derive(Deserialize)]
        struct OnlyVersion {
            version: u32,
        }
        if text.len() > PROFILE_BYTES_MAX {
            return Err(ProfileError::TooLarge);
        }
        let text = std::str::from_utf8(text)
            .map_err(|_| ProfileError::Malformed("it is not UTF-8 text".to_owned()))?;
        let malformed =
            |error: toml::de::Error| ProfileError::Malformed(error.message().replace(['\n', ';'], ","));
        // Another version may have other fields: its number is checked first.
        let OnlyVersion { version } = toml::from_str(text).map_err(malformed)?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(ProfileError::Version { found: version });
        }
        let profile: Profile = toml::from_str(text).map_err(malformed)?;
        profile.check(now_unix_s)?;
        Ok(profile)
    }

    /// The text that [`Profile::parse`] reads.
    pub fn to_text(&self) -> String {
        // All numbers are below PROFILE_NS_MAX or lengths of files, which TOML's signed integers
        // hold.
        let fields = toml::to_string(self).unwrap_or_default();
        format!(
            "# What `reel probe` measured of a member. Only what lies under [price] is counted with; it follows from the windows.\n{fields}"
        )
    }

    /// What requests cost, and how much less they may be found to cost in service.
    pub fn measured_price(&self) -> MeasuredPrice {
        MeasuredPrice {
            floor_permille: floor_permille(&self.cells, &self.price),
            ..MeasuredPrice::from(self.price)
        }
    }

    /// The part of the price that half of the single requests kept to, in thousandths, if it is so
    /// small that the windows must have been disturbed, all of them alike.
    pub fn contradiction_permille(&self) -> Option<u32> {
        Some(floor_permille(&self.cells, &self.price))
            .filter(|permille| *permille < PROBE_SINGLES_PERMILLE_MIN)
    }

    /// What requests cost, at the p99 of windows.
    pub fn price(&self) -> DiskPrice {
        self.price
    }

    /// What requests cost over a long time, in which slow rounds and fast ones compensate each
    /// other: for forecasts, not for reservations.
    pub fn expected_price(&self) -> DiskPrice {
        expected_price_of(&self.windows).unwrap_or(self.price)
    }

    /// Whether the device is rotational: seeks take long, and reads behind one another cost their
    /// transfers. A throttle only looks like that.
    pub fn is_rotational(&self) -> bool {
        self.price.is_rotational() && runs_need_one_seek(&self.windows)
    }

    /// Whether writes were measured. Otherwise they are assumed to cost a multiple of reads.
    pub fn has_writes(&self) -> bool {
        self.windows.iter().any(|window| window.kind == WindowKind::Write)
    }

    /// Checks that it is true of this device.
    ///
    /// # Errors
    /// It was measured on another device.
    pub fn check_device(&self, found: &DeviceIdentity) -> Result<(), ProfileError> {
        if self.device.is_same(found) {
            return Ok(());
        }
        Err(ProfileError::OtherDevice { measured: self.device.to_string(), found: found.to_string() })
    }
}

impl Window {
    /// What one of its requests cost when the window was slow.
    pub fn request_p99_ns(&self) -> u64 {
        self.p99_ns.div_ceil(u64::from(self.requests.max(1)))
    }
}

impl DeviceIdentity {
    /// Whether both are one device. Numbers of devices change with the order in which they are
    /// found. A serial number does not, so it decides where both have one.
    pub fn is_same(&self, other: &DeviceIdentity) -> bool {
        let place = if self.serial.is_empty() || other.serial.is_empty() {
            (self.major, self.minor) == (other.major, other.minor)
        } else {
            self.serial == other.serial && self.model == other.model && self.partition == other.partition
        };
        place && self.kind == other.kind && self.inode == other.inode && self.bytes == other.bytes
    }
}

/// `file of inode 12 on 254:0 (QEMU, serial 7), 1024 bytes`.
impl std::fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            DeviceKind::File => write!(f, "file of inode {} on ", self.inode)?,
            DeviceKind::BlockDevice => f.write_str("device ")?,
        }
        write!(f, "{}:{}", self.major, self.minor)?;
        let names = [&self.model, &self.serial].map(|name| name.escape_debug().to_string());
        match [names[0].as_str(), names[1].as_str()] {
            ["", ""] => {}
            ["", name] | [name, ""] => write!(f, " ({name})")?,
            [model, serial] => write!(f, " ({model}, serial {serial})")?,
        }
        write!(f, ", {} bytes", self.bytes)
    }
}

#[cfg(test)]
mod carried_laws;
#[cfg(test)]
pub(crate) mod tests;
