//! Readers that play: their sessions, and the terms of their reads.

use super::NfsThread;
use super::reading::range_of;
use crate::answer::cannot_hold;
use crate::nfs::{HoldCall, ReadCall};
use crate::reader::Reading;
use crate::readers::{Place, ReaderKey, Standing};
use nfs3_types::nfs3::nfsstat3;
use reel_admit::{OpenRefused, Session};
use reel_play::{DeliveryPolicy, Form, MediaRequest, Playable, PlayableTitle};
use reel_qos::Class;
use reel_serve::{Refusal, Serve};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a read is delivered, and the session that it belongs to.
type Terms = (DeliveryPolicy, Option<Arc<Session<PlayableTitle>>>);

/// Why no further place is held for an address.
const TOO_MANY_HELD: &str =
    "as many places are held for this address as one may have; read what they are for, or wait 10 s";

impl NfsThread {
    /// The terms of a read of a title that may be played. A reader that is not admitted gets its
    /// bytes all the same, as there is room.
    pub(super) fn terms(
        &mut self,
        serve: &mut Serve<'_>,
        reply: u64,
        call: &ReadCall,
        title: &Arc<PlayableTitle>,
    ) -> Terms {
        let unpromised = (DeliveryPolicy::without_deadline(Class::APERIODIC), None);
        let (now_ns, range) = (serve.now_ns(), range_of(call));
        let (Some(key), Some(file)) = (self.reader_of(reply, call.user, call.title.key), title.file()) else {
            return unpromised;
        };
        let Some(watched) = self.readers.reads(key, now_ns) else { return unpromised };
        let end_ns = title.title().index().duration_ns;
        let media_ns = |offset| file.media_ns(offset, end_ns);
        let reading = watched.reader.reads(&range, media_ns, now_ns);
        let position = match reading {
            Reading::Looks if self.readers.may_look(key.client, range.end - range.start, now_ns) => {
                return (DeliveryPolicy::interactive(), None);
            }
            Reading::Looks | Reading::Copies => return unpromised,
            Reading::Plays { position } => position,
        };
        if serve.is_draining() {
            return unpromised;
        }
        let Some(watched) = self.readers.get_mut(key) else { return unpromised };
        let before = std::mem::take(&mut watched.place);
        let was = before.standing();
        let place = promised(serve, before, (key, call.title.id.as_str()), title);
        let Some(session) = place.session().cloned() else {
            self.settle((key, was), place);
            return unpromised;
        };
        let request = MediaRequest::Read { range, position };
        match serve.engine.policy(&session, &request, now_ns) {
            // It plays already, so it does not wait for the start of its session.
            Ok(policy) if policy.start_ns > now_ns => {
                self.settle((key, was), place);
                unpromised
            }
            Ok(policy) => {
                self.settle((key, was), place);
                (policy, Some(session))
            }
            Err(refusal) => {
                self.settle((key, was), Place::refused(OpenRefused::from(refusal), now_ns));
                unpromised
            }
        }
    }

    /// Holds a place for a reader that will play a title, and answers with where it is.
    pub(super) fn hold_place(
        &mut self,
        serve: &mut Serve<'_>,
        reply: u64,
        head: &[u8],
        call: &HoldCall,
        title: &Arc<PlayableTitle>,
    ) {
        let (now_ns, id) = (serve.now_ns(), call.title.id.as_str());
        let Some(key) = self.reader_of(reply, call.user, call.title.key) else { return };
        let Some(xid) = self.replies.get(reply).map(|owed| owed.xid) else { return };
        let may_hold = self.readers.may_hold(key);
        let is_held = !serve.is_draining()
            && self.readers.reads(key, now_ns).is_some_and(|watched| {
                // A link is read for every opening, also by a reader that plays already.
                let waits = !matches!(watched.place, Place::Promised(_));
                let before = match std::mem::take(&mut watched.place) {
                    // The one that asks for a place is told of now.
                    Place::Refused(..) => Place::None,
                    before => before,
                };
                watched.place = match before {
                    Place::None if !may_hold => Place::refused(TOO_MANY_HELD, now_ns),
                    before => match promised(serve, before, (key, id), title) {
                        Place::Promised(session) if waits => Place::held(session, now_ns),
                        place => place,
                    },
                };
                let is_held = watched.place.session().is_some();
                if is_held && waits {
                    watched.reader.expect();
                }
                is_held
            });
        if is_held {
            self.shared.counters.held.fetch_add(1, Ordering::Relaxed);
            return self.reply(serve, reply, head);
        }
        self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.reply(serve, reply, &cannot_hold(xid, nfsstat3::NFS3ERR_ACCES));
    }

    /// Who waits for a reply.
    fn reader_of(&self, reply: u64, user: u32, title: crate::handle::TitleKey) -> Option<ReaderKey> {
        let connection = self.connections.get(self.replies.get(reply)?.connection)?;
        Some(ReaderKey { client: connection.client.to_canonical(), user, title })
    }

    /// Notes what a reader is promised from now on, and counts it if that has changed.
    fn settle(&mut self, (key, was): (ReaderKey, Standing), place: Place) {
        let counters = &self.shared.counters;
        match place.standing() {
            is if is == was => 0,
            Standing::Unknown => 0,
            Standing::Admitted => counters.admitted.fetch_add(1, Ordering::Relaxed),
            Standing::Refused => counters.refused.fetch_add(1, Ordering::Relaxed),
        };
        if let Some(watched) = self.readers.get_mut(key) {
            watched.place = place;
        }
    }
}

/// What a reader is promised from now on, if it was promised `before`.
fn promised(
    serve: &Serve<'_>,
    before: Place,
    (key, id): (ReaderKey, &str),
    title: &Arc<PlayableTitle>,
) -> Place {
    let now_ns = serve.now_ns();
    match before {
        Place::Refused(_, again_ns) if again_ns > now_ns => return before,
        Place::Promised(session) | Place::Held(session, _)
            if serve.parts().sessions.touch(&session.key(), now_ns).is_some() =>
        {
            return Place::Promised(session);
        }
        // Its client was silent for too long, or the session was closed.
        _ => {}
    }
    let client = serve.session_client(key.client, Class::PERIODIC);
    match serve.opener().session(id, Arc::clone(title), Form::File, client, now_ns) {
        Ok(session) => Place::Promised(session),
        Err(Refusal::Session(refused)) => Place::refused(refused, now_ns),
        Err(refusal) => Place::refused(refusal, now_ns),
    }
}
