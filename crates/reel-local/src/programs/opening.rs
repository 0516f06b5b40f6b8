//! How a program's stream begins, or why it is refused.

use super::playing::Playing;
use super::{Named, PROGRAM_STREAMS_MAX, Programs, StreamId};
use crate::limits::PROGRAM_MEMORY_SHARE;
use crate::outlet::MappedOutlet;
use reel_admit::{Client, OpenRefused};
use reel_cache::limits::SEND_BYTES_MAX;
use reel_client::{RefusalCode, Reply, say};
use reel_play::{Form, MediaRequest, Playable, PlayableTitle, SessionRefused};
use reel_serve::streams::Opening as StreamOpening;
use reel_serve::{LIVE, OpenResult, Refusal, Serve};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The class of a program that names none.
const PERIODIC: &str = "periodic";

/// A program's request.
pub(super) struct Wanted {
    /// The program's token.
    pub(super) program: u64,
    pub(super) tag: u64,
    pub(super) from_bytes: u64,
    pub(super) title: String,
    pub(super) class: String,
    /// The set that it is to be in step with, by the name of its first stream.
    pub(super) step: Option<u64>,
}

/// Why a stream is not opened, and after how many seconds to ask again.
#[derive(Clone)]
pub(super) struct Refused(pub(super) RefusalCode, pub(super) u64, pub(super) String);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let more = match &refusal {
            Refusal::Session(SessionRefused::TooLong) => "; request it in class aperiodic",
            _ => "",
        };
        let code = match &refusal {
            Refusal::NoSuchTitle { .. } | Refusal::NoSuchForm { .. } => RefusalCode::NoSuchTitle,
            Refusal::NoSuchClass { .. }
            | Refusal::ClassOfOthers { .. }
            | Refusal::KeyOfTitle { .. }
            | Refusal::KeyOfClass { .. }
            | Refusal::KeyOfClient
            | Refusal::KeyOfUser => RefusalCode::BadRequest,
            Refusal::TooManyOpenings | Refusal::TooManyMerged { .. } | Refusal::OpeningTooLong => {
                RefusalCode::Unavailable
            }
            Refusal::Session(refused) if refused.is_too_long() => RefusalCode::TooLong,
            Refusal::Session(_) => RefusalCode::NotAdmitted,
            Refusal::Unreadable { .. } | Refusal::Panicked { .. } | Refusal::SetAside { .. } => {
                RefusalCode::Other
            }
        };
        Refused(code, refusal.retry_after_s(), format!("{refusal}{more}"))
    }
}

impl Programs {
    /// Has a title opened on another thread. [`Programs::begin_opened`] continues.
    pub(super) fn open(&mut self, serve: &mut Serve<'_>, wanted: Wanted) {
        if let Err(refused) = self.reserve_name(wanted.program, wanted.tag) {
            // The name stays with the stream that has it, although that may still be opening.
            return self.say_refused(wanted.program, wanted.tag, refused);
        }
        let (token, tag, title) = (wanted.program, wanted.tag, wanted.title.clone());
        if let Some(name) = title.strip_prefix(LIVE) {
            // Nothing is read for it, so it is open at once.
            if let Err(refused) = self.begin_live(serve, &wanted, name) {
                self.refuse(token, tag, refused);
            }
            return;
        }
        let stream = self.openings.insert(wanted);
        if let Err(refusal) = serve.open_title(stream, title) {
            self.openings.remove(stream);
            self.refuse(token, tag, refusal.into());
        }
    }

    /// Notes that a stream of this name is being opened.
    pub(super) fn reserve_name(&mut self, token: u64, tag: u64) -> Result<(), Refused> {
        let bad = |text| Err(Refused(RefusalCode::BadRequest, 0, text));
        let Some(program) = self.programs.get_mut(token) else {
            return bad("the program is gone".to_owned());
        };
        if program.streams.contains_key(&tag) || program.pours.contains_key(&tag) {
            return bad(format!("stream {tag} is open already"));
        }
        if program.streams.len() >= PROGRAM_STREAMS_MAX {
            return bad(format!(
                "this program has {PROGRAM_STREAMS_MAX} streams, the most that a program may have; close some first"
            ));
        }
        program.streams.insert(tag, Named::Opening);
        Ok(())
    }

