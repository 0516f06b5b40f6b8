//! The poured streams of a server: programs write them, and viewers read them, on any threads.

use crate::arrivals::Arrivals;
use crate::fragments::Fragments;
use crate::limits::{HEAD_BYTES_MAX, POUR_MEMORY_BYTES, POURS_MAX, REST_NS_MIN};
use crate::terms::{PourRefused, PourTerms, check_name};
use crate::window::{PourEnd, Read, Window};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All poured streams. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Pours(Arc<Inner>);

#[derive(Default)]
struct Inner {
    streams: Mutex<BTreeMap<String, Arc<Poured>>>,
    /// What is to be called when a stream with viewers has news.
    listeners: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
    /// Bytes of the windows of all streams, also of those that have ended and still have viewers.
    reserved_bytes: Arc<AtomicU64>,
    counters: PourCounters,
}

/// What is counted for metrics.
#[derive(Debug, Default)]
pub(crate) struct PourCounters {
    pub(crate) begun: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) late_bytes: AtomicU64,
}

/// One stream.
struct Poured {
    terms: PourTerms,
    window: Mutex<Window>,
    viewers: AtomicUsize,
    _reserved: ReservedBytes,
}

/// Memory that is set aside for a window until this is dropped.
struct ReservedBytes {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The writing end of a stream. If it is dropped, the program is gone: the stream is broken.
pub struct PourWriter {
    name: String,
    stream: Arc<Poured>,
    arrivals: Arrivals,
    /// Where viewers may begin, if that is not with each message.
    fragments: Option<Fragments>,
    pours: Pours,
}

/// A viewer of a stream, at a place of its own.
pub struct PourViewer {
    stream: Arc<Poured>,
    position: u64,
    has_begun: bool,
    pours: Pours,
}

/// A stream, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PourReport {
    /// Its name.
    pub name: String,
    /// What its program has declared.
    pub terms: PourTerms,
    /// Bytes that have come.
    pub bytes: u64,
    /// Its viewers.
    pub viewers: usize,
}

impl Pours {
    /// Begins a stream.
    ///
    /// # Errors
    /// [`PourRefused`].
    pub fn begin(&self, name: &str, terms: PourTerms, now_ns: u64) -> Result<PourWriter, PourRefused> {
        let begun = self.insert(name, terms, now_ns);
        let counters = self.counters();
        if begun.is_ok() { &counters.begun } else { &counters.refused }.fetch_add(1, Ordering::Relaxed);
        begun
    }

    /// Whether a stream could begin now. A refusal is counted as that of [`Pours::begin`].
    ///
    /// # Errors
    /// [`PourRefused`].
    pub fn check(&self, name: &str, terms: &PourTerms) -> Result<(), PourRefused> {
        let room = self.room(&lock(&self.0.streams), name, terms);
        room.map(drop).inspect_err(|_| self.refused())
    }

