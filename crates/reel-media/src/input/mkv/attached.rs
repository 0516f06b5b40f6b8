//! Files attached to a Matroska file (RFC 9559 section 5.1.6): covers and fonts. Of all but the
//! cover, only the names are read.

use super::ebml::{self, Head};
use super::ids;
use crate::cover::{CoverPlace, PICTURE_HEAD_BYTES, PictureFormat};
use crate::input::window::Window;
use crate::{MediaError, limits};
use std::ops::Range;

/// The attached files of a segment.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// Names of the first of them, the cover not among them.
    pub(crate) names: Vec<String>,
    /// How many there are besides the cover.
    pub(crate) count: u64,
    /// The picture that stands for the film.
    pub(crate) cover: Option<Picture>,
}

/// An attached picture.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) place: CoverPlace,
    name: String,
    /// How well its name fits; the smallest is the cover.
    rank: usize,
}

/// An attached file.
struct File {
    name: String,
    data: Range<u64>,
}

/// Names of covers without their extension, the best first (RFC 9559 section 21.1): portrait, then
/// landscape, then the small ones.
const COVER_NAMES: [&str; 4] = ["cover", "cover_land", "small_cover", "small_cover_land"];

impl Attached {
    /// Reads the body of an Attachments element. The walk ends at damage.
    pub(crate) fn read(&mut self, window: &mut Window, body: Range<u64>) -> Result<(), MediaError> {
        let mut at = body.start;
        let mut seen = 0;
        while at < body.end && seen < limits::MKV_ATTACHMENTS {
            let Some((id, file)) = element(window, at, body.end)? else { break };
            at = file.end;
            if id != ids::ATTACHED_FILE {
                continue;
            }
            seen += 1;
            let file = File::read(window, file)?;
            match picture(window, &file)? {
                Some(picture) if self.cover.as_ref().is_none_or(|best| picture.rank < best.rank) => {
                    if let Some(worse) = self.cover.replace(picture) {
                        self.leave(worse.name);
                    }
                }
                _ => self.leave(file.name),
            }
        }
        Ok(())
    }

    fn leave(&mut self, name: String) {
        self.count += 1;
        if self.names.len() < limits::NAMED_ATTACHMENTS {
            self.names.push(name);
        }
    }
}

impl File {
    /// Reads the children of an AttachedFile element.
    fn read(window: &mut Window, body: Range<u64>) -> Result<Self, MediaError> {
        let mut file = Self { name: String::new(), data: 0..0 };
        let mut at = body.start;
        for _ in 0..limits::MKV_GROUP_CHILDREN {
            let Some((id, child)) = element(window, at, body.end)? else { break };
            at = child.end;
            match id {
                ids::FILE_NAME => {
                    let bytes = usize::try_from(child.end - child.start).unwrap_or(usize::MAX);
                    let name = ebml::text(window.peek(child.start, bytes.min(limits::MKV_TEXT_BYTES))?);
                    file.name = name.chars().filter(|c| !c.is_control()).collect();
                }
                ids::FILE_DATA => file.data = child,
                _ => {}
            }
        }
        if file.name.is_empty() {
            file.name = "a file without a name".to_owned();
        }
        Ok(file)
    }
}

/// The file as a cover; `None` if it is no picture or too large for a cover.
fn picture(window: &mut Window, file: &File) -> Result<Option<Picture>, MediaError> {
    let bytes = usize::try_from(file.data.end - file.data.start).unwrap_or(usize::MAX);
    if bytes > limits::COVER_BYTES {
        return Ok(None);
    }
    let head = window.peek(file.data.start, bytes.min(PICTURE_HEAD_BYTES))?;
    let Some(format) = PictureFormat::of(head) else { return Ok(None) };
    let stem = file.name.rsplit_once('.').map_or(file.name.as_str(), |(stem, _)| stem);
    let rank = COVER_NAMES.iter().position(|name| stem.eq_ignore_ascii_case(name));
    let place = CoverPlace::Picture { format, offset: file.data.start, bytes };
    Ok(Some(Picture { place, name: file.name.clone(), rank: rank.unwrap_or(COVER_NAMES.len()) }))
}

/// Id and body of the element at `at`; `None` if none fits there.
fn element(window: &mut Window, at: u64, end: u64) -> Result<Option<(u32, Range<u64>)>, MediaError> {
    let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) else { return Ok(None) };
    let body = at + head.head_bytes;
    let stated_end = head.size.and_then(|size| body.checked_add(size)).filter(|stated| *stated <= end);
    Ok(stated_end.map(|stated_end| (head.id, body..stated_end)))
}
