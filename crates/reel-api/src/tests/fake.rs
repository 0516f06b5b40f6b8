//! A library in memory, whose titles are files that begin with `FILM`.

use super::fake_outlets::FakeOutlets;
use crate::wire::{Cast, CastClient, CastPlans, CastSlots, CastStage, FileStretch, FileTimes, NewCast};
use crate::*;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use reel_disk::{ClassView, LastLate, MemberStats, SchedulerView};
use reel_library::*;
use reel_media::transport::StreamIndex;
use reel_media::{Chapter, MediaError};
use reel_play::{Uplink, UplinkGate, UplinkRate};
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{Class, ClassTable, DiskPrice, Refusal, Resource, ResourceUsage, UNLIMITED};
use reel_serve::{BasePath, PlaceShares, Proxies};
use reel_testkit::Url;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use tokio::time::Instant;
use tower::ServiceExt;

fn video_summary() -> VideoSummary {
    VideoSummary {
        track: 0,
        width: 1920,
        height: 1080,
        codec: "avc1.640028".to_owned(),
        frame_rate: 24_000.0 / 1001.0,
        bitrate_bps: 8_000_000,
    }
}

/// Titles in memory.
pub(super) struct FakeLibrary {
    pub(super) titles: Mutex<BTreeMap<String, Arc<TitleSummary>>>,
    pub(super) free_bytes: AtomicU64,
    pub(super) state: Mutex<VolumeState>,
    /// An ingest waits until this is not locked.
    pub(super) gate: tokio::sync::Mutex<()>,
    /// The nice values of the threads that took, looked at or changed a file.
    pub(super) niceness: Mutex<Vec<i32>>,
    /// A probe continues until it is stopped.
    pub(super) endless_probes: AtomicBool,
    /// Such probes that run.
    pub(super) probing: AtomicUsize,
    /// How often a person looked at the list of titles.
    pub(super) looks: AtomicUsize,
    /// Where records of a watched directory are kept.
    records: tempfile::TempDir,
}

/// SessionService with the keys k0, k1, ...; at most two.
#[derive(Default)]
pub(super) struct FakeSessions {
    open: Mutex<Vec<SessionReport>>,
    pub(super) set_aside: Mutex<BTreeMap<String, String>>,
}

/// Admission with one member and some sessions, of which one has no reservation.
pub(super) struct FakeAdmission {
    pub(super) classes: Mutex<Arc<ClassTable>>,
    /// SessionService that hold a reservation.
    pub(super) reserved: AtomicUsize,
}

/// Work that continues until it is cancelled, or the gate is opened.
#[derive(Default)]
pub(super) struct FakeVolumeJobs {
    pub(super) gate: Mutex<bool>,
}

/// Casts that are never sent.
#[derive(Default)]
struct FakeCasts(Mutex<Vec<Cast>>);

impl CastService for FakeCasts {
    fn add(&self, cast: NewCast) -> Result<Cast, CastRefusal> {
        let NewCast { title, group, name, is_looped, .. } = cast;
        match title.as_str() {
            "none" => return Err(CastRefusal::NoSuchTitle("none".to_owned())),
            "full" => {
                let detail = "member 2 is fully promised".to_owned();
                return Err(CastRefusal::NotAdmitted { detail, retry_after_s: 7, refusal: None });
            }
            _ => {}
        }
        let name = name.unwrap_or_else(|| title.clone());
        let mut casts = self.0.lock().expect("lock");
        if casts.iter().any(|cast| cast.name == name) {
            return Err(CastRefusal::Taken(format!("there is a cast {name} already")));
        }
        let cast = Cast {
            sdp: format!("/casts/{name}.sdp"),
            title_name: title.clone(),
            label: title.clone(),
            name,
            title,
            playlist: Vec::new(),
            playlist_place: 0,
            group: group.to_string(),
            source: None,
            url: None,
            is_looped,
            fec: None,
            schedule: None,
            state: CastStage::OnAir,
            reason: None,
            position_s: 0.0,
            duration_s: 60.0,
            rate_bps: 4_000_000,
            packets: 0,
            fec_packets: 0,
            late_packets: 0,
            lost_packets: 0,
            fault: None,
        };
        casts.push(cast.clone());
        Ok(cast)
    }

