//! `/dav/`: titles as files by WebDAV (RFC 4918, class 1), read-only.
//!
//! The data plane answers GET and HEAD of files. Everything else arrives here.

pub mod answer;
mod escape;
mod page;
mod pieces;
mod property;
pub mod question;
mod tree;

use crate::below::Below;
use crate::body::small_body;
use crate::{ControlPlane, Problem, limits, on_blocking_thread};
use answer::Resource;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use pieces::Pieces;
pub use property::Property;
use question::{BadQuestion, Question};
use tree::{Node, Space};

/// The methods that resources have here.
const ALLOW: HeaderValue = HeaderValue::from_static("OPTIONS, GET, HEAD, PROPFIND");
const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=utf-8");
/// RFC 4918 section 9.1: the listing of everything below a directory is refused.
const FINITE_DEPTH: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

/// The addresses of WebDAV. The OpenAPI document cannot describe its methods, so they are not in
/// the table of the others.
pub(super) fn routes() -> [(&'static str, MethodRouter<ControlPlane>); 3] {
    ["/dav", "/dav/", "/dav/{*path}"].map(|path| (path, any(respond)))
}

async fn respond(State(control): State<ControlPlane>, below: Below, request: Request) -> Response {
    let answered = match request.method().as_str() {
        "OPTIONS" => return options(),
        "GET" | "HEAD" => page::show(control, request.uri().path(), below).await,
        "PROPFIND" => find_properties(control, below, request).await,
        method => return read_only(method),
    };
    answered.unwrap_or_else(Problem::into_response)
}

fn options() -> Response {
    let fields = [("dav", HeaderValue::from_static("1")), ("ms-author-via", HeaderValue::from_static("DAV"))];
    (fields, [(header::ALLOW, ALLOW)]).into_response()
}

/// The body of such a request is not read.
fn read_only(method: &str) -> Response {
    let problem = Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "read-only",
        "Titles are read-only here",
        format!("{method} is refused: by WebDAV titles are read and nothing else"),
    )
    .help("titles are added and removed by /api/v1/titles or on the page of this server");
    ([(header::ALLOW, ALLOW)], problem).into_response()
}

async fn find_properties(control: ControlPlane, below: Below, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let node = Node::of(parts.uri.path()).ok_or_else(|| Problem::no_such_address(parts.uri.path()))?;
    check_charset(&parts.headers)?;
    let depth = Depth::of(&parts.headers)?;
    if depth == Depth::Infinity && !matches!(node, Node::File(..)) {
        return Ok((StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, XML)], FINITE_DEPTH).into_response());
    }
    let asked = Asked { question: Question::parse(&small_body(body).await?).map_err(refused)?, below };
    match node {
        Node::File(space, id) => {
            let file = file(control, space, id).await?;
            Ok(multistatus(asked, std::iter::once(file)))
        }
        Node::Directory(space) if depth == Depth::One => {
            let titles = control.playable_titles().await?;
            let files = titles.into_iter().filter_map(move |title| space.file(&title));
            Ok(multistatus(asked, std::iter::once(space.resource()).chain(files)))
        }
        Node::Directory(space) => Ok(multistatus(asked, std::iter::once(space.resource()))),
        Node::Root => {
            let below = if depth == Depth::One { &Space::ALL[..] } else { &[] };
            let below = below.iter().map(|space| space.resource());
            Ok(multistatus(asked, std::iter::once(tree::root()).chain(below)))
        }
    }
}

/// The file of a title.
async fn file(control: ControlPlane, space: Space, id: &str) -> Result<Resource, Problem> {
    let wanted = id.to_owned();
    let found = on_blocking_thread(move || control.playable_title(&wanted)).await?;
    found.and_then(|title| space.file(&title)).ok_or_else(|| Problem::no_such_title(id))
}

/// A question, and the path below which its client sees the resources.
struct Asked {
    question: Question,
    below: Below,
}

/// The answer, which is made while it is sent.
fn multistatus(asked: Asked, resources: impl Iterator<Item = Resource> + Send + 'static) -> Response {
    let responses =
        resources.map(move |resource| answer::response(&asked.question, &resource.seen(&asked.below)));
    let texts = std::iter::once(answer::BEGIN.to_owned()).chain(responses).chain([answer::END.to_owned()]);
    (StatusCode::MULTI_STATUS, [(header::CONTENT_TYPE, XML)], Pieces::body(texts)).into_response()
}

/// How far below a resource a question goes (RFC 4918 section 10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
}

impl Depth {
    fn of(headers: &HeaderMap) -> Result<Depth, Problem> {
        match headers.get("depth").map(HeaderValue::as_bytes) {
            Some(b"0") => Ok(Depth::Zero),
            Some(b"1") => Ok(Depth::One),
            None => Ok(Depth::Infinity),
            Some(depth) if depth.eq_ignore_ascii_case(b"infinity") => Ok(Depth::Infinity),
            Some(_) => Err(Problem::bad_request("the field Depth is none of 0, 1 and infinity")),
        }
    }
}

fn check_charset(headers: &HeaderMap) -> Result<(), Problem> {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut parameters = media_type.unwrap_or_default().split(';').skip(1);
    let charset = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    match charset {
        Some(charset) if !question::is_utf8(charset) => Err(other_charset(charset)),
        _ => Ok(()),
    }
}

fn other_charset(charset: &str) -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not-utf-8",
        "The body must be UTF-8",
        format!("this request says that its body is in {charset:?}"),
    )
}

fn refused(bad: BadQuestion) -> Problem {
    match bad {
        BadQuestion::Encoding(encoding) => other_charset(&encoding),
        BadQuestion::Malformed(why) => {
            Problem::bad_request(format!("the body is no PROPFIND of WebDAV: {why}"))
                .help("RFC 4918 section 14.20 describes it; without a body, all properties are listed")
        }
    }
}
