//! The body of a PROPFIND: which properties a client asks for (RFC 4918 section 14.20).
//!
//! Nothing is expanded: a body that declares a document type is refused, and so is every reference
//! that XML does not define by itself.

use super::limits::{
    DAV_ATTRIBUTES_MAX, DAV_DEPTH_MAX, DAV_ELEMENTS_MAX, DAV_NAMES_BYTES_MAX, DAV_PROPERTIES_MAX,
};
use super::property::{DAV, Property, empty_element};
use quick_xml::NsReader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

/// What is asked of each resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The names of all its properties.
    Names,
    /// Properties with their values.
    Values(Wanted),
}

/// Properties that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// All that the resource has are asked for, too.
    pub all: bool,
    /// Those asked for by name.
    pub known: Vec<Property>,
    /// Names that no resource here has a property of, as empty elements.
    pub unknown: String,
}

/// Why a body is no question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadQuestion {
    /// It is in another encoding than UTF-8.
    Encoding(String),
    /// Another reason.
    Malformed(String),
}

impl Question {
    /// Reads a body. An absent one asks for all properties.
    ///
    /// # Errors
    /// A body that is no question, with the reason.
    pub fn parse(body: &[u8]) -> Result<Question, BadQuestion> {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        if body.is_empty() {
            return Ok(Question::Values(Wanted { all: true, ..Wanted::default() }));
        }
        let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
        let mut reader = NsReader::from_str(text);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_comments = true;
        let mut parser = Parser::default();
        while parser.take(&mut reader)? {}
        parser.finish()
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Characters of a reason: a sentence.
const REASON_CHARS_MAX: usize = 200;

/// An element that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Propfind,
    /// `prop` or `include`: its elements are names of properties.
    Names,
    /// Its content means nothing here.
    Other,
}

/// The one thing that a body asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    All,
    Names,
    Listed,
}

/// What was read of a body.
#[derive(Default)]
struct Parser {
    places: Vec<Place>,
    has_root: bool,
    elements: usize,
    properties: usize,
    kind: Option<Kind>,
    includes: bool,
    wanted: Wanted,
}

impl Parser {
    /// Takes the next part of the body. `false` at its end.
    fn take(&mut self, reader: &mut NsReader<&[u8]>) -> Result<bool, BadQuestion> {
        let (namespace, event) = reader.read_resolved_event().map_err(malformed)?;
        match event {
            Event::Start(start) => {
                let namespace = namespace_of(namespace)?;
                self.begin(&namespace, &start)?;
            }
            // The reader has compared its name.
            Event::End(_) => {
                self.places.pop();
            }
            Event::Decl(declaration) => check_encoding(&declaration)?,
            Event::DocType(_) => return Err(malformed("a document type is declared, which is not taken")),
            Event::GeneralRef(reference) => check_reference(&reference)?,
            Event::Text(text) if self.places.is_empty() && !text.trim().is_empty() => {
                return Err(malformed("there is text outside of the element propfind"));
            }
            Event::CData(_) if self.places.is_empty() => {
                return Err(malformed("there is text outside of the element propfind"));
            }
            Event::Eof => return Ok(false),
            // With `expand_empty_elements`, an empty element is a start and an end.
            Event::Text(_) | Event::CData(_) | Event::Comment(_) | Event::PI(_) | Event::Empty(_) => {}
        }
        Ok(true)
    }

    fn begin(&mut self, namespace: &str, start: &BytesStart<'_>) -> Result<(), BadQuestion> {
        self.elements += 1;
        if self.elements > DAV_ELEMENTS_MAX {
            return Err(malformed(format!("there are more than {DAV_ELEMENTS_MAX} elements")));
        }
        if self.places.len() >= DAV_DEPTH_MAX {
            return Err(malformed(format!("elements are nested deeper than {DAV_DEPTH_MAX}")));
        }
        check_attributes(start)?;
        let name = start.local_name().into_inner();
        let place = match self.places.last() {
            None => self.begin_root(namespace, name)?,
            Some(Place::Propfind) if namespace == DAV => self.begin_kind(name)?,
            Some(Place::Names) => self.add(namespace, name)?,
            Some(Place::Propfind | Place::Other) => Place::Other,
        };
        self.places.push(place);
        Ok(())
    }

    fn begin_root(&mut self, namespace: &str, name: &str) -> Result<Place, BadQuestion> {
        if std::mem::replace(&mut self.has_root, true) {
            return Err(malformed("there is a second element at the top"));
        }
        match (namespace, name) {
            (DAV, "propfind") => Ok(Place::Propfind),
            _ => Err(malformed("the element at the top is not propfind of the name space DAV:")),
        }
    }