    fn list(&self) -> Vec<Cast> {
        self.0.lock().expect("lock").clone()
    }

    fn description(&self, name: &str) -> Option<String> {
        self.list().iter().find(|cast| cast.name == name).map(|cast| format!("v=0\r\ns={}\r\n", cast.name))
    }

    fn slots(&self, name: &str, first_slot: Option<u64>, slots: u32) -> Result<CastSlots, NoCastSlots> {
        if !self.list().iter().any(|cast| cast.name == name) {
            return Err(NoCastSlots::NoSuchCast);
        }
        if name == "plain" {
            return Err(NoCastSlots::NoSchedule("it is sent to one group".to_owned()));
        }
        let first_slot = first_slot.unwrap_or(4);
        let client = CastClient { arrival_slot: 6, until_slot: 9, segments: Vec::new() };
        Ok(CastSlots {
            slot_s: 2.0,
            segments: slots,
            now_slot: None,
            first_slot,
            channels: Vec::new(),
            client,
        })
    }

    fn plans(&self, wanted: CastPlanQuery) -> Result<CastPlans, CastRefusal> {
        match (wanted.title.as_str(), wanted.wait_s) {
            ("none", _) => return Err(CastRefusal::NoSuchTitle("none".to_owned())),
            (_, Some(wait_s)) if wait_s.is_nan() => {
                return Err(CastRefusal::Impossible("that is no wait".to_owned()));
            }
            _ => {}
        }
        let (duration_s, rate_bps, fec_permille) = (60.0, 4_000_000, 250);
        let (notes, plans) = (Vec::new(), Vec::new());
        Ok(CastPlans { title: wanted.title, duration_s, rate_bps, fec_permille, notes, plans })
    }

    fn stop(&self, name: &str) -> bool {
        let mut casts = self.0.lock().expect("lock");
        let before = casts.len();
        casts.retain(|cast| cast.name != name);
        casts.len() < before
    }
}

/// A server for a test, and the directory it spools to.
pub(super) struct Server {
    pub(super) control: ControlPlane,
    pub(super) library: Arc<FakeLibrary>,
    pub(super) sessions: Arc<FakeSessions>,
    pub(super) admission: Arc<FakeAdmission>,
    pub(super) volume_jobs: Arc<FakeVolumeJobs>,
    pub(super) spool: tempfile::TempDir,
}

/// The clock of tokio, which a test may have paused.
fn simulated_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let passed = Instant::now().saturating_duration_since(*BEGIN.get_or_init(Instant::now));
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

