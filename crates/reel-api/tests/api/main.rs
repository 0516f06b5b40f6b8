//! The control plane over a real volume, with films made by ffmpeg.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use reel_api::wire::{Cast, CastPlans, CastSlots, FileTimes, NewCast, NewOutlet, OtherDestination, Outlet};
use reel_api::{
    AdmissionReport, AdmissionService, ArenaMetrics, CapacityReport, CastPlanQuery, CastRefusal, CastService,
    ControlConfig, ControlPlane, DiskMetrics, NoCastSlots, OutletRefusal, OutletService, OwnNames, Services,
    SessionRefusal, SessionReport, SessionService, SharingReport, VolumeJobDone, VolumeJobFailed,
    VolumeJobProgress, VolumeJobs, VolumeMetrics,
};
use reel_fixture::{five_members, open_volume};
use reel_library::Library;
use reel_metrics::MetricsRegistry;
use reel_play::{Uplink, UplinkGate, UplinkRate};
use reel_qos::ClassTable;
use reel_volume::{OpenOptions, Volume};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tower::ServiceExt;

struct NoSessions;

impl SessionService for NoSessions {
    fn open(&self, id: &str, _: reel_admit::Client) -> Result<SessionReport, SessionRefusal> {
        Err(SessionRefusal::NoSuchTitle(id.to_owned()))
    }

    fn open_poured(
        &self,
        name: &str,
        _: Option<&str>,
        _: reel_admit::Client,
    ) -> Result<SessionReport, SessionRefusal> {
        Err(SessionRefusal::NoSuchTitle(name.to_owned()))
    }

    fn file_times(&self, id: &str, _: reel_library::Form) -> Result<FileTimes, SessionRefusal> {
        Err(SessionRefusal::NoSuchTitle(id.to_owned()))
    }

    fn list(&self) -> Vec<SessionReport> {
        Vec::new()
    }

    fn one(&self, _: &str, _: reel_admit::Client) -> Result<SessionReport, SessionRefusal> {
        Err(SessionRefusal::NoSuchSession)
    }

    fn change_class(&self, _: &str, _: &str, _: reel_admit::Client) -> Result<SessionReport, SessionRefusal> {
        Err(SessionRefusal::NoSuchSession)
    }

    fn close(&self, _: &str, _: reel_admit::Client) -> Result<(), SessionRefusal> {
        Err(SessionRefusal::NoSuchSession)
    }
}

struct NoAdmission(reel_disk::Disks);

impl AdmissionService for NoAdmission {
    fn report(&self) -> AdmissionReport {
        AdmissionReport {
            now_ns: 0,
            members: Vec::new(),
            usage: Vec::new(),
            classes: self.0.classes(),
            counts: Default::default(),
            sessions: Vec::new(),
            late: Vec::new(),
            sharing: SharingReport::default(),
            refusals: Vec::new(),
        }
    }

    fn classes(&self) -> Arc<ClassTable> {
        self.0.classes()
    }

    fn set_classes(&self, classes: ClassTable) {
        self.0.set_classes(Arc::new(classes));
    }

    fn capacity(&self, _: u64) -> CapacityReport {
        CapacityReport { viewers: 0, stopped_by: None, more_now: None }
    }
}

struct NoCasts;

impl CastService for NoCasts {
    fn add(&self, _: NewCast) -> Result<Cast, CastRefusal> {
        Err(CastRefusal::NoSuchTitle(String::new()))
    }

    fn list(&self) -> Vec<Cast> {
        Vec::new()
    }

    fn description(&self, _: &str) -> Option<String> {
        None
    }

    fn slots(&self, _: &str, _: Option<u64>, _: u32) -> Result<CastSlots, NoCastSlots> {
        Err(NoCastSlots::NoSuchCast)
    }

    fn plans(&self, _: CastPlanQuery) -> Result<CastPlans, CastRefusal> {
        Err(CastRefusal::NoSuchTitle(String::new()))
    }

    fn stop(&self, _: &str) -> bool {
        false
    }
}

struct NoOutlets;

impl OutletService for NoOutlets {
    fn add(&self, _: &str, _: NewOutlet, _: reel_admit::Client) -> Result<Outlet, OutletRefusal> {
        Err(OutletRefusal::NoSuchSession)
    }

    fn replace(
        &self,
        _: &str,
        _: u64,
        _: OtherDestination,
        _: reel_admit::Client,
    ) -> Result<Outlet, OutletRefusal> {
        Err(OutletRefusal::NoSuchSession)
    }

