//! What is planned: a title of a running server or of a volume, or a length and a rate.

use reel::plans::{NotPlanned, SchemePlan, Subject};
use reel_api::wire::{CastPlan, CastPlans};
use reel_broadcast::{BroadcastError, Plan, Scheme, Stream};

use super::plan::Bound;
use crate::args::CastPlanArguments;
use crate::command::{Access, open_library};
use crate::failure::{Exit, Failure};
use crate::remote::Remote;

/// What a running server plans for a title; `None` if the arguments name something else.
pub(super) fn told(
    arguments: &CastPlanArguments,
    bound: Bound,
) -> Result<Option<(Subject, Vec<SchemePlan>)>, Failure> {
    let (Some(title), None) = (&arguments.title, &arguments.volume) else { return Ok(None) };
    let mut query = vec![("title", title.clone())];
    query.push(match bound {
        Bound::Wait(wait) => ("wait_s", (wait.ns as f64 / 1e9).to_string()),
        Bound::Bandwidth(bandwidth) => ("bandwidth_bps", bandwidth.0.to_string()),
    });
    query.extend(arguments.scheme.map(|scheme| ("scheme", scheme.to_string())));
    let plans: CastPlans = Remote::new(&arguments.server)?.get_with("/api/v1/cast-plans", &query)?;
    let wrong = |error: BroadcastError| {
        Failure::failed(format!("{} has planned what cannot be: {error}", arguments.server))
            .help("ask a server of this version")
    };
    plan_of(plans).map(Some).map_err(wrong)
}

/// Schedules follow from their schemes and the number of their segments.
fn plan_of(plans: CastPlans) -> Result<(Subject, Vec<SchemePlan>), BroadcastError> {
    let CastPlans { title, duration_s, rate_bps, notes, plans, .. } = plans;
    let subject = Subject::told(title, (duration_s * 1e9).round() as u64, rate_bps, notes)?;
    let of = |stream: Stream, told: CastPlan| {
        let plan = Plan::new(told.scheme.parse::<Scheme>()?, stream, told.segments)?;
        Ok(SchemePlan { plan, peak_bps: told.peak_bps, problem: told.problem })
    };
    let plans = plans.into_iter().map(|told| of(subject.stream, told)).collect::<Result<_, _>>()?;
    Ok((subject, plans))
}

/// What the arguments name, without a server.
pub(super) fn subject_of(arguments: &CastPlanArguments) -> Result<Subject, Failure> {
    let planned = match (arguments, &arguments.title, &arguments.volume) {
        (_, Some(id), Some(volume)) => Subject::of_title(&open_library(volume, Access::Read)?, id),
        (CastPlanArguments { duration: Some(duration), rate: Some(rate), .. }, ..) => {
            Subject::of_length(duration.ns, rate.0)
        }
        _ => {
            return Err(Failure::usage("nothing to plan: neither a title nor a length was given")
                .help("use TITLE, or --duration 2h --rate 4M"));
        }
    };
    planned.map_err(|reason| match reason {
        NotPlanned::Title(error) => Failure::library(&error),
        NotPlanned::Schedule(error) => Failure::advised(Exit::Failed, &error.to_string()),
    })
}
