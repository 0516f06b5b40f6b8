//! The command line of `reel sim`.

use clap::Parser;
use reel_disk::Policy;
use reel_sim::fault::{FaultKinds, UnknownFault};
use reel_sim::limits::CROWD_BROWSE_NS;
use reel_sim::{PourSpec, Scenario};

/// Run the server on simulated disks, clients and time. The same seed and options give the same
/// run.
#[derive(Parser, Debug)]
#[command(name = "reel sim")]
pub(crate) struct Arguments {
    /// Seed of all random choices.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Number of seeds to run, counted up from --seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seeds: u64,
    /// Seeds that run at the same time; 0 for one on each processor.
    #[arg(long, default_value_t = 0)]
    pub(crate) jobs: usize,
    /// Simulated hours.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Number of viewers.
    #[arg(long, default_value_t = 200)]
    viewers: usize,
    /// Five solid state disks, viewers, no other traffic and no faults: to measure the speed of the
    /// simulation.
    #[arg(long)]
    plain: bool,
    /// Policy that decides which request a disk gets next: rounds, fifo, cscan, drr, edf.
    #[arg(long, default_value = "rounds")]
    policy: Policy,
    /// Only these faults: pulled (removed), replaced, stalls, slow, read-errors, lies (wrong data),
    /// rot, none. Default: all.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// Number of titles, each with one rendition and one language; otherwise decided by the seed.
    /// With few titles, viewers share reads.
    #[arg(long)]
    titles: Option<usize>,
    /// Most renditions of a title.
    #[arg(long)]
    renditions: Option<u64>,
    /// Most languages of a title.
    #[arg(long)]
    languages: Option<u64>,
    /// Number of memory buffers; plenty if not given.
    #[arg(long)]
    buffers: Option<usize>,
    /// Number of interactive clients, each with ten requests a second; otherwise decided by the
    /// seed.
    #[arg(long)]
    browsers: Option<usize>,
    /// Number of clients that play titles as files over NFS; otherwise decided by the seed.
    #[arg(long)]
    mounted: Option<usize>,
    /// Number of programs that pour streams; four times as many viewers watch these.
    #[arg(long, default_value_t = 0)]
    writers: usize,
    /// Mb/s of the link that all clients share; it never runs out if not given.
    #[arg(long)]
    uplink: Option<u64>,
    /// Speeds of devices and shares of classes do not change.
    #[arg(long)]
    steady: bool,
    /// Sessions do not share disk reservations.
    #[arg(long)]
    apart: bool,
    /// Admit every viewer and reserve nothing. Late bytes then break no invariant.
    #[arg(long)]
    unadmitted: bool,
    /// Print JSON, a line for each seed.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    /// What a seed decides, as far as the other options leave it to it.
    pub(crate) fn scenario(&self, seed: u64) -> Result<Scenario, UnknownFault> {
        let duration_ns = (self.hours * 3600e9) as u64;
        let make = if self.plain { Scenario::plain } else { Scenario::drawn };
        let mut scenario = make(seed, duration_ns, self.viewers);
        scenario.policy = self.policy;
        (scenario.admission, scenario.titles.shared) = (!self.unadmitted, !self.apart);
        if let Some(browsers) = self.browsers {
            (scenario.browsers, scenario.browse_ns) = (browsers, CROWD_BROWSE_NS);
        }
        if let Some(titles) = self.titles {
            (scenario.titles.titles, scenario.titles.renditions, scenario.titles.languages) = (titles, 1, 1);
        }
        scenario.mounted = self.mounted.unwrap_or(scenario.mounted);
        scenario.pours =
            PourSpec { writers: self.writers, viewers: 4 * self.writers, written_bytes_per_s: None };
        scenario.uplink_bps = self.uplink.map(|mbps| mbps * 1_000_000);
        scenario.titles.languages = self.languages.unwrap_or(scenario.titles.languages).max(1);
        scenario.titles.renditions = self.renditions.unwrap_or(scenario.titles.renditions).max(1);
        scenario.buffers = self.buffers.unwrap_or(scenario.buffers);
        scenario.change_rest_ns = scenario.change_rest_ns.filter(|_| !self.steady);
        if let Some(names) = &self.faults {
            scenario.faults = FaultKinds::of(names)?;
        }
        Ok(scenario)
    }

    /// The options that repeat one seed of these.
    pub(crate) fn of_seed(&self, seed: u64) -> String {
        let mut text = format!("--seed {seed} --hours {} --viewers {}", self.hours, self.viewers);
        if self.policy != Policy::default() {
            text += &format!(" --policy {}", self.policy);
        }
        if let Some(names) = &self.faults {
            text += &format!(" --faults {}", names.join(","));
        }
        if let Some(titles) = self.titles {
            text += &format!(" --titles {titles}");
        }
        if let Some(renditions) = self.renditions {
            text += &format!(" --renditions {renditions}");
        }
        if let Some(languages) = self.languages {
            text += &format!(" --languages {languages}");
        }
        if let Some(buffers) = self.buffers {
            text += &format!(" --buffers {buffers}");
        }
        if let Some(browsers) = self.browsers {
            text += &format!(" --browsers {browsers}");
        }
        if let Some(mounted) = self.mounted {
            text += &format!(" --mounted {mounted}");
        }
        if self.writers > 0 {
            text += &format!(" --writers {}", self.writers);
        }
        if let Some(uplink) = self.uplink {
            text += &format!(" --uplink {uplink}");
        }
        let flags = [
            (self.plain, " --plain"),
            (self.steady, " --steady"),
            (self.apart, " --apart"),
            (self.unadmitted, " --unadmitted"),
        ];
        for (is, option) in flags {
            text += if is { option } else { "" };
        }
        text
    }
}
