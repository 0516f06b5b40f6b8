//! Titles that are opened for READ, and kept open while they are read.

use super::NfsThread;
use crate::answer::{cannot_hold, cannot_read};
use crate::connection::{Asked, Reply, ReplyState};
use crate::handle::{Space, TitleKey};
use crate::limits::{LOST_FOR_NS, LOST_READS_MAX, OPENED_FOR_NS, OPENED_TITLES_MAX};
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
        let opening = self.openings.insert(Opening { key, id: id.clone(), replies: vec![reply] });
        self.opening.insert(key, opening);
        if let Err(refusal) = serve.open_title(opening, id) {
            self.note_opened(serve, opening, Err(refusal));
        }
    }

    /// A title was opened, or cannot be: the calls that wait for it are answered.
    pub(super) fn note_opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult) {
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

/// What a client is told of a title that cannot be opened. It asks again if the server only has no
/// time now.
fn status_of(refusal: &Refusal) -> nfsstat3 {
    match refusal {
        Refusal::NoSuchTitle { .. } => nfsstat3::NFS3ERR_STALE,
        Refusal::TooManyOpenings | Refusal::OpeningTooLong => nfsstat3::NFS3ERR_JUKEBOX,
        _ => nfsstat3::NFS3ERR_IO,
    }
}
