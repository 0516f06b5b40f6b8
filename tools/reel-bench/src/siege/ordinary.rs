//! Ordinary viewers, and newcomers among them: one leaves and another comes from an address that
//! the server has not seen.

use super::cable::{Cable, Who, http};
use super::sockets::connect;
use anyhow::{Context, Result, bail};
use reel_load::{ArrivalShape, Arrivals, Fleet, Hls, Outcome, Plan, Viewing, run};
use reel_testkit::http::Client;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, scope, sleep};
use std::time::{Duration, Instant};

/// Players keep two segments; with more, an overload shows only after minutes.
const BUFFER: Duration = Duration::from_secs(8);
/// One newcomer comes in this time.
const EVERY: Duration = Duration::from_secs(3);

/// The niceness of newcomers: the kernel prefers them to processes without one.
const CLIENT_NICE: i32 = -15;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(10);

/// How newcomers begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begin {
    /// They play a playlist, and should see a picture within this time.
    Plainly(Duration),
    /// They open sessions first, as the pages do. The answer tells each of them within which time
    /// it sees a picture.
    Told,
}

/// What came of the newcomers.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    pub(super) came: u64,
    /// Those that saw a picture within their bounds.
    pub(super) in_time: u64,
    pub(super) late_segments: u64,
    pub(super) longest_start_s: f64,
    /// The longest that one was told to wait for its start.
    pub(super) longest_told_s: f64,
    /// Why others did not.
    pub(super) reasons: BTreeMap<String, u64>,
}

/// Viewers of `urls`, each with an address of its own; they come over `over`.
pub(super) fn viewers(
    cable: &Cable,
    urls: Vec<String>,
    count: usize,
    over: Duration,
    lasts: Duration,
) -> Result<Fleet> {
    let plan = Plan {
        from: Who::Ordinary.addresses(count),
        arrivals: Arrivals { over, shape: ArrivalShape::Uniform },
        duration: Some(lasts),
        viewing: viewing(),
        ..Plan::players(urls, count)
    };
    // Its threads belong to the name space in which it was started.
    cable.far.inside(|| Fleet::start(plan))
}

/// The titles that viewers watch.
pub(super) fn playlists(titles: usize) -> Vec<String> {
    (0..titles).map(|title| format!("http://{}/watch/film-{title:03}/master.m3u8", http())).collect()
}

/// Newcomers until `stop`. Each stays a while; without a picture within its bound it is a miss.
pub(super) fn newcomers(
    cable: &Cable,
    urls: &[String],
    (stay, begin): (Duration, Begin),
    stop: &AtomicBool,
) -> Result<Newcomers> {
    cable.far.inside(|| {
        let mut all = Newcomers::default();
        let began = Instant::now();
        scope(|scope| -> Result<()> {
            let mut playing = Vec::new();
            for number in 0_usize.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                playing.push(newcomer(scope, urls, number, (stay, begin)));
                sleep((EVERY * (number as u32 + 1)).saturating_sub(began.elapsed()));
            }
            for fleet in playing {
                all.add(&fleet.join().expect("a fleet does not panic")?);
            }
            Ok(())
        })?;
        Ok(all)
    })
}

/// What one newcomer was told and saw.
struct Came {
    /// Until its player was started.
    opened_s: f64,
    told_s: f64,
    bound_s: f64,
    /// Why it was not admitted, or what its player saw.
    played: Result<Outcome, String>,
}

fn newcomer<'scope>(
    scope: &'scope Scope<'scope, '_>,
    urls: &[String],
    number: usize,
    (stay, begin): (Duration, Begin),
) -> ScopedJoinHandle<'scope, Result<Came>> {
    let (from, url) = (Who::Newcomer.address(number), urls[number % urls.len()].clone());
    scope.spawn(move || {
        prefer_to_busy_loops();
        let asked = Instant::now();
        let told = match begin {
            Begin::Plainly(bound) => Ok((url, 0.0, bound.as_secs_f64())),
            Begin::Told => open_session(from, &url),
        };
        let opened_s = asked.elapsed().as_secs_f64();
        let (url, told_s, bound_s) = match told {
            Ok(told) => told,
            Err(error) => {
                let played = Err(format!("{error:#}"));
                return Ok(Came { opened_s, told_s: 0.0, bound_s: 0.0, played });
            }
        };
        let plan = Plan {
            from: vec![from.into()],
            duration: Some(stay),
            viewing: viewing(),
            threads: 1,
            ..Plan::players(vec![url], 1)
        };
        Ok(Came { opened_s, told_s, bound_s, played: Ok(run(plan)?) })
    })
}

/// Clients stand for other machines, so what keeps the server's processors busy should delay them
/// as little as possible. Threads that this one starts are preferred, too.
fn prefer_to_busy_loops() {
    // Without the right to it, they are measured as they are.
    let _ = setpriority_process(Some(gettid()), CLIENT_NICE);
}

/// Opens a session of the title of a playlist. Returns its own playlist, how long its start waits,
/// and within which time there is a picture.
fn open_session(from: Ipv4Addr, playlist: &str) -> Result<(String, f64, f64)> {
    let title = playlist.rsplit('/').nth(1).context("a playlist of no title")?;
    let body = json!({ "title": title }).to_string();
    let mut client = Client::on(connect(from, http(), PATIENCE)?);
    let fields = format!(
        "Host: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        http(),
        body.len()
    );
    client.request("POST /api/v1/sessions HTTP/1.1", &fields)?;
    client.stream().write_all(body.as_bytes())?;
    let head = client.head()?;
    let answer: Value = serde_json::from_slice(&client.body(&head)?)?;
    if head.status != 201 {
        let why = |name: &str| answer[name].as_str().unwrap_or("no reason");
        bail!("{}: {}: {}", head.status, why("title"), why("detail"));
    }
    let told = |name: &str| answer[name].as_f64().with_context(|| format!("a session without {name}"));
    let hls = answer["hls"].as_str().context("a session without its playlist")?;
    let waits_s = told("starts_in_s")?;
    Ok((format!("http://{}{hls}", http()), waits_s, waits_s + told("start_bound_s")?))
}

fn viewing() -> Viewing {
    Viewing::Hls(Hls { buffer: BUFFER, ..Hls::default() })
}

impl Newcomers {
    fn add(&mut self, newcomer: &Came) {
        self.came += 1;
        self.longest_told_s = self.longest_told_s.max(newcomer.told_s);
        let outcome = match &newcomer.played {
            Ok(outcome) => outcome,
            Err(reason) => return self.miss(reason.clone()),
        };
        let viewers = &outcome.viewers;
        self.late_segments += viewers.late_segments;
        if viewers.started == 0 {
            let reasons = viewers.refusals.iter().chain(&viewers.failures);
            let reason = reasons.map(|reason| reason.reason.clone()).next();
            return self.miss(reason.unwrap_or_else(|| "no picture".into()));
        }
        let start_s = newcomer.opened_s + viewers.startup_ms.max / 1e3;
        self.longest_start_s = self.longest_start_s.max(start_s);
        if start_s <= newcomer.bound_s {
            self.in_time += 1;
        } else {
            let (opened_s, bound_s) = (newcomer.opened_s, newcomer.bound_s);
            self.miss(format!(
                "started after {start_s:.2} s, admitted after {opened_s:.2} s, of {bound_s:.0} s told"
            ));
        }
    }

    fn miss(&mut self, reason: String) {
        *self.reasons.entry(reason).or_default() += 1;
    }
}
