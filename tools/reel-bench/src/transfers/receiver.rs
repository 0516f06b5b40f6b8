//! Downloads as fast as they come, side by side, each one film after the other: what each of them
//! received.

use anyhow::{Result, anyhow};
use reel_testkit::http::Client;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes received by each download in a window of time.
pub(super) struct Received {
    pub(super) bytes: Vec<u64>,
    pub(super) took_s: f64,
}

/// How often a reader of a socket checks whether its time is over.
const POLL: Duration = Duration::from_millis(200);
/// A server that sends nothing for this long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(20);

impl Received {
    pub(super) fn mb_per_s(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / 1e6 / self.took_s
    }

    /// What the downloads with the least and the most received, over an equal share.
    pub(super) fn shares(&self) -> (f64, f64) {
        let mean = self.bytes.iter().sum::<u64>() as f64 / self.bytes.len().max(1) as f64;
        let share = |bytes: Option<&u64>| *bytes.unwrap_or(&0) as f64 / mean.max(1.0);
        (share(self.bytes.iter().min()), share(self.bytes.iter().max()))
    }
}

/// Runs a download for each list of paths, over and over, and counts what comes in `window` after
/// `ahead`.
pub(super) fn receive(
    server: SocketAddr,
    downloads: &[Vec<String>],
    ahead: Duration,
    window: Duration,
) -> Result<Received> {
    let counts: Vec<AtomicU64> = downloads.iter().map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    let (counts, over) = (&counts, &over);
    thread::scope(|scope| {
        let threads: Vec<_> = downloads
            .iter()
            .zip(counts)
            .map(|(paths, count)| {
                scope
                    .spawn(move || paths.iter().cycle().try_for_each(|path| fetch(server, path, count, over)))
            })
            .collect();
        let look = || -> Vec<u64> { counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
        thread::sleep(ahead);
        let (begun, before) = (Instant::now(), look());
        thread::sleep(window);
        let (took_s, after) = (begun.elapsed().as_secs_f64(), look());
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join().expect("a receiver panicked") {
                Err(FetchEnd::Failed(error)) => return Err(error),
                Ok(()) | Err(FetchEnd::Over) => {}
            }
        }
        let bytes = after.iter().zip(before).map(|(after, before)| after - before).collect();
        Ok(Received { bytes, took_s })
    })
}

enum FetchEnd {
    /// Its time is over.
    Over,
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for FetchEnd {
    fn from(error: E) -> Self {
        FetchEnd::Failed(error.into())
    }
}

/// One film, to its end.
fn fetch(server: SocketAddr, path: &str, count: &AtomicU64, over: &AtomicBool) -> Result<(), FetchEnd> {
    let mut client = Client::connect(server)?;
    client.request(&format!("GET {path} HTTP/1.1"), &format!("Host: {server}\r\nConnection: close\r\n"))?;
    let head = client.head()?;
    if head.status != 200 {
        return Err(anyhow!("{path}: the server answered {}", head.status).into());
    }
    client.stream().set_read_timeout(Some(POLL))?;
    let mut buffer = vec![0; 256 << 10];
    let (mut received, mut heard) = (0_u64, Instant::now());
    loop {
        if over.load(Ordering::Relaxed) {
            return Err(FetchEnd::Over);
        }
        match client.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                received += bytes as u64;
                heard = Instant::now();
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) => match error.downcast_ref().map(io::Error::kind) {
                Some(ErrorKind::Interrupted) => {}
                Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) if heard.elapsed() <= SILENCE_MAX => {}
                _ => return Err(error.context(path.to_owned()).into()),
            },
        }
    }
    if received < 1 << 20 {
        return Err(anyhow!("{path} ended after {received} bytes").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_each_would_have() {
        let received = Received { bytes: vec![90, 100, 110], took_s: 1e-4 };
        let (least, most) = received.shares();
        assert!((least - 0.9).abs() < 1e-9 && (most - 1.1).abs() < 1e-9);
        assert!((received.mb_per_s() - 3.0).abs() < 1e-9);
    }
}
