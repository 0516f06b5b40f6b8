//! The host and the process that have opened a volume, and whether that process still lives.

use reel_rt::lock;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use crate::encoding::{Decoder, Encoder, EncodingError};
use crate::owner::record::OwnerRecord;

/// A process of a running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Tells machines apart, and is the same after a restart. 0 if nothing was found that does.
    pub(crate) machine: u64,
    /// Random, of the running kernel. Zeros if unknown.
    pub(crate) boot: [u8; 16],
    /// The name space of process numbers; 0 if unknown.
    pub(crate) pid_space: u64,
    pub(crate) pid: u32,
    /// When the process began, in clock ticks after the kernel.
    pub(crate) started: u64,
}

/// What is known about a session from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is over, and its machine is this one: no other machine takes part.
    OverHere,
    /// It is over, by its own word, and was on another machine.
    OverElsewhere,
    /// It may continue.
    Unknown,
}

/// Sessions of this process that have not ended.
static SESSIONS: Mutex<BTreeSet<[u8; 16]>> = Mutex::new(BTreeSet::new());

impl Host {
    /// This process.
    pub(crate) fn own() -> Host {
        let pid = std::process::id();
        Host {
            machine: machine().unwrap_or(0),
            boot: boot().unwrap_or_default(),
            pid_space: fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino()),
            pid,
            started: started(pid).unwrap_or(0),
        }
    }

    /// The name of the machine, for people.
    pub(crate) fn name() -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    pub(crate) fn encode(&self, to: &mut Encoder) {
        to.u64(self.machine);
        to.raw(&self.boot);
        to.u64(self.pid_space);
        to.u32(self.pid);
        to.u64(self.started);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Host, EncodingError> {
        Ok(Host {
            machine: from.u64()?,
            boot: from.array()?,
            pid_space: from.u64()?,
            pid: from.u32()?,
            started: from.u64()?,
        })
    }

    /// What this process knows about the session of a record.
    pub(crate) fn knows(&self, record: &OwnerRecord) -> Life {
        let other = &record.host;
        let same_kernel = other.boot == self.boot && self.boot != [0; 16];
        let same_machine = same_kernel || (other.machine == self.machine && self.machine != 0);
        let is_over = record.is_over
            || (same_machine && !same_kernel && other.boot != [0; 16])
            || (same_kernel && other.pid_space == self.pid_space && self.pid_space != 0 && has_ended(record));
        match (is_over, same_machine) {
            (true, true) => Life::OverHere,
            (true, false) => Life::OverElsewhere,
            (false, _) => Life::Unknown,
        }
    }
}

/// Notes that a session of this process has begun.
pub(crate) fn begin_session(session: [u8; 16]) {
    lock(&SESSIONS).insert(session);
}

/// Notes that a session of this process is over.
pub(crate) fn end_session(session: [u8; 16]) {
    lock(&SESSIONS).remove(&session);
}

/// Whether this very process has the session of a record.
pub(crate) fn is_session_here(record: &OwnerRecord) -> bool {
    lock(&SESSIONS).contains(&record.session)
}

/// Whether the process of a record, whose number means the same here, or its session, has ended.
fn has_ended(record: &OwnerRecord) -> bool {
    match record.host.pid == std::process::id() {
        true => !is_session_here(record),
        false => started(record.host.pid) != Some(record.host.started),
    }
}

/// When a process began; `None` if there is none, or if it has ended and only its parent has not
/// noticed.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may contain anything.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn boot() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// A hash of what tells machines apart: the addresses of network devices, and the name and id that
/// the system was given. Copies of a virtual machine and containers may have names and ids in
/// common, so without the address of a real device there is none.
fn machine() -> Option<u64> {
    let mut addresses = BTreeSet::new();
    for device in fs::read_dir("/sys/class/net").ok()?.flatten() {
        let (path, mut address) = (device.path(), String::new());
        if path.join("device").exists() {
            address = fs::read_to_string(path.join("address")).unwrap_or_default();
        }
        if address.bytes().any(|byte| !matches!(byte, b'0' | b':' | b'\n')) {
            addresses.insert(address);
        }
    }
    let first = addresses.first()?.clone();
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    // FNV-1a, 64 bits.
    let bytes = [first, id, Host::name()].concat();
    let hash = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    Some(bytes.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;

    fn record(host: Host, session: u8) -> OwnerRecord {
        let session = [session; 16];
        OwnerRecord {
            volume: VolumeId([1; 16]),
            session,
            beat: 0,
            is_over: false,
            host,
            name: "a".to_owned(),
            opened_unix_s: 0,
        }
    }

    #[test]
    fn a_session_of_this_process_lasts_until_it_ends() {
        let own = Host::own();
        assert!(own.boot != [0; 16] && own.pid_space != 0 && own.started != 0);
        begin_session([201; 16]);
        assert_eq!(own.knows(&record(own, 201)), Life::Unknown);
        end_session([201; 16]);
        assert_eq!(own.knows(&record(own, 201)), Life::OverHere);
    }

    #[test]
    fn a_process_that_was_killed_is_known_to_be_gone_before_its_parent_asks() {
        let own = Host::own();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let host = Host { pid: child.id(), started: started(child.id()).unwrap(), ..own };
        assert_eq!(own.knows(&record(host, 1)), Life::Unknown);
        // Another process of an equal number.
        assert_eq!(own.knows(&record(Host { started: host.started + 1, ..host }, 1)), Life::OverHere);
        // Its number means something else in another name space.
        assert_eq!(own.knows(&record(Host { pid_space: 1, ..host }, 1)), Life::Unknown);
        child.kill().unwrap();
        while own.knows(&record(host, 1)) != Life::OverHere {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(own.knows(&record(host, 1)), Life::OverHere);
    }

    #[test]
    fn a_restart_ends_the_sessions_of_this_machine_and_of_no_other() {
        let own = Host { machine: 7, ..Host::own() };
        let before = Host { boot: [9; 16], ..own };
        assert_eq!(own.knows(&record(before, 1)), Life::OverHere);
        let other = Host { machine: 8, ..before };
        assert_eq!(own.knows(&record(other, 1)), Life::Unknown);
        let over = OwnerRecord { is_over: true, ..record(other, 1) };
        assert_eq!(own.knows(&over), Life::OverElsewhere);
        // Machines without anything that tells them apart.
        let nameless = |host: Host| Host { machine: 0, ..host };
        assert_eq!(nameless(own).knows(&record(nameless(before), 1)), Life::Unknown);
        assert_eq!(own.knows(&record(Host { boot: [0; 16], ..own }, 1)), Life::Unknown);
    }
}
