//! Titles that are opened for READ, and kept open while they are read.

use super::NfsThread;
use crate::answer::{cannot_hold, cannot_read};
use crate::connection::{Asked, Reply, ReplyState};
use crate::handle::{Space, TitleKey};
use crate::limits::{
    LOST_FOR_NS, LOST_READS_MAX, OPENED_FOR_NS, OPENED_TITLES_MAX, OPENING_AGAIN_FOR_NS, OPENING_AGAIN_NS,
};
use crate::nfs::ReadCall;
use crate::rpc::record;
use nfs3_types::nfs3::nfsstat3;
use reel_cache::{Body, Part};
use reel_play::{DeliveryPolicy, NewDelivery, Playable, PlayableTitle};
use reel_qos::Class;
use reel_serve::{OpenResult, Refusal, Serve};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A title that is being opened.
pub(super) struct Opening {
    key: TitleKey,
    pub(super) id: String,
    replies: Vec<u64>,
    attempts: Attempts,
}

/// The attempts to open a title.
struct Attempts {
    /// When the first one began.
    since_ns: u64,
    /// When the next one begins, if the last one has failed.
    again_ns: Option<u64>,
}

/// A read that was cut off, because some of its bytes can neither be read nor decoded.
pub(super) struct LostRead {
    key: TitleKey,
    range: Range<u64>,
    until_ns: u64,
}

/// A title that is open.
pub(super) struct Opened {
    title: Arc<PlayableTitle>,
    used_ns: u64,
}

impl NfsThread {
    /// Answers a call for which a title has to be open: now, or when it is.
    pub(super) fn await_title(&mut self, serve: &mut Serve<'_>, reply: u64, head: Vec<u8>, asked: Asked) {
        let title = match &asked {
            Asked::Nothing => return,
            Asked::Read(call) => &call.title,
            Asked::Hold(call) => &call.title,
        };
        let (key, id) = (title.key, title.id.clone());
        let Some(owed) = self.replies.get_mut(reply) else { return };
        let xid = owed.xid;
        owed.asked = asked.clone();
        if let Asked::Read(call) = &asked
            && self.is_lost(call)
        {
            return self.reply(serve, reply, &cannot_read(xid, nfsstat3::NFS3ERR_IO));
        }
        if let Some(opened) = self.opened.get_mut(&key) {
            opened.used_ns = serve.now_ns();
            let title = Arc::clone(&opened.title);
            return self.answer_with(serve, reply, (head, asked), &title);
        }
        self.note_owed(reply, head.len());
        self.set_state(reply, ReplyState::AwaitsTitle(head));
        if let Some(opening) = self.opening.get(&key).and_then(|opening| self.openings.get_mut(*opening)) {
            return opening.replies.push(reply);
        }
        let attempts = Attempts { since_ns: serve.now_ns(), again_ns: None };
        let opening = self.openings.insert(Opening { key, id, replies: vec![reply], attempts });
        self.opening.insert(key, opening);
        self.open(serve, opening);
    }

    fn open(&mut self, serve: &mut Serve<'_>, opening: u64) {
        let Some(id) = self.openings.get(opening).map(|opening| opening.id.clone()) else { return };
        if let Err(refusal) = serve.open_title(opening, id) {
            self.note_opened(serve, opening, Err(refusal));
        }
    }

    /// Opens titles again that the server had no time to open, if a client still waits for them.
    pub(super) fn open_again(&mut self, serve: &mut Serve<'_>) {
        let now_ns = serve.now_ns();
        for tag in self.openings.tokens(|opening| opening.attempts.is_next_due(now_ns)) {
            let Some(opening) = self.openings.get_mut(tag) else { continue };
            opening.replies.retain(|reply| self.replies.get(*reply).is_some());
            if opening.replies.is_empty() {
                let key = opening.key;
                self.openings.remove(tag);
                self.opening.remove(&key);
                continue;
            }
            opening.attempts.again_ns = None;
            self.open(serve, tag);
        }
    }

