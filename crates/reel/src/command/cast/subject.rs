//! What is planned: a title of a volume, or a length and a rate.

use reel::plans::{NotPlanned, Subject};

use crate::args::CastPlanArguments;
use crate::command::{Access, open_library};
use crate::failure::{Exit, Failure};

/// What the arguments name.
pub(super) fn subject_of(arguments: &CastPlanArguments) -> Result<Subject, Failure> {
    let planned = match (arguments, &arguments.title, &arguments.volume) {
        (_, Some(id), Some(volume)) => Subject::of_title(&open_library(volume, Access::Read)?, id),
        (CastPlanArguments { duration: Some(duration), rate: Some(rate), .. }, ..) => {
            Subject::of_length(duration.ns, rate.0)
        }
        _ => {
            return Err(Failure::usage("nothing to plan: neither a title nor a length was given")
                .help("use TITLE --volume DIR, or --duration 2h --rate 4M"));
        }
    };
    planned.map_err(|reason| match reason {
        NotPlanned::Title(error) => Failure::library(&error),
        NotPlanned::Schedule(error) => Failure::advised(Exit::Failed, &error.to_string()),
    })
}
