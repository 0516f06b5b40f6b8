//! Requests to pages and API, one after another, as often as they are answered.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use anyhow::Result;
use reel_testkit::http::Client;
use std::thread;
use std::time::{Duration, Instant};

/// What is asked for, and from where.
pub(super) struct Flood {
    addresses: usize,
    /// Connections of each address.
    connections: usize,
    paths: &'static [&'static str],
}

/// All kinds of answers.
pub(super) const ALL: Flood = Flood { addresses: 4, connections: 4, paths: &PATHS };

/// The largest answer that needs no title.
pub(super) const LARGE: Flood = Flood { addresses: 1, connections: 30, paths: &["/api/v1/openapi.json"] };

/// Requests a second of each connection at most.
const REQUESTS_A_SECOND: u32 = 200;
/// Requests before a connection is replaced.
const REQUESTS_MAX: usize = 500;

const PATHS: [&str; 8] = [
    "/api/v1/titles",
    "/api/v1/capacity?rate_bps=1000000",
    "/api/v1/dashboard",
    "/api/v1/jobs",
    "/api/v1/volume",
    "/metrics",
    "/dashboard",
    "/",
];

pub(super) fn run(attack: Attack, flood: &Flood, field: &Field<'_>) {
    thread::scope(|scope| {
        for number in 0..flood.addresses * flood.connections {
            scope.spawn(move || {
                while !field.is_over() {
                    if let Err(error) = requests(attack, flood, field, number) {
                        field.count(attack, error.root_cause());
                        thread::sleep(Duration::from_millis(100));
                    }
                }
            });
        }
    });
}

fn requests(attack: Attack, flood: &Flood, field: &Field<'_>, number: usize) -> Result<()> {
    let to = field.arguments.http;
    let from = attack.address(number % flood.addresses);
    let mut client = Client::on(connect(from, to, PATIENCE)?);
    for path in flood.paths.iter().cycle().skip(number).take(REQUESTS_MAX) {
        let begun = Instant::now();
        if field.is_over() {
            break;
        }
        client.request(&format!("GET {path} HTTP/1.1"), &format!("Host: {to}\r\n"))?;
        let head = client.head()?;
        field.count(attack, head.status);
        if head.length()?.is_none() {
            break;
        }
        client.body(&head)?;
        field.pace(begun, REQUESTS_A_SECOND);
        if head.field("Connection") == Some("close") {
            break;
        }
    }
    Ok(())
}
