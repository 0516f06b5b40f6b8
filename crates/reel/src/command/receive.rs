//! `reel receive`: receives a cast, repairs it with FEC, and writes its transport stream.

mod announced;
mod following;
mod output;
mod plan;
mod playing;
mod silence;
mod statistics;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use reel_receive::limits::RECEIVE_BUFFER_BYTES;
use reel_receive::{Arrivals, Member, Plan, Port};

use self::following::Following;
use self::output::Output;
use self::playing::{Playing, stopped_by};
use crate::args::ReceiveArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::signals::Signals;

/// `reel receive`.
pub(super) fn run(arguments: &ReceiveArguments, quiet: bool) -> Result<Exit, Failure> {
    // Without a cast, casts are to be listed.
    let Some(cast) = arguments.cast.as_deref() else { return announced::list(arguments, quiet) };
    let mut output = Output::open(arguments.output.as_deref(), arguments.force)?;
    // Until there is something to receive, a signal ends the program.
    let mut stopped = None;
    if receive(cast, arguments, quiet, &mut stopped, &mut output)? == Received::Done {
        return Ok(Exit::Done);
    }
    // What is written by then is nothing.
    if plan::is_current(cast) {
        if !quiet {
            say("note: another broadcast is sent than the description says; its description is read again");
        }
        if receive(cast, arguments, quiet, &mut stopped, &mut output)? == Received::Done {
            return Ok(Exit::Done);
        }
    }
    Err(Failure::failed("the packets that arrive are of another broadcast than the description").help(
        "get the description again (reel cast sdp NAME), or name its address (http://HOST:8080/casts/NAME.sdp), from \
         which it is read",
    ))
}

/// What came of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    /// All that was to be received.
    Done,
    /// Nothing: the description is out of date.
    Outdated,
}

/// Reads the description, and receives what it says.
fn receive(
    cast: &str,
    arguments: &ReceiveArguments,
    quiet: bool,
    caught: &mut Option<Arc<AtomicBool>>,
    output: &mut Output,
) -> Result<Received, Failure> {
    let read = plan::read(cast, arguments)?;
    let stopped = match caught.take() {
        Some(stopped) => stopped,
        None => stopped_by(
            Signals::catch().map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?,
        ),
    };
    let stopped = &**caught.insert(stopped);
    if let Some((broadcast, plans)) = read.broadcast {
        return Following::new(arguments, broadcast, plans, quiet)?.run(stopped, output);
    }
    let members = join(&read.plan, arguments.interface.as_deref())?;
    if !quiet {
        read.notes.iter().for_each(say);
        if let Some(note) = small_buffer(&members) {
            say(note);
        }
    }
    let arrivals = Arrivals::read(members)
        .map_err(|error| Failure::failed(format!("cannot start a thread to receive: {error}")))?;
    Playing::new(arguments, read.plan, arrivals, output, quiet).run(stopped)?;
    Ok(Received::Done)
}

fn join(plan: &Plan, interface: Option<&str>) -> Result<Vec<(Port, Member)>, Failure> {
    let join = |(port, address)| Ok((port, Member::join(address, &plan.sources, interface)?));
    plan.ports()
        .into_iter()
        .map(join)
        .collect::<Result<_, reel_receive::JoinError>>()
        .map_err(|error| Failure::advised(Exit::Failed, &error.to_string()))
}

/// A note if the kernel grants less than was asked for. It counts twice what is asked for
/// (socket(7)).
fn small_buffer(members: &[(Port, Member)]) -> Option<String> {
    let (_, media) = members.first()?;
    let bytes = media.buffer_bytes().ok()? / 2;
    (bytes < RECEIVE_BUFFER_BYTES).then(|| {
        format!(
            "note: the kernel grants a receive buffer of {} KiB, so packets may be lost while this machine is busy; \
             allow more: sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}",
            bytes >> 10
        )
    })
}
