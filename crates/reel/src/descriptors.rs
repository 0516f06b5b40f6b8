//! The limit of open files, since each connection is one.

use crate::limits::DESCRIPTORS_OTHER;
use reel_api::limits::{CONNECTIONS_MAX, REFUSED_CONNECTIONS_MAX};
use reel_http::limits::ASIDE_CONNECTIONS_MAX;
use reel_serve::limits::LEAVING_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for everything but the connections of the data plane. Connections that were
/// handed over to the control plane are not counted by the data plane any more, nor are those that
/// make room for others or are held aside.
const RESERVED: u64 =
    (CONNECTIONS_MAX + REFUSED_CONNECTIONS_MAX + LEAVING_MAX + ASIDE_CONNECTIONS_MAX + DESCRIPTORS_OTHER)
        as u64;

/// Raises this process's limit as far as allowed, and returns how many of `connections_wanted` it
/// allows.
pub(crate) fn connections(connections_wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (connections_wanted as u64).saturating_add(RESERVED);
    let raised = raised(current, maximum, wanted);
    if raised != current && setrlimit(Resource::Nofile, Rlimit { current: raised, maximum }).is_err() {
        // The kernel may refuse for a reason that the limits do not show; the old limit still
        // holds.
        return within(current, connections_wanted);
    }
    within(raised, connections_wanted)
}

/// The soft limit to set; `None` means no limit.
fn raised(current: Option<u64>, maximum: Option<u64>, wanted: u64) -> Option<u64> {
    let current = current?;
    let reachable = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    Some(reachable.max(current))
}

fn within(limit: Option<u64>, connections_wanted: usize) -> usize {
    let Some(limit) = limit else { return connections_wanted };
    let allowed = limit.saturating_sub(RESERVED).max(1);
    connections_wanted.min(usize::try_from(allowed).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_and_never_lowered() {
        assert_eq!(raised(Some(1024), Some(20_000), 16_640), Some(16_640));
        assert_eq!(raised(Some(1024), Some(4096), 16_640), Some(4096));
        assert_eq!(raised(Some(50_000), Some(50_000), 16_640), Some(50_000));
        assert_eq!(raised(Some(1024), None, 16_640), Some(16_640));
        assert_eq!(raised(None, None, 16_640), None);
    }

    #[test]
    fn connections_leave_room_for_the_rest() {
        assert_eq!(within(Some(RESERVED + 1000), 16_384), 1000);
        assert_eq!(within(Some(RESERVED + 16_384), 16_384), 16_384);
        assert_eq!(within(Some(10), 16_384), 1);
        assert_eq!(within(None, 16_384), 16_384);
    }

    /// Connections that were handed over are not counted by the data plane, and must not use the
    /// descriptors of members and uploads.
    #[test]
    fn a_full_control_plane_takes_nothing_from_the_rest() {
        let allowed = within(Some(4096), 16_384);
        let others = CONNECTIONS_MAX + REFUSED_CONNECTIONS_MAX + LEAVING_MAX + ASIDE_CONNECTIONS_MAX;
        assert!(allowed + others + 256 <= 4096, "{allowed}");
    }
}
