//! The control plane: everything HTTP that is not media. JSON API, web pages, posters, health,
//! metrics.
//!
//! The data plane accepts every connection and reads its first request; one that is not for media
//! is handed over here with its socket ([`serve_connection`]). Handlers are tokio tasks; what
//! touches a disk runs on tokio's blocking threads, never on the data plane's.

#![forbid(unsafe_code)]

mod admission;
mod background;
mod below;
mod body;
mod cast_playlist;
mod casts;
mod classes;
mod dashboard;
pub mod dav;
mod disk_and_arena_metrics;
mod etag;
mod forms;
mod images;
mod jobs;
mod library;
mod library_playlist;
mod library_service;
pub mod limits;
mod openapi;
mod origin;
mod outlets;
mod packing;
mod pages;
mod path;
mod playable;
mod playlist_lines;
mod pours;
mod problem;
mod requests;
mod rfc3339;
mod serve;
mod serve_http2;
mod server_admission;
mod server_sessions;
mod server_volume_jobs;
mod sessions;
mod slots;
mod spool;
mod status;
mod subtitles;
#[cfg(test)]
mod tests;
mod titles;
mod tls_stream;
mod turns;
mod upload;
mod upload_places;
mod volume_jobs;
mod watch;
pub mod wire;

pub use admission::{
    AdmissionReport, AdmissionService, CapacityReport, ClassCounts, LateView, MemberView, SessionState,
    SessionView, SharingReport,
};
pub use casts::{CastPlanQuery, CastRefusal, CastService, NoCastSlots};
pub use classes::ClassKind;
pub use disk_and_arena_metrics::{ArenaMetrics, DiskMetrics};
pub use jobs::{Job, JobKind, JobState, JobStatus, Jobs, VolumeJobRefused};
pub use library::VolumeMetrics;
pub use library_service::{
    ActivityCode, GeometryReport, LibraryService, MemberReport, MemberStateCode, VolumeReport, VolumeState,
};
pub use openapi::document as openapi_document;
pub use origin::OwnNames;
pub use outlets::{OutletRefusal, OutletService};
pub use problem::{PROBLEM_MEDIA_TYPE, Problem};
pub use serve::serve_connection;
pub use server_admission::ServerAdmission;
pub use server_sessions::ServerSessions;
pub use server_volume_jobs::ServerVolumeJobs;
pub use sessions::{SessionRefusal, SessionReport, SessionService};
pub use spool::prepare_spool;
pub use turns::ControlUplink;
pub use volume_jobs::{VolumeJobDone, VolumeJobFailed, VolumeJobProgress, VolumeJobs};
pub use watch::{Watching, watch_directory};
pub use wire::ResourceCode;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use etag::Tags;
use limits::{
    CLIENT_CONNECTIONS_MIN, CONNECTIONS_MAX, HTTP2_REQUESTS_MAX, HTTP2_STREAMS_MAX, LOOKS_MAX,
    REFUSED_CONNECTIONS_MAX,
};
use packing::Packing;
use reel_library::{Stop, WatchLife};
use reel_metrics::MetricsRegistry;
use reel_pour::Pours;
use reel_serve::{BasePath, PlaceShares, Places, Proxies, relative_address};
use requests::Requests;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{Semaphore, watch as latest};
use upload_places::UploadPlaces;
use wire::Watch;

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// Where an upload waits until it is whole.
    pub spool_dir: PathBuf,
    /// Largest body of one upload.
    pub upload_bytes_max: u64,
    /// Files stored at once; others wait. Each keeps the members busy on its own.
    pub ingests_max: usize,
    /// The names of this server.
    pub names: OwnNames,
    /// The reverse proxies that name their clients.
    pub proxies: Proxies,
    /// Below which path clients see the server, if no proxy says otherwise. Requests below it are
    /// answered as without it.
    pub base_path: BasePath,
    /// How many connections, requests and uploads one client may hold.
    pub shares: PlaceShares,
}

/// The control plane of one server. Clones are the same one.
#[derive(Clone)]
pub struct ControlPlane {
    inner: Arc<Inner>,
}

