//! What a run says of clients that read titles as files.

use serde::Serialize;
use std::fmt;

/// What clients that read titles as files did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MountedReport {
    /// Players that had a film open at the same time, at most.
    pub playing_most: u64,
    /// Films opened.
    pub films: u64,
    /// Times that the reads of a player became reserved.
    pub admitted: u64,
    /// Times that there was no room for one.
    pub refused: u64,
    /// Times that one had to wait for a later start.
    pub waited: u64,
    /// Times that one was read without a reservation after a jump.
    pub displaced: u64,
    /// Times that one was taken for a look or a copy.
    pub looks: u64,
    /// Reads of files.
    pub reads: u64,
    /// Reads of players that were not reserved.
    pub unreserved_reads: u64,
    /// Units that were reserved for and requested in time, and came after they were due.
    pub late_units: u64,
    /// Times that a player stood still after it had begun.
    pub stalls: u64,
    /// How many of those break no promise.
    pub stalls_exempt: ExemptFileStalls,
}

/// Stalls of players of files that break no promise, each counted for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExemptFileStalls {
    /// Its last read was not reserved: it had not been admitted yet, was refused, or waited for its
    /// start.
    pub not_admitted: u64,
    /// The viewer had jumped to where there was no room.
    pub displaced: u64,
    /// Its buffer had not been full since it was admitted, or had jumped.
    pub filling: u64,
    /// More was reserved of a member than it could do, as it had become slower.
    pub strained: u64,
}

impl ExemptFileStalls {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.not_admitted + self.displaced + self.filling + self.strained
    }
}

impl fmt::Display for ExemptFileStalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExemptFileStalls { not_admitted, displaced, filling, strained } = self;
        write!(
            f,
            "{not_admitted} not admitted, {displaced} displaced, {filling} while filling, {strained} strained"
        )
    }
}

impl fmt::Display for MountedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MountedReport { playing_most, films, admitted, refused, waited, displaced, looks, .. } = self;
        let MountedReport { reads, unreserved_reads, late_units, stalls, stalls_exempt, .. } = self;
        write!(
            f,
            "{playing_most} at once, {films} films, {admitted} times admitted, {refused} refused, {waited} waited, {displaced} displaced, {looks} taken for looks; {reads} reads, {unreserved_reads} without a reservation, {late_units} units late after a promise, {stalls} stalls (exempt: {stalls_exempt})"
        )
    }
}