/// A response taken apart.
pub(super) struct Answer {
    /// The path that was asked for.
    asked: String,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Server {
    pub(super) fn new() -> Server {
        Server::with_limit(1 << 20)
    }

    pub(super) fn with_limit(upload_bytes_max: u64) -> Server {
        Server::with(|config| config.upload_bytes_max = upload_bytes_max)
    }

    /// A server with these changes to a plain configuration.
    pub(super) fn with(change: impl FnOnce(&mut ControlConfig)) -> Server {
        Server::on(&Uplink::of(UplinkRate::Unlimited), change)
    }

    /// The same, which sends through this link in tokio's simulated time.
    pub(super) fn on(uplink: &Arc<Uplink>, change: impl FnOnce(&mut ControlConfig)) -> Server {
        let spool = tempfile::tempdir().expect("tempdir");
        let library = Arc::new(FakeLibrary {
            titles: Mutex::default(),
            free_bytes: AtomicU64::new(1 << 30),
            state: Mutex::new(VolumeState::Ok),
            gate: tokio::sync::Mutex::default(),
            niceness: Mutex::default(),
            endless_probes: AtomicBool::new(false),
            probing: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            records: tempfile::tempdir().expect("tempdir"),
        });
        let mut config = ControlConfig {
            spool_dir: spool.path().join("spool"),
            upload_bytes_max: 1 << 20,
            ingests_max: 1,
            names: OwnNames { machine: "reel".to_owned(), ..OwnNames::default() },
            proxies: Proxies::default(),
            base_path: BasePath::default(),
            shares: PlaceShares::default(),
        };
        change(&mut config);
        let sessions = Arc::new(FakeSessions::default());
        let volume_jobs = Arc::new(FakeVolumeJobs::default());
        let admission = Arc::new(FakeAdmission { classes: Mutex::default(), reserved: AtomicUsize::new(1) });
        let services = Services {
            library: library.clone(),
            sessions: sessions.clone(),
            admission: admission.clone(),
            volume_jobs: volume_jobs.clone(),
            casts: Arc::new(FakeCasts::default()),
            outlets: Arc::new(FakeOutlets::default()),
            pours: Default::default(),
            uplink: ControlUplink { gate: UplinkGate::new(uplink, |_| 100), clock: simulated_ns },
            is_media: |path| path.starts_with("/watch/") || path.starts_with("/files/"),
        };
        let control = ControlPlane::new(config, services, MetricsRegistry::default());
        Server { control, library, sessions, admission, volume_jobs, spool }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Answer {
        let asked = request.uri().path().to_owned();
        let response = self.control.router().oneshot(request).await.expect("never fails");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 24).await.expect("a body").to_vec();
        Answer { asked, status: parts.status, headers: parts.headers, body }
    }

    pub(super) async fn call(&self, method: &str, path: &str) -> Answer {
        self.send(Request::builder().method(method).uri(path).body(Body::empty()).expect("a request")).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).await
    }

    pub(super) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(Request::builder().method("POST").uri(path).body(body.into()).expect("a request")).await
    }

    /// Adds a title to the library.
    pub(super) async fn add(&self, name: &str) -> String {
        let answer = self.post(&format!("/api/v1/titles?filename={name}.mp4&wait=true"), "FILM").await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Files in the spool directory that have a name.
    pub(super) fn spool_files(&self) -> usize {
        std::fs::read_dir(self.spool.path().join("spool")).map_or(0, Iterator::count)
    }
}

impl Answer {
    /// The path that the field Location leads to, which is relative to the one that was asked for.
    pub(super) fn location(&self) -> String {
        let location = self.header("location");
        assert!(location.starts_with('.'), "{location} is not right below a path of a proxy");
        let asked = Url::parse(&format!("http://reel{}", self.asked)).expect("an address");
        asked.join(location).expect("a reference").target
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub(super) fn header(&self, name: impl header::AsHeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// Checks that this is a well-formed problem; returns its detail and its help.
    pub(super) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let body = self.json();
        assert_eq!(body["status"], status);
        for field in ["type", "title", "detail"] {
            assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {body}");
        }
        [&body["detail"], &body["help"]].into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
    }
}

impl KnownTitles for FakeLibrary {
    fn titles_of(&self, stamp: &Stamp) -> Vec<String> {
        let id = slug(&name_from_file(&stamp.file_name));
        self.has(&id).then_some(id).into_iter().collect()
    }

    fn source_of(&self, _: &str) -> Option<Stamp> {
        None
    }

    fn was_removed(&self, _: &Stamp) -> bool {
        false
    }

