//! Why a stream was not admitted, and what to do about it.

use crate::client_share::ShareRefusal;
use crate::ledger::ReservationId;
use crate::limits::RESERVATIONS_MAX;
use crate::resource::Resource;
use std::borrow::Cow;

/// A resource is exhausted. It names the place where the smallest part of the demand is available.
/// If that is remedied, another place may be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{resource} is fully reserved: {} are needed in one second, and {} are left; {}",
    resource.amount(*asked), resource.amount(*available), self.help()
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
    /// The average rate at which the same stream would have been admitted, if it read and sent
    /// proportionally fewer bytes in every round, with as many requests and as much memory; 0 if at
    /// none.
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
    /// It fits, but its client would hold more than its share.
    #[error(transparent)]
    Share(#[from] Box<ShareRefusal>),
    /// It ends after the last round that the ledger keeps account of.
    #[error(
        "it would end {ends_in_s} s from now, and the ledger plans ahead for {timeline_s} s at most; {HELP_TOO_LONG}"
    )]
    TooLong {
        /// Seconds from now to the end of the demand.
        ends_in_s: u64,
        /// Seconds that the ledger's timelines are long.
        timeline_s: u64,
    },
    /// Only classes of kind periodic have reservations.
    #[error("class {class} has no reservations; {HELP_NOT_PERIODIC}")]
    NotPeriodic {
        /// The place of the class in its table.
        class: usize,
    },
    /// The demand was made for another volume.
    #[error("it reads from {asked} members, and the ledger knows {members}; {HELP_OTHER_VOLUME}")]
    OtherVolume {
        /// Members of the demand.
        asked: usize,
        /// Members of the ledger.
        members: usize,
    },
    /// The ledger is full.
    #[error("there are {RESERVATIONS_MAX} reservations, and there can be no more; {HELP_TOO_MANY}")]
    TooMany,
    /// The reservation to be changed is not there: it ended or was released.
    #[error("{0} has ended; {HELP_ENDED}")]
    Ended(ReservationId),
}

const HELP_TOO_LONG: &str = "start nearer to the end of the title, or configure a longer timeline";
const HELP_NOT_PERIODIC: &str = "use a class of kind periodic";
const HELP_OTHER_VOLUME: &str = "compute its demand again for this volume";
const HELP_TOO_MANY: &str = "try again when some have ended";
const HELP_ENDED: &str = "admit the rest of it as a new one";

const MBPS: u64 = 1_000_000;

impl Refusal {
    /// What to do about it. The message ends with it.
    pub fn help(&self) -> String {
        let rate = match self.grantable_bps {
            // Rounded down: what is told would be granted.
            bps if bps < MBPS / 10 => "no rate can be granted now".to_owned(),
            bps => format!("{}.{} Mb/s could be granted now", bps / MBPS, bps % MBPS * 10 / MBPS),
        };
        match self.retry_after_s {
            Some(seconds) => format!("{rate}, or try again in {seconds} s"),
            None => format!("{rate}, and the full rate never: it is more than the whole share of its class"),
        }
    }
}

impl AdmitError {
    /// What is short, if a resource is.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            AdmitError::Refused(refusal) => Some(refusal),
            AdmitError::Share(share) => Some(&share.refusal),
            _ => None,
        }
    }

    /// What to do about it. The message ends with it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        let help = match self {
            AdmitError::Refused(refusal) => return Some(refusal.help().into()),
            AdmitError::Share(refusal) => return Some(refusal.help().into()),
            AdmitError::TooLong { .. } => HELP_TOO_LONG,
            AdmitError::NotPeriodic { .. } => HELP_NOT_PERIODIC,
            AdmitError::OtherVolume { .. } => HELP_OTHER_VOLUME,
            AdmitError::TooMany => HELP_TOO_MANY,
            AdmitError::Ended(_) => HELP_ENDED,
        };
        Some(help.into())
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
        let error = AdmitError::from(refusal.clone());
        let text = error.to_string();
        assert!(text.ends_with(&*error.help().unwrap()));
        assert_eq!(
            text,
            "member 3 is fully reserved: 4.0 ms of device time are needed in one second, and 1.5 ms of device time are left; \
             3.0 Mb/s could be granted now, or try again in 340 s"
        );
        let rounded = Refusal { grantable_bps: 5_199_999, ..refusal.clone() };
        assert!(rounded.to_string().contains("5.1 Mb/s could be granted now"));
        let never = Refusal { grantable_bps: 0, retry_after_s: None, ..refusal };
        assert!(never.to_string().contains("no rate can be granted now, and the full rate never"));
    }
}
