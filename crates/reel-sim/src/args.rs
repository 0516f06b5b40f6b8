//! What can be asked of `reel sim`.

use clap::Parser;
use reel_disk::Policy;
use reel_sim::Scenario;
use reel_sim::fault::{FaultMenu, UnknownFault};
use reel_sim::limits::CROWD_BROWSE_NS;

/// The server on simulated disks, clients and time. The same seed and options give the same run.
#[derive(Parser, Debug)]
#[command(name = "reel sim")]
pub(crate) struct Arguments {
    /// Decides everything that is left to chance.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Runs so many seeds, from this one on.
    #[arg(long, default_value_t = 1)]
    pub(crate) seeds: u64,
    /// Seeds side by side; 0 for one on each processor.
    #[arg(long, default_value_t = 0)]
    pub(crate) jobs: usize,
    /// Virtual hours.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Viewers that want to play a title.
    #[arg(long, default_value_t = 200)]
    viewers: usize,
    /// Five solid state disks, viewers, no other traffic and no faults: for the speed of the
    /// simulation itself.
    #[arg(long)]
    plain: bool,
    /// Who decides what a device gets next: rounds, fifo, cscan, drr, edf.
    #[arg(long, default_value = "rounds")]
    policy: Policy,
    /// Only these faults: pulled, replaced, stalls, slow, read-errors, lies, rot, none. Default:
    /// all.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// So many titles of one rendition and one language each, instead of those that a seed decides:
    /// a crowd on few shares what one of them reads.
    #[arg(long)]
    titles: Option<usize>,
    /// Titles have so many renditions at most.
    #[arg(long)]
    renditions: Option<u64>,
    /// And so many languages.
    #[arg(long)]
    languages: Option<u64>,
    /// So many buffers of memory, instead of plenty.
    #[arg(long)]
    buffers: Option<usize>,
    /// So many people browse, ten times a second each, instead of those that a seed decides.
    #[arg(long)]
    browsers: Option<usize>,
    /// Devices stay as quick as they were measured, and classes keep their shares.
    #[arg(long)]
    steady: bool,
    /// Charges each viewer with the disks, whatever others read.
    #[arg(long)]
    apart: bool,
    /// Admits every viewer. Nothing is reserved then, and late bytes break no invariant.
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
        (scenario.admission, scenario.follows) = (!self.unadmitted, !self.apart);
        if let Some(browsers) = self.browsers {
            (scenario.browsers, scenario.browse_ns) = (browsers, CROWD_BROWSE_NS);
        }
        if let Some(titles) = self.titles {
            (scenario.titles.titles, scenario.titles.renditions, scenario.titles.languages) = (titles, 1, 1);
        }
        scenario.titles.languages = self.languages.unwrap_or(scenario.titles.languages).max(1);
        scenario.titles.renditions = self.renditions.unwrap_or(scenario.titles.renditions).max(1);
        scenario.buffers = self.buffers.unwrap_or(scenario.buffers);
        scenario.change_rest_ns = scenario.change_rest_ns.filter(|_| !self.steady);
        if let Some(names) = &self.faults {
            scenario.faults = FaultMenu::of(names)?;
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
