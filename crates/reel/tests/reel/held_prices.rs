//! Stored profiles, as `reel probe` writes them, with the same prices on every machine: a server
//! without them measures its members when it starts, and then admits as many viewers as the disk
//! and other programs let it at that moment.

use std::fs;
use std::path::{Path, PathBuf};

use reel_disk::{Profile, identity};

/// When they claim to have been measured, in seconds since 1970.
pub(crate) const MEASURED_UNIX_S: u64 = 1_700_000_000;

/// Writes the profiles of all members of a new volume, `member-0.reel` and so on.
pub(crate) fn hold_prices(volume: &Path) {
    let members = (0..).map(|member| volume.join(format!("member-{member}.reel")));
    let members: Vec<PathBuf> = members.take_while(|path| path.exists()).collect();
    assert!(!members.is_empty(), "{} has no members of its own", volume.display());
    hold_prices_of(volume, &members);
}

/// The same for members elsewhere, in their order.
pub(crate) fn hold_prices_of(volume: &Path, members: &[PathBuf]) {
    for (number, member) in members.iter().enumerate() {
        // A price holds for one kind of memory pages. Which kind a server gets depends on the
        // machine; it looks for the other one in the quick profile.
        for (name, is_quick) in [("toml", false), ("quick.toml", true)] {
            let text = profile(member, members.len(), is_quick);
            let checked = Profile::parse(text.as_bytes(), MEASURED_UNIX_S).expect("a valid profile");
            assert_eq!(checked.quick, is_quick);
            fs::write(volume.join(format!("profile-{number}.{name}")), text).unwrap();
        }
    }
}

/// 200 us for a read and 2 ns for a byte; twice as much for writes.
fn profile(member: &Path, together: usize, is_quick: bool) -> String {
    let device = identity(member).unwrap();
    let window = |bytes: u64| {
        let ns = 100 * (200_000 + 2 * bytes);
        format!(
            "[[windows]]\nkind = \"read\"\nbytes = {bytes}\nrequests = 100\nwrites = 0\nwindows = 10\n\
             p50_ns = {ns}\np99_ns = {ns}\n"
        )
    };
    format!(
        "version = 3\nmeasured_unix_s = {MEASURED_UNIX_S}\nquick = {is_quick}\nhuge_pages = {}\n\
         together = {together}\ndata_bytes = {}\n\
         [price]\nread_request_ns = 200000\nread_mib_ns = 2097152\nwrite_request_ns = 400000\n\
         write_mib_ns = 4194304\nindependent_limits = false\n[device]\n{}{}{}",
        !is_quick,
        device.bytes,
        toml::to_string(&device).unwrap(),
        window(4 << 10),
        window(1 << 20),
    )
}
