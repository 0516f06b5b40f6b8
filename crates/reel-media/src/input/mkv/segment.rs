//! The elements of a segment outside of its clusters (RFC 9559 section 5.1).

use super::attached::Attached;
use super::ebml::{self, Head, elements};
use super::{CONTAINER, ids, malformed};
use crate::input::window::Window;
use crate::{MediaError, limits};

const DEFAULT_SCALE_NS: u64 = 1_000_000;
/// The EBML head of a real file has about 40 bytes.
const EBML_HEAD_BYTES: u64 = 1024;

/// What is read of a segment before its frames.
pub(super) struct Segment {
    pub(super) scale_ns: u64,
    pub(super) tracks: Vec<u8>,
    /// Body of the Chapters element; empty if there is none.
    pub(super) chapters: Vec<u8>,
    /// What the person who ingests should know.
    pub(super) warning: Option<String>,
    pub(super) first_cluster: u64,
    pub(super) end: u64,
    /// The segment states a later end than the file has.
    pub(super) is_cut: bool,
    pub(super) attached: Attached,
    /// Where elements may lie that follow the clusters.
    behind: Behind,
    tracks_seen: bool,
}

/// Places of elements as the SeekHead states them.
#[derive(Default)]
struct Behind {
    chapters: Option<u64>,
    attachments: Option<u64>,
}

impl Segment {
    /// Reads what lies before the first cluster, and the chapters and attached files behind the
    /// clusters if the file says where they are.
    pub(super) fn read(window: &mut Window) -> Result<Self, MediaError> {
        let start = skip_ebml_head(window)?;
        let (body, end) = find_segment(window, start)?;
        let is_cut = end > window.bytes();
        // Clusters that follow the segment belong to it: its size was stated before they were
        // written.
        let next = Head::parse(window.peek(end, ebml::HEAD_BYTES)?);
        let is_longer = next.is_some_and(|next| next.id == ids::CLUSTER);
        let end = if is_longer { window.bytes() } else { end.min(window.bytes()) };
        let mut segment = Self {
            scale_ns: DEFAULT_SCALE_NS,
            tracks: Vec::new(),
            chapters: Vec::new(),
            warning: None,
            first_cluster: 0,
            end,
            is_cut,
            attached: Attached::default(),
            behind: Behind::default(),
            tracks_seen: false,
        };
        let mut at = body;
        while at < end {
            let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) else { break };
            if head.id == ids::CLUSTER {
                if segment.first_cluster == 0 {
                    segment.first_cluster = at;
                }
                if segment.tracks_seen {
                    break;
                }
            }
            let Some(next) = segment.take(window, body, at, &head)? else { break };
            at = next;
        }
        match (segment.tracks_seen, segment.first_cluster) {
            (false, _) | (_, 0) if is_cut => return Err(cut(window)),
            (false, _) => return Err(malformed("it has no list of tracks", at)),
            // Nothing follows the tracks: writing of the file stopped at once.
            (true, 0) => return Err(MediaError::NoDuration),
            _ => {}
        }
        let behind = std::mem::take(&mut segment.behind);
        for (id, place) in [(ids::CHAPTERS, behind.chapters), (ids::ATTACHMENTS, behind.attachments)] {
            let Some(place) = place.filter(|place| *place > at) else { continue };
            if let Some(head) =
                Head::parse(window.peek(place, ebml::HEAD_BYTES)?).filter(|head| head.id == id)
            {
                segment.take(window, body, place, &head)?;
            }
        }
        Ok(segment)
    }

    /// Reads the element at `at` if it is needed. Returns the place of the next one; `None` if its
    /// end is unknown or beyond the segment.
    fn take(
        &mut self,
        window: &mut Window,
        body: u64,
        at: u64,
        head: &Head,
    ) -> Result<Option<u64>, MediaError> {
        let start = at + head.head_bytes;
        let next = head.size.and_then(|size| start.checked_add(size)).filter(|next| *next <= self.end);
        let Some(next) = next else { return Ok(None) };
        match head.id {
            ids::INFO => self.scale_ns = scale(&small_body(window, start, next)?, at)?,
            ids::TRACKS if !self.tracks_seen => {
                self.tracks = small_body(window, start, next)?;
                self.tracks_seen = true;
            }
            ids::SEEK_HEAD if next - start <= limits::MKV_SEEK_HEAD_BYTES => {
                self.behind.read(&small_body(window, start, next)?, body);
            }
            ids::CHAPTERS if next - start <= limits::MKV_CHAPTERS_BYTES => {
                self.chapters = small_body(window, start, next)?;
            }
            ids::CHAPTERS => {
                let (bytes, limit) = (next - start, limits::MKV_CHAPTERS_BYTES);
                self.warning = Some(format!("the chapters are left out: {bytes} bytes, more than {limit}"));
            }
            ids::ATTACHMENTS => self.attached.read(window, start..next)?,
            _ => {}
        }
        Ok(Some(next))
    }
}