    fn begin_kind(&mut self, name: &str) -> Result<Place, BadQuestion> {
        let (kind, place) = match name {
            "allprop" => (Kind::All, Place::Other),
            "propname" => (Kind::Names, Place::Other),
            "prop" => (Kind::Listed, Place::Names),
            "include" => {
                self.includes = true;
                return Ok(Place::Names);
            }
            // Elements that are not known are ignored (RFC 4918 section 17).
            _ => return Ok(Place::Other),
        };
        match self.kind.replace(kind) {
            None => Ok(place),
            Some(_) => Err(malformed("there is more than one of allprop, propname and prop")),
        }
    }

    /// Adds a property that is asked for.
    fn add(&mut self, namespace: &str, name: &str) -> Result<Place, BadQuestion> {
        self.properties += 1;
        if self.properties > DAV_PROPERTIES_MAX {
            return Err(malformed(format!("more than {DAV_PROPERTIES_MAX} properties are asked for")));
        }
        match Property::named(namespace, name) {
            Some(property) if self.wanted.known.contains(&property) => {}
            Some(property) => self.wanted.known.push(property),
            None => {
                let element = empty_element(namespace, name)
                    .ok_or_else(|| malformed(format!("{name:?} of {namespace:?} cannot be a name")))?;
                self.wanted.unknown.push_str(&element);
            }
        }
        if self.wanted.unknown.len() > DAV_NAMES_BYTES_MAX {
            return Err(malformed(format!(
                "the names that are not known here have more than {DAV_NAMES_BYTES_MAX} bytes"
            )));
        }
        Ok(Place::Other)
    }

    fn finish(mut self) -> Result<Question, BadQuestion> {
        if !self.has_root || !self.places.is_empty() {
            return Err(malformed("the body ends before the element propfind does"));
        }
        match self.kind {
            None => Err(malformed("there is none of allprop, propname and prop")),
            Some(Kind::Names | Kind::Listed) if self.includes => {
                Err(malformed("include belongs to allprop alone"))
            }
            Some(Kind::Names) => Ok(Question::Names),
            Some(kind) => {
                self.wanted.all = kind == Kind::All;
                Ok(Question::Values(self.wanted))
            }
        }
    }
}

/// The reason may quote what was sent: it is cut off.
fn malformed(why: impl ToString) -> BadQuestion {
    BadQuestion::Malformed(why.to_string().chars().take(REASON_CHARS_MAX).collect())
}

/// The name space of an element; empty if it has none.
fn namespace_of(resolved: ResolveResult<'_>) -> Result<String, BadQuestion> {
    match resolved {
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Bound(Namespace(raw)) => Ok(unescape(raw).map_err(malformed)?.into_owned()),
        ResolveResult::Unknown(prefix) => Err(malformed(format!("the prefix {prefix:?} is not declared"))),
    }
}

fn check_encoding(declaration: &BytesDecl<'_>) -> Result<(), BadQuestion> {
    match declaration.encoding() {
        None => Ok(()),
        Some(Ok(encoding)) if is_utf8(&encoding) => Ok(()),
        Some(Ok(encoding)) => Err(BadQuestion::Encoding(encoding.chars().take(REASON_CHARS_MAX).collect())),
        Some(Err(error)) => Err(malformed(error)),
    }
}

/// Whether this is the name of UTF-8, or of a part of it.
pub(super) fn is_utf8(encoding: &str) -> bool {
    ["utf-8", "utf8", "us-ascii"].iter().any(|name| encoding.eq_ignore_ascii_case(name))
}

fn check_reference(reference: &BytesRef<'_>) -> Result<(), BadQuestion> {
    if reference.resolve_char_ref().map_err(malformed)?.is_some() || resolve_xml_entity(reference).is_some() {
        return Ok(());
    }
    Err(malformed("there is a reference to an entity, and none is defined"))
}

