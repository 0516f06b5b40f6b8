//! `reel mount`: a running server as files.

use std::time::{Duration, Instant};

use reel_files::{HttpServer, MountError, MountOptions, MountPoint, Mounted, PlaceError, Server};

use crate::args::MountArguments;
use crate::failure::{Exit, Failure};
use crate::logging::say;
use crate::output::print;
use crate::remote::plain_url;
use crate::signals::{Event, Signals};

/// How long the first answer of the server is waited for, as by other commands.
const FIRST_ANSWER_TIME: Duration = Duration::from_secs(30);

/// `reel mount`.
pub(super) fn run(arguments: &MountArguments, quiet: bool) -> Result<Exit, Failure> {
    let url = plain_url(&arguments.of)?;
    let at = MountPoint::check(&arguments.dir).map_err(|error| of_place(&error))?;
    let server = HttpServer::new(&url, arguments.rate.0);
    server.classes(Instant::now() + FIRST_ANSWER_TIME).map_err(|error| {
        Failure::failed(format!("cannot mount {url}: {error}"))
            .help("start a server (reel serve), or name its address with --of")
    })?;
    let mut signals =
        Signals::catch().map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    let options = MountOptions {
        source: url.clone(),
        allow_other: arguments.allow_other,
        answer_time: Duration::from_nanos(arguments.timeout.ns),
    };
    let mounted = Mounted::mount(server, &at, &options).map_err(|error| of_mount(&error))?;
    if !quiet {
        print(&format!("{url} is mounted on {} until SIGTERM or SIGINT", at.path().display()))?;
    }
    loop {
        match signals.wait() {
            // The end of a terminal ends it, too.
            Event::Stop(_) | Event::Reload => break,
            Event::Check if mounted.has_ended() => {
                if !quiet {
                    say(format!("{} was unmounted", at.path().display()));
                }
                return Ok(Exit::Done);
            }
            Event::Check => {}
        }
    }
    mounted.unmount().map_err(|error| of_mount(&error))?;
    Ok(Exit::Done)
}

fn of_place(error: &PlaceError) -> Failure {
    let exit = match error {
        PlaceError::Missing(_) => Exit::NotFound,
        PlaceError::NoDirectory(_) | PlaceError::NotEmpty(_) | PlaceError::Mounted(_) => Exit::Usage,
        PlaceError::Dead(_) | PlaceError::Look(..) => Exit::Failed,
    };
    Failure::advised(exit, &error.to_string())
}

fn of_mount(error: &MountError) -> Failure {
    Failure::advised(Exit::Failed, &error.to_string())
}
