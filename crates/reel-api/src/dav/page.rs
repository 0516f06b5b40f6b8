//! A directory as a page for people.

use super::answer::Resource;
use super::escape::push_escaped;
use super::pieces::Pieces;
use super::tree::{self, Node, Space};
use crate::below::Below;
use crate::{ControlPlane, Problem};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// The page has links and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'self'");

/// `GET` of a directory. Files are answered by the data plane.
pub(super) async fn show(control: ControlPlane, path: &str, below: Below) -> Result<Response, Problem> {
    match Node::of(path) {
        Some(Node::Root) => Ok(page(below, tree::root(), Space::ALL.into_iter().map(Space::resource))),
        Some(Node::Directory(space)) => {
            let titles = control.playable_titles().await?;
            Ok(page(below, space.resource(), titles.into_iter().filter_map(move |title| space.file(&title))))
        }
        Some(Node::File(..)) | None => Err(Problem::no_such_address(path)),
    }
}

fn page(
    below: Below,
    directory: Resource,
    entries: impl Iterator<Item = Resource> + Send + 'static,
) -> Response {
    let mut begin = String::from("<!doctype html>\n<html lang=en><meta charset=utf-8><title>");
    push_escaped(&mut begin, &directory.seen(&below).href);
    begin.push_str("</title>\n<ul>\n");
    let texts = std::iter::once(begin)
        .chain(entries.map(move |entry| link(&entry.seen(&below))))
        .chain(["</ul>\n".to_owned()]);
    let fields = [(header::CONTENT_TYPE, HTML), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (fields, Pieces::body(texts)).into_response()
}

fn link(entry: &Resource) -> String {
    let mut text = String::from("<li><a href=\"");
    push_escaped(&mut text, &entry.href);
    text.push_str("\">");
    push_escaped(&mut text, &entry.name);
    text.push_str("</a>\n");
    text
}
