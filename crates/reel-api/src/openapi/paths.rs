//! Every address with its operations.

use super::describe::{Describe, Operation, path, plain, query, text};
use crate::casts::{CastPlanQuery, SlotsQuery};
use crate::classes::ClassBody;
use crate::dashboard::CapacityQuery;
use crate::jobs::JobStatus;
use crate::library_service::VolumeReport;
use crate::subtitles::SubtitleQuery;
use crate::upload::UploadQuery;
use crate::wire::{
    AddedSubtitles, Capacity, Cast, CastList, CastPlans, CastSlots, Dashboard, FileTimes, FileTimesQuery,
    JobList, NewCast, NewOutlet, OpenPouredSession, OpenSession, Outlet, OutletList, PourList, PouredSession,
    Readiness, Replacement, Session, SessionChange, SessionList, Title, TitleChange, TitleList, Watch,
};
use serde_json::{Map, Value, json};

/// All paths of the document.
pub(super) fn all(describe: &mut Describe) -> Map<String, Value> {
    let groups: [fn(&mut Describe) -> Paths; 11] =
        [titles, sessions, outlets, pours, casts, cast_schedules, admission, volume, server, pages, media];
    groups.into_iter().flat_map(|group| group(describe)).map(|(path, item)| (path.to_owned(), item)).collect()
}

