//! The files of a title as HTTP resources.

use crate::download_name::DownloadName;
use crate::file_reader::ReadAs;
use crate::range::{Answer, Validators};
use crate::request::Request;
use crate::response::{Resource, Response};
use reel_library::entity_tag;
use reel_play::{MANIFEST_TYPE, MediaRequest, PLAYLIST_TYPE, PlayableTitle, SessionFile, TitleFile};
use reel_serve::last_modified;

/// A session's files belong to its client alone, and never change during the session.
pub(crate) const SESSION_CACHE: &str = "private, max-age=3600, immutable";
/// A title may be removed and another one ingested under its name: caches must revalidate.
const DOWNLOAD_CACHE: &str = "public, no-cache";

/// The answer to a request for the whole title as one file.
pub(crate) fn download(title: &PlayableTitle, request: &Request, name: ReadAs) -> Response {
    let Some(file) = title.whole_file() else { return no_plain_file(request) };
    let mut resource = resource(title, file, DOWNLOAD_CACHE);
    let record = title.title().record();
    resource.download_name = (name == ReadAs::File).then(|| DownloadName::mp4(&record.id, &record.name));
    resource.respond(request)
}

fn no_plain_file(request: &Request) -> Response {
    Response::problem(request, 404, "this title has nothing that a plain MP4 file can hold", "")
}

/// The answer to HEAD for a file of a title that no session plays yet: what a session would send.
/// The size of a text is known only when the session is opened, because admission chooses the
/// tracks in it.
pub(crate) fn description(title: &PlayableTitle, file: SessionFile, request: &Request) -> Response {
    match file {
        SessionFile::Progressive | SessionFile::Transport => match title.whole_file() {
            Some(whole) => resource(title, whole, DOWNLOAD_CACHE).respond(request),
            None => no_plain_file(request),
        },
        SessionFile::Manifest => Response::without_size(request, MANIFEST_TYPE),
        _ => Response::without_size(request, PLAYLIST_TYPE),
    }
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
        SessionFile::Progressive | SessionFile::Transport => MediaRequest::File(range),
        _ => MediaRequest::Preparation,
    }
}

/// A file as a resource.
pub(crate) fn resource(title: &PlayableTitle, file: TitleFile, cache_control: &'static str) -> Resource {
    let TitleFile { content_type, name, body } = file;
    let etag = entity_tag(&title.title().stamp(), &name);
    let last_modified = last_modified(title.title().record().added_unix_s);
    let validators = Validators { etag, last_modified };
    Resource { content_type, cache_control, validators, body, download_name: None }
}