impl Behind {
    /// Notes the places in the body of a SeekHead. They count from the body of the segment.
    fn read(&mut self, seek_head: &[u8], body: u64) {
        for (_, seek) in elements(seek_head).filter(|(id, _)| *id == ids::SEEK) {
            let number = |wanted: u32| {
                elements(seek).find(|(id, _)| *id == wanted).and_then(|(_, body)| ebml::unsigned(body))
            };
            let place = number(ids::SEEK_POSITION).and_then(|position| position.checked_add(body));
            match number(ids::SEEK_ID).and_then(|id| u32::try_from(id).ok()) {
                Some(ids::CHAPTERS) => self.chapters = self.chapters.or(place),
                Some(ids::ATTACHMENTS) => self.attachments = self.attachments.or(place),
                _ => {}
            }
        }
    }
}

/// Nothing of the file can be played, because the rest is missing.
pub(super) fn cut(window: &Window) -> MediaError {
    MediaError::Truncated { container: CONTAINER, offset: window.bytes() }
}

fn skip_ebml_head(window: &mut Window) -> Result<u64, MediaError> {
    let foreign = || MediaError::UnknownContainer(String::new());
    let head = Head::parse(window.peek(0, ebml::HEAD_BYTES)?)
        .filter(|head| head.id == ids::EBML)
        .ok_or_else(foreign)?;
    let size = head
        .size
        .filter(|size| *size <= EBML_HEAD_BYTES)
        .ok_or_else(|| malformed("its head is damaged", 0))?;
    let end = head.head_bytes + size;
    if end > window.bytes() {
        return Err(cut(window));
    }
    let body = window.peek(head.head_bytes, usize::try_from(size).unwrap_or(0))?;
    let kind = elements(body).find(|(id, _)| *id == ids::DOC_TYPE).map(|(_, body)| ebml::text(body));
    match kind.as_deref() {
        Some("matroska" | "webm") | None => Ok(end),
        Some(other) => Err(MediaError::UnknownContainer(format!(" but EBML of the kind {other:?}"))),
    }
}

/// Body and end of the segment; an unknown size reaches to the end of the file.
fn find_segment(window: &mut Window, start: u64) -> Result<(u64, u64), MediaError> {
    let bytes = window.bytes();
    let mut at = start;
    while let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) {
        let body = at + head.head_bytes;
        let end = head.size.map_or(Some(bytes), |size| body.checked_add(size));
        let end = end.ok_or_else(|| malformed("its segment is longer than any file", at))?;
        match head.id {
            ids::SEGMENT => return Ok((body, end)),
            _ if end > bytes => break,
            _ => at = end,
        }
    }
    Err(if at >= bytes { cut(window) } else { malformed("there is no segment after its head", at) })
}

fn small_body(window: &mut Window, start: u64, end: u64) -> Result<Vec<u8>, MediaError> {
    let size = end - start;
    if size > limits::MKV_TRACKS_BYTES {
        return Err(MediaError::Limit {
            what: "file head in bytes",
            value: size,
            limit: limits::MKV_TRACKS_BYTES,
        });
    }
    let mut body = Vec::new();
    window.append(start, usize::try_from(size).unwrap_or(0), &mut body)?;
    Ok(body)
}

fn scale(info: &[u8], offset: u64) -> Result<u64, MediaError> {
    let stated =
        elements(info).find(|(id, _)| *id == ids::TIMESTAMP_SCALE).map(|(_, body)| ebml::unsigned(body));
    match stated {
        None => Ok(DEFAULT_SCALE_NS),
        Some(Some(scale @ 1..=1_000_000_000)) => Ok(scale),
        Some(_) => Err(malformed("its time scale is invalid", offset)),
    }
}