type Paths = Vec<(&'static str, Value)>;

fn titles(describe: &mut Describe) -> Paths {
    let m3u = [("200", plain("A playlist (M3U) of relative addresses", ["audio/x-mpegurl"]))];
    let op = |id, summary| Operation { tag: "titles", id, summary };
    let list = [
        ("200", describe.json::<TitleList>("The titles; ETag names this state of the list")),
        ("304", plain("As the client has them", [])),
    ];
    let one = [("200", describe.json::<Title>("The title")), ("404", describe.problem("No such title"))];
    let changed = [
        ("200", describe.json::<Title>("The title as it is now; its id is the same")),
        ("404", describe.problem("No such title")),
        ("415", describe.problem("The body is not JSON")),
        ("422", describe.problem("The name has no visible character")),
    ];
    let mut change = describe.operation(op("changeTitle", "Give a title another name"), changed);
    change["requestBody"] = describe.body::<TitleChange>();
    let removed = [
        ("204", plain("Removed; sessions that play it may finish", [])),
        ("404", describe.problem("No such title")),
    ];
    let poster = [
        ("200", plain("The picture", ["image/jpeg", "image/svg+xml"])),
        ("304", plain("As the client has it", [])),
        ("404", describe.problem("No such poster")),
    ];
    vec![
        (
            "/api/v1/titles",
            json!({
                "get": describe.operation(op("listTitles", "All titles, by name"), list),
                "post": upload(describe),
            }),
        ),
        (
            "/api/v1/titles/{id}",
            json!({
                "parameters": [path("id", "A title's id; to GET also `A+B`, a merged title")],
                "get": describe.operation(op("getTitle", "One title"), one),
                "patch": change,
                "delete": describe.operation(op("removeTitle", "Remove a title"), removed),
            }),
        ),
        ("/api/v1/titles/{id}/file-times", file_times(describe)),
        (
            "/api/v1/titles/{id}/forms/ts",
            json!({ "parameters": [path("id", "A title's id")], "post": add_stream(describe) }),
        ),
        (
            "/api/v1/titles/{id}/subtitles",
            json!({ "parameters": [path("id", "A title's id")], "post": subtitles(describe) }),
        ),
        (
            "/img/{file}",
            json!({
                "parameters": [path("file", "{id}.jpg or {id}.svg, as the title's poster field says")],
                "get": describe.operation(op("getPoster", "A title's poster"), poster),
            }),
        ),
        (
            "/library.m3u",
            json!({
                "get": describe.operation(op("listTitlesForPlayers", "The titles, for players"), m3u),
            }),
        ),
    ]
}

fn upload(describe: &mut Describe) -> Value {
    let responses = [
        ("201", describe.json::<Title>("With wait: the title")),
        ("202", describe.json::<JobStatus>("The job; Location is its address")),
        ("413", describe.problem("Larger than upload.max_bytes")),
        ("415", describe.problem("The body is a form, not a file")),
        ("400", describe.problem("The body is not as long as files says")),
        ("422", describe.problem("Not a file that can be taken; the detail says why")),
        ("429", describe.problem("This client has its share of the uploads")),
        ("503", describe.problem("Too many uploads at once")),
        ("507", describe.problem("The volume or the spool directory is full")),
    ];
    let summary = "Take a title: the body is the file itself, or several files one after the other";
    let mut post = describe.operation(Operation { tag: "titles", id: "uploadTitle", summary }, responses);
    post["description"] = json!(
        "MP4, MOV, Matroska, WebM or MPEG-TS; codecs are kept as they are. The answer comes when the file has \
         arrived; storing it continues as a job unless wait is set. With files, the body is several files of one title."
    );
    post["parameters"] = query::<UploadQuery>();
    post["requestBody"] = json!({ "required": true, "content": { "application/octet-stream": {} } });
    post
}

/// The id of what is played.
fn played_id() -> Value {
    path("id", "A title's id, or `A+B`: the pictures of title A with the sound of title B")
}

fn file_times(describe: &mut Describe) -> Value {
    let responses = [
        ("200", describe.json::<FileTimes>("Where its stretches begin, and when they are shown")),
        ("400", describe.problem("No such form")),
        ("404", describe.problem("No such title, or it is not stored in this form")),
        ("503", describe.problem("A disk does not answer")),
    ];
    let summary = "When the bytes of a title as one file are shown";
    let mut get = describe.operation(Operation { tag: "titles", id: "getFileTimes", summary }, responses);
    get["parameters"] = query::<FileTimesQuery>();
    json!({ "parameters": [played_id()], "get": get })
}

fn add_stream(describe: &mut Describe) -> Value {
    let responses = [
        ("202", describe.json::<JobStatus>("The job, of kind ingest; Location is its address")),
        ("404", describe.problem("No such title")),
        ("409", describe.problem("It has this form")),
        ("429", describe.problem("This client has its share of the uploads")),
        ("503", describe.problem("The volume is open for reading only, or too many uploads at once")),
    ];
    let summary =
        "Make a transport stream of a title, without transcoding, and store it beside what players use";
    let mut post =
        describe.operation(Operation { tag: "titles", id: "addTransportStream", summary }, responses);
    post["description"] = json!(
        "It carries the best rendition and all sound, without subtitles. The title's id stays, and sessions that \
         play it continue. If the stream cannot be made, the job fails and its error says why."
    );
    post
}

fn subtitles(describe: &mut Describe) -> Value {
    let responses = [
        ("201", describe.json::<AddedSubtitles>("The title with them, and what was left out")),
        ("404", describe.problem("No such title")),
        ("409", describe.problem("It has subtitles of this language and label, or was changed meanwhile")),
        ("413", describe.problem("Larger than subtitles are")),
        ("415", describe.problem("The body is a form, not a file")),
        ("422", describe.problem("Not a file of subtitles, or no language; the detail says why")),
        ("429", describe.problem("This client has its share of the uploads")),
        ("503", describe.problem("The volume is open for reading only, or too many uploads at once")),
        ("507", describe.problem("The volume is full")),
    ];
    let summary = "Add subtitles to a title: the body is the file itself";
    let mut post = describe.operation(Operation { tag: "titles", id: "addSubtitles", summary }, responses);
    post["description"] = json!(
        "SubRip, WebVTT or SubStation Alpha. The title's id stays; sessions that play it continue without the new \
         subtitles, and sessions opened later have them."
    );
    post["parameters"] = query::<SubtitleQuery>();
    post["requestBody"] = json!({ "required": true, "content": { "application/octet-stream": {} } });
    post
}

fn casts(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "casts", id, summary };
    let list = [("200", describe.json::<CastList>("The casts"))];
    let added = [
        ("201", describe.json::<Cast>("Granted; Location is the cast's address")),
        ("404", describe.problem("No such title")),
        ("409", describe.problem("Another cast has the name or the group")),
        ("415", describe.problem("The body is not JSON")),
        ("422", describe.problem("It cannot be cast in this way; the detail says why and what to do")),
        ("503", describe.problem(REFUSED)),
    ];
    let one = [("200", describe.json::<Cast>("The cast")), ("404", describe.problem("No such cast"))];
    let stopped = [("204", plain("It ends", [])), ("404", describe.problem("No such cast"))];
    let sdp = [
        ("200", plain("The description (RFC 8866)", ["application/sdp"])),
        ("404", describe.problem("No such cast")),
    ];
    let m3u = [("200", plain("A playlist (M3U) of rtp:// addresses", ["audio/x-mpegurl"]))];
    let mut add = describe.operation(op("addCast", "Have a title sent to a group"), added);
    add["requestBody"] = describe.body::<NewCast>();
    vec![
        (
            "/api/v1/casts",
            json!({ "get": describe.operation(op("listCasts", "All casts"), list), "post": add }),
        ),
        (
            "/api/v1/casts/{name}",
            json!({
                "parameters": [path("name", "A cast's name")],
                "get": describe.operation(op("getCast", "One cast"), one),
                "delete": describe.operation(op("stopCast", "End a cast"), stopped),
            }),
        ),
        (
            "/casts.m3u",
            json!({
                "get": describe.operation(op("listCastsForPlayers", "The casts, for players"), m3u),
            }),
        ),
        (
            "/casts/{file}",
            json!({
                "parameters": [path("file", "{name}.sdp")],
                "get": describe.operation(op("describeCast", "What receivers need to know of a cast"), sdp),
            }),
        ),
    ]
}

