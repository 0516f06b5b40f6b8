//! `reel tap`: a title on standard output, read where it lies in a running server's memory.

use std::io;
use std::os::fd::AsFd;

use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, Wanted};

use crate::args::TapArguments;
use crate::failure::{Exit, Failure};

/// `reel tap`.
pub(super) fn run(arguments: &TapArguments) -> Result<Exit, Failure> {
    let socket = &arguments.socket;
    let mut client = Client::connect(socket).map_err(|error| match error {
        ClientError::Connect(source) => {
            let failure = Failure::path("connect to", socket, &source);
            failure.help("start the server with --programs-socket PATH, as this user, and name the same path with --socket")
        }
        other => told(&other),
    })?;
    let wanted =
        Wanted { title: arguments.title.clone(), class: arguments.class.clone(), from_bytes: arguments.from };
    let opened = client.open(&[wanted]).map_err(|error| told(&error))?;
    let mut stream = 0;
    for answer in opened {
        stream = answer.map_err(|error| told(&error))?;
    }
    let output = io::stdout();
    let set = [(stream, output.as_fd())];
    let mut messages = 0_u64;
    loop {
        messages += client.read(&[stream], true).map_err(|error| told(&error))?.len() as u64;
        match client.send(&set) {
            Ok(_) => {}
            // Whoever reads has seen enough.
            Err(ClientError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(told(&error)),
        }
        let Some(Some(state)) = client.state(&[stream]).pop() else { break };
        match state.ending {
            None => {}
            Some(Ending::Complete) if state.held == 0 => break,
            Some(Ending::Complete) => {}
            Some(other) => {
                let at = arguments.from + state.done_bytes;
                return Err(Failure::failed(other.text())
                    .help(format!("all up to byte {at} was written; --from {at} goes on from there")));
            }
        }
    }
    if arguments.stats {
        let state = client.state(&[stream]).pop().flatten();
        let bytes = state.map_or(0, |state| state.done_bytes);
        eprintln!(
            "{messages} messages, {bytes} bytes, {} calls of the kernel to wait and to wake",
            client.kernel_calls()
        );
    }
    Ok(Exit::Done)
}

fn told(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused { text, retry_after_s } => {
            let exit = if text.starts_with("there is no title") { Exit::NotFound } else { Exit::Failed };
            let failure = Failure::advised(exit, text);
            match retry_after_s {
                0 => failure,
                seconds => failure.help(format!("try again in {seconds} s")),
            }
        }
        ClientError::Gone => Failure::failed(error).help("its log says why"),
        _ => Failure::failed(error),
    }
}