    fn list(&self, _: &str) -> Option<Vec<Outlet>> {
        None
    }

    fn remove(&self, _: &str, _: u64) -> bool {
        false
    }
}

struct NoVolumeJobs;

impl VolumeJobs for NoVolumeJobs {
    fn scrub(&self, _: &mut dyn FnMut(VolumeJobProgress) -> bool) -> Result<VolumeJobDone, VolumeJobFailed> {
        Err(VolumeJobFailed::new("no"))
    }

    fn rebuild(
        &self,
        _: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        Err(VolumeJobFailed::new("no"))
    }

    fn replace(
        &self,
        _: usize,
        _: &Path,
        _: bool,
        _: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        Err(VolumeJobFailed::new("no"))
    }

    fn is_rebuild_unfinished(&self) -> bool {
        false
    }
}

fn server(dir: &Path, size_bytes: u64) -> Router {
    let volume_dir = dir.join("volume");
    if !volume_dir.exists() {
        Volume::create(&volume_dir, five_members(size_bytes)).expect("created");
    }
    let volume = Arc::new(open_volume(&volume_dir, &OpenOptions::default()));
    let metrics = MetricsRegistry::default();
    metrics.register(Arc::new(VolumeMetrics(volume.clone())));
    metrics.register(Arc::new(DiskMetrics(volume.disks().clone())));
    metrics.register(Arc::new(ArenaMetrics(volume.arena().clone())));
    let config = ControlConfig {
        spool_dir: dir.join("spool"),
        upload_bytes_max: 1 << 30,
        ingests_max: 1,
        names: OwnNames::default(),
        proxies: reel_serve::Proxies::default(),
        base_path: reel_serve::BasePath::default(),
        shares: reel_serve::PlaceShares::default(),
    };
    let admission = Arc::new(NoAdmission(volume.disks().clone()));
    let library = Arc::new(Library::new(volume));
    let services = Services {
        library,
        sessions: Arc::new(NoSessions),
        admission,
        volume_jobs: Arc::new(NoVolumeJobs),
        casts: Arc::new(NoCasts),
        outlets: Arc::new(NoOutlets),
        uplink: reel_api::ControlUplink {
            gate: UplinkGate::new(&Uplink::of(UplinkRate::Unlimited), |_| 100),
            clock: reel_rt::now_ns,
        },
        pours: Default::default(),
        is_media: |_| false,
    };
    ControlPlane::new(config, services, metrics).router()
}