fn check_attributes(start: &BytesStart<'_>) -> Result<(), BadQuestion> {
    // Counted before they are compared with each other.
    if start.attributes().with_checks(false).count() > DAV_ATTRIBUTES_MAX {
        return Err(malformed(format!("an element has more than {DAV_ATTRIBUTES_MAX} attributes")));
    }
    for attribute in start.attributes() {
        let attribute = attribute.map_err(malformed)?;
        if attribute.value.contains('<') {
            return Err(malformed("an attribute has a \"<\""));
        }
        unescape(&attribute.value).map_err(malformed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Question, BadQuestion> {
        Question::parse(body.as_bytes())
    }

    fn wanted(body: &str) -> Wanted {
        match parse(body) {
            Ok(Question::Values(wanted)) => wanted,
            other => panic!("{other:?} of {body}"),
        }
    }

    fn why_not(body: &str) -> String {
        match parse(body) {
            Err(BadQuestion::Malformed(why)) => why,
            other => panic!("{other:?} of {body}"),
        }
    }

    fn prop(names: &str) -> String {
        format!("<propfind xmlns='DAV:'><prop>{names}</prop></propfind>")
    }

    #[test]
    fn questions_of_the_rfc() {
        assert!(wanted("").all && wanted("\u{feff}").all);
        let all = wanted(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<D:propfind xmlns:D=\"DAV:\">\n <D:allprop/>\n</D:propfind>\n",
        );
        assert_eq!(all, Wanted { all: true, ..Wanted::default() });
        assert_eq!(parse("<propfind xmlns='DAV:'><propname/></propfind>"), Ok(Question::Names));
        let listed = wanted(&prop("<getetag/><a:b xmlns:a='x:&amp;&#34;'/><getetag/><quota/><c xmlns=''/>"));
        let unknown = "<n:b xmlns:n=\"x:&amp;&#34;\"/><D:quota/><c xmlns=\"\"/>".to_owned();
        assert_eq!(listed, Wanted { all: false, known: vec![Property::EntityTag], unknown });
        let include = "<d:propfind xmlns:d='DAV:'><d:allprop/><d:include><d:acl/></d:include></d:propfind>";
        assert_eq!(wanted(include).unknown, "<D:acl/>");
        // What is not known is ignored, also inside of a name.
        let extended = "<propfind xmlns='DAV:' a='b'><x><prop/></x><?a b?><!-- c --><prop><getetag>t<y/>&lt;</getetag></prop></propfind>";
        assert_eq!(wanted(extended).known, [Property::EntityTag]);
        assert_eq!(wanted(&prop("")), Wanted::default());
    }

    #[test]
    fn what_is_no_question_is_refused_with_a_reason() {
        for body in [
            "<",
            " ",
            "nothing",
            "<propfind/>",
            "<propfind xmlns='DAV:'/>",
            "<propfind xmlns='DAV:'><other/></propfind>",
            "<propfind xmlns='DAV:'><prop/><prop/></propfind>",
            "<propfind xmlns='DAV:'><allprop/><propname/></propfind>",
            "<propfind xmlns='DAV:'><prop/><include/></propfind>",
            "<propfind xmlns='DAV:'><allprop/></propfind><propfind xmlns='DAV:'><allprop/></propfind>",
            "<propfind xmlns='DAV:'><allprop/></propfind>text",
            "<propfind xmlns='DAV:'><allprop/></propfind><![CDATA[text]]>",
            "<propfind xmlns='DAV:'><allprop/>",
            "<propfind xmlns='DAV:'><allprop></propfind></allprop>",
            "<propfind xmlns='DAV:' a='1' a='2'><allprop/></propfind>",
            "<propfind xmlns='DAV:' a><allprop/></propfind>",
            "<propfind xmlns='DAV:' a='&none;'><allprop/></propfind>",
            "<D:propfind xmlns:D='DAV:'><D:prop><a:b xmlns:a=''/></D:prop></D:propfind>",
            "<D:propfind xmlns:D='DAV:'><D:prop><a:b/></D:prop></D:propfind>",
        ] {
            assert!(!why_not(body).is_empty(), "{body}");
        }
        for names in ["<a\"b/>", "<a&b/>", "<x:y:z xmlns:x='n'/>", "<x:y xmlns:x='&#1;'/>", "<xmlns:y/>"] {
            assert!(!why_not(&prop(names)).is_empty(), "{names}");
        }
        assert!(Question::parse(b"<propfind xmlns='DAV:'><allprop/>\xff</propfind>").is_err());
        let latin = "<?xml version='1.0' encoding='ISO-8859-1'?><propfind xmlns='DAV:'><allprop/></propfind>";
        assert_eq!(parse(latin), Err(BadQuestion::Encoding("ISO-8859-1".to_owned())));
    }

    #[test]
    fn nothing_is_expanded() {
        let bomb = "<!DOCTYPE a [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'>]><propfind xmlns='DAV:'><prop>&b;</prop></propfind>";
        assert!(why_not(bomb).contains("document type"), "{}", why_not(bomb));
        let file = "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><propfind xmlns='DAV:'><allprop/></propfind>";
        assert!(why_not(file).contains("document type"));
        assert!(why_not(&prop("&b;")).contains("entity"), "{}", why_not(&prop("&b;")));
    }

    #[test]
    fn every_count_has_a_limit() {
        let nested = format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000));
        let many: String = (0..=DAV_PROPERTIES_MAX).map(|number| format!("<p{number}/>")).collect();
        let ignored = format!("<getetag>{}</getetag>", "<a/>".repeat(DAV_ELEMENTS_MAX));
        let long = format!("<a xmlns='{}'/>", "x".repeat(DAV_NAMES_BYTES_MAX));
        let attributes: String = (0..=DAV_ATTRIBUTES_MAX).map(|number| format!(" a{number}=''")).collect();
        for (names, why) in [
            (nested, "nested deeper"),
            (many, "properties are asked for"),
            (ignored, "elements"),
            (long, "bytes"),
            (format!("<a{attributes}/>"), "attributes"),
        ] {
            assert!(why_not(&prop(&names)).contains(why), "{}", why_not(&prop(&names)));
        }
        let bindings: String = (0..9000).map(|number| format!(" xmlns:a{number}='b'")).collect();
        assert!(!why_not(&prop(&format!("<a{bindings}/>"))).is_empty());
    }
}
