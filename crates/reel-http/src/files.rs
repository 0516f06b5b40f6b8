//! The files of a title as HTTP resources.

use crate::date::http_date;
use crate::range::{Answer, Validators};
use crate::request::Request;
use crate::response::{Resource, Response};
use reel_play::{MediaRequest, Playable, PlayableTitle, SessionFile, TitleFile};

/// Incremented when the texts or headers made from an index change, so that no cache mixes old and
/// new.
const FORMAT: u32 = 1;

/// A session's files belong to its client alone, and never change during the session.
pub(crate) const SESSION_CACHE: &str = "private, max-age=3600, immutable";
/// A title may be removed and another one ingested under its name: caches must revalidate.
const DOWNLOAD_CACHE: &str = "public, no-cache";

/// The answer to a request for the whole title as one file.
pub(crate) fn download(title: &PlayableTitle, request: &Request) -> Response {
    let Some(file) = title.file() else {
        return Response::problem(request, 404, "this title has nothing that a plain MP4 file can hold", "");
    };
    let file = TitleFile { content_type: "video/mp4", name: "mp4".to_owned(), body: file.body.clone() };
    let mut resource = resource(title, file, DOWNLOAD_CACHE);
    resource.download_name = Some(format!("{}.mp4", title.title().record().id));
    resource.respond(request)
}

/// What a request with this answer takes of the media of its session.
pub(crate) fn media_request(
    request: &Request,
    file: SessionFile,
    answer: &Answer,
    bytes: u64,
) -> MediaRequest {
    let range = match answer {
        Answer::Whole => 0..bytes,
        Answer::Part(range) => range.clone(),
        Answer::NotModified | Answer::Failed | Answer::Unsatisfiable => return MediaRequest::Preparation,
    };
    match file {
        _ if request.method != "GET" => MediaRequest::Preparation,
        SessionFile::Segment(track, number) => {
            MediaRequest::Segment { track, number, bytes: range.end - range.start }
        }
        SessionFile::Progressive => MediaRequest::File(range),
        _ => MediaRequest::Preparation,
    }
}

/// A file as a resource.
pub(crate) fn resource(title: &PlayableTitle, file: TitleFile, cache_control: &'static str) -> Resource {
    let TitleFile { content_type, name, body } = file;
    let etag = format!("\"{}-{FORMAT}-{name}\"", title.title().stamp());
    let last_modified = http_date(title.title().record().added_unix_s);
    let validators = Validators { etag, last_modified };
    Resource { content_type, cache_control, validators, body, download_name: None }
}
