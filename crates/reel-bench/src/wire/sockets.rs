//! The same viewers over real sockets, a thread each: for loopback.

use super::response::Response;
use super::script::{Script, Step, Want, Wish};
use super::viewer::{Came, request};
use super::{Crowd, Seen};
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What is taken from a socket at once.
const READ_BYTES: usize = 256 << 10;
/// A server that is silent for longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets a crowd come over sockets of this name space. Its way, window and steps are the kernel's.
pub(crate) fn run(address: SocketAddr, crowd: Crowd, mut look: impl FnMut(u64) -> bool) -> Result<Seen> {
    let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let came = thread::scope(|scope| {
        let viewers: Vec<_> = crowd
            .wishes
            .into_iter()
            .map(|wish| {
                let (bytes, stop) = (&bytes, &stop);
                scope.spawn(move || {
                    let mut came = Came::default();
                    let viewer = Viewer { address, started, bytes, stop, stream: None };
                    if let Err(error) = viewer.watch(wish, &mut came) {
                        came.failure = Some(format!("{error:#}"));
                    }
                    came
                })
            })
            .collect();
        while viewers.iter().any(|viewer| !viewer.is_finished()) {
            if !look(bytes.load(Ordering::Relaxed)) || started.elapsed() > crowd.most {
                stop.store(true, Ordering::Relaxed);
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        let ended = viewers.into_iter().map(|viewer| viewer.join().expect("a viewer does not panic"));
        ended.collect::<Vec<_>>()
    });
    Ok(Seen { took_s: started.elapsed().as_secs_f64(), ..Seen::of(came) })
}

struct Viewer<'a> {
    address: SocketAddr,
    started: Instant,
    bytes: &'a AtomicU64,
    stop: &'a AtomicBool,
    stream: Option<TcpStream>,
}

impl Viewer<'_> {
    fn watch(mut self, wish: Wish, came: &mut Came) -> Result<()> {
        let mut script = Script::new(wish, 0)?;
        let mut buffer = vec![0; READ_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            match script.step(self.now_ns())? {
                Step::Done => {
                    came.done = true;
                    break;
                }
                Step::WaitUntil(at_ns) => {
                    let wait = Duration::from_nanos(at_ns.saturating_sub(self.now_ns()));
                    thread::sleep(wait.min(Duration::from_millis(100)));
                }
                Step::Get(want) => self.get(want, &mut script, &mut buffer, came)?,
            }
            came.shown = script.shown;
        }
        Ok(())
    }

    fn get(&mut self, want: Want, script: &mut Script, buffer: &mut [u8], came: &mut Came) -> Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                came.connections += 1;
                let stream = TcpStream::connect(self.address)?;
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
