//! `/dav/`: directories and files by WebDAV, and what is refused there.

use super::fake::{Answer, Server};
use crate::below::place;
use crate::limits::{BODY_SECONDS_MAX, DAV_PIECE_BYTES};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use hyper::body::Body as _;
use reel_library::{PlainFileSummary, TitleSummary};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;
use tower::ServiceExt;

const ALLOW: &str = "OPTIONS, GET, HEAD, PROPFIND";

/// A server with two titles that are plain files, and three that are not shown.
async fn server() -> Server {
    let server = Server::new();
    for name in ["Film", "Other", "No%20file", "Unreadable", "Aside"] {
        let id = server.add(name).await;
        change(&server, &id, |title| {
            title.plain_file =
                (id != "no-file").then(|| PlainFileSummary { bytes: 1234, stamp: "f".to_owned() });
            title.problem = (id == "unreadable").then(|| "its index is lost".to_owned());
        });
    }
    server.sessions.set_aside.lock().expect("lock").insert("aside".to_owned(), "it panicked".to_owned());
    server
}

fn change(server: &Server, id: &str, change: impl FnOnce(&mut TitleSummary)) {
    let mut titles = server.library.titles.lock().expect("lock");
    let title = titles.get_mut(id).expect("there");
    change(Arc::make_mut(title));
}

fn request(path: &str, depth: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::builder().method("PROPFIND").uri(path).header("depth", depth);
    request.body(body.into()).expect("a request")
}

async fn find(server: &Server, path: &str, depth: &str, body: &str) -> Answer {
    server.send(request(path, depth, body.to_owned())).await
}