    pub(super) fn begin_opened(&mut self, serve: &mut Serve<'_>, stream: u64, result: OpenResult) {
        let Some(wanted) = self.openings.remove(stream) else { return };
        if let Some(first) = wanted.step {
            return self.opened_in_step(serve, &wanted, first, result);
        }
        let begun = match result {
            Ok(title) => self.begin(serve, &wanted, title),
            Err(refusal) => Err(refusal.into()),
        };
        if let Err(refused) = begun {
            self.refuse(wanted.program, wanted.tag, refused);
        }
    }

    /// Admits a stream, and gives the program its memory.
    fn begin(
        &mut self,
        serve: &mut Serve<'_>,
        wanted: &Wanted,
        title: Arc<PlayableTitle>,
    ) -> Result<(), Refused> {
        // The program has disconnected in the meantime: no answer is needed.
        let Some(program) = self.programs.get_mut(wanted.program) else { return Ok(()) };
        if serve.is_draining() {
            return Err(Refused(RefusalCode::Unavailable, 1, "the server stops".to_owned()));
        }
        if program.streams.get(&wanted.tag) == Some(&Named::Unwanted) {
            return Err(Refused(
                RefusalCode::BadRequest,
                0,
                format!("stream {} was closed before it was open", wanted.tag),
            ));
        }
        let (socket, client) = (Arc::clone(&program.socket), Client::User(program.user));
        let body = title.file().map(|file| file.body.clone()).ok_or_else(|| {
            Refused(
                RefusalCode::BadRequest,
                0,
                format!("{} has nothing that a plain MP4 file can hold", wanted.title),
            )
        })?;
        let file_bytes = body.bytes();
        if wanted.from_bytes > file_bytes {
            return Err(Refused(
                RefusalCode::BadRequest,
                0,
                format!("the file of {} ends after {file_bytes} bytes", wanted.title),
            ));
        }
        self.has_memory(serve, 1)?;
        let outlet = MappedOutlet::new().map_err(|error| {
            Refused(RefusalCode::Unavailable, 1, format!("there is no memory for another stream: {error}"))
        })?;
        let opener = serve.opener();
        let class = opener.class(Some(wanted.class.as_str()).filter(|name| !name.is_empty()), client)?;
        let client = serve.session_client(client, class);
        let session = opener.session(&wanted.title, title, Form::File, client, serve.now_ns())?;
        let media = MediaRequest::File(wanted.from_bytes..file_bytes);
        let policy = serve.engine.policy(&session, &media, serve.now_ns()).map_err(|refusal| {
            let refused = OpenRefused::from(refusal);
            Refused(RefusalCode::NotAdmitted, refused.retry_after_s(), refused.to_string())
        })?;
        self.hand_over(&socket, wanted.tag, file_bytes, &outlet)?;
        let opening = StreamOpening {
            session: Some(Arc::clone(&session)),
            body: body.slice(wanted.from_bytes..file_bytes),
            position: wanted.from_bytes,
            policy,
            chain_bytes_max: SEND_BYTES_MAX,
            outlet,
        };
        let playing = Playing::new((wanted.program, wanted.tag), session, serve.now_ns());
        self.start(serve, opening, playing);
        Ok(())
    }

    /// Starts a stream whose memory its program has.
    pub(super) fn start(
        &mut self,
        serve: &mut Serve<'_>,
        opening: StreamOpening<PlayableTitle, MappedOutlet>,
        playing: Playing,
    ) {
        let set = self.streams.open(serve.engine, [opening], serve.now_ns());
        self.started(serve, &set, [playing]);
    }

    /// Streams were opened, one for each of those that play.
    pub(super) fn started(
        &mut self,
        serve: &mut Serve<'_>,
        set: &[StreamId],
        all: impl IntoIterator<Item = Playing>,
    ) {
        for (id, playing) in set.iter().zip(all) {
            if let Some(program) = self.programs.get_mut(playing.program()) {
                program.streams.insert(playing.tag(), Named::Open(*id));
            }
            if playing.live.is_some() {
                self.streams.stay_open(*id, serve.engine);
            }
            self.playing.insert(*id, playing);
            self.shared.counters.opened.fetch_add(1, Ordering::Relaxed);
        }
        self.count();
        self.watch(serve);
        self.pump(serve, set);
    }

