//! The measurement of the disks that admission counts with.

use anyhow::{Context, Result};
use reel_report::output_json;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// How many times the disks are measured, if the windows of a measurement do not agree.
const TRIES: u32 = 3;

/// Measures all members of a volume with `reel probe`. If something disturbed the measurement so
/// that windows do not agree, it is repeated. Returns what was measured, in words.
///
/// # Errors
/// `reel probe` fails, or prints something else than its profiles.
pub(super) fn measure(reel: &Path, volume: &Path, seconds: u64) -> Result<String> {
    let mut tried = 1;
    loop {
        let mut command = Command::new(reel);
        command.args(["--quiet", "probe", "--json", "--seconds", &seconds.to_string()]).arg(volume);
        let members = output_json(&mut command)?;
        let found = Found::of(&members).context("reel probe prints no profiles")?;
        if found.unsettled == 0 || tried == TRIES {
            return Ok(found.text(tried));
        }
        tried += 1;
    }
}

/// What a measurement found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Nanoseconds for a request and for a MiB, and whether the longer of both counts.
    prices: Vec<(u64, u64, bool)>,
    windows: u64,
    left_out: u64,
    unsettled: u64,
}

impl Found {
    /// Of the output of `reel probe --json`.
    fn of(output: &Value) -> Option<Found> {
        let mut found = Found { prices: Vec::new(), windows: 0, left_out: 0, unsettled: 0 };
        for member in output["members"].as_array()? {
            let (price, disturbances) = (&member["profile"]["price"], &member["profile"]["disturbances"]);
            let count = |name: &str| disturbances[name].as_u64();
            found.prices.push((
                price["read_request_ns"].as_u64()?,
                price["read_mib_ns"].as_u64()?,
                price["independent_limits"].as_bool()?,
            ));
            found.windows += count("windows")?;
            found.left_out += count("left_out")?;
            found.unsettled += count("unsettled")?;
        }
        (!found.prices.is_empty()).then_some(found)
    }

    fn text(&self, tried: u32) -> String {
        let prices = self.prices.iter().map(|&(request_ns, mib_ns, independent)| {
            let [request, mib] = [request_ns, mib_ns].map(|ns| ns as f64 / 1e6);
            let both = if independent { " (the longer of both)" } else { "" };
            format!("{request:.3} ms a read and {mib:.3} ms a MiB{both}")
        });
        let prices: Vec<_> = prices.collect();
        let quality = match self.unsettled {
            0 => String::new(),
            kinds => format!(", and those of {kinds} kinds do not agree: these prices are too high"),
        };
        format!(
            "prices of the disks, from measurement {tried} of at most {TRIES}: {}; {} of {} windows were disturbed and left out{quality}",
            prices.join("; "),
            self.left_out,
            self.windows
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_prices_and_what_disturbed_them_are_said() {
        let member = |request_ns: u64, unsettled: u64| {
            json!({ "profile": {
                "price": { "read_request_ns": request_ns, "read_mib_ns": 400_000, "independent_limits": false },
                "disturbances": { "windows": 20, "left_out": 1, "stall_ns": 5, "unsettled": unsettled },
            } })
        };
        let found = Found::of(&json!({ "members": [member(140_000, 0), member(23_000_000, 2)] })).unwrap();
        assert_eq!(
            found.text(3),
            "prices of the disks, from measurement 3 of at most 3: 0.140 ms a read and 0.400 ms a MiB; 23.000 ms a read and 0.400 ms a MiB; \
             2 of 40 windows were disturbed and left out, and those of 2 kinds do not agree: these prices are too high"
        );
        assert_eq!(Found::of(&json!({ "members": [] })), None);
        assert_eq!(Found::of(&json!({ "members": [{ "error": "gone" }] })), None);
    }
}
