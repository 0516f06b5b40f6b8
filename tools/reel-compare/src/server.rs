//! A running `reel serve`.

use crate::CompareError;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running `reel serve`. It is stopped with this value or with the process that started it.
pub struct Server {
    /// Its address as a URL, without a slash at the end.
    pub url: String,
    /// Its address and port.
    pub address: String,
    pid: u32,
    supervisor: Child,
}

/// Runs the server as its child and stops it when its own input ends: with the [`Server`], or with
/// the process that started it, for whatever reason that ends.
const SUPERVISOR: &str = r#"exec 3<&0; "$@" </dev/null & echo $!; cat <&3 >/dev/null; kill $!; wait $!"#;
/// A server that does not listen after that will not.
const START_MAX: Duration = Duration::from_secs(120);

impl Server {
    /// Serves a volume on a free port of loopback, with more options.
    ///
    /// # Errors
    ///
    /// The binary cannot be run, or does not listen in time.
    pub fn start(reel: &Path, volume: &Path, more: &[&str]) -> Result<Server, CompareError> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(reel)
            .arg("serve")
            .arg(volume)
            .args(["--listen", &address])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = supervisor.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let pid = line.trim().parse().map_err(|_| CompareError::Unexpected { program: "sh", line })?;
        let server = Server { url: format!("http://{address}"), address, pid, supervisor };
        let started = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            if started.elapsed() > START_MAX {
                let said = "it does not listen".to_owned();
                return Err(CompareError::Failed { program: "reel serve".into(), said });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}
