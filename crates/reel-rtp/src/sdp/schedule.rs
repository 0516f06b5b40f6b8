//! The schedule of a broadcast, in attributes of the description.
//!
//! ```text
//! a=x-reel-schedule:SCHEME SLOT_NS EPOCH MATRIX PACKETS    EPOCH: slot 0 in NTP, 16 hex digits
//! a=x-reel-sources:SSRC,SSRC,...                           the source of each channel, in hex
//! a=x-reel-stamps:STAMP,STAMP,...                          of each channel at slot 0, in hex
//! a=x-reel-segments:0,7,14,...                             the first matrix of each segment
//! a=x-reel-from:SLOT                                       the first slot that is sent
//! ```
//! In slot s, channel c sends the segment that the scheme's table says, as whole matrices of the
//! title: from the first one to that in which the next segment begins. Packet j of N leaves at the
//! time `(s + j / (N + MATRIX)) * SLOT_NS` after slot 0, and its time stamp says so. Packets of
//! other sources are not of this broadcast.

use crate::NtpTime;
use crate::limits::{SDP_MEDIA_MAX, SDP_SEGMENTS_MAX, SDP_SLOT_NS_MAX, SDP_SLOT_NS_MIN, SDP_SYMBOLS_MAX};
use std::ops::Range;

/// What clients need to know of the schedule of a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSchedule {
    /// The name of the scheme, one word.
    pub scheme: String,
    /// The length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// When slot 0 began, or would have begun.
    pub epoch: NtpTime,
    /// Packets of a matrix (L x D).
    pub matrix_packets: u64,
    /// Transport packets of the title. What follows them in its last matrix are null packets.
    pub packets: u64,
    /// The source (SSRC) of each channel. Another one sends something else.
    pub sources: Vec<u32>,
    /// The time stamp of each channel at the beginning of slot 0.
    pub time_stamps: Vec<u32>,
    /// The first matrix of each segment. The first one is 0.
    pub first_matrices: Vec<u64>,
    /// The first slot that is sent. Clients join with this one or a later one.
    pub first_slot: u64,
}

/// Transport packets in a packet of RTP.
const PACKETS_OF_SYMBOL: u64 = 7;

impl SlotSchedule {
    /// Matrices of the title.
    #[must_use]
    pub fn matrices(&self) -> u64 {
        self.packets.div_ceil(PACKETS_OF_SYMBOL * self.matrix_packets.max(1))
    }

    /// The matrices of a segment (from 1); `None` if there is no such segment.
    #[must_use]
    pub fn segment(&self, segment: u32) -> Option<Range<u64>> {
        let at = usize::try_from(segment).ok()?.checked_sub(1)?;
        let first = *self.first_matrices.get(at)?;
        let end = self.first_matrices.get(at + 1).map_or(self.matrices(), |next| next + 1);
        Some(first..end.min(self.matrices()))
    }

    /// The attributes that describe it, without `a=`.
    #[must_use]
    pub fn attributes(&self) -> Vec<String> {
        let Self { scheme, slot_ns, epoch, matrix_packets, packets, .. } = self;
        let hex = |numbers: &[u32]| {
            let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:08x}")).collect();
            numbers.join(",")
        };
        let firsts: Vec<String> = self.first_matrices.iter().map(u64::to_string).collect();
        vec![
            format!("{SCHEDULE}:{scheme} {slot_ns} {:016x} {matrix_packets} {packets}", epoch.0),
            format!("{SOURCES}:{}", hex(&self.sources)),
            format!("{STAMPS}:{}", hex(&self.time_stamps)),
            format!("{SEGMENTS}:{}", firsts.join(",")),
            format!("{FROM}:{}", self.first_slot),
        ]
    }
}

const SCHEDULE: &str = "x-reel-schedule";
const SOURCES: &str = "x-reel-sources";
const STAMPS: &str = "x-reel-stamps";
const SEGMENTS: &str = "x-reel-segments";
const FROM: &str = "x-reel-from";

/// The attributes of a schedule, as they were found.
#[derive(Debug, Default)]
pub(super) struct Attributes<'a> {
    schedule: Option<&'a str>,
    sources: &'a str,
    stamps: &'a str,
    segments: &'a str,
    from: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// Takes an attribute if it is one of a schedule.
    pub(super) fn take(&mut self, name: &str, value: &'a str) {
        match name {
            SCHEDULE => self.schedule = Some(value),
            SOURCES => self.sources = value,
            STAMPS => self.stamps = value,
            SEGMENTS => self.segments = value,
            FROM => self.from = Some(value),
            _ => {}
        }
    }

    /// The schedule of so many channels, if there is one.
    pub(super) fn read(&self, channels: usize) -> Result<Option<SlotSchedule>, &'static str> {
        let Some(schedule) = self.schedule else { return Ok(None) };
        let words: Vec<&str> = schedule.split_ascii_whitespace().collect();
        let [scheme, slot_ns, epoch, matrix_packets, packets] = words[..] else {
            return Err("its schedule has not five parts");
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| "its schedule has a number that is none");
        let hex = |text| list(text, SDP_MEDIA_MAX, |text| u32::from_str_radix(text, 16).ok());
        let first_matrices = list(self.segments, SDP_SEGMENTS_MAX, |text| text.parse().ok());
        let schedule = SlotSchedule {
            scheme: scheme.to_owned(),
            slot_ns: number(slot_ns)?,
            epoch: NtpTime(u64::from_str_radix(epoch, 16).map_err(|_| "its epoch is no time of NTP")?),
            matrix_packets: number(matrix_packets)?,
            packets: number(packets)?,
            sources: hex(self.sources).ok_or(NO_SOURCES)?,
            time_stamps: hex(self.stamps).ok_or("its time stamps are not a list")?,
            first_matrices: first_matrices.ok_or("its segments are not a list")?,
            first_slot: self.from.map_or(Ok(0), |slot| number(slot.trim()))?,
        };
        schedule.check(channels).map(|()| Some(schedule))
    }
}

impl SlotSchedule {
    fn check(&self, channels: usize) -> Result<(), &'static str> {
        let must = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
        must((SDP_SLOT_NS_MIN..=SDP_SLOT_NS_MAX).contains(&self.slot_ns), SLOT_LENGTH)?;
        must((1..=1024).contains(&self.matrix_packets), "its matrices are empty or too large")?;
        let symbols = self.matrices().saturating_mul(self.matrix_packets);
        must(self.packets > 0 && symbols <= SDP_SYMBOLS_MAX, "it is empty or too long")?;
        must(self.sources.len() == channels, NO_SOURCES)?;
        must(self.time_stamps.len() == channels, "it has not one time stamp for each channel")?;
        let firsts = &self.first_matrices;
        must(firsts.first() == Some(&0), "its first segment is not at the beginning")?;
        let in_order = firsts.windows(2).all(|pair| pair[0] <= pair[1]);
        must(in_order && *firsts.last().unwrap_or(&0) < self.matrices(), "its segments are not in order")
    }
}

const SLOT_LENGTH: &str = "its slots are shorter than 0.1 s or longer than 6 h";

const NO_SOURCES: &str = "it has not one source for each channel; get the description again from the server";

fn list<T>(text: &str, most: usize, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let items: Vec<T> = text.trim().split(',').take(most + 1).map(read).collect::<Option<_>>()?;
    (items.len() <= most).then_some(items)
}