    /// A title was opened, or cannot be: the calls that wait for it are answered.
    pub(super) fn note_opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult) {
        if let (Err(refusal), Some(opening)) = (&result, self.openings.get_mut(tag))
            && !serve.is_draining()
            && opening.attempts.put_off(refusal, serve.now_ns())
        {
            self.shared.counters.openings_put_off.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(Opening { key, replies, .. }) = self.openings.remove(tag) else { return };
        self.opening.remove(&key);
        let found = result.map_err(|refusal| status_of(&refusal)).and_then(|title| of_edition(title, key));
        if let Ok(title) = &found {
            self.keep_open(key, Arc::clone(title), serve.now_ns());
        }
        for reply in replies {
            let Some(Reply { connection, xid, asked, state, .. }) = self.replies.get_mut(reply) else {
                continue;
            };
            let (connection, xid, asked) = (*connection, *xid, asked.clone());
            let ReplyState::AwaitsTitle(head) = state else { continue };
            let head = std::mem::take(head);
            match (&found, &asked) {
                (Ok(title), _) => self.answer_with(serve, reply, (head, asked), title),
                (Err(status), Asked::Hold(_)) => self.reply(serve, reply, &cannot_hold(xid, *status)),
                (Err(status), _) => {
                    self.shared.counters.failed_reads.fetch_add(1, Ordering::Relaxed);
                    self.reply(serve, reply, &cannot_read(xid, *status));
                }
            }
            self.wake(serve, connection);
        }
    }

    fn answer_with(
        &mut self,
        serve: &mut Serve<'_>,
        reply: u64,
        (head, asked): (Vec<u8>, Asked),
        title: &Arc<PlayableTitle>,
    ) {
        match asked {
            Asked::Nothing => {}
            Asked::Read(call) => self.send_title(serve, reply, &head, &call, title),
            Asked::Hold(call) => self.hold_place(serve, reply, &head, &call, title),
        }
    }

    /// Whether bytes of a read are known to be lost.
    fn is_lost(&self, call: &ReadCall) -> bool {
        let (key, range) = (call.title.key, range_of(call));
        let overlaps = |lost: &LostRead| lost.range.start < range.end && range.start < lost.range.end;
        self.lost.iter().any(|lost| lost.key == key && overlaps(lost))
    }

    /// A reply was cut off in the middle, because bytes are lost. The client asks again on another
    /// connection, and is told then.
    pub(super) fn note_lost(&mut self, read: &ReadCall, now_ns: u64) {
        if self.lost.len() >= LOST_READS_MAX {
            self.lost.remove(0);
        }
        let until_ns = now_ns.saturating_add(LOST_FOR_NS);
        self.lost.push(LostRead { key: read.title.key, range: range_of(read), until_ns });
    }

    /// Closes titles that were not read for a while. What was lost may be back.
    pub(super) fn forget_titles(&mut self, now_ns: u64) {
        self.lost.retain(|lost| lost.until_ns > now_ns);
        self.opened.retain(|_, opened| now_ns.saturating_sub(opened.used_ns) < OPENED_FOR_NS);
    }

    fn keep_open(&mut self, key: TitleKey, title: Arc<PlayableTitle>, now_ns: u64) {
        if self.opened.len() >= OPENED_TITLES_MAX {
            let oldest = self.opened.iter().min_by_key(|(_, opened)| opened.used_ns).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.opened.remove(&oldest));
        }
        self.opened.insert(key, Opened { title, used_ns: now_ns });
    }

    fn send_title(
        &mut self,
        serve: &mut Serve<'_>,
        reply: u64,
        head: &[u8],
        call: &ReadCall,
        title: &Arc<PlayableTitle>,
    ) {
        let Some(file) = title.file() else { return };
        let padding_bytes = call.bytes.next_multiple_of(4) - call.bytes;
        let range = range_of(call);
        let head: Arc<[u8]> = record(head, call.bytes + padding_bytes).into();
        self.note_owed(reply, head.len());
        let preamble_bytes = head.len() as u64;
        let body = Body::text(head).then(file.body.slice(range.clone()));
        let padding: Arc<[u8]> = Arc::from(&[0_u8; 3][..padding_bytes as usize]);
        let body = body.then(Body::new([Part::Bytes(padding, 0..padding_bytes as usize)]));
        let (policy, session) = match call.space {
            Space::Play | Space::Linked => self.terms(serve, reply, call, title),
            _ => (DeliveryPolicy::without_deadline(Class::APERIODIC), None),
        };
        self.deliver(serve, reply, |tag, path| NewDelivery {
            tag,
            session,
            policy,
            body,
            preamble_bytes,
            file_offset: range.start,
            in_runs: false,
            path,
        });
        let due_ns = self.delivery(reply).and_then(|delivery| serve.engine.due_ns(delivery, 0));
        let connection = self.replies.get(reply).map(|owed| owed.connection);
        if let Some(connection) = connection.and_then(|token| self.connections.get_mut(token)) {
            connection.due_ns = due_ns;
        }
    }
}

