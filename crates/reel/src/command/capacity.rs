//! `reel capacity`: how many viewers a volume carries, and what stops the next one.

use std::path::Path;

use reel_disk::limits::PRICE_UNKNOWN;
use reel_http::limits::{CORE_MIB_NS, CORE_MIB_TLS_NS};
use reel_http::{ArenaParts, ArenaUse, title_demand};
use reel_library::Library;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Answer, Capacities, Class, ClassTable, Demand, Ledger, MemberCapacity, Starts, UNLIMITED};
use reel_stream::limits::{ROUNDS_MAX, STEADY_ROUNDS};
use reel_stream::{Depth, steady_demand};
use serde_json::{Value, json};

use super::profiles::{Known, load, price_text};
use super::{Access, open_library};
use crate::args::CapacityArguments;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::memory::{arena_bytes, machine_bytes};
use crate::network::Network;
use crate::output::print;
use crate::rate::Rate;

/// What is asked, and how it was answered.
struct Report {
    what: String,
    rate: Rate,
    /// Whatever single member is lost.
    degraded: Answer,
    /// The same if all start at once.
    together: Answer,
    /// While all members are there; not known of stored titles, whose demands are made for the degraded volume.
    healthy: Option<Answer>,
    notes: Vec<String>,
}

/// `reel capacity`.
pub(super) fn run(arguments: &CapacityArguments) -> Result<Exit, Failure> {
    let config = match &arguments.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let library = open_library(&arguments.volume, Access::Read)?;
    let mut notes = Vec::new();
    let capacities = capacities(&config, &arguments.volume, &library, &mut notes);
    let granted = (capacities, config.classes.table());
    let report = match (&arguments.title, arguments.rate) {
        (Some(title), _) => of_title(&library, title, granted, notes)?,
        (None, Some(rate)) => of_rate(&library, rate, granted, notes)?,
        (None, None) => {
            return Err(Failure::usage("viewers of what?").help("give --rate 8M, or --title TITLE"));
        }
    };
    let text = if arguments.json { report.as_json().to_string() } else { report.text() };
    print(&text)?;
    Ok(Exit::Done)
}

fn of_rate(
    library: &Library,
    rate: Rate,
    (capacities, classes): (Capacities, ClassTable),
    notes: Vec<String>,
) -> Result<Report, Failure> {
    let geometry = *library.volume().geometry();
    let depth = Depth::of(capacities.has_arms());
    let demand = |is_degraded| steady_demand(&geometry, depth, rate.0, is_degraded);
    let ledger = ledger(capacities, STEADY_ROUNDS, classes);
    Ok(Report {
        what: format!("viewers of {rate}"),
        rate,
        degraded: ask(&ledger, &demand(true), Starts::Spread)?,
        together: ask(&ledger, &demand(true), Starts::Together)?,
        healthy: Some(ask(&ledger, &demand(false), Starts::Spread)?),
        notes,
    })
}

fn of_title(
    library: &Library,
    id: &str,
    (capacities, classes): (Capacities, ClassTable),
    notes: Vec<String>,
) -> Result<Report, Failure> {
    let title = library.open(id).map_err(|error| Failure::library(&error))?;
    let demand = title_demand(&title, Depth::of(capacities.has_arms())).ok_or_else(|| {
        Failure::failed(format!(
            "{id} is longer than what can be promised ahead, {} hours",
            ROUNDS_MAX / 3600
        ))
    })?;
    let ledger = ledger(capacities, demand.rounds(), classes);
    let rate = Rate(demand.average_bps());
    Ok(Report {
        what: format!("viewers of {id} ({rate} on average)"),
        rate,
        degraded: ask(&ledger, &demand, Starts::Spread)?,
        together: ask(&ledger, &demand, Starts::Together)?,
        healthy: None,
        notes,
    })
}

/// An empty ledger, in which nothing is promised that a change of shares could be too much for.
fn ledger(capacities: Capacities, rounds: usize, classes: ClassTable) -> Ledger {
    let mut ledger = Ledger::new(capacities, rounds);
    let _ = ledger.set_classes(classes);
    ledger
}

fn ask(ledger: &Ledger, demand: &Demand, starts: Starts) -> Result<Answer, Failure> {
    ledger.how_many(Class::PERIODIC, demand, starts).map_err(Failure::failed)
}

