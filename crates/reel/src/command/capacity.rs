//! `reel capacity`: how many viewers a volume carries, and what stops the next one.

use std::path::Path;

use reel_admit::limits::ROUNDS_MAX;
use reel_admit::{Loss, steady_demand};
use reel_cache::{Budget, Depth};
use reel_disk::limits::PRICE_UNKNOWN;
use reel_http::{ArenaParts, ArenaUse, core_mib_ns, title_demand};
use reel_library::Library;
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    Answer, Capacities, Class, ClassSpec, ClassTable, ClassTableError, Demand, Ledger, MemberCapacity,
    Starts, UNLIMITED,
};
use reel_volume::Finding;
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
    /// While all members are there and nobody but viewers is, at the price that is expected over a long time: where the first byte is late. What lies
    /// between this and what is promised is for the rounds that are slower, for a lost member, and for everybody else.
    carried: Answer,
    notes: Vec<String>,
}

/// What is there to be used up.
struct Granted {
    capacities: Capacities,
    /// What the members cost over a long time.
    expected: Vec<MemberCapacity>,
    /// What is read of the members as they are now.
    now: Loss,
    /// Of the configuration: what is promised is in their shares.
    classes: ClassTable,
}

/// `reel capacity`.
pub(super) fn run(arguments: &CapacityArguments) -> Result<Exit, Failure> {
    let config = match &arguments.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let library = open_library(&arguments.volume, Access::Read)?;
    let mut notes = Vec::new();
    let granted = granted(&config, &arguments.volume, &library, &mut notes);
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

fn of_rate(library: &Library, rate: Rate, granted: Granted, notes: Vec<String>) -> Result<Report, Failure> {
    let geometry = *library.volume().geometry();
    let depth = Depth::of(granted.capacities.has_arms());
    let [degraded, now] =
        [Loss::AnyOne, granted.now].map(|loss| steady_demand(&geometry, depth, rate.0, loss));
    report(format!("viewers of {rate}"), rate, (&degraded, &now), granted, notes)
}

fn of_title(library: &Library, id: &str, granted: Granted, notes: Vec<String>) -> Result<Report, Failure> {
    let title = library.open(id).map_err(|error| Failure::library(&error))?;
    let demand = |loss| {
        title_demand(&title, Depth::of(granted.capacities.has_arms()), loss).ok_or_else(|| {
            Failure::failed(format!(
                "{id} is longer than what can be promised ahead, {} hours",
                ROUNDS_MAX / 3600
            ))
        })
    };
    let degraded = demand(Loss::AnyOne)?;
    let now = demand(granted.now)?;
    let rate = Rate(degraded.average_bps());
    let what = format!("viewers of {id} ({rate} on average)");
    report(what, rate, (&degraded, &now), granted, notes)
}

fn report(
    what: String,
    rate: Rate,
    (degraded, now): (&Demand, &Demand),
    granted: Granted,
    notes: Vec<String>,
) -> Result<Report, Failure> {
    let Granted { capacities, expected, classes, .. } = granted;
    let alone = viewers_alone().map_err(|error| Failure::failed(error.to_string()))?;
    let promised = ledger(capacities.clone(), degraded.rounds(), classes);
    let carried = ledger(Capacities { members: expected, ..capacities }, now.rounds(), alone);
    Ok(Report {
        what,
        rate,
        degraded: ask(&promised, degraded, Starts::Spread)?,
        together: ask(&promised, degraded, Starts::Together)?,
        carried: ask(&carried, now, Starts::Spread)?,
        notes,
    })
}

/// Nobody else asks for anything: what others leave idle is lent. No class can have nothing at all.
fn viewers_alone() -> Result<ClassTable, ClassTableError> {
    let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
    specs.iter_mut().for_each(|spec| spec.share_permille = 1);
    let others = specs.len() as u32 - 1;
    if let Some(viewers) = specs.first_mut() {
        viewers.share_permille = 1000 - others;
    }
    ClassTable::new(specs)
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

/// What a server of this volume with this configuration would have to promise, and what is read of its members as they are now.
fn granted(config: &Config, dir: &Path, library: &Library, notes: &mut Vec<String>) -> Granted {
    let volume = library.volume();
    let threads = config.serve_threads();
    let (mut all_are_there, mut arms) = (true, false);
    // At the price that is promised with, and at the one that is expected.
    let member = |finding: &Finding| -> [MemberCapacity; 2] {
        let member = finding.member;
        if !finding.state.in_use() {
            // Its reads are done by the others, and are counted there in any case.
            all_are_there = false;
            notes.push(format!("member {member} is {} and does nothing", finding.state.name()));
            return [MemberCapacity { price: PRICE_UNKNOWN, round_ns: UNLIMITED }; 2];
        }
        let prices = match load(dir, finding) {
            Known::Measured(profile) => {
                if profile.quick {
                    notes.push(format!(
                        "member {member} was measured in a hurry; reel probe {} measures better",
                        dir.display()
                    ));
                }
                arms |= profile.has_arm();
                [profile.price(), profile.expected_price()]
            }
            Known::Not | Known::Refused(_) => {
                notes.push(format!(
                    "member {member} is not measured and counts as a slow hard disk ({} a read); reel probe {}",
                    price_text(&PRICE_UNKNOWN),
                    dir.display()
                ));
                arms = true;
                [PRICE_UNKNOWN; 2]
            }
        };
        prices.map(|price| MemberCapacity { price, round_ns: ROUND_NS })
    };
    let (members, expected) =
        volume.findings().iter().map(member).map(|[price, expected]| (price, expected)).unzip();
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
        zero_copy: config.zero_copy,
    });
    let capacities = Capacities {
        members,
        network_bytes: network.bps().map_or(UNLIMITED, |bps| bps / 8),
        core_ns: ROUND_NS * threads as u64,
        core_mib_ns: core_mib_ns(threads, config.tls.listen.is_some()),
        arena_bytes: Budget::new(parts.readers, volume.findings().len()).promisable() as u64 * unit_bytes,
    };
    let now = if all_are_there { Loss::Nobody { arms } } else { Loss::AnyOne };
    Granted { capacities, expected, now, classes: config.classes.table() }
}