pub(super) fn range_of(call: &ReadCall) -> Range<u64> {
    call.offset..call.offset + u64::from(call.bytes)
}

/// The title, if it is still the one that the handle was made for.
fn of_edition(title: Arc<PlayableTitle>, key: TitleKey) -> Result<Arc<PlayableTitle>, nfsstat3> {
    let of_now = title.file().map(|file| {
        let title = title.title();
        TitleKey::new(title.id(), &title.file_stamp(file.body.bytes()))
    });
    if of_now == Some(key) { Ok(title) } else { Err(nfsstat3::NFS3ERR_STALE) }
}

impl Attempts {
    /// Whether the next one is due.
    fn is_next_due(&self, now_ns: u64) -> bool {
        self.again_ns.is_some_and(|again_ns| again_ns <= now_ns)
    }

    /// An attempt has failed. Returns whether there will be another one: if the server only had no
    /// time for it.
    fn put_off(&mut self, refusal: &Refusal, now_ns: u64) -> bool {
        let is_over = now_ns.saturating_sub(self.since_ns) >= OPENING_AGAIN_FOR_NS;
        let is_put_off = is_for_now(refusal) && !is_over;
        self.again_ns = is_put_off.then(|| now_ns.saturating_add(OPENING_AGAIN_NS));
        is_put_off
    }
}

/// Whether the title can presumably be opened soon.
fn is_for_now(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::TooManyOpenings | Refusal::OpeningTooLong)
}

/// What a client is told of a title that cannot be opened.
///
/// `NFS3ERR_JUKEBOX` has a client wait and ask again (RFC 1813, section 2.6), as kernels do. libnfs
/// does not ask again: for players the film would be over. So their calls wait here, and this is
/// only for those that have waited as long as any client does.
fn status_of(refusal: &Refusal) -> nfsstat3 {
    match refusal {
        Refusal::NoSuchTitle { .. } => nfsstat3::NFS3ERR_STALE,
        refusal if is_for_now(refusal) => nfsstat3::NFS3ERR_JUKEBOX,
        _ => nfsstat3::NFS3ERR_IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_serve::limits::OPENING_TIME_MAX_NS;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Tries to open a title from second 5 on. Each attempt takes so long and fails. Returns when
    /// it is given up, in nanoseconds since the first one began, and how many there were.
    fn given_up(refusal: &Refusal, takes_ns: u64) -> (u64, usize) {
        let since_ns = 5 * SECOND_NS;
        let mut attempts = Attempts { since_ns, again_ns: None };
        let (mut now_ns, mut count) = (since_ns, 0);
        loop {
            (now_ns, count) = (now_ns + takes_ns, count + 1);
            if !attempts.put_off(refusal, now_ns) {
                assert!(!attempts.is_next_due(u64::MAX), "there is no other one");
                return (now_ns - since_ns, count);
            }
            assert!(!attempts.is_next_due(now_ns + OPENING_AGAIN_NS - 1));
            now_ns += OPENING_AGAIN_NS;
            assert!(attempts.is_next_due(now_ns));
        }
    }

    #[test]
    fn titles_for_which_there_is_no_time_are_opened_again_while_clients_wait() {
        // No client gives up, or asks again, within a minute.
        let (after_ns, count) = given_up(&Refusal::OpeningTooLong, OPENING_TIME_MAX_NS);
        assert!(after_ns < 60 * SECOND_NS && count >= 4, "{count} in {after_ns} ns");
        let (after_ns, count) = given_up(&Refusal::TooManyOpenings, 0);
        assert!((OPENING_AGAIN_FOR_NS..60 * SECOND_NS).contains(&after_ns) && count > 40, "{count}");
    }

    #[test]
    fn what_time_does_not_repair_is_told_at_once() {
        let title = || "film".to_owned();
        for (refusal, status) in [
            (Refusal::NoSuchTitle { title: title() }, nfsstat3::NFS3ERR_STALE),
            (Refusal::Unreadable { reason: title() }, nfsstat3::NFS3ERR_IO),
            (Refusal::SetAside { title: title() }, nfsstat3::NFS3ERR_IO),
        ] {
            assert_eq!(given_up(&refusal, SECOND_NS), (SECOND_NS, 1), "{refusal}");
            assert_eq!(status_of(&refusal), status);
        }
        assert_eq!(status_of(&Refusal::OpeningTooLong), nfsstat3::NFS3ERR_JUKEBOX);
    }
}