fn film(dir: &Path) -> Vec<u8> {
    let path = dir.join("film.mp4");
    let status = Command::new("ffmpeg")
        .args([
            "-nostdin",
            "-v",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x180:rate=25:duration=5",
        ])
        .args(["-f", "lavfi", "-i", "sine=duration=5", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25"])
        .args(["-pix_fmt", "yuv420p", "-c:a", "aac"])
        .arg(&path)
        .status();
    assert!(status.expect("ffmpeg is installed").success());
    std::fs::read(path).expect("read")
}

async fn ask(router: &Router, method: &str, path: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
    let request = Request::builder().method(method).uri(path).body(body.into()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("never fails");
    let status = response.status();
    (status, to_bytes(response.into_body(), 1 << 24).await.expect("a body").to_vec())
}

async fn ask_json(router: &Router, method: &str, path: &str, body: impl Into<Body>) -> (StatusCode, Value) {
    let (status, bytes) = ask(router, method, path, body).await;
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_is_uploaded_shown_and_removed() {
    let dir = tempfile::tempdir().expect("tempdir");
    let router = server(dir.path(), 80 << 20);
    let film = film(dir.path());
    let (_, before) = ask_json(&router, "GET", "/api/v1/volume", "").await;
    let (status, title) = ask_json(
        &router,
        "POST",
        "/api/v1/titles?filename=..%2Fa.mp4&name=%C3%9Cber%20alles&wait=true",
        film.clone(),
    )
    .await;
    assert_eq!(status, StatusCode::CREATED, "{title}");
    assert_eq!((title["id"].as_str(), title["name"].as_str()), (Some("ueber-alles"), Some("Über alles")));
    assert_eq!(
        (&title["video"][0]["width"], &title["video"][0]["height"]),
        (&Value::from(320), &Value::from(180))
    );
    assert_eq!(title["video"][0]["frame_rate"], 25.0);
    assert!(title["video"][0]["codec"].as_str().is_some_and(|codec| codec.starts_with("avc1.")), "{title}");
    assert_eq!(title["audio"][0]["codec"], "mp4a.40.2");
    assert!(title["bytes"].as_u64().is_some_and(|bytes| bytes > film.len() as u64 / 2));

    assert_eq!(title["poster"], "/img/ueber-alles.jpg");
    let (status, picture) = ask(&router, "GET", "/img/ueber-alles.jpg", "").await;
    assert_eq!((status, &picture[..2]), (StatusCode::OK, &[0xff, 0xd8][..]));

    let (_, metrics) = ask(&router, "GET", "/metrics", "").await;
    let metrics = String::from_utf8(metrics).expect("text");
    for line in
        ["reel_volume_titles 1\n", "reel_volume_members_lost 0\n", "reel_member_present{member=\"4\"} 1\n"]
    {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let written = metrics.lines().find_map(|line| line.strip_prefix("reel_volume_rows_written_total "));
    assert!(written.is_some_and(|count| count != "0"), "{metrics}");

    assert_eq!(ask(&router, "DELETE", "/api/v1/titles/ueber-alles", "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(ask(&router, "GET", "/img/ueber-alles.jpg", "").await.0, StatusCode::NOT_FOUND);
    let (_, after) = ask_json(&router, "GET", "/api/v1/volume", "").await;
    assert_eq!(after["free_bytes"], before["free_bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_uploads_take_no_space() {
    let dir = tempfile::tempdir().expect("tempdir");
    let router = server(dir.path(), 80 << 20);
    let film = film(dir.path());
    let (_, before) = ask_json(&router, "GET", "/api/v1/volume", "").await;
    for (body, word) in [
        (b"garbage".to_vec(), "not an MP4"),
        (film[..film.len() / 2].to_vec(), "cut off"),
        (Vec::new(), "empty"),
    ] {
        let (status, problem) =
            ask_json(&router, "POST", "/api/v1/titles?filename=a.mp4&wait=true", body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(word)), "{problem}");
    }
    let (_, after) = ask_json(&router, "GET", "/api/v1/volume", "").await;
    assert_eq!(after["free_bytes"], before["free_bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_volume_says_so() {
    let dir = tempfile::tempdir().expect("tempdir");
    let router = server(dir.path(), 20 << 20);
    let film = film(dir.path());
    let mut titles = 0;
    let problem = loop {
        let (status, body) = ask_json(&router, "POST", "/api/v1/titles?name=a&wait=true", film.clone()).await;
        match status {
            StatusCode::CREATED => titles += 1,
            StatusCode::INSUFFICIENT_STORAGE => break body,
            _ => panic!("{status}: {body}"),
        }
    };
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("bytes free")), "{problem}");
    let (_, list) = ask_json(&router, "GET", "/api/v1/titles", "").await;
    assert_eq!(list["titles"].as_array().map(Vec::len), Some(titles));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_member_is_told() {
    let dir = tempfile::tempdir().expect("tempdir");
    let film = film(dir.path());
    let (_, volume) = ask_json(&server(dir.path(), 80 << 20), "GET", "/api/v1/volume", "").await;
    assert_eq!((&volume["state"], &volume["writable"]), (&Value::from("ok"), &Value::from(true)));
    {
        let router = server(dir.path(), 0);
        let (status, title) = ask_json(&router, "POST", "/api/v1/titles?name=a&wait=true", film).await;
        assert_eq!(status, StatusCode::CREATED, "{title}");
    }
    let path = volume["members"][2]["path"].as_str().expect("a path");
    std::fs::remove_file(path).expect("removed");
    let router = server(dir.path(), 0);
    let (_, volume) = ask_json(&router, "GET", "/api/v1/volume", "").await;
    assert_eq!(
        (&volume["state"], &volume["members"][2]["state"]),
        (&Value::from("degraded"), &Value::from("missing"))
    );
    assert_eq!(volume["members"][2]["in_use"], false);
    let (status, ready) = ask_json(&router, "GET", "/readyz", "").await;
    assert_eq!((status, &ready["checks"][3]["ok"]), (StatusCode::OK, &Value::from(false)), "{ready}");
    let (status, title) = ask_json(&router, "GET", "/api/v1/titles/a", "").await;
    assert_eq!((status, &title["problem"]), (StatusCode::OK, &Value::Null), "read around the hole");
    assert_eq!(ask(&router, "GET", "/img/a.jpg", "").await.0, StatusCode::OK);
}