    /// Whether there is memory for the windows of so many more streams in the share of programs.
    pub(super) fn has_memory(&self, serve: &Serve<'_>, more: usize) -> Result<(), Refused> {
        let buffers = serve.engine.units().budget().total();
        let most = (buffers / PROGRAM_MEMORY_SHARE / self.shared.window_buffers.max(1)).max(1);
        // Of a poured stream nothing is in the arena.
        let windows = self.playing.values().filter(|playing| !playing.is_poured()).count();
        if windows + more <= most {
            return Ok(());
        }
        let text = format!(
            "programs have {most} streams of titles, and more could take media memory that viewers need; close one, or raise arena_bytes"
        );
        Err(Refused(RefusalCode::Unavailable, 1, text))
    }

    /// Sends a stream's memory to its program.
    pub(super) fn hand_over(
        &self,
        socket: &Arc<std::os::fd::OwnedFd>,
        tag: u64,
        file_bytes: u64,
        outlet: &MappedOutlet,
    ) -> Result<(), Refused> {
        let arena = &self.shared.arena;
        // The descriptor exists: a map cannot be made without it.
        let arena_fd = arena
            .fd()
            .ok_or_else(|| Refused(RefusalCode::Other, 0, "the arena cannot be mapped".to_owned()))?;
        let (producer, consumer) = (outlet.producer_memory(), outlet.consumer_memory());
        let reply = Reply::Opened(reel_client::OpenedStream {
            tag,
            file_bytes,
            arena_bytes: arena.bytes(),
            producer_bytes: producer.bytes() as u64,
            consumer_bytes: consumer.bytes() as u64,
        });
        match say(socket.as_fd(), &reply.encode(), &[arena_fd, producer.fd(), consumer.fd()]) {
            Ok(true) => Ok(()),
            // The program does not read its socket, so it would not read a refusal either.
            Ok(false) | Err(_) => {
                Err(Refused(RefusalCode::Unavailable, 1, "the program does not read its socket".to_owned()))
            }
        }
    }

    /// Has a stream continue in another class, and answers. What it reads next is of that class.
    pub(super) fn change_class(&mut self, serve: &mut Serve<'_>, (token, tag): (u64, u64), class: &str) {
        let Some(program) = self.programs.get_mut(token) else { return };
        let (socket, client) = (Arc::clone(&program.socket), Client::User(program.user));
        let id = program.streams.get(&tag).copied().and_then(Named::id);
        let playing = id.and_then(|id| self.playing.get(&id));
        let class = if class.is_empty() { PERIODIC } else { class };
        let now_ns = serve.now_ns();
        let changed = playing.map_or(Ok(false), |playing| {
            serve.opener().change_class(playing.session(), class, client, now_ns)
        });
        let reply = match changed {
            Ok(true) => Reply::Changed { tag },
            Ok(false) => {
                let text = format!("there is no open stream {tag}: it has ended, or never was");
                Reply::NotChanged { tag, code: RefusalCode::BadRequest, retry_after_s: 0, text }
            }
            Err(refusal) => {
                let Refused(code, retry_after_s, text) = refusal.into();
                Reply::NotChanged { tag, code, retry_after_s, text }
            }
        };
        // A program that does not read its socket would not read this either.
        let _ = say(&socket, &reply.encode(), &[]);
        if let Some(id) = id {
            self.pump(serve, &[id]);
        }
    }

    /// Refuses the stream that a name was reserved for.
    pub(super) fn refuse(&mut self, program: u64, tag: u64, refused: Refused) {
        if let Some(program) = self.programs.get_mut(program)
            && matches!(program.streams.get(&tag), Some(Named::Opening | Named::Unwanted))
        {
            program.streams.remove(&tag);
        }
        self.say_refused(program, tag, refused);
    }

    pub(super) fn say_refused(&mut self, program: u64, tag: u64, refused: Refused) {
        self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        let Some(program) = self.programs.get_mut(program) else { return };
        let Refused(code, retry_after_s, text) = refused;
        let _ = say(&program.socket, &Reply::Refused { tag, code, retry_after_s, text }.encode(), &[]);
    }
}
