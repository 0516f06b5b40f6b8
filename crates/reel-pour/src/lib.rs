//! Poured streams: bytes that a program writes while they are played to others.
//!
//! ```text
//!   program --messages--> Arrivals: may it be taken now? --> Window: the last few seconds
//!                                                              |--> viewer 0, with a place
//!                                                              '--> viewer 1, with another one
//! ```
//! Nothing is stored. A program declares a rate, and how far its messages may come before their
//! time ([`PourTerms`], the linear bounded arrival process of Govindan's thesis, section 3.1). The
//! bytes lie in memory that was set aside when the stream began. A viewer that is behind by more
//! than the window is cut off, and disturbs neither the program nor other viewers.
//!
//! Pure, except one lock for each stream: the caller has the clock and the sockets.

#![forbid(unsafe_code)]

mod arrivals;
mod fragments;
pub mod limits;
mod metrics;
mod pours;
mod terms;
mod window;

pub use arrivals::Arrivals;
pub use metrics::PourMetrics;
pub use pours::{PourReport, PourViewer, PourWriter, Pours};
pub use terms::{PourRefused, PourTerms, check_name};
pub use window::{PourEnd, Read, Window};