impl Report {
    fn text(&self) -> String {
        let Self { what, degraded, together, carried, .. } = self;
        let mut lines = vec![
            format!(
                "{} {what} are promised their film, also with any one member lost and everybody else busy; {}",
                degraded.viewers,
                stopped(degraded)
            ),
            format!("{} if all of them start in the same second; {}", together.viewers, stopped(together)),
            format!(
                "{} are carried while no member is lost and nobody but viewers is there, which is not promised; {}",
                carried.viewers,
                stopped(carried)
            ),
        ];
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
            "viewers_carried": self.carried.viewers,
            "carried_stopped_by": stopped_by(&self.carried),
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
        let expected = vec![member; 5];
        let capacities = Capacities {
            members: expected.clone(),
            network_bytes: UNLIMITED,
            core_ns: UNLIMITED,
            core_mib_ns: core_mib_ns(1, false),
            arena_bytes: UNLIMITED,
        };
        // A stripe a second: the four of a segment are one way. 700 ms of a round hold 102 times 15 / 4 + 3.1 ms.
        let rate = Rate(geometry.stripe_bytes() as u64 * 8);
        let [degraded, now] = [Loss::AnyOne, Loss::Nobody { arms: true }]
            .map(|loss| steady_demand(&geometry, Depth::of(true), rate.0, loss));
        let granted = Granted {
            capacities,
            expected,
            now: Loss::Nobody { arms: true },
            classes: ClassTable::default(),
        };
        let report = report(String::new(), rate, (&degraded, &now), granted, Vec::new()).unwrap();
        let stopped_by = Some(reel_qos::Resource::Member(0));
        assert_eq!((report.degraded.viewers, report.degraded.stopped_by), (102, stopped_by));
        // Of each member's twenty units two of parity are passed over, and two are not: 998 ms hold 152 times 15 / 4 + 0.9 x 3.1 ms.
        assert_eq!((report.carried.viewers, report.carried.stopped_by), (152, stopped_by));
    }
}
