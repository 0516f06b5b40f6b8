//! What a panic of one request ends.

use super::HttpThread;
use reel_serve::{Serve, Step};

impl HttpThread {
    /// The title that the request of a step is about.
    pub(super) fn title_of_step(&self, step: Step) -> Option<String> {
        let connection = self.connections.get(self.token_of(step)?)?;
        connection.about.as_ref().map(|about| about.title.clone())
    }

    /// Ends the connection of a step that has panicked, with its deliveries and its session. With
    /// TLS, the buffers in which all connections of the thread seal may be half changed as well.
    pub(super) fn end_step(&mut self, serve: &mut Serve<'_>, step: Step) -> bool {
        let Some(token) = self.token_of(step) else { return false };
        // The connection may be gone already, and its delivery not.
        let session = match self.connections.get_mut(token) {
            Some(connection) if connection.secure.is_some() => return false,
            Some(connection) => {
                _ = connection.cut_off();
                connection.about.take().and_then(|about| about.session)
            }
            None => None,
        };
        self.close(serve, token);
        serve.engine.close_tagged(token);
        if let Some(key) = session {
            serve.parts().sessions.close(&key);
        }
        true
    }

    fn token_of(&self, step: Step) -> Option<u64> {
        match step {
            Step::Done(token) | Step::Delivery(token) | Step::Opened(token) => Some(token),
            Step::Task(task) => self.of_task.get(task.index()).copied(),
        }
    }
}
