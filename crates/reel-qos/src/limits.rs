//! Every bound of this room, with its reason.

/// Classes of traffic: as many as Prism names (section 6), and few enough that every counter can be an array.
pub const CLASSES_MAX: usize = 31;

/// Longest name of a class: it is a label of metrics and a part of URLs.
pub const CLASS_NAME_BYTES_MAX: usize = 32;

/// One round of the ledger and one main period of every disk: long enough that a hard disk can order a useful number of requests,
/// short enough that a viewer's reservation follows his film.
pub const ROUND_NS: u64 = 1_000_000_000;

/// One sub-period of a disk: at its start the first interactive request may cut in (Prism, section 3.2). A person does not notice
/// 50 ms.
pub const SUB_PERIOD_NS: u64 = 50_000_000;
