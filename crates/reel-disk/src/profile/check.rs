//! What no device does, and what is inconsistent.

use super::{Cell, Disturbances, Locality, Profile, ProfileError, Window, WindowKind, price_of};
use crate::limits::{
    PROFILE_COMPARED_REQUESTS_MIN, PROFILE_COMPARED_WINDOWS_MIN, PROFILE_ENTRIES_MAX, PROFILE_FUTURE_S_MAX,
    PROFILE_INVERSION_MAX, PROFILE_MIB_NS_MIN, PROFILE_NAME_BYTES_MAX, PROFILE_NS_MAX, PROFILE_READ_NS_MIN,
    PROFILE_WINDOW_READ_NS_MIN,
};

impl Profile {
    /// Everything that can be checked without the device.
    pub(super) fn check(&self, now_unix_s: u64) -> Result<(), ProfileError> {
        let wrong = |text: &str| Err(ProfileError::Implausible(text.to_owned()));
        if self.measured_unix_s > now_unix_s.saturating_add(PROFILE_FUTURE_S_MAX) {
            return wrong("it was measured in the future, or the clock of this machine is wrong");
        }
        if self.cells.len() > PROFILE_ENTRIES_MAX || self.windows.len() > PROFILE_ENTRIES_MAX {
            return wrong("it has more cells or windows than are ever measured");
        }
        if self.device.model.len() > PROFILE_NAME_BYTES_MAX
            || self.device.serial.len() > PROFILE_NAME_BYTES_MAX
        {
            return wrong("the device's name is longer than a name");
        }
        if self.together == 0 || self.data_bytes == 0 || self.data_bytes > self.device.bytes {
            return wrong("it was measured on nothing, or on more than the device holds");
        }
        if self.disturbances.is_some_and(|disturbances| !disturbances.are_plausible()) {
            return wrong("its disturbances are more than was measured");
        }
        self.cells.iter().try_for_each(Cell::check)?;
        self.windows.iter().try_for_each(Window::check)?;
        self.check_order()?;
        match price_of(&self.windows) {
            None => Err(too_few_windows(&self.windows)),
            // Otherwise a forged profile could have a price that its own measurements contradict.
            Some(price) if price != self.price => wrong("its price does not follow from what was measured"),
            Some(_) => Ok(()),
        }
    }

    /// Larger reads are not much faster than smaller ones. Sequential ones may be: a drive reads
    /// ahead.
    fn check_order(&self) -> Result<(), ProfileError> {
        let too_fast = |small: u64, small_ns: u64, large: u64, large_ns: u64| {
            if small < large && large_ns.saturating_mul(PROFILE_INVERSION_MAX) < small_ns {
                return Err(ProfileError::Implausible(format!(
                    "requests of {large} bytes take {large_ns} ns, and those of {small} bytes {small_ns} ns"
                )));
            }
            Ok(())
        };
        for small in &self.cells {
            for large in self.cells.iter().filter(|large| large.compares_with(small)) {
                too_fast(small.bytes, small.p50_ns, large.bytes, large.p99_ns)?;
            }
        }
        for small in &self.windows {
            for large in self.windows.iter().filter(|large| large.compares_with(small)) {
                let small_ns = small.p50_ns / u64::from(small.requests.max(1));
                too_fast(small.bytes, small_ns, large.bytes, large.request_p99_ns())?;
            }
        }
        Ok(())
    }
}

impl Disturbances {
    fn are_plausible(self) -> bool {
        self.left_out <= self.windows && self.unsettled <= self.windows && self.stall_ns <= PROFILE_NS_MAX
    }
}

impl Cell {
    fn compares_with(&self, other: &Cell) -> bool {
        self.depth == other.depth
            && self.locality == other.locality
            && self.locality != Locality::Sequential
            && self.beside_writes == other.beside_writes
            && self.requests.min(other.requests) >= PROFILE_COMPARED_REQUESTS_MIN
    }

    fn check(&self) -> Result<(), ProfileError> {
        let name = format!("reads of {} bytes at depth {}", self.bytes, self.depth);
        check_counts(&name, self.bytes, self.requests)?;
        if self.depth == 0 {
            return Err(ProfileError::Implausible(format!("{name}: nothing was in the device")));
        }
        check_times(&name, self.p50_ns, self.p99_ns, PROFILE_READ_NS_MIN)?;
        if self.depth == 1 {
            check_rate(&name, self.bytes, self.p50_ns)?;
        }
        Ok(())
    }
}

impl Window {
    /// Writes wait for the drive's memory to empty, at any size.
    fn compares_with(&self, other: &Window) -> bool {
        self.kind == WindowKind::Read
            && other.kind == WindowKind::Read
            && self.windows.min(other.windows) >= PROFILE_COMPARED_WINDOWS_MIN
    }

    fn check(&self) -> Result<(), ProfileError> {
        let name = format!("windows of {} requests of {} bytes", self.requests, self.bytes);
        check_counts(&name, self.bytes, self.requests.min(self.windows))?;
        let least = PROFILE_WINDOW_READ_NS_MIN.saturating_mul(self.requests.into());
        check_times(&name, self.p50_ns, self.p99_ns, least)?;
        check_rate(&name, self.bytes.saturating_mul(self.requests.into()), self.p50_ns)
    }
}

fn check_counts(name: &str, bytes: u64, count: u32) -> Result<(), ProfileError> {
    // 2^30 bytes are more than any unit; the bound keeps later sums within 64 bits.
    if bytes == 0 || bytes > 1 << 30 || count == 0 || count > 1 << 30 {
        return Err(ProfileError::Implausible(format!("{name}: nothing, or nothing that is ever measured")));
    }
    Ok(())
}

fn check_times(name: &str, p50_ns: u64, p99_ns: u64, least_ns: u64) -> Result<(), ProfileError> {
    let text = if p50_ns == 0 || p99_ns == 0 {
        "took no time"
    } else if p99_ns < p50_ns {
        "the 99th percentile is below the median"
    } else if p99_ns > PROFILE_NS_MAX {
        "took longer than any device"
    } else if p50_ns < least_ns {
        "were faster than memory"
    } else {
        return Ok(());
    };
    Err(ProfileError::Implausible(format!("{name}: {text}")))
}

fn check_rate(name: &str, bytes: u64, ns: u64) -> Result<(), ProfileError> {
    if u128::from(ns) << 20 < u128::from(bytes) * u128::from(PROFILE_MIB_NS_MIN) {
        return Err(ProfileError::Implausible(format!("{name}: were faster than memory")));
    }
    Ok(())
}

pub(super) fn too_few_windows(windows: &[Window]) -> ProfileError {
    ProfileError::Implausible(format!(
        "{} windows of reads do not make a price; it takes those of two sizes",
        windows.iter().filter(|window| window.kind == WindowKind::Read).count()
    ))
}
