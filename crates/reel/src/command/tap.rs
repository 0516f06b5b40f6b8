//! `reel tap`: writes a title to standard output, directly from a running server's memory; or has a
//! program read titles there.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use reel_arena::mms::Ending;
use reel_client::limits::INHERITED_STREAMS_MAX;
use reel_client::{Client, ClientError, RefusalCode, Wanted};

use super::mapped::{self, Standard};
use crate::args::TapArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;

/// `reel tap`.
pub(super) fn run(arguments: &TapArguments) -> Result<Exit, Failure> {
    if arguments.mapped {
        return run_mapped(arguments);
    }
    let [title] = &arguments.titles[..] else {
        return Err(Failure::usage("several titles cannot be written to one standard output")
            .help("name one title, or run a program that reads all of them with --mapped"));
    };
    let mut client = connect(&arguments.socket)?;
    let opened = client.open(&[wanted(arguments, title)]).map_err(|error| failure_of(&error))?;
    let mut stream = 0;
    for answer in opened {
        stream = answer.map_err(|error| failure_of(&error))?;
    }
    let messages = write_all(&mut client, stream, (title, arguments.from))?;
    if arguments.stats {
        let state = client.state(&[stream]).pop().flatten();
        let bytes = state.map_or(0, |state| state.done_bytes);
        say(format!(
            "{messages} messages, {bytes} bytes, {} system calls to wait and to wake",
            client.kernel_calls()
        ));
    }
    Ok(Exit::Done)
}

/// Opens the titles for a program, and runs it in place of this one.
fn run_mapped(arguments: &TapArguments) -> Result<Exit, Failure> {
    let filter = mapped::filter(&arguments.filter, "reel tap --mapped TITLE -- FILTER")?;
    if arguments.titles.len() > INHERITED_STREAMS_MAX {
        let many = format!("a program inherits {INHERITED_STREAMS_MAX} streams at most");
        return Err(Failure::usage(many).help("a program that connects itself opens more"));
    }
    let wanted: Vec<Wanted> = arguments.titles.iter().map(|title| wanted(arguments, title)).collect();
    let client = connect(&arguments.socket)?;
    let socket = client.open_for_exec(&wanted).map_err(|error| failure_of(&error))?;
    Err(mapped::run(filter, Standard::Input, socket))
}

fn connect(socket: &Path) -> Result<Client, Failure> {
    Client::connect(socket).map_err(|error| match error {
        ClientError::Connect(source) => {
            let failure = Failure::path("connect to", socket, &source);
            failure.help("start the server with --programs-socket PATH, as this user, and name the same path with --socket")
        }
        other => failure_of(&other),
    })
}

fn wanted(arguments: &TapArguments, title: &str) -> Wanted {
    Wanted { title: title.to_owned(), class: arguments.class.clone(), from_bytes: arguments.from }
}

/// Writes a stream to standard output until its end, or until its reader closes the pipe. Returns
/// the number of messages.
fn write_all(client: &mut Client, stream: u64, (title, from): (&str, u64)) -> Result<u64, Failure> {
    let output = io::stdout();
    let set = [(stream, output.as_fd())];
    let mut messages = 0_u64;
    loop {
        messages += client.read(&[stream], true).map_err(|error| failure_of(&error))?.len() as u64;
        match client.send(&set) {
            Ok(_) => {}
            // The reader of the pipe has closed it.
            Err(ClientError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(failure_of(&error)),
        }
        let Some(Some(state)) = client.state(&[stream]).pop() else { break };
        match state.ending {
            None => {}
            Some(Ending::Complete) if state.held == 0 => break,
            Some(Ending::Complete) => {}
            Some(other) => {
                let at = from + state.done_bytes;
                let help = match title.starts_with("live/") {
                    true => "it was too slow for a stream that is being poured, or that has ended".to_owned(),
                    false => format!("everything before byte {at} was written; --from {at} continues there"),
                };
                return Err(Failure::failed(other.text()).help(help));
            }
        }
    }
    Ok(messages)
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused { code, text, retry_after_s } => {
            let exit = if *code == RefusalCode::NoSuchTitle { Exit::NotFound } else { Exit::Failed };
            let failure = Failure::advised(exit, text);
            match retry_after_s {
                0 => failure,
                seconds => failure.help(format!("try again in {seconds} s")),
            }
        }
        ClientError::Gone => Failure::failed(error).help("the server's log has the reason"),
        _ => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_follows_from_the_code_and_not_from_the_text() {
        let exit = |code, text: &str| {
            failure_of(&ClientError::Refused { code, text: text.to_owned(), retry_after_s: 0 }).exit
        };
        assert_eq!(exit(RefusalCode::NoSuchTitle, "gone"), Exit::NotFound);
        assert_eq!(exit(RefusalCode::Other, "there is no title a"), Exit::Failed);
    }
}
