//! `reel capacity`: how many viewers a volume carries, and what limits the number.

use std::path::Path;

use reel::server::processors;
use reel_admit::limits::ROUNDS_MAX;
use reel_admit::{Loss, steady_demand};
use reel_api::wire::ResourceId;
use reel_cache::{Budget, Depth};
use reel_disk::limits::PRICE_UNKNOWN;
use reel_library::Library;
use reel_play::{MemoryPlan, MemoryUse, ProcessorPrice, network_bytes, title_demand};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    Answer, Capacities, Class, ClassSpec, ClassTable, ClassTableError, Demand, Ledger, MemberCapacity,
    Starts, UNLIMITED,
};
use reel_volume::Finding;
use serde_json::{Value, json};

use super::profiles::{Known, load};
use super::{Access, open_library};
use crate::args::CapacityArguments;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::memory::{arena_bytes, machine_bytes};
use crate::network::Network;
use crate::output::print;
use crate::rate::Rate;

/// The result of the command.
struct Report {
    what: String,
    rate: Rate,
    /// For the loss of any single member.
    degraded: Answer,
    /// The same if all viewers start at once.
    together: Answer,
    /// While all members are present and there are only viewers, at the expected long-term price:
    /// above this number bytes are late. The margin between this and the admitted number is for
    /// slower rounds, for a lost member, and for all other clients.
    carried: Answer,
    notes: Vec<String>,
}

/// The resources that can be used.
struct Granted {
    capacities: Capacities,
    /// The expected long-term price of the members.
    expected: Vec<MemberCapacity>,
    /// Which members are read in their current state.
    now: Loss,
    /// From the configuration: reservations are within the shares of the classes.
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
            return Err(Failure::usage("no viewers to count: neither --rate nor --title was given")
                .help("use --rate 8M, or --title TITLE"));
        }
    };
    let text = if arguments.json { report.as_json().to_string() } else { report.text() };
    print(&text)?;
    Ok(Exit::Done)
}

fn of_rate(library: &Library, rate: Rate, granted: Granted, notes: Vec<String>) -> Result<Report, Failure> {
    let geometry = *library.volume().geometry();
    let depth = Depth::of(granted.capacities.is_rotational());
    let [degraded, now] =
        [Loss::AnyOne, granted.now].map(|loss| steady_demand(&geometry, depth, rate.0, loss));
    report(format!("viewers of {rate}"), rate, (&degraded, &now), granted, notes)
}