    /// Counts a stream that is not begun, for another reason than [`PourRefused`].
    pub fn refused(&self) {
        self.counters().refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The bytes that are to be set aside for a stream beside these, if it can begin.
    fn room(
        &self,
        streams: &BTreeMap<String, Arc<Poured>>,
        name: &str,
        terms: &PourTerms,
    ) -> Result<u64, PourRefused> {
        check_name(name)?;
        terms.check()?;
        if streams.contains_key(name) {
            return Err(PourRefused::Taken(name.to_owned()));
        }
        if streams.len() >= POURS_MAX {
            return Err(PourRefused::TooMany);
        }
        let asked = terms.window_bytes() + head_bytes(terms);
        let free = POUR_MEMORY_BYTES.saturating_sub(self.0.reserved_bytes.load(Ordering::Relaxed));
        if asked <= free { Ok(asked) } else { Err(PourRefused::NoMemory { asked, free }) }
    }

    fn insert(&self, name: &str, terms: PourTerms, now_ns: u64) -> Result<PourWriter, PourRefused> {
        let mut streams = lock(&self.0.streams);
        let asked = self.room(&streams, name, &terms)?;
        let all = Arc::clone(&self.0.reserved_bytes);
        let fragments = Fragments::are_of(&terms.content_type).then(Fragments::default);
        // Nothing else adds to it: the streams are locked.
        all.fetch_add(asked, Ordering::Relaxed);
        let reserved = ReservedBytes { bytes: asked, all };
        let arrivals = Arrivals::new(&terms, now_ns);
        let window = Mutex::new(Window::new(terms.window_bytes()));
        let stream = Arc::new(Poured { terms, window, viewers: AtomicUsize::new(0), _reserved: reserved });
        streams.insert(name.to_owned(), Arc::clone(&stream));
        Ok(PourWriter { name: name.to_owned(), stream, arrivals, fragments, pours: self.clone() })
    }

    /// A new viewer of a stream; `None` if there is no such stream.
    pub fn view(&self, name: &str, now_ns: u64) -> Option<PourViewer> {
        let stream = Arc::clone(lock(&self.0.streams).get(name)?);
        stream.viewers.fetch_add(1, Ordering::Relaxed);
        let position = lock(&stream.window).joins_at(now_ns);
        Some(PourViewer { stream, position, has_begun: false, pours: self.clone() })
    }

    /// Calls this whenever a stream with viewers has news. It must not wait.
    pub fn on_news(&self, listener: impl Fn() + Send + Sync + 'static) {
        lock(&self.0.listeners).push(Arc::new(listener));
    }

    /// All streams, by name.
    pub fn list(&self) -> Vec<PourReport> {
        let streams: Vec<(String, Arc<Poured>)> =
            lock(&self.0.streams).iter().map(|(name, stream)| (name.clone(), Arc::clone(stream))).collect();
        streams.into_iter().map(|(name, stream)| stream.report(name)).collect()
    }

    pub(crate) fn counters(&self) -> &PourCounters {
        &self.0.counters
    }

    fn news(&self, stream: &Poured) {
        if stream.viewers.load(Ordering::Relaxed) == 0 {
            return;
        }
        let listeners = lock(&self.0.listeners).clone();
        listeners.iter().for_each(|listener| listener());
    }
}

impl PourWriter {
    /// When the next message may be taken.
    pub fn ready_ns(&self) -> u64 {
        self.arrivals.ready_ns()
    }

    /// A message of the program, for all viewers. [`PourWriter::tell`] is to be called after one
    /// or several of them.
    pub fn push(&mut self, message: Arc<[u8]>, now_ns: u64) {
        let due_ns = self.arrivals.take(message.len() as u64, now_ns);
        self.pours.counters().bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
        match &mut self.fragments {
            None => lock(&self.stream.window).push(message, due_ns),
            Some(fragments) => {
                let pieces = fragments.cut(&message);
                let mut window = lock(&self.stream.window);
                pieces.into_iter().for_each(|piece| window.push_piece(piece, due_ns));
            }
        }
    }

    /// A message of a writer that keeps the pace of what it writes itself: it is due after the
    /// delay of the stream, whatever its rate.
    pub fn push_paced(&mut self, message: Arc<[u8]>, now_ns: u64) {
        self.pours.counters().bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
        let due_ns = now_ns.saturating_add(self.stream.terms.delay_ns);
        lock(&self.stream.window).push(message, due_ns);
    }

    /// Tells viewers that there is something for them.
    pub fn tell(&self) {
        self.pours.news(&self.stream);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program has ended the stream. Viewers get what has come.
    pub fn complete(mut self) {
        let mut window = lock(&self.stream.window);
        let due_ns = window.due_ns();
        let rest = self.fragments.as_mut().and_then(Fragments::end);
        rest.into_iter().for_each(|piece| window.push_piece(piece, due_ns));
        window.end(PourEnd::Complete);
    }
}

impl Drop for PourWriter {
    fn drop(&mut self) {
        let mut window = lock(&self.stream.window);
        window.end(PourEnd::Broken);
        if matches!(window.read(window.end_position(), 0), Read::Ended(PourEnd::Broken)) {
            self.pours.counters().broken.fetch_add(1, Ordering::Relaxed);
        }
        drop(window);
        // The name is free, and the memory when the last viewer has read what it has not yet.
        lock(&self.pours.0.streams).remove(&self.name);
        self.tell();
    }
}

impl PourViewer {
    /// What comes next: whole messages of at most `bytes_max`, but at least one.
    pub fn read(&mut self, bytes_max: usize) -> Read {
        let window = lock(&self.stream.window);
        if !self.has_begun
            && let Some((position, head)) = window.begins(self.position)
        {
            (self.position, self.has_begun) = (position, true);
            if let (Some(head), Read::Messages(_, due_ns)) = (head, window.read(position, 0)) {
                return Read::Messages(vec![head], due_ns);
            }
        }
        let read = match self.has_begun {
            true => window.read(self.position, bytes_max),
            // What it can begin with has not come.
            false => window.read(window.end_position(), bytes_max),
        };
        drop(window);
        match &read {
            Read::Messages(messages, _) => {
                self.position += messages.iter().map(|message| message.len() as u64).sum::<u64>();
            }
            Read::Behind => _ = self.pours.counters().cut.fetch_add(1, Ordering::Relaxed),
            Read::Nothing | Read::Ended(_) => {}
        }
        read
    }