/// The parts of a server that a control plane speaks for.
#[derive(Clone)]
pub struct Services {
    /// The titles.
    pub library: Arc<dyn LibraryService>,
    /// The sessions.
    pub sessions: Arc<dyn SessionService>,
    /// What is reserved, and how the members keep it.
    pub admission: Arc<dyn AdmissionService>,
    /// Long work on the volume.
    pub volume_jobs: Arc<dyn VolumeJobs>,
    /// The casts.
    pub casts: Arc<dyn CastService>,
    /// The destinations that sessions are played into.
    pub outlets: Arc<dyn OutletService>,
    /// The streams that programs pour.
    pub pours: Pours,
    /// What is sent to clients on other machines.
    pub uplink: ControlUplink,
    /// Whether requests for a path are answered by the data plane.
    pub is_media: fn(path: &str) -> bool,
}

struct Inner {
    config: ControlConfig,
    names: Arc<OwnNames>,
    packing: Arc<Packing>,
    services: Services,
    jobs: Jobs,
    tags: Tags,
    metrics: MetricsRegistry,
    requests: Arc<Requests>,
    stop: Stop,
    stage: latest::Sender<ShutdownStage>,
    /// Slots of connections. Whether a client gets one is decided by the places.
    connections: Arc<Semaphore>,
    connection_places: Places,
    /// Places of connections beyond those, which are answered that there are too many.
    refused_places: Places,
    /// Requests under way on connections with HTTP/2.
    http2_requests: Places,
    upload_places: UploadPlaces,
    ingests: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    watched: Mutex<Arc<Watch>>,
    /// Set if a directory is watched.
    watch_life: OnceLock<Arc<WatchLife>>,
}

/// How far the shutdown of a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShutdownStage {
    Serving,
    /// What is under way continues, and nothing new is begun.
    Draining,
    /// What is still under way is ended.
    Ending,
}

impl ControlPlane {
    /// A control plane over the titles and sessions of a server. Registers its own counters in
    /// `metrics`.
    pub fn new(config: ControlConfig, services: Services, metrics: MetricsRegistry) -> ControlPlane {
        let requests = Arc::new(Requests::default());
        metrics.register(requests.clone());
        let ingests = Arc::new(Semaphore::new(config.ingests_max.max(1)));
        let shares = config.shares.clone().exempting(&config.proxies);
        let places = |max| Places::new(max, CLIENT_CONNECTIONS_MIN, shares.clone());
        let jobs = Jobs::default();
        metrics.register(Arc::new(jobs.clone()));
        ControlPlane {
            inner: Arc::new(Inner {
                names: Arc::new(config.names.clone()),
                packing: Arc::default(),
                config,
                services,
                jobs,
                tags: Tags::default(),
                metrics,
                requests,
                stop: Stop::default(),
                stage: latest::Sender::new(ShutdownStage::Serving),
                connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
                connection_places: places(CONNECTIONS_MAX),
                refused_places: places(REFUSED_CONNECTIONS_MAX),
                http2_requests: Places::new(HTTP2_REQUESTS_MAX, HTTP2_STREAMS_MAX as usize, shares.clone()),
                upload_places: UploadPlaces::new(shares),
                ingests,
                looks: Arc::new(Semaphore::new(LOOKS_MAX)),
                watched: Mutex::default(),
                watch_life: OnceLock::new(),
            }),
        }
    }

