//! How much memory a server may use at most: the sum of what its limits allow.

use std::fmt;

use reel_admit::limits::{FORMER_SESSIONS_MAX, ROUNDS_MAX};
use reel_api::limits as api;
use reel_http::limits as http;
use reel_library::limits::{INGEST_BYTES_MAX, MERGED_BYTES_MAX, OPENED_BYTES_MAX};
use reel_local::limits::{POURED_OWN_BYTES, PROGRAM_LIVE_STREAMS_MAX};
use reel_nfs::limits as nfs;
use reel_pour::limits::POUR_MEMORY_BYTES;
use reel_qos::Kind;
use reel_serve::limits::{OPENERS, WRITERS};

use crate::config::Config;
use crate::limits::{
    CONNECTION_STATE_BYTES, FORMER_SESSION_BYTES, HANDSHAKE_BYTES, LOG_BYTES_MAX, LOG_LINES_MAX,
    RING_BYTES_PER_THREAD, SESSION_BYTES, STACK_BYTES, THREADS_OTHER, TLS_CONNECTION_BYTES,
};
use crate::size::Size;

/// What no limit of this program bounds. The log says it beside the sum.
const NOT_COUNTED: &str = "not in this sum: the list of the volume's titles, titles beyond the cache while they are \
    played, long answers of the API (lists, pictures), further renditions of a title while it is ingested, freed memory \
    that the allocator keeps, buffers of sockets (the kernel's), and ffmpeg";

/// Windows of poured streams, and the memory through which programs read them.
const POURED_BYTES: u64 = POUR_MEMORY_BYTES + (PROGRAM_LIVE_STREAMS_MAX * POURED_OWN_BYTES) as u64;

/// What decides how much memory a server may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryUsers<'a> {
    pub(crate) config: &'a Config,
    /// Connections that this process may have open.
    pub(crate) connections_max: usize,
    /// Members of the volume.
    pub(crate) members: usize,
    /// The arena, which is allocated at the start.
    pub(crate) media_bytes: u64,
    /// The file of the program.
    pub(crate) program_bytes: u64,
}

/// The parts of the sum, each with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemorySum([(&'static str, u64); 12]);

impl MemorySum {
    pub(crate) fn of(users: &MemoryUsers<'_>) -> Self {
        let MemoryUsers { config, media_bytes, program_bytes, .. } = *users;
        let serve_threads = config.serve_threads() as u64;
        // Each member has a thread of its own at most, and one that watches the owner record.
        let threads = serve_threads + users.members as u64 + (OPENERS + WRITERS + THREADS_OTHER) as u64;
        let threads = threads + (api::RUNTIME_THREADS + api::BLOCKING_THREADS_MAX) as u64;
        let parsing = (config.upload.ingests_max + api::LOOKS_MAX) as u64;
        let pieces = (api::UPLOADS_MAX * api::UPLOAD_PIECE_BYTES) as u64;
        let former = (FORMER_SESSIONS_MAX * FORMER_SESSION_BYTES) as u64;
        Self([
            ("media", media_bytes),
            ("connections", connections(users, serve_threads)),
            ("NFS", if config.nfs.listen.is_some() { nfs::MEMORY_BYTES_MAX as u64 } else { 0 }),
            ("poured streams", if config.programs_socket.is_some() { POURED_BYTES } else { 0 }),
            ("requests", requests()),
            ("ingests", parsing * (INGEST_BYTES_MAX + STACK_BYTES) + pieces),
            ("opened titles", (OPENED_BYTES_MAX + MERGED_BYTES_MAX) as u64),
            ("sessions", config.sessions_max as u64 * SESSION_BYTES + former),
            ("reservations", timelines(users) * ROUNDS_MAX * 8),
            (
                "threads",
                threads * STACK_BYTES + (serve_threads + users.members as u64) * RING_BYTES_PER_THREAD,
            ),
            ("log", (LOG_BYTES_MAX + LOG_LINES_MAX * size_of::<Vec<u8>>()) as u64),
            ("program", program_bytes),
        ])
    }

    /// All parts together.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Writes it to the log.
    pub(crate) fn log(&self) {
        tracing::info!("{self}");
        tracing::info!("{NOT_COUNTED}");
    }
}

