//! Response heads, and whole responses as bodies whose first part is the head.

use crate::download_name::DownloadName;
use crate::limits::{PROXY_TAKES_BYTES_MAX, REDIRECT_LASTS_S};
use crate::range::{Answer, Validators, answer};
use crate::request::Request;
use reel_admit::OpenRefused;
use reel_cache::{Body, Part};
use reel_play::SessionRefused;
use reel_qos::AdmitError;
use reel_serve::{Refusal, http_date, relative_address};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A response ready to be sent.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Head and body.
    pub(crate) body: Body,
    /// Length of the body without the head.
    pub(crate) body_bytes: u64,
    /// The offset of the body in its resource.
    pub(crate) body_offset: u64,
    pub(crate) keep_alive: bool,
}

/// The fields that players of another origin may send: `*` for browsers that know it (Fetch
/// standard), and for older ones the names that players are known to send. The `CMCD` fields are
/// those of CTA-5004.
const PREFLIGHT_FIELDS: &str = "*, Range, If-Range, If-Match, If-None-Match, If-Modified-Since, \
     If-Unmodified-Since, Accept, Accept-Encoding, Cache-Control, Content-Type, Pragma, \
     X-Requested-With, CMCD-Object, CMCD-Request, CMCD-Session, CMCD-Status";

/// A resource that can be requested in parts.
pub(crate) struct Resource {
    pub(crate) content_type: &'static str,
    pub(crate) cache_control: &'static str,
    pub(crate) validators: Validators,
    pub(crate) body: Body,
    /// The name under which a browser offers to save it.
    pub(crate) download_name: Option<DownloadName>,
}

impl Resource {
    /// Answers `request` with this resource, a part of it, or an answer that it is unchanged.
    pub(crate) fn respond(self, request: &Request) -> Response {
        let answer = self.answer(request);
        self.respond_with(request, answer)
    }

    /// The answer to a request, by its conditions and its range.
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        answer(request, &self.validators, self.body.bytes())
    }

    /// The response with this answer.
    pub(crate) fn respond_with(self, request: &Request, answer: Answer) -> Response {
        let bytes = self.body.bytes();
        let mut fields = String::with_capacity(512);
        let Validators { etag, last_modified } = &self.validators;
        // Writing to a string cannot fail.
        let _ = write!(
            fields,
            "ETag: {etag}\r\nLast-Modified: {last_modified}\r\nCache-Control: {}\r\nAccept-Ranges: bytes\r\n",
            self.cache_control
        );
        match answer {
            Answer::NotModified => Response::new(request, 304, &fields, None),
            Answer::Failed => {
                let detail = "this is not what If-Match or If-Unmodified-Since asks for: it has changed since; ask without them";
                Response::problem(request, 412, detail, &format!("ETag: {etag}\r\n"))
            }
            Answer::Unsatisfiable => {
                let detail =
                    format!("this has {bytes} bytes, and none of them is in the range that was asked for");
                let more = format!(
                    "ETag: {etag}\r\nLast-Modified: {last_modified}\r\nAccept-Ranges: bytes\r\nContent-Range: bytes */{bytes}\r\n"
                );
                Response::problem(request, 416, &detail, &more)
            }
            Answer::Whole => {
                self.describe(&mut fields);
                Response::new(request, 200, &fields, Some(self.body))
            }
            Answer::Part(range) => {
                self.describe(&mut fields);
                let last = range.end - 1;
                let _ = write!(fields, "Content-Range: bytes {}-{last}/{bytes}\r\n", range.start);
                let body_offset = range.start;
                let part = Response::new(request, 206, &fields, Some(self.body.slice(range)));
                Response { body_offset, ..part }
            }
        }
    }

    fn describe(&self, fields: &mut String) {
        let _ = write!(fields, "Content-Type: {}\r\n", self.content_type);
        if let Some(name) = &self.download_name {
            let _ = write!(fields, "Content-Disposition: attachment; {name}\r\n");
        }
    }
}

impl Response {
    /// A problem (RFC 9457): the cause, and what to do.
    pub(crate) fn problem(request: &Request, status: u16, detail: &str, more: &str) -> Response {
        let title = reason(status);
        let text = serde_json::json!({
            "type": "about:blank", "title": title, "status": status, "detail": detail
        })
        .to_string();
        let fields = format!("Content-Type: application/problem+json\r\nCache-Control: no-store\r\n{more}");
        Response::new(request, status, &fields, Some(Body::text(text.into_bytes())))
    }

