//! Work on files of strangers: parsing, copying, drawing. It runs on threads of low priority, a few
//! at a time.

use crate::ControlPlane;
use crate::problem::Problem;
use reel_rt::spawn_background;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

impl ControlPlane {
    /// Does short work, such as a look at the structure of a file, when it has its turn.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        // Never closed.
        let turn = self.look_slots().acquire_owned().await;
        let turn = turn.map_err(|e| Problem::internal(format!("no turn: {e}")))?;
        in_background("reel-look", turn, work).await
    }
}

/// Does the work on a background thread, which keeps `turn` until its end, even if no client waits
/// for the result any more.
pub(super) async fn in_background<T: Send + 'static>(
    name: &str,
    turn: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let (sender, receiver) = oneshot::channel();
    let started = spawn_background(name, move || {
        // The one who waits may have left.
        let _ = sender.send(work());
        drop(turn);
    });
    started
        .map_err(|e| Problem::unavailable(format!("the system gives no thread: {e}")).retry_after_s(10))?;
    // A panic is in the log.
    receiver.await.map_err(|_| Problem::internal("the work was not finished; the log says why"))
}
