//! Publishes, replaces and removes titles, each with one commit of the catalogue.

use super::entry_name;
use super::inner::Inner;
use crate::catalogue::{ObjectEntry, TitleRecord, TitleRecordError};
use crate::commit::{Change, drop_member};
use crate::error::VolumeError;
use crate::fill::Filler;
use crate::limits::OBJECT_BYTES_MAX;
use reel_disk::DiskError;
use std::sync::Arc;

impl Inner {
    pub(super) fn publish(&self, title: TitleRecord) -> Result<(), VolumeError> {
        self.check_new(&title)?;
        let _change = self.begin_change();
        let before = self.titles();
        if before.iter().any(|other| other.id == title.id) {
            return Err(VolumeError::TitleExists { id: title.id });
        }
        self.complete(&title)?;
        let title = Arc::new(title);
        let after = before.iter().cloned().chain([Arc::clone(&title)]).collect();
        self.change_to(after, Some(&title), None)
    }

    pub(super) fn publish_over(&self, title: TitleRecord) -> Result<(), VolumeError> {
        self.check_new(&title)?;
        let _change = self.begin_change();
        let before = self.titles();
        let Some(old) = before.iter().find(|other| other.id == title.id).cloned() else {
            return Err(VolumeError::NoSuchTitle { id: title.id });
        };
        self.complete(&title)?;
        let title = Arc::new(title);
        let new_of = |other: &Arc<TitleRecord>| Arc::clone(if other.id == title.id { &title } else { other });
        self.change_to(before.iter().map(new_of).collect(), Some(&title), Some(&old))
    }

    /// Whether the objects of a title were written for it.
    fn check_new(&self, title: &TitleRecord) -> Result<(), VolumeError> {
        title.check(&self.geometry, self.slots)?;
        for entry in &title.objects {
            let object = &entry.object;
            let own =
                object.bytes <= OBJECT_BYTES_MAX && object.hold.holds(&self.space, &object.all_extents());
            if !own || object.hold.is_published() {
                let rule = "one of its objects was not written for it to this volume";
                return Err(TitleRecordError { id: title.id.clone(), rule }.into());
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, id: &str) -> Result<(), VolumeError> {
        let _change = self.begin_change();
        let before = self.titles();
        let Some(title) = before.iter().find(|title| title.id == id).cloned() else {
            return Err(VolumeError::NoSuchTitle { id: id.to_owned() });
        };
        let after = before.iter().filter(|other| other.id != id).cloned().collect();
        self.change_to(after, None, Some(&title))
    }

    pub(super) fn rename(&self, id: &str, name: &str) -> Result<(), VolumeError> {
        let _change = self.begin_change();
        let before = self.titles();
        let Some(old) = before.iter().find(|title| title.id == id) else {
            return Err(VolumeError::NoSuchTitle { id: id.to_owned() });
        };
        let title = TitleRecord { name: name.to_owned(), ..TitleRecord::clone(old) };
        title.check(&self.geometry, self.slots)?;
        let title = Arc::new(title);
        let new_of = |other: &Arc<TitleRecord>| Arc::clone(if other.id == id { &title } else { other });
        // Its objects are published, and stay so.
        self.change_to(before.iter().map(new_of).collect(), None, None)
    }

    pub(super) fn replace_objects(
        &self,
        of: &TitleRecord,
        objects: Vec<ObjectEntry>,
    ) -> Result<(), VolumeError> {
        let new = TitleRecord { objects, ..of.clone() };
        self.check_new(&new)?;
        let _change = self.begin_change();
        let before = self.titles();
        let Some(old) = before.iter().find(|title| title.id == of.id) else {
            return Err(VolumeError::NoSuchTitle { id: of.id.clone() });
        };
        // Both hold their slots, so equal places are the same bytes.
        if old.objects != of.objects {
            return Err(VolumeError::TitleChanged { id: of.id.clone() });
        }
        let replaced = |old: &ObjectEntry| {
            new.objects.iter().any(|new| (new.role, new.number) == (old.role, old.number))
        };
        let (gone, kept): (Vec<_>, Vec<_>) = old.objects.iter().cloned().partition(replaced);
        let gone = TitleRecord { objects: gone, ..of.clone() };
        let objects = kept.into_iter().chain(new.objects.iter().cloned()).collect();
        let title = TitleRecord { objects, ..TitleRecord::clone(old) };
        title.check(&self.geometry, self.slots)?;
        self.complete(&new)?;
        let title = Arc::new(title);
        let new_of = |other: &Arc<TitleRecord>| Arc::clone(if other.id == of.id { &title } else { other });
        self.change_to(before.iter().map(new_of).collect(), Some(&new), Some(&gone))
    }

    fn change_to(
        &self,
        after: Vec<Arc<TitleRecord>>,
        new: Option<&TitleRecord>,
        old: Option<&TitleRecord>,
    ) -> Result<(), VolumeError> {
        let set_published = |title: Option<&TitleRecord>, to: bool| {
            let objects = title.into_iter().flat_map(|title| &title.objects);
            objects.for_each(|entry| entry.object.hold.set_published(to));
        };
        let done = self.committer.commit(&self.context(), after.iter().map(|title| &**title), Change::Titles);
        match done {
            Ok(()) => {
                set_published(new, true);
                set_published(old, false);
                *self.titles.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(after);
            }
            // Some members may have it already, so its slots stay taken until the volume is opened
            // again.
            Err(_) if self.committer.refusal().is_some() => {
                set_published(new, true);
                set_published(old, true);
            }
            Err(_) => {}
        }
        done
    }

    /// Completes the objects of a title on members that came into use while the objects were
    /// written and so miss earlier parts. If these cannot be computed because another member failed
    /// meanwhile, the title must not be published: a member in use would not hold all of it.
    fn complete(&self, title: &TitleRecord) -> Result<(), VolumeError> {
        let lives = self.health.lives();
        for member in (0..self.geometry.members()).filter(|&member| self.health.readable(member)) {
            let incomplete =
                title.objects.iter().filter(|entry| entry.object.hold.may_be_missing_on(member, &lives));
            let mut filler = Filler::new(self, member);
            for entry in incomplete {
                let filled = filler.object(&entry.object, &entry_name(title, entry), &mut |_| true);
                if let Err(error) = filled {
                    if let VolumeError::Disk { source, .. } = &error
                        && (matches!(source, DiskError::Withheld) || source.is_no_space())
                    {
                        return Err(error);
                    }
                    if let Some(reason) = self.health.stuck() {
                        return Err(VolumeError::ReadOnly { reason });
                    }
                    // Data is missing on it, so it is not in sync with the next commit.
                    drop_member(&self.health, &self.counters, (member, lives[member]), &error.to_string());
                    break;
                }
            }
            if self.health.readable(member) && filler.filled.lost_rows > 0 {
                return Err(VolumeError::MembersFailed {
                    failed: self.health.lost() + 1,
                    members: self.geometry.members(),
                    tolerated: self.geometry.parity_rows(),
                    last: format!(
                        "member {member} does not have a part of {}, written while it was missing",
                        title.id
                    ),
                });
            }
        }
        Ok(())
    }
}
