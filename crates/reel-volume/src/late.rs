//! What a member that was missing holds, by its own last catalogue.
//!
//! While a member is in sync, everything that the catalogue names is durable on it before it gets
//! the catalogue. Objects never change, and nothing is written to a member that is out. So of the
//! titles in force, it lacks those that its own catalogue does not name: that catalogue is the log
//! of what must be written to bring the member back.

use std::collections::HashMap;

use crate::catalogue::{ObjectRecord, TitleRecord, decode_body};
use crate::members::OpenMember;

/// A member that is present and not in sync, and the titles that it holds.
pub(crate) struct Late {
    /// By the id of a title: when it was published, and its objects.
    titles: HashMap<String, (u64, Vec<ObjectRecord>)>,
    /// Whether it was only missing, so that it may be brought back without being told to. A member
    /// that was put back, or is of a copy of the volume, may be wanted as it is.
    pub(crate) was_missing: bool,
}

impl Late {
    /// What a member holds by the best catalogue on it; `None` if it has none that was in force.
    pub(crate) fn of(member: &OpenMember, area: usize, was_missing: bool) -> Option<Late> {
        let copy = member.areas[area].as_ref()?;
        let was_in_sync = copy.header.sealed && copy.header.in_sync.has(member.superblock.index);
        let records = decode_body(&copy.body).ok().filter(|_| was_in_sync)?;
        let objects = |record: TitleRecord| {
            let objects = record.objects.into_iter().map(|entry| entry.object);
            (record.id, (record.added_unix_s, objects.collect()))
        };
        Some(Late { titles: records.into_iter().map(objects).collect(), was_missing })
    }

    /// Whether it holds an object of a title: the same one, at the same place, with the same
    /// checksums.
    pub(crate) fn holds(&self, title: &TitleRecord, object: &ObjectRecord) -> bool {
        self.titles
            .get(&title.id)
            .is_some_and(|(added_unix_s, own)| *added_unix_s == title.added_unix_s && own.contains(object))
    }
}