    /// The answer to a session whose title ends later than the ledger can reserve. It has no time
    /// to ask again, because the title will not become shorter.
    pub(crate) fn too_long(request: &Request, detail: &str) -> Response {
        let problem = serde_json::json!({
            "type": "urn:reel:problem:too-long",
            "title": "This title is longer than what can be promised ahead",
            "status": 503,
            "detail": detail,
        });
        let fields = "Content-Type: application/problem+json\r\nCache-Control: no-store\r\n";
        Response::new(request, 503, fields, Some(Body::text(problem.to_string().into_bytes())))
    }

    /// The answer to a file that a title does not have.
    pub(crate) fn absent(request: &Request) -> Response {
        Response::problem(request, 404, "this title has no such track, segment or file", "")
    }

    /// The answer to a key of no session that can be opened again.
    pub(crate) fn ended(request: &Request) -> Response {
        let detail =
            "this session has ended or never was; open the title again with /watch/TITLE/master.m3u8";
        Response::problem(request, 410, detail, "")
    }

    /// The answer to a title or a session that is not opened.
    pub(crate) fn refusal(request: &Request, refusal: &Refusal) -> Response {
        let problem = |status, fields| Response::problem(request, status, &refusal.to_string(), fields);
        match refusal {
            Refusal::NoSuchTitle { .. } | Refusal::NoSuchForm { .. } => problem(404, ""),
            Refusal::NoSuchClass { .. } => problem(400, ""),
            Refusal::ClassOfOthers { .. }
            | Refusal::KeyOfTitle { .. }
            | Refusal::KeyOfClass { .. }
            | Refusal::KeyOfClient
            | Refusal::KeyOfUser => problem(403, ""),
            Refusal::Unreadable { .. } | Refusal::Panicked { .. } | Refusal::SetAside { .. } => {
                problem(500, "")
            }
            Refusal::TooManyOpenings | Refusal::TooManyMerged { .. } | Refusal::OpeningTooLong => {
                problem(503, &format!("Retry-After: {}\r\n", refusal.retry_after_s()))
            }
            Refusal::Session(refused) => Response::session_refused(request, refused),
        }
    }

    /// The answer to a session that is not opened: the resource that is short, and what could be
    /// reserved instead.
    fn session_refused(request: &Request, refused: &SessionRefused) -> Response {
        match refused {
            SessionRefused::TooLong => {
                let detail = format!("{refused}; download it, or request it with ?class=aperiodic");
                Response::too_long(request, &detail)
            }
            SessionRefused::Refused(refused) => Response::refused(request, refused),
        }
    }

    /// 503 with what could be reserved; 429 if the client itself has too much (RFC 6585 section 4).
    pub(crate) fn refused(request: &Request, refused: &OpenRefused) -> Response {
        if let OpenRefused::NotAdmitted(AdmitError::TooLong { .. }) = refused {
            return Response::too_long(request, &refused.to_string());
        }
        let retry_after_s = refused.retry_after_s();
        let status = if refused.is_of_client() { 429 } else { 503 };
        let mut problem = serde_json::json!({
            "type": "urn:reel:problem:not-admitted",
            "title": "The deadlines of this stream cannot be promised",
            "status": status,
            "detail": refused.to_string(),
            "retry_after_s": retry_after_s,
        });
        if let Some(refusal) = refused.refusal() {
            problem["resource"] = refusal.resource.code().into();
            if let Some(member) = refusal.resource.member() {
                problem["member"] = member.into();
            }
            problem["asked"] = refusal.asked.into();
            problem["available"] = refusal.available.into();
            problem["grantable_rate_bps"] = refusal.grantable_bps.into();
            if refusal.retry_after_s.is_none() {
                problem["never"] = true.into();
            }
        } else {
            problem["resource"] = "sessions".into();
        }
        let fields = format!(
            "Content-Type: application/problem+json\r\nCache-Control: no-store\r\nRetry-After: {retry_after_s}\r\n"
        );
        Response::new(request, status, &fields, Some(Body::text(problem.to_string().into_bytes())))
    }