fn hrefs(answer: &Answer) -> Vec<&str> {
    assert_eq!(answer.status, StatusCode::MULTI_STATUS, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/xml; charset=utf-8");
    let parts = answer.text().split("<D:href>").skip(1);
    parts.map(|part| part.split_once("</D:href>").expect("closed").0).collect()
}

/// Clients take only what is below what they asked for.
#[tokio::test]
async fn names_of_resources_are_below_the_path_of_the_client() {
    let server = server().await;
    let mut asked = request("/reel/dav/copy/", "1", "");
    let mut config = server.control.config().clone();
    config.base_path = "/reel".parse().expect("a path");
    place(&mut asked, IpAddr::from([192, 0, 2, 7]), &config);
    let all = ["/reel/dav/copy/", "/reel/dav/copy/film.mp4", "/reel/dav/copy/other.mp4"];
    assert_eq!(hrefs(&server.send(asked).await), all);
}

#[tokio::test]
async fn directories_list_what_can_be_played_as_one_file() {
    let server = server().await;
    for path in ["/dav", "/dav/"] {
        assert_eq!(hrefs(&find(&server, path, "0", "").await), ["/dav/"]);
        assert_eq!(hrefs(&find(&server, path, "1", "").await), ["/dav/", "/dav/play/", "/dav/copy/"]);
    }
    for path in ["/dav/play", "/dav/play/"] {
        assert_eq!(hrefs(&find(&server, path, "0", "").await), ["/dav/play/"]);
        let all = find(&server, path, "1", "").await;
        assert_eq!(hrefs(&all), ["/dav/play/", "/dav/play/film.mp4", "/dav/play/other.mp4"]);
        assert!(all.text().contains("<D:getcontentlength>1234</D:getcontentlength>"));
        assert!(all.text().contains("<D:getetag>&#34;film-0-4-0-1-mp4&#34;</D:getetag>"), "{}", all.text());
    }
    for depth in ["0", "1", "infinity"] {
        assert_eq!(hrefs(&find(&server, "/dav/copy/film.mp4", depth, "").await), ["/dav/copy/film.mp4"]);
    }
    for path in
        ["/dav/copy/none.mp4", "/dav/copy/aside.mp4", "/dav/copy/no-file.mp4", "/dav/none", "/dav/x/y.mp4"]
    {
        find(&server, path, "0", "").await.problem(404);
    }
}

#[tokio::test]
async fn names_are_escaped_in_listings_and_on_pages() {
    let server = server().await;
    change(&server, "film", |title| title.name = "<b>Tom & \"Jerry's\" 七\u{1}</b>".to_owned());
    let escaped = "&lt;b&gt;Tom &amp; &#34;Jerry&#39;s&#34; 七\u{fffd}&lt;/b&gt;";
    let listing = find(&server, "/dav/copy/", "1", "").await;
    assert!(
        listing.text().contains(&format!("<D:displayname>{escaped}</D:displayname>")),
        "{}",
        listing.text()
    );
    let page = server.get("/dav/copy/").await;
    assert_eq!((page.status, page.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"));
    assert!(
        page.text().contains(&format!("<a href=\"/dav/copy/film.mp4\">{escaped}</a>")),
        "{}",
        page.text()
    );
    assert_eq!(page.text().matches("<a ").count(), 2);
    assert!(server.get("/dav").await.text().contains("<a href=\"/dav/play/\">play</a>"));
    assert_eq!(server.call("HEAD", "/dav/copy").await.status, StatusCode::OK);
    server.get("/dav/none/").await.problem(404);
    server.get("/dav/copy/none.mp4").await.problem(404);
}

#[tokio::test]
async fn everything_below_a_directory_is_not_listed_at_once() {
    let server = server().await;
    let absent = Request::builder().method("PROPFIND").uri("/dav/").body(Body::empty()).expect("a request");
    for answer in [server.send(absent).await, find(&server, "/dav/play/", "Infinity", "").await] {
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(answer.text().contains("<D:propfind-finite-depth/>"), "{}", answer.text());
    }
    find(&server, "/dav/", "2", "").await.problem(400);
}

#[tokio::test]
async fn properties_that_are_not_known_are_named_back() {
    let server = server().await;
    let body = "<propfind xmlns='DAV:'><prop><displayname/><n:a xmlns:n='x&quot;&lt;'/></prop></propfind>";
    let answer = find(&server, "/dav/play/film.mp4", "0", body).await;
    let text = answer.text();
    assert!(text.contains("<D:prop><D:displayname>Film</D:displayname></D:prop>"), "{text}");
    assert!(text.contains("<D:prop><n:a xmlns:n=\"x&#34;&lt;\"/></D:prop><D:status>HTTP/1.1 404"), "{text}");
}

#[tokio::test]
async fn methods_are_told_and_every_write_is_refused() {
    let server = server().await;
    let before = find(&server, "/dav/copy/", "1", "").await.body;
    for path in ["/dav", "/dav/", "/dav/play/", "/dav/copy/film.mp4", "/dav/copy/new.mp4"] {
        let options = server.call("OPTIONS", path).await;
        assert_eq!((options.status, options.header("dav")), (StatusCode::OK, "1"), "{path}");
        assert_eq!((options.header("allow"), options.header("ms-author-via")), (ALLOW, "DAV"));
        for method in [
            "PUT",
            "DELETE",
            "MKCOL",
            "COPY",
            "MOVE",
            "PROPPATCH",
            "LOCK",
            "UNLOCK",
            "POST",
            "PATCH",
            "REPORT",
        ] {
            // A body that never ends is not waited for.
            let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
            let request = Request::builder().method(method).uri(path).body(endless).expect("a request");
            let answer = server.send(request).await;
            assert!(answer.problem(405).contains("read"), "{}", answer.text());
            assert_eq!(answer.header("allow"), ALLOW, "{method} {path}");
        }
    }
    assert_eq!(find(&server, "/dav/copy/", "1", "").await.body, before);
}

#[tokio::test]
async fn bad_questions_are_refused_with_a_reason() {
    let server = server().await;
    let bomb = "<!DOCTYPE a [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'>]><propfind xmlns='DAV:'><prop>&b;</prop></propfind>";
    for body in [bomb, "<propfind", "<propfind/>"] {
        assert!(find(&server, "/dav/", "0", body).await.problem(400).contains("PROPFIND"));
    }
    let large = format!("<propfind xmlns='DAV:'><prop>{}</prop></propfind>", " ".repeat(10 << 20));
    find(&server, "/dav/", "0", &large).await.problem(413);
    let mut latin = request("/dav/", "0", "<propfind xmlns='DAV:'><allprop/></propfind>");
    let media_type = "text/xml; charset=\"iso-8859-1\"".parse().expect("a value");
    latin.headers_mut().insert("content-type", media_type);
    assert!(server.send(latin).await.problem(415).contains("iso-8859-1"));
    let latin = "<?xml version='1.0' encoding='utf-16'?><propfind xmlns='DAV:'><allprop/></propfind>";
    find(&server, "/dav/", "0", latin).await.problem(415);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_never_ends_is_given_up() {
    let server = server().await;
    let from = Instant::now();
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
    server.send(request("/dav/", "0", endless)).await.problem(408);
    assert!(from.elapsed() <= 2 * BODY_SECONDS_MAX);
}

/// No more of the listing than a piece is in memory, whatever the number of titles.
#[tokio::test]
async fn a_listing_of_3000_titles_is_made_in_pieces() {
    let server = server().await;
    {
        let mut titles = server.library.titles.lock().expect("lock");
        let film = titles["film"].clone();
        for number in 0..2998 {
            let id = format!("title-{number}");
            titles.insert(id.clone(), Arc::new(TitleSummary { id, ..TitleSummary::clone(&film) }));
        }
    }
    let listing = request("/dav/play/", "1", Body::empty());
    let answer = server.control.router().oneshot(listing).await.expect("never fails");
    let mut body = pin!(answer.into_body());
    let (mut pieces, mut text) = (0, Vec::new());
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut context) {
        let piece = frame.expect("made").into_data().expect("data");
        assert!(piece.len() < DAV_PIECE_BYTES + 2048, "{}", piece.len());
        pieces += 1;
        text.extend_from_slice(&piece);
    }
    assert!(pieces > 50, "{pieces}");
    let text = String::from_utf8(text).expect("text");
    assert_eq!(text.matches("<D:response>").count(), 3001);
    assert!(text.ends_with("</D:multistatus>\n"));
}

/// A page of another site may ask, as it may read: it is not shown the answer.
#[tokio::test]
async fn a_propfind_changes_nothing_and_a_write_of_another_site_is_refused() {
    let server = server().await;
    let foreign = |method: &str| {
        let request = Request::builder().method(method).uri("/dav/").header("depth", "0");
        request.header("sec-fetch-site", "cross-site").body(Body::empty()).expect("a request")
    };
    assert_eq!(server.send(foreign("PROPFIND")).await.status, StatusCode::MULTI_STATUS);
    server.send(foreign("DELETE")).await.problem(403);
}
