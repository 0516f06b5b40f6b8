//! The same viewers over real sockets, a thread each: for loopback.

use super::response::Response;
use super::script::{Request, Script, Step, Visit};
use super::viewer::{ViewerOutcome, request};
use super::{Crowd, CrowdOutcome};
use anyhow::{Context, Result, ensure};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What is taken from a socket at once.
const READ_BYTES: usize = 256 << 10;
/// Of a viewer's thread; what is large is on the heap.
const STACK_BYTES: usize = 128 << 10;
/// Who waits looks so often whether all is over.
const LOOK: Duration = Duration::from_millis(250);
/// A server that is silent for longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a crowd over sockets of this name space. Link, window and steps are the kernel's.
///
/// # Errors
/// Too few threads for the viewers.
pub fn run(address: SocketAddr, crowd: Crowd, mut poll: impl FnMut(u64) -> bool) -> Result<CrowdOutcome> {
    let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let came = thread::scope(|scope| -> Result<Vec<ViewerOutcome>> {
        let viewers: Vec<thread::ScopedJoinHandle<'_, ViewerOutcome>> = crowd
            .visits
            .into_iter()
            .enumerate()
            .map(|(number, visit)| {
                let (bytes, stop) = (&bytes, &stop);
                let watch = move || {
                    let mut came = ViewerOutcome::default();
                    let viewer = Viewer { address, number, started, bytes, stop, stream: None };
                    if let Err(error) = viewer.watch(visit, &mut came) {
                        came.failure = Some(format!("{error:#}"));
                    }
                    came
                };
                thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, watch)
            })
            .collect::<std::io::Result<_>>()
            // Viewers that have come go again, or the scope would never end.
            .inspect_err(|_| stop.store(true, Ordering::Relaxed))
            .context("a thread for each viewer")?;
        while viewers.iter().any(|viewer| !viewer.is_finished()) {
            if !poll(bytes.load(Ordering::Relaxed)) || started.elapsed() > crowd.most {
                stop.store(true, Ordering::Relaxed);
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        let ended = viewers.into_iter().map(|viewer| viewer.join().expect("a viewer does not panic"));
        Ok(ended.collect())
    })?;
    Ok(CrowdOutcome { took_s: started.elapsed().as_secs_f64(), ..CrowdOutcome::of(came) })
}

/// On loopback each viewer has an address of its own, as viewers do elsewhere: servers limit what
/// one address may have.
fn connect(server: SocketAddr, number: usize) -> Result<TcpStream> {
    if !server.ip().is_loopback() {
        return Ok(TcpStream::connect(server)?);
    }
    let own = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number as u32);
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrV4::new(own, 0))?;
    rustix::net::connect(&socket, &server)?;
    Ok(TcpStream::from(socket))
}

struct Viewer<'a> {
    address: SocketAddr,
    number: usize,
    started: Instant,
    bytes: &'a AtomicU64,
    stop: &'a AtomicBool,
    stream: Option<TcpStream>,
}

impl Viewer<'_> {
    fn watch(mut self, visit: Visit, came: &mut ViewerOutcome) -> Result<()> {
        let mut script = Script::new(visit, 0)?;
        let watched = self.play(&mut script, came);
        if watched.is_ok() {
            script.ended(self.now_ns());
        }
        came.shown = script.shown;
        watched
    }

    fn play(&mut self, script: &mut Script, came: &mut ViewerOutcome) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            match script.step(self.now_ns())? {
                Step::Done => {
                    came.done = true;
                    break;
                }
                Step::WaitUntil(at_ns) => {
                    let wait = Duration::from_nanos(at_ns.saturating_sub(self.now_ns()));
                    thread::sleep(wait.min(LOOK));
                }
                Step::Get(want) => self.get(want, script, &mut buffer, came)?,
            }
        }
        Ok(())
    }

    fn get(
        &mut self,
        want: Request,
        script: &mut Script,
        buffer: &mut [u8],
        came: &mut ViewerOutcome,
    ) -> Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                came.connections += 1;
                let stream = connect(self.address, self.number)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                none.insert(stream)
            }
        };
        stream.write_all(request(&self.address.to_string(), &want).as_bytes())?;
        let mut response = Response::awaited(0, want.keep);
        let (mut received, mut counted) = (0, 0);
        loop {
            let count = stream.read(buffer).context("waiting for the server")?;
            ensure!(count > 0, "the server ended the connection within a response");
            response.text(received as i64, &buffer[..count])?;
            received += count as u64;
            let whole = response.whole(received)?;
            let body = whole.as_ref().map_or_else(|| response.body_bytes(received), |a| a.head.body_bytes);
            self.bytes.fetch_add(body - counted, Ordering::Relaxed);
            came.body_bytes += body - counted;
            counted = body;
            if let Some(answer) = whole {
                came.responses += 1;
                let now_ns = self.started.elapsed().as_nanos() as u64;
                script.answered(now_ns, &answer)?;
                if answer.head.closes {
                    self.stream = None;
                }
                if let Some(body) = answer.body {
                    came.kept.push((want, body));
                }
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}