    /// A redirect to a path of this server that must be followed with the same method. If it
    /// `lasts`, the client that asks may follow it again without asking.
    ///
    /// Players with ffmpeg ask at the first address again for each range, and play a file from two
    /// places in turn. They keep a redirect for its `max-age`, if that comes first. A cache never
    /// uses an answer that varies with everything (RFC 9111 section 4.1), so two pages of a
    /// browser, or two players behind a proxy, do not share a session.
    pub(crate) fn redirect(request: &Request, path: &str, lasts: bool) -> Response {
        let location = relative_address(&request.path, path);
        let cache = match lasts {
            true => format!("max-age={REDIRECT_LASTS_S}, private\r\nVary: *"),
            false => "no-store".to_owned(),
        };
        let fields = format!("Location: {location}\r\nCache-Control: {cache}\r\n");
        Response::new(request, 307, &fields, Some(Body::default()))
    }

    /// The answer to HEAD for content whose size is not known yet (RFC 9110 section 9.3.2).
    pub(crate) fn without_size(request: &Request, content_type: &str) -> Response {
        let fields = format!("Content-Type: {content_type}\r\nCache-Control: no-store\r\n");
        Response::new(request, 200, &fields, None)
    }

    /// The head of an answer whose body is still being made: in chunks (RFC 9112 section 7.1), or
    /// up to the end of the connection.
    pub(crate) fn growing(request: &Request, content_type: &str, in_chunks: bool) -> Response {
        let coding = if in_chunks { "Transfer-Encoding: chunked\r\n" } else { "" };
        // A proxy that kept it until there is much of it would make it late.
        let fields = format!(
            "Content-Type: {content_type}\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n{coding}"
        );
        Response::new(request, 200, &fields, None)
    }

    /// The answer to a browser that asks which requests it may send to media of another origin
    /// (Fetch standard, CORS preflight).
    pub(crate) fn options(request: &Request) -> Response {
        let fields = format!(
            "Allow: GET, HEAD, OPTIONS\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n\
             Access-Control-Allow-Headers: {PREFLIGHT_FIELDS}\r\nAccess-Control-Max-Age: 86400\r\n"
        );
        Response::new(request, 204, &fields, None)
    }

