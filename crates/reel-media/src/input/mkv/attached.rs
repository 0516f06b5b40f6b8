//! Files attached to a Matroska file (RFC 9559 section 5.1.6): covers and fonts. Only their names
//! are read.

use super::ebml::{self, Head};
use super::ids;
use crate::input::window::Window;
use crate::{MediaError, limits};
use std::ops::Range;

/// The attached files of a segment.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// Names of the first of them.
    pub(crate) names: Vec<String>,
    /// How many there are.
    pub(crate) count: u64,
}

impl Attached {
    /// Reads the names in the body of an Attachments element. The walk ends at damage.
    pub(crate) fn read(&mut self, window: &mut Window, body: Range<u64>) -> Result<(), MediaError> {
        let mut at = body.start;
        while at < body.end && self.count < limits::MKV_ATTACHMENTS {
            let Some((id, file)) = element(window, at, body.end)? else { break };
            at = file.end;
            if id != ids::ATTACHED_FILE {
                continue;
            }
            self.count += 1;
            if self.names.len() < limits::NAMED_ATTACHMENTS {
                self.names.push(name(window, file)?.unwrap_or_else(|| "a file without a name".to_owned()));
            }
        }
        Ok(())
    }
}

/// The name among the children of an AttachedFile element.
fn name(window: &mut Window, file: Range<u64>) -> Result<Option<String>, MediaError> {
    let mut at = file.start;
    for _ in 0..limits::MKV_GROUP_CHILDREN {
        let Some((id, child)) = element(window, at, file.end)? else { break };
        if id == ids::FILE_NAME {
            let bytes = usize::try_from(child.end - child.start).unwrap_or(usize::MAX);
            let name = ebml::text(window.peek(child.start, bytes.min(limits::MKV_TEXT_BYTES))?);
            let name: String = name.chars().filter(|c| !c.is_control()).collect();
            return Ok(Some(name).filter(|name| !name.is_empty()));
        }
        at = child.end;
    }
    Ok(None)
}

/// Id and body of the element at `at`; `None` if none fits there.
fn element(window: &mut Window, at: u64, end: u64) -> Result<Option<(u32, Range<u64>)>, MediaError> {
    let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) else { return Ok(None) };
    let body = at + head.head_bytes;
    let stated_end = head.size.and_then(|size| body.checked_add(size)).filter(|stated| *stated <= end);
    Ok(stated_end.map(|stated_end| (head.id, body..stated_end)))
}
