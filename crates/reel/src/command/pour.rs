//! `reel pour`: plays standard input, or what a program puts into its memory, to others while it
//! comes, through a running server's memory.

use std::io::{self, Read};
use std::path::Path;

use reel_client::limits::{POURED_BYTES_MAX, POURED_MESSAGE_BYTES_MAX};
use reel_client::{Client, ClientError, PourWanted};

use super::mapped::{self, Standard};
use crate::args::PourArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;

/// Bytes of a packet of a transport stream (ISO/IEC 13818-1).
const PACKET_BYTES: usize = 188;

/// `reel pour`.
pub(super) fn run(arguments: &PourArguments, quiet: bool) -> Result<Exit, Failure> {
    if arguments.mapped {
        return run_mapped(arguments, quiet);
    }
    let mut client = connect(&arguments.socket)?;
    let wanted = wanted(arguments);
    let bytes_per_s = wanted.bytes_per_s;
    let stream = client.pour(wanted).map_err(|error| failure_of(&error))?;
    announce(arguments, quiet);
    let is_transport = arguments.content_type.split(';').next() == Some("video/mp2t");
    let packet_bytes = if is_transport { PACKET_BYTES } else { 1 };
    let copied = copy(&mut client, stream, (bytes_per_s, packet_bytes));
    let poured_bytes = client.poured_bytes(stream);
    copied?;
    client.end_pour(stream).map_err(|error| failure_of(&error))?;
    if arguments.stats {
        say(format!("{poured_bytes} bytes, {} system calls to wait and to wake", client.kernel_calls()));
    }
    Ok(Exit::Done)
}

/// Begins a stream for a program, and runs it in place of this one.
fn run_mapped(arguments: &PourArguments, quiet: bool) -> Result<Exit, Failure> {
    let filter = mapped::filter(&arguments.filter, "reel pour --mapped NAME --rate RATE -- FILTER")?;
    let client = connect(&arguments.socket)?;
    let socket = client.pour_for_exec(wanted(arguments)).map_err(|error| failure_of(&error))?;
    announce(arguments, quiet);
    Err(mapped::run(filter, Standard::Output, socket))
}

fn announce(arguments: &PourArguments, quiet: bool) {
    if !quiet {
        say(format!("others play it at /live/{} of the server", arguments.name));
    }
}

fn wanted(arguments: &PourArguments) -> PourWanted {
    let bytes_per_s = arguments.rate.0.div_ceil(8);
    let half_a_second = (bytes_per_s / 2).min(POURED_BYTES_MAX as u64 / 2);
    PourWanted {
        name: arguments.name.clone(),
        content_type: arguments.content_type.clone(),
        bytes_per_s,
        workahead_bytes: arguments.workahead.map_or(half_a_second, |size| size.bytes()),
        delay_ns: arguments.delay.ns,
    }
}

/// Puts all of standard input into a stream, in whole packets until its end.
fn copy(client: &mut Client, stream: u64, (bytes_per_s, packet_bytes): (u64, usize)) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut buffer = vec![0; message_bytes(bytes_per_s, packet_bytes)];
    let mut held = 0;
    loop {
        let read = match input.read(&mut buffer[held..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::failed(format!("cannot read standard input: {error}"))),
        };
        held += read;
        let whole = if read == 0 { held } else { held - held % packet_bytes };
        client.put(stream, &buffer[..whole]).map_err(|error| failure_of(&error))?;
        buffer.copy_within(whole..held, 0);
        held -= whole;
        if read == 0 {
            return Ok(());
        }
    }
}

/// Bytes of a message: what comes within a fiftieth of a second, in whole packets.
fn message_bytes(bytes_per_s: u64, packet_bytes: usize) -> usize {
    let bytes = usize::try_from(bytes_per_s / 50).unwrap_or(usize::MAX);
    let packets = bytes.clamp(packet_bytes, POURED_MESSAGE_BYTES_MAX) / packet_bytes;
    // A chunk of the standard input is read at once if it is there.
    (packets * packet_bytes).max(7 * packet_bytes)
}

fn connect(socket: &Path) -> Result<Client, Failure> {
    Client::connect(socket).map_err(|error| match error {
        ClientError::Connect(source) => Failure::path("connect to", socket, &source).help(
            "start the server with --programs-socket PATH, as this user, and name the same path with --socket",
        ),
        other => failure_of(&other),
    })
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused { text, .. } => Failure::failed(text),
        ClientError::Gone => Failure::failed(error).help("the server's log has the reason"),
        _ => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_packets_and_not_too_long() {
        for bytes_per_s in [100, 10_000, 625_000, 250_000_000] {
            let bytes = message_bytes(bytes_per_s, PACKET_BYTES);
            assert!(bytes.is_multiple_of(PACKET_BYTES) && bytes <= POURED_MESSAGE_BYTES_MAX, "{bytes}");
        }
        assert_eq!(message_bytes(625_000, PACKET_BYTES), 66 * PACKET_BYTES);
        assert_eq!(message_bytes(8_000, 1), 160);
    }
}