    fn new(request: &Request, status: u16, fields: &str, body: Option<Body>) -> Response {
        let mut head = String::with_capacity(fields.len() + 320);
        let _ = write!(
            head,
            "HTTP/1.1 {status} {}\r\nServer: reel\r\nDate: {}\r\nAccess-Control-Allow-Origin: *\r\n\
             Access-Control-Expose-Headers: Content-Range, Content-Length, ETag, Retry-After\r\n\
             X-Content-Type-Options: nosniff\r\n",
            reason(status),
            // A server with a clock must send the date (RFC 9110 section 6.6.1). Clients compute
            // ages and judge validators by it.
            http_date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
        );
        head.push_str(fields);
        if let Some(body) = &body {
            let _ = write!(head, "Content-Length: {}\r\n", body.bytes());
            if body.bytes() > PROXY_TAKES_BYTES_MAX {
                head.push_str("X-Accel-Buffering: no\r\n");
            }
        }
        head.push_str(if request.keep_alive {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        let head: Arc<[u8]> = Arc::from(head.into_bytes());
        let head_bytes = head.len();
        let body = body.filter(|_| request.method != "HEAD").unwrap_or_default();
        let body_bytes = body.bytes();
        let whole = Body::new([Part::Bytes(head, 0..head_bytes)]).then(body);
        Response { status, body: whole, body_bytes, body_offset: 0, keep_alive: request.keep_alive }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Precondition Failed",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_serve::seconds_of_http_date;

    fn text(response: &Response) -> String {
        let mut all = Vec::new();
        while let Some(part) = response.body.part_at(all.len() as u64) {
            let Part::Bytes(bytes, range) = part else { unreachable!("these bodies have no objects") };
            all.extend_from_slice(&bytes[range]);
        }
        String::from_utf8(all).unwrap()
    }

    fn resource() -> Resource {
        Resource {
            content_type: "video/mp4",
            cache_control: "no-cache",
            validators: Validators { etag: "\"e\"".into(), last_modified: "d".into() },
            body: Body::text(&b"0123456789"[..]),
            download_name: None,
        }
    }

    fn request(method: &str, range: Option<&str>) -> Request {
        let range = range.map(str::to_owned);
        Request { method: method.into(), keep_alive: true, range, ..Request::default() }
    }

    #[test]
    fn a_proxy_is_not_to_take_a_long_body_ahead_of_its_client() {
        for (bytes, range, is_long) in [
            (PROXY_TAKES_BYTES_MAX as usize, None, false),
            (PROXY_TAKES_BYTES_MAX as usize + 1, None, true),
            (PROXY_TAKES_BYTES_MAX as usize + 1, Some("bytes=1-"), false),
        ] {
            let long = Resource { body: Body::text(vec![0; bytes]), ..resource() };
            let response = long.respond(&request("GET", range));
            let head = text(&response).split("\r\n\r\n").next().unwrap().to_owned();
            assert_eq!(head.contains("X-Accel-Buffering: no"), is_long, "{head}");
        }
    }

    #[test]
    fn every_answer_has_a_date() {
        let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let asked = request("GET", Some("bytes=99-"));
        let before_s = now_s();
        for response in [
            resource().respond(&request("GET", None)),
            resource().respond(&asked),
            Response::redirect(&asked, "/", true),
            Response::redirect(&asked, "/", false),
            Response::options(&asked),
        ] {
            let head = text(&response);
            let date = head.lines().find_map(|line| line.strip_prefix("Date: ")).expect("a date");
            let date_s = seconds_of_http_date(date).expect("a date of HTTP");
            assert!((before_s..=now_s()).contains(&date_s), "{date}");
        }
    }

    #[test]
    fn whole_part_and_head_agree() {
        let whole = text(&resource().respond(&request("GET", None)));
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.ends_with("\r\n\r\n0123456789"));
        let part = text(&resource().respond(&request("GET", Some("bytes=2-4"))));
        assert!(
            part.contains("Content-Range: bytes 2-4/10\r\nContent-Length: 3\r\n")
                && part.ends_with("\r\n\r\n234")
        );
        let head = text(&resource().respond(&request("HEAD", None)));
        assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"));
    }

    #[test]
    fn a_title_that_is_too_long_is_refused_without_a_time_to_ask_again() {
        let too_long = AdmitError::TooLong { ends_in_s: 90_000, timeline_s: 86_400 };
        let refused = text(&Response::refused(&request("GET", None), &OpenRefused::NotAdmitted(too_long)));
        assert!(refused.starts_with("HTTP/1.1 503 ") && !refused.contains("Retry-After:"), "{refused}");
        assert!(
            refused.contains("\"urn:reel:problem:too-long\"") && refused.contains("90000 s"),
            "{refused}"
        );
        let refused = text(&Response::refused(&request("GET", None), &AdmitError::TooMany.into()));
        assert!(refused.contains("Retry-After: 10\r\n") && refused.contains(":not-admitted\""), "{refused}");
    }

    #[test]
    fn a_client_that_has_its_share_is_told_so_by_the_status() {
        for (refused, status) in [
            (OpenRefused::Client { held: 256 }, "429 Too Many Requests"),
            (OpenRefused::Unstarted { held: 64 }, "429 Too Many Requests"),
            (OpenRefused::Full { max: 10, retry_after_s: 3 }, "503 Service Unavailable"),
        ] {
            let response = text(&Response::refused(&request("GET", None), &refused));
            assert!(response.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{response}");
            assert!(response.contains("\r\nRetry-After: "), "{response}");
        }
    }

    #[test]
    fn answers_beyond_the_end_and_for_unchanged_resources() {
        let beyond = text(&resource().respond(&request("GET", Some("bytes=10-"))));
        assert!(beyond.starts_with("HTTP/1.1 416 ") && beyond.contains("Content-Range: bytes */10\r\n"));
        let (head, body) = beyond.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Content-Type: application/problem+json\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(head.contains("ETag: \"e\"\r\n") && head.matches("Cache-Control").count() == 1, "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["status"], &body["title"]), (&416.into(), &"Range Not Satisfiable".into()));
        assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("10 bytes")), "{body}");
        let other = Request { if_match: Some("\"x\"".into()), ..request("GET", None) };
        let other = text(&resource().respond(&other));
        assert!(
            other.starts_with("HTTP/1.1 412 Precondition Failed\r\n") && other.contains("ETag: \"e\"\r\n")
        );
        let known = Request { if_none_match: Some("\"e\"".into()), ..request("GET", None) };
        let known = text(&resource().respond(&known));
        assert!(known.starts_with("HTTP/1.1 304 ") && !known.contains("\r\nContent-Length"));
    }
}
