//! Requests to pages and API, one after another, as often as they are answered.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use anyhow::Result;
use reel_testkit::http::Client;
use std::thread;
use std::time::{Duration, Instant};

/// Addresses, each with so many connections.
const ADDRESSES: usize = 4;
const CONNECTIONS: usize = 4;
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

pub(super) fn run(field: &Field<'_>) {
    thread::scope(|scope| {
        for number in 0..ADDRESSES * CONNECTIONS {
            scope.spawn(move || {
                while !field.is_over() {
                    if let Err(error) = requests(field, number) {
                        field.count(Attack::Flood, error.root_cause());
                        thread::sleep(Duration::from_millis(100));
                    }
                }
            });
        }
    });
}

fn requests(field: &Field<'_>, number: usize) -> Result<()> {
    let to = field.arguments.http;
    let from = Attack::Flood.address(number % ADDRESSES);
    let mut client = Client::on(connect(from, to, PATIENCE)?);
    for path in PATHS.into_iter().cycle().skip(number).take(REQUESTS_MAX) {
        let begun = Instant::now();
        if field.is_over() {
            break;
        }
        client.request(&format!("GET {path} HTTP/1.1"), &format!("Host: {to}\r\n"))?;
        let head = client.head()?;
        field.count(Attack::Flood, head.status);
        if head.length()?.is_none() || head.field("Connection") == Some("close") {
            break;
        }
        client.body(&head)?;
        field.pace(begun, REQUESTS_A_SECOND);
    }
    Ok(())
}
