//! The readers of one client, as the server's front end for NFS knows them, and the terms of their
//! reads. What a read is part of is decided by the server's own code. Its few steps from there to
//! the engine (`reel_nfs`, `service/playing.rs`) are repeated here.

use crate::core::Core;
use crate::scale::OBJECT_SCALE;
use crate::sessions::{ClientSession, ClientSessions};
use crate::title::Title;
use reel_nfs::limits::{READER_IDLE_NS, REFUSED_AGAIN_NS};
use reel_nfs::{Reader, Reading};
use reel_play::{DeliveryPolicy, Form, MediaRequest};
use reel_qos::Class;
use std::ops::Range;
use std::sync::Arc;

/// All readers of one client.
#[derive(Default)]
pub(super) struct NfsReaders(Vec<Watched>);

/// A title that the client reads, and what it is promised for it.
struct Watched {
    title: usize,
    reader: Reader,
    place: Place,
    last_ns: u64,
}

enum Place {
    /// Nothing yet: nothing shows that it plays.
    None,
    /// Its deadlines.
    Promised(ClientSession),
    /// Nothing. It is tried again at a time.
    Refused(u64),
}

/// How a read is delivered, and why.
pub(super) struct Terms {
    pub(super) policy: DeliveryPolicy,
    pub(super) session: Option<ClientSession>,
    pub(super) standing: Standing,
}

/// How a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing shows that it plays.
    Looks,
    /// It reads more than a look, where nothing is played.
    Copies,
    /// What it reads is reserved.
    Admitted,
    /// It has a session, and waits for its start.
    Waits,
    /// It has a session, and there was no room where it jumped to.
    Displaced,
    /// It has a session, and has read more than a viewer plays.
    Beyond,
    /// It has no session, because there is no room.
    Refused,
}

impl NfsReaders {
    /// The terms of a read of a title.
    pub(super) fn terms(
        &mut self,
        (core, sessions): (&mut Core, &mut ClientSessions),
        (client, title): (u32, &Arc<Title>),
        range: &Range<u64>,
        now_ns: u64,
    ) -> Terms {
        self.forget(sessions, now_ns);
        let watched = self.watched(title.number, now_ns);
        // The server's limits are those of real bytes.
        let real = range.start * OBJECT_SCALE..range.end * OBJECT_SCALE;
        let media_ns = |offset| title.best().media_ns(offset / OBJECT_SCALE);
        let position = match watched.reader.reads(&real, media_ns, now_ns) {
            Reading::Looks => return Terms::looks(),
            Reading::Copies => return Terms::unpromised(Standing::Copies),
            Reading::Plays { position } => position / OBJECT_SCALE,
        };
        let place = std::mem::replace(&mut watched.place, Place::None);
        watched.place = promised(sessions, place, (client, title), now_ns);
        let Place::Promised(session) = &watched.place else { return Terms::unpromised(Standing::Refused) };
        let request = MediaRequest::Read { range: range.clone(), position };
        match core.engine.policy(session, &request, now_ns) {
            Ok(policy) if policy.start_ns > now_ns => Terms::unpromised(Standing::Waits),
            Ok(policy) => Terms::of(policy, session),
            Err(_) => {
                sessions.close(session);
                watched.place = Place::Refused(now_ns + REFUSED_AGAIN_NS);
                Terms::unpromised(Standing::Refused)
            }
        }
    }

    fn watched(&mut self, title: usize, now_ns: u64) -> &mut Watched {
        let at = self.0.iter().position(|watched| watched.title == title).unwrap_or_else(|| {
            let reader = Reader::default();
            self.0.push(Watched { title, reader, place: Place::None, last_ns: now_ns });
            self.0.len() - 1
        });
        self.0[at].last_ns = now_ns;
        &mut self.0[at]
    }

    /// Forgets titles that were not read for long, and ends their sessions.
    fn forget(&mut self, sessions: &ClientSessions, now_ns: u64) {
        self.0.retain(|watched| {
            let is_gone = now_ns - watched.last_ns >= READER_IDLE_NS;
            if let (Place::Promised(session), true) = (&watched.place, is_gone) {
                sessions.close(session);
            }
            !is_gone
        });
    }
}

impl Terms {
    fn looks() -> Terms {
        Terms { policy: DeliveryPolicy::interactive(), session: None, standing: Standing::Looks }
    }

    fn unpromised(standing: Standing) -> Terms {
        Terms { policy: DeliveryPolicy::without_deadline(Class::APERIODIC), session: None, standing }
    }

    fn of(policy: DeliveryPolicy, session: &ClientSession) -> Terms {
        let standing = match policy.class {
            _ if policy.is_displaced => Standing::Displaced,
            Class::APERIODIC => Standing::Beyond,
            _ => Standing::Admitted,
        };
        Terms { policy, session: Some(Arc::clone(session)), standing }
    }
}

/// What a reader is promised from now on, if it was promised `before`.
fn promised(
    sessions: &mut ClientSessions,
    before: Place,
    (client, title): (u32, &Arc<Title>),
    now_ns: u64,
) -> Place {
    match before {
        Place::Refused(again_ns) if again_ns > now_ns => return before,
        Place::Promised(session) if sessions.touch(&session, now_ns) => return Place::Promised(session),
        _ => {}
    }
    match sessions.open(client, (title, Form::File), now_ns) {
        Ok(session) => Place::Promised(session),
        Err(_) => Place::Refused(now_ns + REFUSED_AGAIN_NS),
    }
}