    fn warnings_of(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

impl LibraryService for FakeLibrary {
    fn titles(&self) -> Vec<Arc<TitleSummary>> {
        self.titles.lock().expect("lock").values().cloned().collect()
    }

    fn looked_at(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    fn title(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError> {
        let found = self.titles.lock().expect("lock").get(id).cloned();
        found.ok_or_else(|| LibraryError::NoSuchTitle { id: id.to_owned() })
    }

    fn has(&self, id: &str) -> bool {
        self.title(id).is_ok()
    }

    fn watcher(&self, dir: &Path) -> Watcher {
        Watcher::new(dir, self.records.path(), "fake")
    }

    fn rename(&self, id: &str, name: &str) -> Result<(), LibraryError> {
        let title = TitleSummary { name: clean_name(name), ..TitleSummary::clone(&*self.title(id)?) };
        self.titles.lock().expect("lock").insert(id.to_owned(), Arc::new(title));
        Ok(())
    }

    fn remove(&self, id: &str) -> Result<(), LibraryError> {
        self.title(id)?;
        self.titles.lock().expect("lock").remove(id);
        Ok(())
    }

    fn add_subtitles(&self, id: &str, file: &SubtitleFile) -> Result<Vec<String>, SubtitleError> {
        self.niceness.lock().expect("lock").push(reel_rt::niceness());
        let mut title = TitleSummary::clone(&*self.title(id)?);
        if !file.bytes.starts_with(b"SUBTITLES") {
            let reason = "there is no cue in the file".to_owned();
            return Err(SubtitleError::Unusable { file: file.file_name.clone(), reason });
        }
        let (language, name) = (file.language.clone(), file.label.clone());
        if title.subtitles.iter().any(|old| old.language == language && old.name == name) {
            return Err(SubtitleError::Taken { what: format!("in {language:?}") });
        }
        title.subtitles.push(SubtitleSummary { track: 3, language, name, forced: file.forced });
        self.titles.lock().expect("lock").insert(id.to_owned(), Arc::new(title));
        Ok(vec!["a guess".to_owned()])
    }

    fn add_stream(
        &self,
        id: &str,
        stop: &Stop,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<AddedStream, StreamError> {
        self.niceness.lock().expect("lock").push(reel_rt::niceness());
        let _waits = self.gate.blocking_lock();
        if stop.is_stopped() {
            return Err(IngestError::Cancelled.into());
        }
        progress(1, 2);
        let mut title = TitleSummary::clone(&*self.title(id)?);
        let form = FormSummary { form: Form::Ts, bytes: 7, average_bps: 8, peak_bps: Some(9) };
        title.forms.push(form);
        self.titles.lock().expect("lock").insert(id.to_owned(), Arc::new(title));
        let index = StreamIndex { packets: 0, programme: 1, times: Vec::new(), joins: Vec::new() };
        Ok(AddedStream { index, warnings: vec!["subtitles are left out".to_owned()] })
    }

    fn poster_mark(&self, id: &str) -> Result<(PosterKind, String), LibraryError> {
        self.title(id).map(|title| (PosterKind::Svg, format!("mark-{}", title.id)))
    }

    fn poster(&self, id: &str) -> Result<Poster, LibraryError> {
        let title = self.title(id)?;
        Ok(Poster { kind: PosterKind::Svg, bytes: card_svg(&title.name).into_bytes() })
    }

    fn probe(&self, input: &Input, stop: &Stop) -> Result<(), IngestError> {
        self.niceness.lock().expect("lock").push(reel_rt::niceness());
        if self.endless_probes.load(Ordering::Relaxed) {
            self.probing.fetch_add(1, Ordering::Relaxed);
            while !stop.is_stopped() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            self.probing.fetch_sub(1, Ordering::Relaxed);
            return Err(IngestError::Cancelled);
        }
        let media = |source| IngestError::Media { file: input.file_name.clone().unwrap_or_default(), source };
        let bytes = std::fs::read(&input.path).map_err(|e| media(MediaError::Io(e)))?;
        if !bytes.starts_with(b"FILM") {
            return Err(media(MediaError::UnknownContainer(String::new())));
        }
        Ok(())
    }

    fn ingest(
        &self,
        inputs: &[Input],
        options: &IngestOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Ingested, IngestError> {
        self.niceness.lock().expect("lock").push(reel_rt::niceness());
        let _waits = self.gate.blocking_lock();
        if options.stop.is_stopped() {
            return Err(IngestError::Cancelled);
        }
        inputs.iter().try_for_each(|input| self.probe(input, &options.stop))?;
        let input = &inputs[0];
        let bytes_of = |input: &Input| std::fs::metadata(&input.path).map_or(0, |m| m.len());
        let bytes = inputs.iter().chain(&options.sidecars).map(bytes_of).sum();
        let free = self.free_bytes.load(Ordering::Relaxed);
        if bytes > free {
            return Err(IngestError::NoSpace { needed_bytes: bytes, free_bytes: free });
        }
        let file_name = input
            .file_name
            .clone()
            .unwrap_or_else(|| input.path.file_name().expect("a name").to_string_lossy().into_owned());
        let name = options.name.clone().unwrap_or_else(|| name_from_file(&file_name));
        let name = clean_name(&name);
        progress(Progress {
            file_name: file_name.clone(),
            done_bytes: bytes,
            total_bytes: bytes,
            rate_bytes_per_s: 1,
            phase: Phase::Storing,
        });
        let mut titles = self.titles.lock().expect("lock");
        let old = options.replaces.clone().filter(|id| titles.contains_key(id));
        let id = old.or_else(|| unique_id(&slug(&name), |id| titles.contains_key(id))).expect("a free id");
        let summary = TitleSummary {
            id: id.clone(),
            name,
            file_name,
            file_bytes: bytes_of(input),
            added_unix_s: 0,
            bytes,
            duration_s: 1.23456,
            plain_file: None,
            stamp: format!("{id}-0-4-0"),
            warnings: Vec::new(),
            video: inputs.iter().map(|_| video_summary()).collect(),
            audio: vec![AudioSummary {
                track: 1,
                language: None,
                name: Some("Comments".to_owned()),
                codec: "mp4a.40.2".to_owned(),
                channels: 2,
                sample_rate: 48_000,
                default: true,
            }],
            subtitles: vec![SubtitleSummary {
                track: 2,
                language: Some("de".to_owned()),
                name: None,
                forced: true,
            }],
            chapters: vec![Chapter { start_ns: 1_000_400_000, name: "Part two".to_owned() }],
            forms: vec![FormSummary { form: Form::Ts, bytes: 7, average_bps: 8, peak_bps: Some(9) }],
            poster: PosterKind::Svg,
            problem: None,
        };
        titles.insert(id.clone(), Arc::new(summary));
        Ok(Ingested { id, warnings: vec!["a warning".to_owned()] })
    }

    fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    fn volume(&self) -> VolumeReport {
        let state = *self.state.lock().expect("lock");
        VolumeReport {
            id: "00".to_owned(),
            writable: true,
            read_only: None,
            state,
            bytes: 1 << 30,
            free_bytes: self.free_bytes(),
            titles: self.titles.lock().expect("lock").len(),
            geometry: GeometryReport {
                data_rows: 4,
                parity_rows: 1,
                symbol_bytes: 1408,
                row_symbols: 32,
                unit_rows: 6,
                unit_bytes: 270_336,
                stripe_bytes: 1_081_344,
            },
            members: vec![MemberReport {
                member: 0,
                path: "/m0".to_owned(),
                state: if state == VolumeState::Ok {
                    MemberStateCode::Present
                } else {
                    MemberStateCode::Missing
                },
                in_use: state == VolumeState::Ok,
                is_suspect: false,
                activity: ActivityCode::Waking,
                text: format!("member 0 is {state:?}"),
            }],
        }
    }
}

impl SessionService for FakeSessions {
    fn set_aside(&self) -> BTreeMap<String, String> {
        self.set_aside.lock().expect("lock").clone()
    }

    fn open_poured(
        &self,
        name: &str,
        class: Option<&str>,
        client: reel_admit::Client,
    ) -> Result<SessionReport, SessionRefusal> {
        match class {
            None | Some("periodic") => self.open(name, client),
            Some(class) => Err(SessionRefusal::NoSuchClass(format!("there is no class {class}"))),
        }
    }

    fn open(&self, title: &str, _: reel_admit::Client) -> Result<SessionReport, SessionRefusal> {
        let mut open = self.open.lock().expect("lock");
        match title {
            "none" => return Err(SessionRefusal::NoSuchTitle(title.to_owned())),
            "none+none" => {
                return Err(SessionRefusal::NoSuchForm("both parts are the same title".to_owned()));
            }
            "long" => return Err(SessionRefusal::TooLong("it is longer than a day".to_owned())),
            "broken" => return Err(SessionRefusal::Failed("the index is damaged".to_owned())),
            _ => {}
        }
        if open.len() == 2 {
            let refusal = Refusal {
                resource: Resource::Member(3),
                round: 9,
                asked: 800,
                available: 200,
                grantable_bps: 2_000_000,
                retry_after_s: Some(7),
            };
            let detail = "two are enough".to_owned();
            return Err(SessionRefusal::Refused {
                detail,
                retry_after_s: 7,
                is_of_client: false,
                refusal: Some(refusal),
            });
        }
        let session = SessionReport {
            key: format!("k{}", open.len()),
            title: title.to_owned(),
            class: "periodic".to_owned(),
            expires_in_s: 300,
            starts_in_s: 0,
        };
        open.push(session.clone());
        Ok(session)
    }

    fn file_times(&self, title: &str, _: Form) -> Result<FileTimes, SessionRefusal> {
        let stretches = [(0, 0), (100, 2_000_000_000)].map(|(byte, at_ns)| FileStretch { byte, at_ns });
        match title {
            "none" => Err(SessionRefusal::NoSuchTitle(title.to_owned())),
            _ => Ok(FileTimes { bytes: 250, duration_ns: 5_000_000_000, stretches: stretches.to_vec() }),
        }
    }

    fn list(&self) -> Vec<SessionReport> {
        self.open.lock().expect("lock").clone()
    }

    fn one(&self, key: &str, _: reel_admit::Client) -> Result<SessionReport, SessionRefusal> {
        let found = self.list().into_iter().find(|session| session.key == key);
        found.ok_or(SessionRefusal::NoSuchSession)
    }

    fn change_class(
        &self,
        key: &str,
        class: &str,
        _: reel_admit::Client,
    ) -> Result<SessionReport, SessionRefusal> {
        let mut open = self.open.lock().expect("lock");
        let found = open.iter_mut().find(|session| session.key == key);
        let session = found.ok_or(SessionRefusal::NoSuchSession)?;
        let refused = |retry_after_s, is_of_client| SessionRefusal::Refused {
            detail: format!("{class} has no room"),
            retry_after_s,
            is_of_client,
            refusal: None,
        };
        match class {
            "none" => Err(SessionRefusal::NoSuchClass("there is no class none".to_owned())),
            "others" => {
                Err(SessionRefusal::ClassOfOthers("the class others is not for this client".to_owned()))
            }
            "full" => Err(refused(7, false)),
            "often" => Err(refused(1, true)),
            _ => {
                class.clone_into(&mut session.class);
                Ok(session.clone())
            }
        }
    }

    fn close(&self, key: &str, client: reel_admit::Client) -> Result<(), SessionRefusal> {
        self.one(key, client)?;
        self.open.lock().expect("lock").retain(|session| session.key != key);
        Ok(())
    }
}

impl AdmissionService for FakeAdmission {
    fn report(&self) -> AdmissionReport {
        let mut counts = [ClassCounts::default(); CLASSES_MAX];
        counts[0] = ClassCounts { sent_bytes: 1000, deadline_misses: 2 };
        let usage = |resource, capacity| ResourceUsage {
            resource,
            used: 300,
            capacity,
            peak_used: 400,
            peak_round: 5,
        };
        let mut sessions = vec![session("cd34", false)];
        sessions.resize(1 + self.reserved.load(Ordering::Relaxed), session("ab12", true));
        AdmissionReport {
            now_ns: 77_900_000_000,
            members: vec![MemberView {
                stats: MemberStats { queued: 4, in_device: 2, errors: 1, ..MemberStats::default() },
                view: SchedulerView {
                    policy: "rounds",
                    rounds: 12,
                    slack_ns: 250_000_000,
                    least_slack_ns: -1_500_000,
                    late: 3,
                    last_late: Some(LastLate { at_ns: 70_000_000_000, class: Class::PERIODIC }),
                    classes: vec![ClassView {
                        queued: 4,
                        quota_ns: 700_000_000,
                        used_ns: 1_234_567,
                        total_ns: 9,
                    }],
                },
                price: DiskPrice {
                    read_request_ns: 100_000,
                    read_mib_ns: 400_000,
                    write_request_ns: 0,
                    write_mib_ns: 0,
                    independent_limits: false,
                },
                measured_price: DiskPrice { read_request_ns: 23_200_000, ..DiskPrice::FREE },
            }],
            usage: vec![usage(Resource::Arena, 1000), usage(Resource::Network, UNLIMITED)],
            classes: self.classes(),
            counts,
            sessions,
            late: vec![LateView {
                key_hint: "ab12".to_owned(),
                title: "a-film".to_owned(),
                client: "10.0.0.7".to_owned(),
                class: "periodic".to_owned(),
                units: 3,
                late_ms: 120,
                ago_s: 7,
            }],
            sharing: SharingReport { groups: 1, followers: 3, kept_bytes: 5_000_000 },
            refusals: vec![(ResourceCode::Disk, 6)],
        }
    }

    fn classes(&self) -> Arc<ClassTable> {
        self.classes.lock().expect("lock").clone()
    }

    fn set_classes(&self, classes: ClassTable) {
        *self.classes.lock().expect("lock") = Arc::new(classes);
    }

    fn capacity(&self, rate_bps: u64) -> CapacityReport {
        let viewers = 100_000_000 / rate_bps;
        CapacityReport { viewers, stopped_by: Some(Resource::Member(0)), more_now: Some(viewers - 1) }
    }
}

fn session(key_hint: &str, reserved: bool) -> SessionView {
    SessionView {
        key_hint: key_hint.to_owned(),
        title: "a-film".to_owned(),
        client: "10.0.0.7".to_owned(),
        class: "periodic".to_owned(),
        rate_bps: 5_000_000,
        state: if reserved { SessionState::Playing } else { SessionState::Paused },
        reserved,
        position_s: 61,
        sent_bytes: 5,
        age_s: 60,
    }
}

impl VolumeJobs for FakeVolumeJobs {
    fn scrub(
        &self,
        watch: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        while watch(VolumeJobProgress { done_bytes: 30, total_bytes: 100 }) {
            if *self.gate.lock().expect("lock") {
                return Ok(VolumeJobDone {
                    text: "all is well".to_owned(),
                    warnings: vec!["one row".to_owned()],
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(VolumeJobFailed::new("it was told to end"))
    }

    fn rebuild(
        &self,
        _: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        Err(VolumeJobFailed::new("no member lacks anything"))
    }

    fn replace(
        &self,
        member: usize,
        path: &Path,
        _: bool,
        _: &mut dyn FnMut(VolumeJobProgress) -> bool,
    ) -> Result<VolumeJobDone, VolumeJobFailed> {
        Ok(VolumeJobDone { text: format!("{member} is {} now", path.display()), warnings: Vec::new() })
    }

    fn is_rebuild_unfinished(&self) -> bool {
        false
    }
}