impl fmt::Display for MemorySum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory at most: {} if all limits are reached:", Size(self.bytes()))?;
        let parts = self.0.iter().filter(|(_, bytes)| *bytes > 0);
        for (number, (name, bytes)) in parts.enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma} {name} {}", Size(*bytes))?;
        }
        Ok(())
    }
}

/// Connections of the data plane: each with the longest head, and with records of TLS beside it.
fn connections(users: &MemoryUsers<'_>, serve_threads: u64) -> u64 {
    // What was received, and the request that was made from it. With heads of 15 KiB, 2,500
    // connections needed 19 KiB each, and 1,000 with TLS 24 KiB.
    let head = 2 * http::HEAD_BYTES_MAX as u64 + CONNECTION_STATE_BYTES;
    let connections = (users.connections_max + http::ASIDE_CONNECTIONS_MAX) as u64;
    let plain = connections * head;
    if users.config.tls.listen.is_none() {
        return plain;
    }
    let records = connections * TLS_CONNECTION_BYTES;
    let shaking = http::HANDSHAKES_MAX as u64 * HANDSHAKE_BYTES;
    plain + records + serve_threads * (shaking + http::PARKED_BYTES_MAX as u64)
}

/// The control plane: connections, and what requests on them hold.
fn requests() -> u64 {
    let connection = api::HEAD_BYTES_MAX.max(api::HTTP2_WINDOW_BYTES as usize) + api::BODY_BYTES_MAX;
    let connections = (api::CONNECTIONS_MAX + api::REFUSED_CONNECTIONS_MAX) * connection;
    let stream = api::HTTP2_HEADERS_BYTES_MAX as usize + api::BODY_BYTES_MAX + api::HTTP2_SEND_BYTES_MAX;
    (connections + api::HTTP2_REQUESTS_MAX * stream) as u64
}

/// Each resource of each periodic class has one, and the media memory of all.
fn timelines(users: &MemoryUsers<'_>) -> u64 {
    let classes = users.config.classes.table();
    let periodic = classes.iter().filter(|(_, spec)| spec.kind == Kind::Periodic).count();
    // The members, the network and the processors.
    (periodic * (users.members + 2) + 1) as u64
}

/// Bytes of the file of this program; its code and data are mapped from it.
pub(crate) fn program_bytes() -> u64 {
    std::fs::metadata("/proc/self/exe").map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(config: &Config) -> MemoryUsers<'_> {
        MemoryUsers { config, connections_max: 1000, members: 5, media_bytes: 1 << 30, program_bytes: 7 }
    }

    #[test]
    fn the_sum_is_that_of_its_parts_and_grows_with_each_limit() {
        let config = Config::default();
        let sum = MemorySum::of(&users(&config));
        assert_eq!(sum.bytes(), sum.0.iter().map(|(_, bytes)| bytes).sum::<u64>());
        let is_used = |part: &(&str, u64)| (part.1 > 0) != ["NFS", "poured streams"].contains(&part.0);
        assert!(sum.bytes() > 1 << 30 && sum.0.iter().all(is_used), "{sum}");
        assert!(
            sum.to_string().starts_with("memory at most: ") && sum.to_string().contains("media 1.0 GiB, ")
        );
        let more = |users: MemoryUsers<'_>| MemorySum::of(&users).bytes() > sum.bytes();
        assert!(more(MemoryUsers { connections_max: 1001, ..users(&config) }));
        assert!(more(MemoryUsers { members: 6, ..users(&config) }));
        let mut other = Config::default();
        other.upload.ingests_max += 1;
        assert!(more(users(&other)));
        let mut other = Config { sessions_max: config.sessions_max + 1, ..Config::default() };
        assert!(more(users(&other)));
        other.sessions_max -= 1;
        other.tls.listen_at("127.0.0.1:8443".parse().unwrap());
        assert!(more(users(&other)));
        let mut other = Config::default();
        other.nfs.listen = Some("127.0.0.1:2049".parse().unwrap());
        assert_eq!(MemorySum::of(&users(&other)).bytes(), sum.bytes() + nfs::MEMORY_BYTES_MAX as u64);
        let other = Config { programs_socket: Some("reel.sock".into()), ..Config::default() };
        assert_eq!(MemorySum::of(&users(&other)).bytes(), sum.bytes() + POURED_BYTES);
    }

    #[test]
    fn this_program_has_a_file() {
        assert!(program_bytes() > 1 << 20);
    }
}