fn cast_schedules(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "casts", id, summary };
    let slots = [
        ("200", describe.json::<CastSlots>("The slots")),
        ("404", describe.problem("No such cast, or it has no schedule")),
    ];
    let mut schedule = describe.operation(op("getCastSlots", "What the channels of a cast send when"), slots);
    schedule["parameters"] = query::<SlotsQuery>();
    let plans = [
        ("200", describe.json::<CastPlans>("The plans")),
        ("404", describe.problem("No such title")),
        ("422", describe.problem("There is no such schedule; the detail says why")),
    ];
    let mut plan = describe.operation(op("planCast", "What it would cost to cast a title"), plans);
    plan["parameters"] = query::<CastPlanQuery>();
    vec![
        (
            "/api/v1/casts/{name}/schedule",
            json!({
                "parameters": [path("name", "A cast's name")],
                "get": schedule,
            }),
        ),
        ("/api/v1/cast-plans", json!({ "get": plan })),
    ]
}

fn sessions(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "sessions", id, summary };
    let list = [("200", describe.json::<SessionList>("The sessions"))];
    let opened = [
        ("201", describe.json::<Session>("Granted; Location is the session's address")),
        ("404", describe.problem("No such title")),
        ("415", describe.problem("The body is not JSON")),
        ("429", describe.problem("Refused: this client has its share")),
        ("503", describe.problem(REFUSED)),
    ];
    let closed = [
        ("204", plain("Ended", [])),
        ("403", describe.problem(KEY_OF_OTHER)),
        ("404", describe.problem("No such session")),
    ];
    let one = [
        ("200", describe.json::<Session>("The session")),
        ("403", describe.problem(KEY_OF_OTHER)),
        ("404", describe.problem("No such session")),
    ];
    let changed = [
        ("200", describe.json::<Session>("The session as it is now")),
        ("400", describe.problem("No such class")),
        ("403", describe.problem("The class or the key is not for this client")),
        ("404", describe.problem("No such session")),
        ("415", describe.problem("The body is not JSON")),
        ("429", describe.problem("Refused: this client has its share, or changes the class too often")),
        ("503", describe.problem(REFUSED)),
    ];
    let mut change = describe.operation(op("changeSession", "Continue in another class"), changed);
    change["description"] = json!(
        "The session is admitted in the new class, and gives back what it has in the old one, in one step. If it is \
         refused, it keeps its class and all that it has. Responses under way continue, and read in the new class from \
         then on."
    );
    change["requestBody"] = describe.body::<SessionChange>();
    let mut open =
        describe.operation(op("openSession", "Ask for a title to be played without stalls"), opened);
    open["requestBody"] = describe.body::<OpenSession>();
    vec![
        (
            "/api/v1/sessions",
            json!({ "get": describe.operation(op("listSessions", "All sessions"), list), "post": open }),
        ),
        (
            "/api/v1/sessions/{key}",
            json!({
                "parameters": [path("key", "A session's key")],
                "get": describe.operation(op("getSession", "One session"), one),
                "patch": change,
                "delete": describe.operation(op("closeSession", "End a session"), closed),
            }),
        ),
    ]
}

