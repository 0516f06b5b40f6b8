//! The properties of WebDAV that resources have here, and how names of properties are written.

use super::escape::{is_name, is_xml_char, push_escaped};

/// The name space of WebDAV (RFC 4918 section 14).
pub(super) const DAV: &str = "DAV:";
const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

/// A property (RFC 4918 section 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// `creationdate`.
    CreationDate,
    /// `displayname`.
    DisplayName,
    /// `getcontentlength`.
    ContentLength,
    /// `getcontenttype`.
    ContentType,
    /// `getetag`.
    EntityTag,
    /// `getlastmodified`.
    LastModified,
    /// `resourcetype`.
    ResourceType,
    /// `supportedlock`.
    SupportedLock,
}

impl Property {
    pub(super) const ALL: [Property; 8] = [
        Property::CreationDate,
        Property::DisplayName,
        Property::ContentLength,
        Property::ContentType,
        Property::EntityTag,
        Property::LastModified,
        Property::ResourceType,
        Property::SupportedLock,
    ];

    /// Its name, in the name space of WebDAV.
    pub(super) fn name(self) -> &'static str {
        match self {
            Property::CreationDate => "creationdate",
            Property::DisplayName => "displayname",
            Property::ContentLength => "getcontentlength",
            Property::ContentType => "getcontenttype",
            Property::EntityTag => "getetag",
            Property::LastModified => "getlastmodified",
            Property::ResourceType => "resourcetype",
            Property::SupportedLock => "supportedlock",
        }
    }

    /// The property of this name.
    pub(super) fn named(namespace: &str, name: &str) -> Option<Property> {
        let mut all = Property::ALL.into_iter();
        all.find(|property| namespace == DAV && property.name() == name)
    }
}

/// The name of a property as an empty element, in which the prefix `D` is that of WebDAV. `None` if
/// no element can have the name.
pub(super) fn empty_element(namespace: &str, name: &str) -> Option<String> {
    if !is_name(name) || !namespace.chars().all(is_xml_char) {
        return None;
    }
    match namespace {
        DAV => Some(format!("<D:{name}/>")),
        "" => Some(format!("<{name} xmlns=\"\"/>")),
        // No other prefix may stand for this name space, and none for the other one.
        XML => Some(format!("<xml:{name}/>")),
        XMLNS => None,
        _ => {
            let mut element = format!("<n:{name} xmlns:n=\"");
            push_escaped(&mut element, namespace);
            element.push_str("\"/>");
            Some(element)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_so_that_they_are_read_as_the_same() {
        assert_eq!(empty_element(DAV, "quota").as_deref(), Some("<D:quota/>"));
        assert_eq!(empty_element("", "ö").as_deref(), Some("<ö xmlns=\"\"/>"));
        let escaped = empty_element("a\"b&<c>\n", "x").expect("a name");
        assert_eq!(escaped, "<n:x xmlns:n=\"a&#34;b&amp;&lt;c&gt;&#10;\"/>");
        assert_eq!(empty_element(XML, "lang").as_deref(), Some("<xml:lang/>"));
        for (namespace, name) in
            [(XMLNS, "x"), ("a", "b:c"), ("a", ""), ("a", "1"), ("a", "b\"c"), ("\0", "x")]
        {
            assert_eq!(empty_element(namespace, name), None, "{namespace:?} {name:?}");
        }
    }
}
