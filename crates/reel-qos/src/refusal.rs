//! Why a stream was not admitted, and what to do about it.

use crate::ledger::ReservationId;
use crate::limits::RESERVATIONS_MAX;
use crate::resource::Resource;
use std::fmt;

/// A resource is exhausted. It names the place where the smallest part of the demand is available.
/// If that is remedied, another place may be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{resource} is fully promised: {} are asked in one second of it, and {} are left{}",
    resource.amount(*asked), resource.amount(*available), Help(self)
)]
pub struct Refusal {
    /// What is short.
    pub resource: Resource,
    /// The round in which it is the shortest; absolute.
    pub round: u64,
    /// What the stream needs there, in the resource's unit.
    pub asked: u64,
    /// What the class has left there.
    pub available: u64,
    /// The average rate at which the same stream would have been admitted, if it needed
    /// proportionally less of everything in every round; 0 if at none.
    pub grantable_bps: u64,
    /// In how many seconds to try again: at the first later start at which everything fits, if no
    /// stream comes or goes. If the search was given up, the first start that was not ruled out.
    /// `None`: never, since the demand is more than the whole share of its class.
    pub retry_after_s: Option<u64>,
}

/// Why [`Ledger::admit`](crate::Ledger::admit) and [`Ledger::change`](crate::Ledger::change)
/// granted nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// It does not fit beside the present reservations.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It ends after the last round that the ledger keeps account of.
    #[error(
        "it would end {ends_in_s} s from now, and promises are made for {timeline_s} s at most; start nearer to the end of the title, \
         or configure a longer timeline"
    )]
    TooLong {
        /// Seconds from now to the end of the demand.
        ends_in_s: u64,
        /// Seconds that the ledger's timelines are long.
        timeline_s: u64,
    },
    /// Only classes of kind periodic have reservations.
    #[error(
        "class {class} is served as well as it can be, without a promise; ask in a class of kind periodic"
    )]
    NotPeriodic {
        /// The place of the class in its table.
        class: usize,
    },
    /// The demand was made for another volume.
    #[error(
        "it reads from {asked} members, and the ledger knows {members}; make its demand anew for this volume"
    )]
    OtherVolume {
        /// Members of the demand.
        asked: usize,
        /// Members of the ledger.
        members: usize,
    },
    /// The ledger is full.
    #[error(
        "there are {RESERVATIONS_MAX} reservations, and there can be no more; ask again when some have ended"
    )]
    TooMany,
    /// The reservation to be changed is not there: it ended or was released.
    #[error("{0} has ended; admit the rest of it as a new one")]
    Ended(ReservationId),
}

/// The helpful half of a refusal.
struct Help<'a>(&'a Refusal);

impl fmt::Display for Help<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.grantable_bps {
            0 => f.write_str("; no rate can be granted now")?,
            bps => write!(f, "; {:.1} Mb/s could be granted now", bps as f64 / 1e6)?,
        }
        match self.0.retry_after_s {
            Some(seconds) => write!(f, ", or ask again in {seconds} s"),
            None => f.write_str(", and the full rate never: it is more than the whole share of its class"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_short_and_what_to_do() {
        let refusal = Refusal {
            resource: Resource::Member(3),
            round: 12,
            asked: 4_000_000,
            available: 1_500_000,
            grantable_bps: 3_000_000,
            retry_after_s: Some(340),
        };
        let text = AdmitError::from(refusal.clone()).to_string();
        assert_eq!(
            text,
            "member 3 is fully promised: 4.0 ms of device time are asked in one second of it, and 1.5 ms of device time are \
             left; 3.0 Mb/s could be granted now, or ask again in 340 s"
        );
        let never = Refusal { grantable_bps: 0, retry_after_s: None, ..refusal };
        assert!(never.to_string().contains("no rate can be granted now, and the full rate never"));
    }
}