fn pours(describe: &mut Describe) -> Paths {
    let list = [("200", describe.json::<PourList>("The streams, by name"))];
    let op = Operation { tag: "server", id: "listPours", summary: "The streams that programs pour now" };
    let play = [
        (
            "200",
            plain(
                "The stream from now on, in chunks; its media type is the one its program has declared",
                [],
            ),
        ),
        ("403", describe.problem(CLASS_OF_OTHERS)),
        ("404", describe.problem("No program pours a stream of this name now")),
        ("429", describe.problem("Refused: this client has its share")),
        ("503", describe.problem(REFUSED)),
    ];
    let summary = "A stream that a program pours, while it comes";
    let play = describe.operation(Operation { tag: "media", id: "playPour", summary }, play);
    let opened = [
        ("201", describe.json::<PouredSession>("Granted; Location is the session's address")),
        ("400", describe.problem("No such class")),
        ("403", describe.problem(CLASS_OF_OTHERS)),
        ("404", describe.problem("No program pours a stream of this name now")),
        ("415", describe.problem("The body is not JSON")),
        ("429", describe.problem("Refused: this client has its share")),
        ("503", describe.problem(REFUSED)),
    ];
    let summary = "Ask for a stream that a program pours, to join it";
    let open = Operation { tag: "sessions", id: "openPouredSession", summary };
    let mut open = describe.operation(open, opened);
    open["requestBody"] = describe.body::<OpenPouredSession>();
    let name = || path("name", "A poured stream's name");
    vec![
        ("/api/v1/pours", json!({ "get": describe.operation(op, list) })),
        ("/api/v1/pours/{name}/sessions", json!({ "parameters": [name()], "post": open })),
        ("/live/{name}", json!({ "parameters": [name()], "get": play })),
    ]
}

const KEY_OF_OTHER: &str = "The key was given to another address (bind_sessions_to_address)";

fn outlets(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "sessions", id, summary };
    let list = [
        ("200", describe.json::<OutletList>("The outlets")),
        ("403", describe.problem(KEY_OF_OTHER)),
        ("404", describe.problem("No such session")),
    ];
    let added = [
        ("201", describe.json::<Outlet>("It is played into; Location is the outlet's address")),
        ("403", describe.problem("The server's configuration does not allow this, or not to this client; the detail names the key")),
        ("404", describe.problem("No such session")),
        ("409", describe.problem("Something of this name exists, or the session plays already")),
        ("415", describe.problem("The body is not JSON")),
        ("422", describe.problem("Not a destination, or not one of this title; the detail says why")),
        ("429", describe.problem("The session has as many outlets as one may have")),
        ("503", describe.problem(REFUSED)),
        ("507", describe.problem("The disk of the destination is full")),
    ];
    let one = [
        ("200", describe.json::<Outlet>("The outlet")),
        ("403", describe.problem(KEY_OF_OTHER)),
        ("404", describe.problem("No such outlet")),
    ];
    let removed = [
        ("204", plain("Ended, or removed from the list if it had ended", [])),
        ("403", describe.problem(KEY_OF_OTHER)),
        ("404", describe.problem("No such outlet")),
    ];
    let mut add = describe.operation(op("addOutlet", "Play a session into a destination"), added);
    add["description"] = json!(
        "The server itself plays the session, as one file and as its class is promised. A further outlet gets the \
         same bytes from where the session is then. An outlet that is slower than the others may be is ended."
    );
    add["requestBody"] = describe.body::<NewOutlet>();
    vec![
        (
            "/api/v1/sessions/{key}/outlets",
            json!({
                "parameters": [path("key", "A session's key")],
                "get": describe.operation(op("listOutlets", "The destinations of a session"), list),
                "post": add,
            }),
        ),
        (
            "/api/v1/sessions/{key}/outlets/{number}",
            json!({
                "parameters": [path("key", "A session's key"), path("number", "The outlet's number")],
                "get": describe.operation(op("getOutlet", "One destination of a session"), one),
                "delete": describe.operation(op("removeOutlet", "End an outlet"), removed),
            }),
        ),
    ]
}

const REFUSED: &str = "Refused: what there is too little of, and what could have been granted; Retry-After says when \
                       to ask again. Of type urn:reel:problem:too-long, and without Retry-After, if the title is \
                       longer than what can ever be reserved";

