//! The titles that can be played.

use crate::{ControlPlane, Problem, on_blocking_thread};
use reel_library::TitleSummary;
use std::sync::Arc;

impl ControlPlane {
    /// All titles that can be played.
    pub(super) async fn playable_titles(&self) -> Result<Vec<Arc<TitleSummary>>, Problem> {
        let control = self.clone();
        let mut titles = on_blocking_thread(move || control.library().titles()).await?;
        let set_aside = self.sessions().set_aside();
        titles.retain(|title| title.problem.is_none() && !set_aside.contains_key(&title.id));
        Ok(titles)
    }

    /// The title with this id, if it can be played. May wait for a disk.
    pub(super) fn playable_title(&self, id: &str) -> Option<Arc<TitleSummary>> {
        let title = self.library().title(id).ok()?;
        let can_play = title.problem.is_none() && !self.sessions().set_aside().contains_key(id);
        can_play.then_some(title)
    }
}
