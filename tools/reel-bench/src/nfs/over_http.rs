//! The same clients over HTTP: ranges of files, on one connection.

use super::files::{File, Files, Who};
use anyhow::{Context, Result, ensure};
use reel_testkit::Url;
use reel_testkit::http::{Client, Head};
use std::collections::HashMap;
use std::net::SocketAddr;

/// A connection to a server.
pub(super) struct OverHttp {
    client: Client,
    who: Who,
    /// The files that were opened, by name.
    opened: HashMap<String, File>,
}

impl OverHttp {
    /// Connects.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn connect(address: SocketAddr, who: Who) -> Result<OverHttp> {
        let mut client = Client::connect(address)?;
        client.stream().set_nodelay(true)?;
        Ok(OverHttp { client, who, opened: HashMap::new() })
    }

    fn ask(&mut self, path: &str, offset: u64, count: u64) -> Result<(Head, u64)> {
        let fields = format!("Host: bench\r\nRange: bytes={offset}-{}\r\n", offset + count - 1);
        self.client.request(&format!("GET {path} HTTP/1.1"), &fields)?;
        let head = self.client.head()?;
        let body = self.client.body(&head)?;
        Ok((head, body.len() as u64))
    }
}

impl Files for OverHttp {
    fn open(&mut self, name: &str) -> Result<File> {
        if let Some(file) = self.opened.get(name) {
            return Ok(file.clone());
        }
        let title = name.trim_end_matches(".mp4");
        let path = match self.who {
            Who::Player(_) => format!("/dav/play/{title}.mp4"),
            Who::Reader => format!("/files/{title}.mp4?download"),
            Who::Person(_) => {
                let path = format!("/watch/{title}/{title}.mp4?class=interactive");
                let (head, _) = self.ask(&path, 0, 1)?;
                let location = head.field("Location").context("no session was opened")?;
                Url::parse(&format!("http://reel{path}"))?.join(location)?.target
            }
        };
        let (head, _) = self.ask(&path, 0, 1)?;
        let total = head.field("Content-Range").and_then(|range| range.strip_prefix("bytes 0-0/"));
        let bytes = total.context("an answer without Content-Range")?.parse()?;
        let file = File { place: path.into_bytes(), bytes };
        self.opened.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn read(&mut self, file: &File, offset: u64, count: u64) -> Result<u64> {
        let (head, bytes) = self.ask(std::str::from_utf8(&file.place)?, offset, count)?;
        ensure!(head.status == 206, "reading {count} bytes at {offset}: {}", head.text);
        Ok(bytes)
    }
}
