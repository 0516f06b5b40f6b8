//! Publishes and removes titles, each with one commit of the catalogue.

use super::entry_name;
use super::inner::Inner;
use crate::catalogue::{TitleRecord, TitleRecordError};
use crate::commit::{Change, drop_member};
use crate::error::VolumeError;
use crate::fill::Filler;
use crate::limits::OBJECT_BYTES_MAX;
use std::sync::Arc;

impl Inner {
    pub(super) fn publish(&self, title: TitleRecord) -> Result<(), VolumeError> {
        title.check(&self.geometry, self.slots)?;
        for entry in &title.objects {
            let object = &entry.object;
            let own =
                object.bytes <= OBJECT_BYTES_MAX && object.hold.holds(&self.space, &object.all_extents());
            if !own || object.hold.is_published() {
                let rule = "one of its objects was not written for it to this volume";
                return Err(TitleRecordError { id: title.id, rule }.into());
            }
        }
        let _change = self.begin_change();
        let before = self.titles();
        if before.iter().any(|other| other.id == title.id) {
            return Err(VolumeError::TitleExists { id: title.id });
        }
        self.complete(&title)?;
        let title = Arc::new(title);
        let after: Vec<Arc<TitleRecord>> = before.iter().cloned().chain([Arc::clone(&title)]).collect();
        self.change_to(after, &title, true)
    }

    pub(super) fn remove(&self, id: &str) -> Result<(), VolumeError> {
        let _change = self.begin_change();
        let before = self.titles();
        let Some(title) = before.iter().find(|title| title.id == id).cloned() else {
            return Err(VolumeError::NoSuchTitle { id: id.to_owned() });
        };
        let after: Vec<Arc<TitleRecord>> = before.iter().filter(|other| other.id != id).cloned().collect();
        self.change_to(after, &title, false)
    }

    fn change_to(
        &self,
        after: Vec<Arc<TitleRecord>>,
        title: &TitleRecord,
        published: bool,
    ) -> Result<(), VolumeError> {
        let set_published =
            |to: bool| title.objects.iter().for_each(|entry| entry.object.hold.set_published(to));
        let done = self.committer.commit(&self.context(), after.iter().map(|title| &**title), Change::Titles);
        match done {
            Ok(()) => {
                set_published(published);
                *self.titles.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(after);
            }
            // Some members may have it already, so its slots stay taken until the volume is opened
            // again.
            Err(_) if self.committer.refusal().is_some() => set_published(true),
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