    /// So many bytes were sent after they were due.
    pub fn was_late(&self, bytes: u64) {
        self.pours.counters().late_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether what comes next is gone; or the stream has ended, and the rest of it should have
    /// been read by now. The memory is for other streams then.
    pub fn is_behind(&self, now_ns: u64) -> bool {
        let window = lock(&self.stream.window);
        let is_gone = self.has_begun && matches!(window.read(self.position, 0), Read::Behind);
        is_gone || window.was_over_for(self.stream.terms.delay_ns.max(REST_NS_MIN), now_ns)
    }

    /// What the program has declared.
    pub fn terms(&self) -> &PourTerms {
        &self.stream.terms
    }
}

impl Drop for PourViewer {
    fn drop(&mut self) {
        self.stream.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Poured {
    fn report(&self, name: String) -> PourReport {
        let bytes = lock(&self.window).end_position();
        PourReport { name, terms: self.terms.clone(), bytes, viewers: self.viewers.load(Ordering::Relaxed) }
    }
}

/// What is kept of a stream for viewers that come later.
fn head_bytes(terms: &PourTerms) -> u64 {
    if Fragments::are_of(&terms.content_type) { HEAD_BYTES_MAX as u64 } else { 0 }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves a message pushed or not.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::POUR_DELAY_NS_MAX;

    fn terms() -> PourTerms {
        PourTerms {
            bytes_per_s: 1_000_000,
            workahead_bytes: 0,
            delay_ns: 1_000_000_000,
            content_type: "video/mp2t".to_owned(),
        }
    }

    #[test]
    fn viewers_read_what_a_program_writes_and_hear_of_it() {
        let pours = Pours::default();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        pours.on_news(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let mut writer = pours.begin("studio", terms(), 0).expect("begun");
        writer.push(Arc::from(&b"before"[..]), 0);
        writer.tell();
        assert_eq!(heard.load(Ordering::Relaxed), 0, "it has no viewer");
        let mut viewer = pours.view("studio", 0).expect("there");
        writer.push(Arc::from(&b"after"[..]), 10);
        writer.tell();
        assert_eq!(heard.load(Ordering::Relaxed), 1);
        let Read::Messages(messages, _) = viewer.read(1000) else { panic!("there are messages") };
        assert_eq!(messages.concat(), b"beforeafter");
        assert_eq!(pours.list()[0].viewers, 1);
        writer.complete();
        assert!(!viewer.is_behind(3_000_000_000) && viewer.is_behind(3_500_000_000));
        assert_eq!((viewer.read(1), heard.load(Ordering::Relaxed)), (Read::Ended(PourEnd::Complete), 2));
        assert!(pours.list().is_empty() && pours.view("studio", 0).is_none());
    }

    fn messages(viewer: &mut PourViewer) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Read::Messages(messages, _) = viewer.read(1000) {
            bytes.extend(messages.concat());
        }
        bytes
    }

    #[test]
    fn a_viewer_of_fragments_that_comes_late_begins_with_one_of_them() {
        let pours = Pours::default();
        let terms = PourTerms { content_type: "video/mp4".to_owned(), ..terms() };
        let mut writer = pours.begin("studio", terms, 0).expect("begun");
        let mut first = pours.view("studio", 0).expect("there");
        let (head, fragment) = (&b"\0\0\0\x08ftyp\0\0\0\x08moov"[..], &b"\0\0\0\x08moof\0\0\0\x09mdata"[..]);
        writer.push(Arc::from([head, fragment].concat()), 0);
        // All of that is due: it begins with the next one.
        let second_ns = 2_000_000_000;
        let mut second = pours.view("studio", second_ns).expect("there");
        assert_eq!(second.read(1000), Read::Nothing);
        assert!(!second.is_behind(second_ns));
        writer.push(Arc::from(&b"\0\0\0\x09mdatb"[..]), second_ns);
        assert_eq!(second.read(1000), Read::Nothing, "of a fragment that had begun");
        writer.push(Arc::from([fragment, &fragment[..5]].concat()), second_ns);
        // Not all of that is due: it begins with the first fragment that is not.
        let mut third = pours.view("studio", second_ns).expect("there");
        writer.push(Arc::from(&fragment[5..]), second_ns);
        writer.push(Arc::from(&b"\0\0"[..]), second_ns);
        writer.complete();
        let whole = [head, fragment, b"\0\0\0\x09mdatb", fragment, fragment, b"\0\0"].concat();
        assert_eq!(messages(&mut first), whole, "it began at the beginning");
        let late = [head, fragment, fragment, b"\0\0"].concat();
        assert_eq!((messages(&mut second), messages(&mut third)), (late.clone(), late));
        assert_eq!(second.read(1), Read::Ended(PourEnd::Complete));
    }

    #[test]
    fn each_fragment_comes_with_the_beginning_of_its_own_stream() {
        let pours = Pours::default();
        let terms = PourTerms { content_type: "video/mp4".to_owned(), ..terms() };
        let mut writer = pours.begin("studio", terms, 0).expect("begun");
        let a_box = |kind: &str, content: &str| {
            [&(8 + content.len() as u32).to_be_bytes()[..], kind.as_bytes(), content.as_bytes()].concat()
        };
        let stream = |name: &str| {
            let head = [a_box("ftyp", ""), a_box("moov", name)].concat();
            (head.clone(), [head, a_box("moof", name), a_box("mdat", name)].concat())
        };
        let ((_, first), (second_head, second)) = (stream("first"), stream("second"));
        writer.push(Arc::from(&first[..]), 0);
        let more = [a_box("moof", "more"), a_box("mdat", "more")].concat();
        writer.push(Arc::from(&more[..]), 1_500_000_000);
        // What has come by now is due, but for the second fragment, which is of the first stream.
        let mut viewer = pours.view("studio", 2_000_000_000).expect("there");
        writer.push(Arc::from(&second[..]), 1_600_000_000);
        let (first_head, _) = stream("first");
        assert_eq!(messages(&mut viewer), [&first_head[..], &more, &second].concat());
        let mut viewer = pours.view("studio", 2_550_000_000).expect("there");
        let whole = messages(&mut viewer);
        assert!(whole.starts_with(&second_head) && whole.ends_with(&second[second_head.len()..]));
        // Garbage after that takes no fragment its beginning.
        writer.push(Arc::from(&[1; 40][..]), 1_700_000_000);
        let mut viewer = pours.view("studio", 2_550_000_000).expect("there");
        assert!(messages(&mut viewer).starts_with(&second_head));
    }

    #[test]
    fn a_program_that_is_gone_leaves_a_broken_stream_and_a_free_name() {
        let pours = Pours::default();
        let writer = pours.begin("studio", terms(), 0).expect("begun");
        let mut viewer = pours.view("studio", 0).expect("there");
        assert_eq!(pours.begin("studio", terms(), 0).err(), Some(PourRefused::Taken("studio".to_owned())));
        drop(writer);
        assert_eq!(viewer.read(1), Read::Ended(PourEnd::Broken));
        assert!(pours.begin("studio", terms(), 0).is_ok());
        assert_eq!(pours.counters().broken.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_finds_no_memory_or_no_place_is_refused() {
        let pours = Pours::default();
        let large = PourTerms { delay_ns: POUR_DELAY_NS_MAX, bytes_per_s: 2_000_000, ..terms() };
        let first = pours.begin("a", large.clone(), 0).expect("there is memory for one");
        let refused = pours.begin("b", large.clone(), 0).err().expect("and not for two");
        assert!(matches!(refused, PourRefused::NoMemory { asked: 40_000_000, .. }), "{refused}");
        let viewer = pours.view("a", 0).expect("there");
        drop(first);
        assert!(pours.begin("b", large.clone(), 0).is_err(), "the viewer has not read the window to its end");
        drop(viewer);
        let second = pours.begin("b", large, 0).expect("its memory is free again");
        drop(second);
        let small = PourTerms { bytes_per_s: 1000, ..terms() };
        let name = |number: usize| format!("s{number}");
        let all: Vec<_> =
            (0..POURS_MAX).map(|n| pours.begin(&name(n), small.clone(), 0).expect("there is room")).collect();
        assert_eq!(pours.begin("one-more", small, 0).err(), Some(PourRefused::TooMany));
        assert_eq!(all.len(), POURS_MAX);
    }
}