fn admission(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "admission", id, summary };
    let dashboard = [("200", describe.json::<Dashboard>("Everything"))];
    let classes = [("200", describe.json::<Vec<ClassBody>>("All of them"))];
    let changed = [
        ("200", describe.json::<Vec<ClassBody>>("All of them as they are now")),
        ("415", describe.problem("The body is not JSON")),
        (
            "422",
            describe.problem("They do not add up, or a name or kind is not possible; the detail says which"),
        ),
    ];
    let capacity = [
        ("200", describe.json::<Capacity>("The numbers")),
        ("400", describe.problem("No rate, or not one that can be")),
    ];
    let mut change = describe.operation(op("setClasses", "Change the classes and their shares"), changed);
    change["description"] = json!(
        "All of them at once: the shares of all classes add up to 1000 thousandths. Holds until the server ends; \
         what was reserved stays reserved."
    );
    change["requestBody"] = describe.body::<Vec<ClassBody>>();
    let summary = "How many viewers of a stream of this rate can be admitted";
    let mut how_many = describe.operation(op("getCapacity", summary), capacity);
    how_many["parameters"] = query::<CapacityQuery>();
    let summary = "The state of admission: members, resources, classes, sessions, refusals, jobs";
    vec![
        ("/api/v1/dashboard", json!({ "get": describe.operation(op("getDashboard", summary), dashboard) })),
        (
            "/api/v1/classes",
            json!({
                "get": describe.operation(op("getClasses", "The classes of traffic and their shares"), classes),
                "put": change,
            }),
        ),
        ("/api/v1/capacity", json!({ "get": how_many })),
    ]
}

fn volume(describe: &mut Describe) -> Paths {
    let op = Operation { tag: "server", id: "getVolume", summary: "The volume and its members" };
    let state = [("200", describe.json::<VolumeReport>("Its state"))];
    let scrub = volume_job(describe, "scrubVolume", "Read all that is stored and repair what is damaged");
    let rebuild = volume_job(describe, "rebuildVolume", "Compute what members lack from the others");
    let summary = "Put another file or device in the place of a member";
    let mut replace = volume_job(describe, "replaceMember", summary);
    replace["requestBody"] = describe.body::<Replacement>();
    replace["responses"]["422"] = describe.problem("There is no such member, or the path is not absolute");
    vec![
        ("/api/v1/volume", json!({ "get": describe.operation(op, state) })),
        ("/api/v1/volume/scrub", json!({ "post": scrub })),
        ("/api/v1/volume/rebuild", json!({ "post": rebuild })),
        ("/api/v1/volume/replace", json!({ "post": replace })),
    ]
}

fn volume_job(describe: &mut Describe, id: &'static str, summary: &'static str) -> Value {
    let responses = [
        ("202", describe.json::<JobStatus>("The job; Location is its address")),
        ("409", describe.problem("Another job is running on the volume")),
        ("503", describe.problem("The volume is open for reading only")),
    ];
    describe.operation(Operation { tag: "server", id, summary }, responses)
}

fn server(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "server", id, summary };
    let jobs = [("200", describe.json::<JobList>("The jobs"))];
    let job = [("200", describe.json::<JobStatus>("The job")), ("404", describe.problem("No such job"))];
    let cancelled = [
        ("202", describe.json::<JobStatus>("The job as it is; it ends soon")),
        ("404", describe.problem("No such job")),
        ("409", describe.problem("The job is over already")),
    ];
    let ready = [
        ("200", describe.json::<Readiness>("Yes")),
        ("503", describe.json::<Readiness>("No; the checks say why")),
    ];
    let watched = [("200", describe.json::<Watch>("The directory and its files"))];
    let document = json!({
        "description": "OpenAPI 3.1", "content": { "application/json": { "schema": { "type": "object" } } },
    });
    let metrics = [("200", text("Text exposition format 0.0.4", "text/plain"))];
    let summary = "Jobs that run, and the last ones that ended, newest first";
    vec![
        ("/api/v1/jobs", json!({ "get": describe.operation(op("listJobs", summary), jobs) })),
        (
            "/api/v1/jobs/{id}",
            json!({
                "parameters": [path("id", "A job's id")],
                "get": describe.operation(op("getJob", "One job"), job),
                "delete": describe.operation(op("cancelJob", "Ask a job to end"), cancelled),
            }),
        ),
        (
            "/api/v1/watch",
            json!({ "get": describe.operation(op("getWatch", "The watched directory, and its files"), watched) }),
        ),
        (
            "/api/v1/openapi.json",
            json!({ "get": describe.operation(op("getOpenApi", "This document"), [("200", document)]) }),
        ),
        (
            "/healthz",
            json!({
                "get": describe.operation(op("isAlive", "The process answers"), [("200", text("ok", "text/plain"))]),
            }),
        ),
        ("/readyz", json!({ "get": describe.operation(op("isReady", "Titles can be played"), ready) })),
        (
            "/metrics",
            json!({ "get": describe.operation(op("getMetrics", "Counters for Prometheus"), metrics) }),
        ),
    ]
}

