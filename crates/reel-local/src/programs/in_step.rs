//! How a set of streams begins that are in step: when all were requested and their titles are open,
//! they are admitted in one step, or all are refused.

use super::opening::{Refused, Wanted};
use super::playing::Playing;
use super::{Named, PROGRAM_STREAMS_MAX, Programs};
use crate::limits::PROGRAM_STEP_MAX;
use crate::outlet::MappedOutlet;
use reel_admit::{Client, OpenRefused};
use reel_client::{InStepRequest, RefusalCode};
use reel_play::{Form, PlayableTitle, StepSource, TitlePart};
use reel_serve::streams::StepOpening;
use reel_serve::{LIVE, OpenResult, Serve};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A set of which not all is there yet.
pub(super) struct Gathering {
    of: u16,
    from_ns: u64,
    class: String,
    /// What was requested, by the program's names.
    streams: BTreeMap<u64, Gathered>,
    /// Why it cannot be opened, if something has shown that.
    refused: Option<Refused>,
}

struct Gathered {
    title: String,
    part: TitlePart,
    /// The title, once it is open.
    opened: Option<Arc<PlayableTitle>>,
    /// It is opened on another thread.
    is_opening: bool,
    /// The program's name for it is noted.
    has_name: bool,
}

fn bad(text: String) -> Refused {
    Refused(RefusalCode::BadRequest, 0, text)
}

impl Gathering {
    fn new(of: u16, from_ns: u64, class: &str) -> Self {
        Self { of, from_ns, class: class.to_owned(), streams: BTreeMap::new(), refused: None }
    }

    /// Whether all were requested, and none is being opened any more.
    fn is_complete(&self) -> bool {
        self.streams.len() == usize::from(self.of) && self.streams.values().all(|stream| !stream.is_opening)
    }
}

impl Programs {
    /// Notes one stream of a set, and has its title opened on another thread.
    pub(super) fn open_in_step(&mut self, serve: &mut Serve<'_>, token: u64, request: InStepRequest) {
        let InStepRequest { tag, number, of, from_ns, title, class } = request;
        let first = tag.checked_sub(number.into());
        let Some(first) = first.filter(|_| number < of && of <= PROGRAM_STEP_MAX) else {
            let text = format!("a set in step has 1 to {PROGRAM_STEP_MAX} streams");
            return self.say_refused(token, tag, bad(text));
        };
        let reserved = self.reserve_name(token, tag);
        let Some(program) = self.programs.get_mut(token) else { return };
        let sets = program.sets.len();
        let has_set = program.sets.get(&first).map(|set| set.streams.contains_key(&tag));
        if has_set == Some(true) || has_set.is_none() && sets >= PROGRAM_STREAMS_MAX {
            let text = "the program asks for too many sets, or twice for one stream".to_owned();
            return self.say_refused(token, tag, reserved.err().unwrap_or_else(|| bad(text)));
        }
        let set = program.sets.entry(first).or_insert_with(|| Gathering::new(of, from_ns, &class));
        let has_name = reserved.is_ok();
        let mut refused = reserved.err();
        if (set.of, set.from_ns, &set.class) != (of, from_ns, &class) {
            refused = Some(bad("the streams of a set in step have one begin and one class".to_owned()));
        } else if title.starts_with(LIVE) {
            let text = "a poured stream has the clock of the program that pours it; open it beside the set";
            refused = Some(bad(text.to_owned()));
        }
        let (name, part) = TitlePart::of_name(&title).unwrap_or_else(|| {
            refused = Some(bad(format!("{title} names no track: use #video, #audio, #text or its number")));
            (&title, TitlePart::File)
        });
        let (name, is_opening) = (name.to_owned(), refused.is_none());
        set.streams.insert(tag, Gathered { title, part, opened: None, is_opening, has_name });
        set.refused = set.refused.take().or(refused);
        if is_opening {
            let wanted =
                Wanted { program: token, tag, from_bytes: 0, title: name.clone(), class, step: Some(first) };
            let opening = self.openings.insert(wanted);
            if let Err(refusal) = serve.open_title(opening, name) {
                self.openings.remove(opening);
                self.note_opened(token, tag, first, Err(refusal.into()));
            }
        }
        self.begin_set(serve, token, first);
    }

    /// The title of a stream of a set is open, or cannot be opened.
    pub(super) fn opened_in_step(
        &mut self,
        serve: &mut Serve<'_>,
        wanted: &Wanted,
        first: u64,
        result: OpenResult,
    ) {
        self.note_opened(wanted.program, wanted.tag, first, result.map_err(Refused::from));
        self.begin_set(serve, wanted.program, first);
    }