fn of_title(library: &Library, id: &str, granted: Granted, notes: Vec<String>) -> Result<Report, Failure> {
    let title = library.open(id).map_err(|error| Failure::library(&error))?;
    let demand = |loss| {
        title_demand(&title, Depth::of(granted.capacities.is_rotational()), loss).ok_or_else(|| {
            Failure::failed(format!(
                "{id} is longer than the time that can be reserved ahead, {} hours",
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
        degraded: ask(&promised, degraded, Starts::Apart)?,
        together: ask(&promised, degraded, Starts::Together)?,
        carried: ask(&carried, now, Starts::Spread)?,
        notes,
    })
}

/// Classes for viewers alone: idle shares of the other classes are lent. No class can have a share
/// of zero.
fn viewers_alone() -> Result<ClassTable, ClassTableError> {
    let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
    specs.iter_mut().for_each(|spec| (spec.share_permille, spec.network_permille) = (1, 1));
    let others = specs.len() as u32 - 1;
    if let Some(viewers) = specs.first_mut() {
        (viewers.share_permille, viewers.network_permille) = (1000 - others, 1000 - others);
    }
    ClassTable::new(specs)
}

/// An empty ledger. Without reservations, changing the shares cannot fail.
fn ledger(capacities: Capacities, rounds: usize, classes: ClassTable) -> Ledger {
    let mut ledger = Ledger::new(capacities, rounds);
    let _ = ledger.set_classes(classes);
    ledger
}

fn ask(ledger: &Ledger, demand: &Demand, starts: Starts) -> Result<Answer, Failure> {
    ledger.how_many(Class::PERIODIC, demand, starts).map_err(Failure::failed)
}

/// The resources of a server of this volume with this configuration, and the current state of its
/// members.
fn granted(config: &Config, dir: &Path, library: &Library, notes: &mut Vec<String>) -> Granted {
    let volume = library.volume();
    let threads = config.serve_threads();
    let (mut all_are_there, mut arms) = (true, false);
    // The price that admission uses, and the expected one.
    let member = |finding: &Finding| -> [MemberCapacity; 2] {
        let member = finding.member;
        if !finding.state.in_use() {
            // Its reads are done by the other members and counted there in any case.
            all_are_there = false;
            notes.push(format!("member {member} is {} and is not counted", finding.state.name()));
            return [MemberCapacity { price: PRICE_UNKNOWN, round_ns: UNLIMITED }; 2];
        }
        let prices = match load(dir, finding) {
            Known::Measured(profile) => {
                if profile.quick {
                    notes.push(format!(
                        "member {member} has a quick profile; reel probe {} measures better",
                        dir.display()
                    ));
                }
                arms |= profile.is_rotational();
                [profile.price(), profile.expected_price()]
            }
            Known::Unmeasured | Known::Refused(_) => {
                notes.push(format!(
                    "member {member} is not measured and counts as a slow hard disk ({} a read); reel probe {}",
                    PRICE_UNKNOWN.read_text(),
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
    let parts = MemoryPlan::of(&MemoryUse {
        buffers,
        width: geometry.width(),
        serve_threads: threads + config.other_serve_threads(),
        sealing_threads: threads,
        ingests: config.upload.ingests_max,
        is_tls: config.tls.listen.is_some(),
        driver: config.experimental.driver.into(),
        zero_copy: config.zero_copy,
    });
    let capacities = Capacities {
        members,
        network_bytes: network.bps().map_or(UNLIMITED, network_bytes),
        core_ns: ROUND_NS * threads as u64,
        core_mib_ns: vec![
            ProcessorPrice::assumed(threads, processors(), config.tls.listen.is_some()).mib_ns(),
        ],
        local_front_ends: Vec::new(),
        arena_bytes: Budget::new(parts.readers, volume.findings().len()).promisable() as u64 * unit_bytes,
    };
    let now = if all_are_there { Loss::NoMember { arms } } else { Loss::AnyOne };
    Granted { capacities, expected, now, classes: config.classes.table() }
}

impl Report {
    fn text(&self) -> String {
        let Self { what, degraded, together, carried, .. } = self;
        let mut lines = vec![
            format!(
                "{} {what} can be admitted, even with any one member lost and all other clients busy; {}",
                degraded.viewers,
                stopped(degraded)
            ),
            format!("{} if all of them start in the same second; {}", together.viewers, stopped(together)),
            format!(
                "{} are carried while no member is lost and there are only viewers, which is not guaranteed; {}",
                carried.viewers,
                stopped(carried)
            ),
        ];
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.join("\n")
    }

    fn as_json(&self) -> Value {
        let stopped_by = |answer: &Answer| answer.stopped_by.map(ResourceId::from);
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
        Some(resource) => format!("the limit is {resource}"),
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
            core_mib_ns: vec![ProcessorPrice::assumed(1, 1, false).mib_ns()],
            local_front_ends: Vec::new(),
            arena_bytes: UNLIMITED,
        };
        // A stripe a second: the four units of a segment are one seek. 700 ms of a round hold 102
        // times 15 / 4 + 3.1 ms. They hold 88 if that is exceeded by chance: a seek in one of four
        // rounds deviates by 6.5 ms, and 88 x 6.85 + 1.6 x 6.5 x the root of 88 ms are 700 ms.
        let rate = Rate(geometry.stripe_bytes() as u64 * 8);
        let [degraded, now] = [Loss::AnyOne, Loss::NoMember { arms: true }]
            .map(|loss| steady_demand(&geometry, Depth::of(true), rate.0, loss));
        let granted = Granted {
            capacities,
            expected,
            now: Loss::NoMember { arms: true },
            classes: ClassTable::default(),
        };
        let report = report(String::new(), rate, (&degraded, &now), granted, Vec::new()).unwrap();
        let stopped_by = Some(reel_qos::Resource::Member(0));
        assert_eq!((report.degraded.viewers, report.degraded.stopped_by), (88, stopped_by));
        // Of each member's twenty units two of parity are skipped, and two are not: 998 ms hold 152
        // times 15 / 4 + 0.9 x 3.1 ms.
        assert_eq!((report.carried.viewers, report.carried.stopped_by), (152, stopped_by));
    }
}