    /// The service: every request to an answer.
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for (path, methods) in routes().into_iter().chain(dav::routes()) {
            router = router.route(path, methods);
        }
        router
            .fallback(pages::fallback)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(from_fn_with_state(self.inner.packing.clone(), packing::pack))
            .layer(from_fn_with_state(self.inner.names.clone(), origin::refuse_foreign))
            .layer(from_fn(|request: Request, next: Next| async move {
                let (version, path) = (request.version(), request.uri().path().to_owned());
                finish(version, &path, next.run(request).await)
            }))
            .layer(from_fn_with_state(self.inner.requests.clone(), requests::observe))
            .with_state(self.clone())
    }

    /// Begins nothing new, and makes `/readyz` say that the server is shutting down. Uploads and
    /// their ingests continue. Work on the volume ends: no client waits for it, and it continues at
    /// the next start. There is no way back.
    pub fn drain(&self) {
        self.inner.stop.stop();
        self.inner.jobs.cancel_volume_jobs();
        self.enter(ShutdownStage::Draining);
    }

    /// Returns when all uploads are titles and all connections have their answers.
    pub async fn drained(&self) {
        self.inner.upload_places.drained().await;
        // All slots can be taken only when no connection holds one. The semaphore is never closed.
        let _connections = self.inner.connections.acquire_many(CONNECTIONS_MAX as u32).await;
    }

    /// Ends the work that [`ControlPlane::drain`] let continue; clients that wait for it are
    /// answered with a 503.
    pub fn stop(&self) {
        self.drain();
        self.enter(ShutdownStage::Ending);
        self.inner.jobs.cancel_all();
    }

    fn enter(&self, stage: ShutdownStage) {
        self.inner.stage.send_modify(|now| *now = stage.max(*now));
    }

    /// Waits until the shutdown has come to this stage.
    async fn entered(&self, stage: ShutdownStage) {
        // This control plane owns the sender, so the sender outlives the wait.
        let _ = self.inner.stage.subscribe().wait_for(|now| *now >= stage).await;
    }

    /// Whether what is under way is being ended.
    fn is_ending(&self) -> bool {
        *self.inner.stage.borrow() >= ShutdownStage::Ending
    }

    /// The jobs shown by the API.
    pub fn jobs(&self) -> &Jobs {
        &self.inner.jobs
    }

    /// What the watched directory holds.
    fn watched(&self) -> Arc<Watch> {
        Arc::clone(&self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn show_watched(&self, watch: Watch) {
        *self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(watch);
    }

    /// Whether the thread of the watched directory continues, if there is one.
    fn watch_life(&self) -> Option<&WatchLife> {
        self.inner.watch_life.get().map(|life| &**life)
    }

    fn is_watched_by(&self, life: &Arc<WatchLife>) {
        // A server has one watched directory at most.
        let _ = self.inner.watch_life.set(Arc::clone(life));
    }

    /// The entity tags of this server's answers.
    fn tags(&self) -> &Tags {
        &self.inner.tags
    }

    /// The counters shown by `/metrics`.
    pub fn metrics(&self) -> &MetricsRegistry {
        &self.inner.metrics
    }

    /// The configuration.
    pub fn config(&self) -> &ControlConfig {
        &self.inner.config
    }

    fn library(&self) -> &dyn LibraryService {
        &*self.inner.services.library
    }

    fn sessions(&self) -> &dyn SessionService {
        &*self.inner.services.sessions
    }

    fn admission(&self) -> &dyn AdmissionService {
        &*self.inner.services.admission
    }

    fn casts(&self) -> &dyn CastService {
        &*self.inner.services.casts
    }

    fn outlets(&self) -> &dyn OutletService {
        &*self.inner.services.outlets
    }

    fn pours(&self) -> &Pours {
        &self.inner.services.pours
    }

    fn is_media(&self, path: &str) -> bool {
        (self.inner.services.is_media)(path)
    }

    fn uplink(&self) -> &ControlUplink {
        &self.inner.services.uplink
    }

    fn volume_jobs(&self) -> &dyn VolumeJobs {
        &*self.inner.services.volume_jobs
    }

    /// Set when what is under way is to end.
    pub fn stop_flag(&self) -> Stop {
        self.inner.stop.clone()
    }

    #[cfg(test)]
    fn take_slots(&self, client: std::net::IpAddr, slots: usize) -> Vec<slots::ConnectionSlot> {
        let slots = std::iter::repeat_with(|| self.take_slot(client).expect("a slot")).take(slots);
        slots.inspect(|slot| assert!(slot.refused().is_none(), "they are free")).collect()
    }

    /// Whether all connections that can be served are open.
    fn is_full(&self) -> bool {
        self.inner.connection_places.are_taken()
    }

    fn ingest_slots(&self) -> Arc<Semaphore> {
        self.inner.ingests.clone()
    }

    fn look_slots(&self) -> Arc<Semaphore> {
        self.inner.looks.clone()
    }
}

/// Every address with its methods; the OpenAPI document is checked against this table.
fn routes() -> Vec<(&'static str, MethodRouter<ControlPlane>)> {
    vec![
        ("/", get(pages::library)),
        ("/api/v1/capacity", get(dashboard::capacity)),
        ("/api/v1/cast-plans", get(casts::plans)),
        ("/api/v1/pours", get(pours::list)),
        ("/api/v1/pours/{name}/sessions", post(pours::open_session)),
        ("/api/v1/casts", get(casts::list).post(casts::add)),
        ("/api/v1/casts/{name}", get(casts::one).delete(casts::stop)),
        ("/api/v1/casts/{name}/schedule", get(casts::schedule)),
        ("/api/v1/classes", get(classes::show).put(classes::change)),
        ("/api/v1/dashboard", get(dashboard::dashboard)),
        ("/api/v1/jobs", get(status::jobs)),
        ("/api/v1/jobs/{id}", get(status::job).delete(status::cancel_job)),
        ("/api/v1/openapi.json", get(status::openapi)),
        ("/api/v1/sessions", get(sessions::list).post(sessions::open)),
        ("/api/v1/sessions/{key}", get(sessions::one).patch(sessions::change).delete(sessions::close)),
        ("/api/v1/sessions/{key}/outlets", get(outlets::list).post(outlets::add)),
        (
            "/api/v1/sessions/{key}/outlets/{number}",
            get(outlets::one).put(outlets::replace).delete(outlets::remove),
        ),
        ("/api/v1/titles", get(titles::list).merge(post(upload::upload))),
        ("/api/v1/titles/{id}", get(titles::one).patch(titles::change).delete(titles::remove)),
        ("/api/v1/titles/{id}/file-times", get(sessions::file_times)),
        ("/api/v1/titles/{id}/forms/ts", post(forms::add_stream)),
        ("/api/v1/titles/{id}/subtitles", post(subtitles::add)),
        ("/api/v1/volume", get(status::volume)),
        ("/api/v1/volume/rebuild", post(volume_jobs::rebuild)),
        ("/api/v1/volume/replace", post(volume_jobs::replace)),
        ("/api/v1/volume/scrub", post(volume_jobs::scrub)),
        ("/api/v1/watch", get(status::watched)),
        ("/assets/{*file}", get(pages::asset)),
        ("/casts", get(pages::casts)),
        ("/casts.m3u", get(cast_playlist::show)),
        ("/library.m3u", get(library_playlist::show)),
        ("/casts/{file}", get(casts::description)),
        ("/dashboard", get(pages::dashboard)),
        ("/healthz", get(status::alive)),
        ("/img/{file}", get(images::poster)),
        ("/metrics", get(status::metrics)),
        ("/readyz", get(status::ready)),
        ("/title/{id}", get(pages::player)),
    ]
}

/// Whether paths of the control plane begin with this name: `/api/...`.
pub fn is_first_name(name: &str) -> bool {
    let paths = routes().into_iter().chain(dav::routes()).map(|(path, _)| path);
    paths.into_iter().any(|path| path.split('/').nth(1) == Some(name))
}

/// Answers a method that an address does not have. The router adds the methods that it has, which
/// is all that OPTIONS asks for (RFC 9110 section 9.3.7): checks of proxies do.
async fn method_not_allowed(request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "This address does not know the method",
        format!("{} has no {}", request.uri().path(), request.method()),
    )
    .help("the Allow field names the methods it has")
    .into_response()
}

/// What every response to a request for `path` carries.
fn finish(version: Version, path: &str, mut response: Response) -> Response {
    let fields = response.headers_mut();
    // Of what is made here, all are paths of this server.
    let location = fields.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let relative = location.map(|location| HeaderValue::try_from(relative_address(path, location)));
    if let Some(Ok(relative)) = relative {
        fields.insert(header::LOCATION, relative);
    }
    // The next request of this client may be for media: it must arrive at the data plane, over a
    // connection of its own. HTTP/2 has another way to say that, used only for requests for media.
    if version < Version::HTTP_2 {
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    // The state that the API reports changes at any time.
    fields.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Runs what may wait for a disk on a thread that may.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Problem::internal(format!("the work was not finished: {e}")))
}
