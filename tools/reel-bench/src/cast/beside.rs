//! Casts beside as many unicast viewers as are admitted, and then beside as many further casts:
//! nothing is late.

use super::Size;
use super::site::{Casting, Setup, Site, title_of};
use super::stream;
use crate::api::Unsuccessful;
use anyhow::{Context, Result, bail};
use reel_load::{ArrivalShape, Arrivals, Fleet, Hls, Outcome, Plan, Viewing};
use reel_report::{Claim, Report};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

const CASE: &str = "beside viewers";
const RATE_BPS: u64 = 5_000_000;
const CASTS: usize = 4;
/// The network that is admitted for: the casts with their FEC take a quarter of it.
const NETWORK_BPS: u64 = 120_000_000;
/// Viewers that come: twice what the network carries.
const VIEWERS: usize = 40;
/// Further casts that would take all of the network.
const FURTHER_MAX: usize = 20;
/// Players keep two segments.
const BUFFER: Duration = Duration::from_secs(8);

/// Runs it: the casts begin, then viewers come until some are refused.
pub(super) fn run(size: &Size, report: &mut Report) -> Result<()> {
    let (arrive, stay) = if size.quick { (4, 6) } else { (20, 40) };
    let (arrive, stay) = (Duration::from_secs(arrive), Duration::from_secs(stay));
    let stream = stream::make(&size.dir, (arrive + stay).as_secs() + 30, RATE_BPS)?;
    let site = Site::with_receivers(size, "beside", std::slice::from_ref(&stream))?;
    report.note(format!(
        "{CASE}: {CASTS} casts of 5 Mb/s with FEC, and viewers of the same title at the other end of a veth; {VIEWERS} come over {} s; the network \
         is set to {} Mb/s; when all have come, further casts are asked for until one is refused",
        arrive.as_secs(),
        NETWORK_BPS / 1_000_000
    ));
    for run in 0..size.runs {
        one(&site, &title_of(&stream), (arrive, stay), run, report)?;
    }
    let sum = |value: &str| -> f64 {
        let of_case = report.rows.iter().filter(|row| row.case == CASE);
        of_case.filter_map(|row| row.values.get(value)).sum()
    };
    let claims = [
        Claim::at_most(
            format!("{CASE}: packets of casts late or lost"),
            sum("late_packets") + sum("lost_packets"),
            0.0,
        ),
        Claim::at_most(format!("{CASE}: late segments"), sum("late_segments"), 0.0),
        Claim::at_least(format!("{CASE}: viewers refused, so all was promised"), sum("refused"), 1.0),
    ];
    claims.into_iter().for_each(|claim| report.claim(claim));
    Ok(())
}

fn one(
    site: &Site,
    title: &str,
    (arrive, stay): (Duration, Duration),
    run: usize,
    report: &mut Report,
) -> Result<()> {
    let setup = Setup { network_bps: Some(NETWORK_BPS), ..Setup::default() };
    let casting = site.serve(&setup)?;
    for number in 0..CASTS {
        casting.add(
            title,
            &format!("239.1.1.{}:5000", number + 1),
            &json!({ "name": format!("cast-{number}") }),
        )?;
    }
    casting.await_all()?;
    let url = format!("http://{}/watch/{title}/master.m3u8", casting.server.address);
    let plan = Plan {
        arrivals: Arrivals { over: arrive, shape: ArrivalShape::Uniform },
        duration: Some(arrive + stay),
        viewing: Viewing::Hls(Hls { buffer: BUFFER, ..Hls::default() }),
        ..Plan::players(vec![url], VIEWERS)
    };
    // Its threads belong to the name space in which it was started.
    let fleet = site.far()?.inside(|| Fleet::start(plan))?;
    let (outcome, further) = std::thread::scope(|scope| -> Result<(Outcome, usize)> {
        let fleet = scope.spawn(|| fleet.wait(|_| {}));
        sleep(arrive + stay / 4);
        let further = further(&casting, title);
        let outcome = fleet.join().expect("the fleet does not panic")?;
        Ok((outcome, further?))
    })?;
    let casts = casting.casts()?;
    let sum = |name: &str| casts.iter().filter_map(|cast| cast[name].as_f64()).sum::<f64>();
    let viewers = &outcome.viewers;
    let values = [
        ("admitted", viewers.admitted as f64),
        ("refused", viewers.refused as f64),
        ("failed", viewers.failed as f64),
        ("segments", viewers.segments as f64),
        ("late_segments", viewers.late_segments as f64),
        ("packets", sum("packets") + sum("fec_packets")),
        ("late_packets", sum("late_packets")),
        ("lost_packets", sum("lost_packets")),
        ("further_casts", further as f64),
    ];
    report.row(CASE, "reel", CASTS as f64, run, &values);
    Ok(())
}

/// How many further casts are admitted, until one is refused.
fn further(casting: &Casting<'_>, title: &str) -> Result<usize> {
    for number in 0..FURTHER_MAX {
        let name: Value = json!({ "name": format!("further-{number}") });
        let Err(error) = casting.add(title, &format!("239.1.2.{}:5000", number + 1), &name) else { continue };
        let refusal = error.downcast_ref::<Unsuccessful>().filter(|response| response.status == 503);
        return refusal
            .map(|_| number)
            .with_context(|| format!("a further cast is not refused as one that has no room: {error}"));
    }
    bail!("{FURTHER_MAX} further casts were admitted, and none was refused")
}
