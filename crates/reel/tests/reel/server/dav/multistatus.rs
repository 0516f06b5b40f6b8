//! A reader of multistatus answers that takes only what RFC 4918 allows.

use quick_xml::NsReader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};
use std::collections::{BTreeMap, BTreeSet};

/// What is said of one resource. Names of properties are written `{name space}name`.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) href: String,
    /// Properties with their values; an element in a value is written as its name.
    pub(super) found: BTreeMap<String, String>,
    pub(super) missing: BTreeSet<String>,
}

impl Entry {
    /// The value of a property of WebDAV.
    pub(super) fn value(&self, name: &str) -> &str {
        let value = self.found.get(&format!("{{DAV:}}{name}"));
        value.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// Which element may stand in which (RFC 4918 section 14), from the outermost on.
const CHILDREN: [&[&str]; 4] = [
    &["{DAV:}multistatus"],
    &["{DAV:}response"],
    &["{DAV:}href", "{DAV:}propstat"],
    &["{DAV:}prop", "{DAV:}status"],
];

/// Reads an answer.
pub(super) fn read(xml: &str) -> Vec<Entry> {
    let mut reader = NsReader::from_str(xml);
    reader.config_mut().expand_empty_elements = true;
    let (mut entries, mut entry) = (Vec::new(), Entry::default());
    let (mut properties, mut status, mut text) = (BTreeMap::new(), String::new(), String::new());
    let mut open: Vec<String> = Vec::new();
    loop {
        let (namespace, event) = reader.read_resolved_event().expect("well-formed XML");
        match event {
            Event::Start(start) => {
                let name = name(namespace, start.local_name().into_inner());
                match CHILDREN.get(open.len()) {
                    Some(allowed) => assert!(allowed.contains(&name.as_str()), "{name} in {open:?}"),
                    None if open.len() == 4 => assert_eq!(open[3], "{DAV:}prop"),
                    None => text.push_str(&name),
                }
                if open.len() < 5 {
                    text.clear();
                }
                open.push(name);
            }
            Event::End(_) => {
                let name = open.pop().expect("begun");
                match (open.len(), name.as_str()) {
                    (4, _) => assert!(properties.insert(name, std::mem::take(&mut text)).is_none(), "twice"),
                    (3, "{DAV:}status") => status = std::mem::take(&mut text),
                    (2, "{DAV:}href") => entry.href = std::mem::take(&mut text),
                    (2, _) => match status.as_str() {
                        "HTTP/1.1 200 OK" => entry.found.append(&mut properties),
                        "HTTP/1.1 404 Not Found" => {
                            assert!(properties.values().all(String::is_empty), "{properties:?}");
                            entry.missing.extend(std::mem::take(&mut properties).into_keys());
                        }
                        other => panic!("{other}"),
                    },
                    (1, _) => entries.push(std::mem::take(&mut entry)),
                    _ => {}
                }
            }
            Event::Text(more) => text.push_str(&more),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().expect("a reference") {
                Some(c) => text.push(c),
                None => text.push_str(resolve_xml_entity(&reference).expect("defined by XML")),
            },
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty() && !entries.is_empty(), "{xml}");
    entries
}

fn name(namespace: ResolveResult<'_>, name: &str) -> String {
    match namespace {
        ResolveResult::Bound(Namespace(raw)) => format!("{{{}}}{name}", unescape(raw).expect("a name space")),
        ResolveResult::Unbound => format!("{{}}{name}"),
        ResolveResult::Unknown(prefix) => panic!("{prefix} is not declared"),
    }
}
