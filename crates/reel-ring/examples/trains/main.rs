//! What sending UDP packets costs a processor: trains that are lent to the device, and several ways
//! that copy them.
//!
//! `trains send to=ADDRESS from=ADDRESS way=WAY packets=N seconds=S memory=MIB` sends packets of
//! 1328 bytes (12 of header and 1316 of payload), N in a train, as fast as it can, and prints the
//! result as JSON. Each packet gets a header before it is sent, as a media packet does. The payload
//! lies in `memory` MiB that are sent one after another, repeatedly: 2 MiB stay in the processor's
//! cache, 512 do not. WAY is
//! - `lent`: trains through the ring from registered memory, headers in front of their payloads;
//! - `lent-apart`: the same with headers in another place, at most 8 packets long;
//! - `lent-unregistered`: as `lent`, through a ring that has not registered the memory;
//! - `copied`, `copied-apart`: trains through the ring that the kernel copies;
//! - `sendmsg`: a system call for each train, which is copied;
//! - `sendmmsg`: a system call for as many packets as a train has, each sent by itself;
//! - `sendto`: a system call for each packet.
//!
//! `trains receive at=ADDRESS` takes packets until its input ends, and prints how many.

mod calls;
mod receive;
mod send;

use std::collections::HashMap;
use std::io;

/// Bytes of a header: that of RTP (RFC 3550, section 5.1).
pub(crate) const HEADER_BYTES: usize = 12;
/// Seven packets of an MPEG transport stream.
pub(crate) const PAYLOAD_BYTES: usize = 1316;
pub(crate) const PACKET_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;

/// The words `name=value` of the command line.
pub(crate) struct Words(HashMap<String, String>);

impl Words {
    pub(crate) fn get<T: std::str::FromStr>(&self, name: &str) -> io::Result<T> {
        let value = self.0.get(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| io::Error::other(format!("{name}= is missing or wrong")))
    }
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let mode = words.next().unwrap_or_default();
    let pairs =
        words.filter_map(|word| word.split_once('=').map(|(name, value)| (name.into(), value.into())));
    let words = Words(pairs.collect());
    match mode.as_str() {
        "send" => send::run(&words),
        "receive" => receive::run(&words),
        _ => Err(io::Error::other("trains send|receive NAME=VALUE...")),
    }
}