/// What a server of this volume with this configuration would have to promise.
fn capacities(config: &Config, dir: &Path, library: &Library, notes: &mut Vec<String>) -> Capacities {
    let volume = library.volume();
    let threads = config.serve_threads();
    let member = |finding| -> MemberCapacity {
        let finding: &reel_volume::Finding = finding;
        let member = finding.member;
        if !finding.state.in_use() {
            // Its reads are done by the others, and are counted there in any case.
            notes.push(format!("member {member} is {} and does nothing", finding.state.name()));
            return MemberCapacity { price: PRICE_UNKNOWN, round_ns: UNLIMITED };
        }
        let price = match load(dir, finding) {
            Known::Measured(profile) => {
                if profile.quick {
                    notes.push(format!(
                        "member {member} was measured in a hurry; reel probe {} measures better",
                        dir.display()
                    ));
                }
                profile.price()
            }
            Known::Not | Known::Refused(_) => {
                notes.push(format!(
                    "member {member} is not measured and counts as a slow hard disk ({} a read); reel probe {}",
                    price_text(&PRICE_UNKNOWN),
                    dir.display()
                ));
                PRICE_UNKNOWN
            }
        };
        MemberCapacity { price, round_ns: ROUND_NS }
    };
    let members = volume.findings().iter().map(member).collect();
    let network = Network::of(config);
    notes.push(network.text());
    let geometry = volume.geometry();
    let unit_bytes = geometry.unit_bytes() as u64;
    let arena_bytes = arena_bytes(config, threads as u64, machine_bytes());
    let buffers = usize::try_from(arena_bytes / unit_bytes).unwrap_or(usize::MAX);
    let parts = ArenaParts::of(&ArenaUse {
        buffers,
        width: geometry.width(),
        serve_threads: threads,
        ingests: config.upload.ingests_max,
        is_tls: config.tls.listen.is_some(),
        driver: config.driver.into(),
    });
    Capacities {
        members,
        network_bytes: network.bps().map_or(UNLIMITED, |bps| bps / 8),
        core_ns: ROUND_NS * threads as u64,
        core_mib_ns: if config.tls.listen.is_some() { CORE_MIB_TLS_NS } else { CORE_MIB_NS },
        arena_bytes: parts.readers as u64 * unit_bytes,
    }
}

impl Report {
    fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} {}, also with any one member lost; {}",
            self.degraded.viewers,
            self.what,
            stopped(&self.degraded)
        )];
        lines.push(format!(
            "{} if all of them start in the same second; {}",
            self.together.viewers,
            stopped(&self.together)
        ));
        if let Some(healthy) = &self.healthy {
            lines.push(format!(
                "{} as long as no member is lost, which is not promised; {}",
                healthy.viewers,
                stopped(healthy)
            ));
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n")
    }

    fn as_json(&self) -> Value {
        let stopped_by = |answer: &Answer| answer.stopped_by.map(|resource| resource.to_string());
        json!({
            "rate_bps": self.rate.0,
            "viewers": self.degraded.viewers,
            "stopped_by": stopped_by(&self.degraded),
            "viewers_together": self.together.viewers,
            "viewers_healthy": self.healthy.map(|answer| answer.viewers),
            "healthy_stopped_by": self.healthy.as_ref().and_then(stopped_by),
            "notes": self.notes,
        })
    }
}

fn stopped(answer: &Answer) -> String {
    match answer.stopped_by {
        Some(resource) => format!("{resource} stops the next one"),
        None => "more are not counted".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use reel_volume::{Geometry, GeometryFields};

    use super::*;

    #[test]
    fn five_members_carry_what_their_prices_say() {
        let geometry = Geometry::new(GeometryFields::cmaf(5)).unwrap();
        let member = MemberCapacity { price: PRICE_UNKNOWN, round_ns: ROUND_NS };
        let capacities = Capacities {
            members: vec![member; 5],
            network_bytes: UNLIMITED,
            core_ns: UNLIMITED,
            core_mib_ns: CORE_MIB_NS,
            arena_bytes: UNLIMITED,
        };
        let ledger = Ledger::new(capacities, STEADY_ROUNDS);
        // A stripe a second, two ways for the five stripes that a segment touches: 700 ms of a round hold 66 times 15 / 2 + 3.1 ms.
        let rate = Rate(geometry.stripe_bytes() as u64 * 8);
        let degraded =
            ask(&ledger, &steady_demand(&geometry, Depth::of(true), rate.0, true), Starts::Spread).unwrap();
        assert_eq!((degraded.viewers, degraded.stopped_by), (66, Some(reel_qos::Resource::Member(0))));
        let healthy =
            ask(&ledger, &steady_demand(&geometry, Depth::of(true), rate.0, false), Starts::Spread).unwrap();
        assert_eq!(healthy.viewers, 70);
    }
}