fn pages(describe: &mut Describe) -> Paths {
    let op = |id, summary| Operation { tag: "pages", id, summary };
    let page = || text("The page", "text/html");
    let player =
        [("200", page()), ("404", text("The page, saying that there is no such title", "text/html"))];
    let file = [
        ("200", plain("The file", [])),
        ("304", plain("As the client has it", [])),
        ("404", describe.problem("No such file")),
    ];
    vec![
        ("/", json!({ "get": describe.operation(op("libraryPage", "The library"), [("200", page())]) })),
        (
            "/casts",
            json!({ "get": describe.operation(op("castsPage", "Titles that are sent to groups"), [("200", page())]) }),
        ),
        (
            "/dashboard",
            json!({ "get": describe.operation(op("dashboardPage", "The state of admission"), [("200", page())]) }),
        ),
        (
            "/title/{id}",
            json!({
                "parameters": [played_id()],
                "get": describe.operation(op("playerPage", "The player"), player),
            }),
        ),
        (
            "/assets/{file}",
            json!({
                "parameters": [path("file", "A built file")],
                "get": describe.operation(op("asset", "Scripts and styles of the pages"), file),
            }),
        ),
    ]
}

const CLASS_OF_OTHERS: &str = "The class that ?class= names is not for this client";

fn media(describe: &mut Describe) -> Paths {
    let id = played_id;
    let download = [
        ("200", plain("All of it", ["video/mp4"])),
        ("206", plain("The range asked for", ["video/mp4"])),
        ("404", describe.problem("No such title")),
    ];
    let summary = "The title as one MP4 file; a client that reads it with Range, as slowly as a player, is admitted, \
                   unless ?download is in the query";
    let op = |id, summary| Operation { tag: "media", id, summary };
    let copied = "The title as one MP4 file, by WebDAV, without a reservation";
    let copied = describe.operation(op("davCopy", copied), download.clone());
    let played = describe.operation(op("davPlay", "The file that players of WebDAV play"), download.clone());
    let download = describe.operation(op("download", summary), download);
    let mut paths = watched(describe);
    paths.extend([
        ("/files/{id}.mp4", json!({ "parameters": [id()], "get": download })),
        ("/dav/copy/{id}.mp4", json!({ "parameters": [id()], "get": copied })),
        ("/dav/play/{id}.mp4", json!({ "parameters": [id()], "get": played })),
    ]);
    paths
}

/// What opens sessions.
fn watched(describe: &mut Describe) -> Paths {
    let id = played_id;
    let named = || json!([id(), path("name", "The same id again")]);
    let mut watch = |parameters: Value, [id, id_of_head]: [&'static str; 2], summary| {
        let responses = [
            ("307", plain("To the session's own address", [])),
            ("403", describe.problem(CLASS_OF_OTHERS)),
            ("404", describe.problem("No such title, or no such form of it")),
            ("429", describe.problem("Refused: this client has its share")),
            ("503", describe.problem("Refused: one more viewer does not fit, or the title is too long")),
        ];
        let get = describe.operation(Operation { tag: "media", id, summary }, responses);
        let responses = [
            ("200", plain("What a session would send; none is opened", [])),
            ("403", describe.problem(CLASS_OF_OTHERS)),
            ("404", describe.problem("No such title, or no such form of it")),
        ];
        let head = Operation { tag: "media", id: id_of_head, summary: "Looks at the title" };
        let head = describe.operation(head, responses);
        json!({ "parameters": parameters, "get": get, "head": head })
    };
    let hls = "Opens a session and leads to its HLS playlist";
    let dash = "Opens a session and leads to its DASH manifest";
    let file = "Opens a session and leads to one MP4 file, for players without HLS or DASH";
    let list = "Opens a session and leads to an HLS playlist of the stored transport stream (form ts)";
    let stream = "Opens a session and leads to the stored transport stream (form ts) as one file";
    vec![
        ("/watch/{id}/master.m3u8", watch(json!([id()]), ["watchHls", "lookAtHls"], hls)),
        ("/watch/{id}/manifest.mpd", watch(json!([id()]), ["watchDash", "lookAtDash"], dash)),
        ("/watch/{id}/{name}.mp4", watch(named(), ["watchProgressive", "lookAtProgressive"], file)),
        ("/watch/{id}/stream.m3u8", watch(json!([id()]), ["watchStream", "lookAtStream"], list)),
        ("/watch/{id}/{name}.ts", watch(named(), ["watchTransport", "lookAtTransport"], stream)),
    ]
}