    fn note_opened(&mut self, token: u64, tag: u64, first: u64, result: Result<Arc<PlayableTitle>, Refused>) {
        let Some(program) = self.programs.get_mut(token) else { return };
        let Some(set) = program.sets.get_mut(&first) else { return };
        let Some(stream) = set.streams.get_mut(&tag) else { return };
        stream.is_opening = false;
        match result {
            Ok(title) => stream.opened = Some(title),
            Err(refused) => _ = set.refused.get_or_insert(refused),
        }
    }

    /// Opens a set, if all of it is there.
    fn begin_set(&mut self, serve: &mut Serve<'_>, token: u64, first: u64) {
        let Some(program) = self.programs.get_mut(token) else { return };
        if program.sets.get(&first).is_none_or(|set| !set.is_complete()) {
            return;
        }
        let Some(mut set) = program.sets.remove(&first) else { return };
        let is_wanted = |tag: &u64| program.streams.get(tag) == Some(&Named::Opening);
        let mut refused = set.refused.take();
        if refused.is_none() && !set.streams.keys().all(is_wanted) {
            refused = Some(bad("a stream of the set was closed before it was open".to_owned()));
        }
        let begun = match refused {
            Some(refused) => Err(refused),
            None => self.begin_in_step(serve, token, &set),
        };
        if let Err(refused) = begun {
            for (tag, stream) in set.streams {
                match stream.has_name {
                    true => self.refuse(token, tag, refused.clone()),
                    // The name is that of another stream.
                    false => self.say_refused(token, tag, refused.clone()),
                }
            }
        }
    }

    /// Admits a set in one step, and gives the program the memory of all its streams.
    fn begin_in_step(&mut self, serve: &mut Serve<'_>, token: u64, set: &Gathering) -> Result<(), Refused> {
        let Some(program) = self.programs.get_mut(token) else { return Ok(()) };
        let (socket, client) = (Arc::clone(&program.socket), Client::User(program.user));
        if serve.is_draining() {
            return Err(Refused(RefusalCode::Unavailable, 1, "the server stops".to_owned()));
        }
        let sources = set.streams.values().map(|stream| stream.of_title(set.from_ns));
        let sources: Vec<StepSource> = sources.collect::<Result<_, _>>()?;
        self.has_memory(serve, sources.len())?;
        let outlets: Result<Vec<_>, _> = sources.iter().map(|_| MappedOutlet::new()).collect();
        let outlets = outlets.map_err(|error| {
            Refused(RefusalCode::Unavailable, 1, format!("there is no memory for another stream: {error}"))
        })?;
        let opener = serve.opener();
        let class = opener.class(Some(set.class.as_str()).filter(|name| !name.is_empty()), client)?;
        let client = serve.session_client(client, class);
        let titles: Vec<&str> = set.streams.values().map(|stream| stream.title.as_str()).collect();
        let name = titles.join(",");
        let playing = Arc::new(PlayableTitle::of_step(&name, &sources));
        let now_ns = serve.now_ns();
        let session = Arc::new(opener.session(&name, playing, Form::File, client, now_ns)?);
        let terms = serve.engine.step_terms(&session, set.from_ns, now_ns).map_err(|refusal| {
            let refused = OpenRefused::from(refusal);
            Refused(RefusalCode::NotAdmitted, refused.retry_after_s(), refused.to_string())
        })?;
        for ((tag, source), outlet) in set.streams.keys().zip(&sources).zip(&outlets) {
            if self.hand_over(&socket, *tag, source.file_bytes, outlet).is_err() {
                // It does not read its socket, and has some of the streams.
                self.gone(serve, token);
                return Ok(());
            }
        }
        let all: Vec<_> =
            set.streams.keys().map(|tag| Playing::new((token, *tag), Arc::clone(&session), now_ns)).collect();
        let sources = sources.into_iter().zip(outlets).collect();
        let opening = StepOpening { session: Arc::clone(&session), from_ns: set.from_ns, terms, sources };
        let set = self.streams.open_in_step(serve.engine, opening, now_ns);
        self.started(serve, &set, all);
        Ok(())
    }
}

impl Gathered {
    /// What is read of its title.
    fn of_title(&self, from_ns: u64) -> Result<StepSource, Refused> {
        let title = self.opened.as_ref().ok_or_else(|| bad(format!("{} is not open", self.title)))?;
        if from_ns > title.duration_ns() {
            return Err(bad(format!("{} ends before that time", self.title)));
        }
        title.step_source(self.part, from_ns).ok_or_else(|| {
            let text = match self.part {
                TitlePart::File => format!("{} has nothing that a plain MP4 file can hold", self.title),
                _ => format!("{} has no such track", self.title.split('#').next().unwrap_or_default()),
            };
            Refused(RefusalCode::NoSuchTitle, 0, text)
        })
    }
}
