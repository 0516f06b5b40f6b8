//! The answer to a PROPFIND: a multistatus (RFC 4918 section 13), one response at a time.

use super::escape::push_escaped;
use super::property::Property;
use super::question::{Question, Wanted};
use crate::below::Below;

/// What a multistatus begins with.
pub const BEGIN: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
/// What it ends with.
pub const END: &str = "</D:multistatus>\n";

/// A directory or a file, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its path, percent-encoded. That of a directory ends with a slash.
    pub href: String,
    /// Its name for people.
    pub name: String,
    /// What only files have.
    pub file: Option<FileFacts>,
}

impl Resource {
    /// The resource as a client below a path sees it. Names of resources are never relative (RFC
    /// 4918 section 8.3).
    pub(super) fn seen(self, below: &Below) -> Resource {
        Resource { href: below.at(&self.href), ..self }
    }
}

/// The properties of a file: those that HEAD tells, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its length.
    pub bytes: u64,
    /// Its entity tag, with quotes.
    pub etag: String,
    /// When it was changed, as an HTTP date.
    pub last_modified: String,
    /// When it was created, in the form of RFC 3339.
    pub created: String,
}

/// The media type of every file.
const FILE_TYPE: &str = "video/mp4";

/// The response for one resource.
pub fn response(question: &Question, resource: &Resource) -> String {
    let mut out = String::from("<D:response><D:href>");
    push_escaped(&mut out, &resource.href);
    out.push_str("</D:href>");
    match question {
        Question::Names => {
            let names = Property::ALL.into_iter().filter(|property| resource.has(*property));
            let names: String = names.map(|property| format!("<D:{}/>", property.name())).collect();
            push_properties(&mut out, &names, "200 OK");
        }
        Question::Values(wanted) => push_values(&mut out, wanted, resource),
    }
    out.push_str("</D:response>\n");
    out
}

fn push_values(out: &mut String, wanted: &Wanted, resource: &Resource) {
    let mut found = String::new();
    for property in Property::ALL {
        if (wanted.all || wanted.known.contains(&property)) && resource.has(property) {
            resource.push_value(&mut found, property);
        }
    }
    let absent = wanted.known.iter().filter(|property| !resource.has(**property));
    let mut missing: String = absent.map(|property| format!("<D:{}/>", property.name())).collect();
    missing.push_str(&wanted.unknown);
    // There has to be one, also for a client that asks for nothing.
    if !found.is_empty() || missing.is_empty() {
        push_properties(out, &found, "200 OK");
    }
    if !missing.is_empty() {
        push_properties(out, &missing, "404 Not Found");
    }
}

fn push_properties(out: &mut String, properties: &str, status: &str) {
    out.push_str("<D:propstat><D:prop>");
    out.push_str(properties);
    out.push_str("</D:prop><D:status>HTTP/1.1 ");
    out.push_str(status);
    out.push_str("</D:status></D:propstat>");
}

impl Resource {
    /// Whether it has the property. A directory has no length: clients would take it for a file.
    fn has(&self, property: Property) -> bool {
        match property {
            Property::DisplayName | Property::ResourceType | Property::SupportedLock => true,
            Property::CreationDate
            | Property::ContentLength
            | Property::ContentType
            | Property::EntityTag
            | Property::LastModified => self.file.is_some(),
        }
    }

    fn push_value(&self, out: &mut String, property: Property) {
        let name = property.name();
        let bytes = self.file.as_ref().map(|file| file.bytes.to_string());
        let value = match (property, &self.file) {
            (Property::ResourceType, None) => {
                return out.push_str("<D:resourcetype><D:collection/></D:resourcetype>");
            }
            (Property::DisplayName, _) => self.name.as_str(),
            (Property::ContentLength, _) => bytes.as_deref().unwrap_or_default(),
            (Property::ContentType, Some(_)) => FILE_TYPE,
            (Property::CreationDate, Some(file)) => file.created.as_str(),
            (Property::EntityTag, Some(file)) => file.etag.as_str(),
            (Property::LastModified, Some(file)) => file.last_modified.as_str(),
            _ => return out.push_str(&format!("<D:{name}/>")),
        };
        out.push_str(&format!("<D:{name}>"));
        push_escaped(out, value);
        out.push_str(&format!("</D:{name}>"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> Resource {
        Resource { href: "/dav/play/".to_owned(), name: "play".to_owned(), file: None }
    }

    fn file() -> Resource {
        let file = FileFacts {
            bytes: 7,
            etag: "\"tag\"".to_owned(),
            last_modified: "Thu, 01 Jan 1970 00:00:00 GMT".to_owned(),
            created: "1970-01-01T00:00:00Z".to_owned(),
        };
        Resource { href: "/dav/play/a.mp4".to_owned(), name: "<A> & \"B\"".to_owned(), file: Some(file) }
    }

    fn all() -> Question {
        Question::parse(b"").expect("a question")
    }

    #[test]
    fn all_properties() {
        assert_eq!(
            response(&all(), &directory()),
            "<D:response><D:href>/dav/play/</D:href><D:propstat><D:prop><D:displayname>play</D:displayname>\
             <D:resourcetype><D:collection/></D:resourcetype><D:supportedlock/></D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n"
        );
        assert_eq!(
            response(&all(), &file()),
            "<D:response><D:href>/dav/play/a.mp4</D:href><D:propstat><D:prop>\
             <D:creationdate>1970-01-01T00:00:00Z</D:creationdate>\
             <D:displayname>&lt;A&gt; &amp; &#34;B&#34;</D:displayname>\
             <D:getcontentlength>7</D:getcontentlength><D:getcontenttype>video/mp4</D:getcontenttype>\
             <D:getetag>&#34;tag&#34;</D:getetag>\
             <D:getlastmodified>Thu, 01 Jan 1970 00:00:00 GMT</D:getlastmodified>\
             <D:resourcetype/><D:supportedlock/></D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n"
        );
    }

    #[test]
    fn names_and_listed_properties() {
        let names = response(&Question::Names, &directory());
        assert!(
            names.contains("<D:prop><D:displayname/><D:resourcetype/><D:supportedlock/></D:prop>"),
            "{names}"
        );
        let listed = b"<propfind xmlns='DAV:'><prop><getcontentlength/><resourcetype/><x/></prop></propfind>";
        let listed = Question::parse(listed).expect("a question");
        let of_file = response(&listed, &file());
        assert!(
            of_file.contains("<D:prop><D:getcontentlength>7</D:getcontentlength><D:resourcetype/></D:prop>")
        );
        assert!(of_file.contains("<D:prop><D:x/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status>"));
        let of_directory = response(&listed, &directory());
        assert!(of_directory.contains("<D:prop><D:getcontentlength/><D:x/></D:prop><D:status>HTTP/1.1 404"));
        let nothing = Question::parse(b"<propfind xmlns='DAV:'><prop/></propfind>").expect("a question");
        assert!(response(&nothing, &file()).contains("<D:prop></D:prop><D:status>HTTP/1.1 200"));
    }
}
