//! The attackers: a process of its own, whose processor time is bounded and told. Each attack has
//! its own addresses, and is bounded in connections, in rate and in time.

mod costly;
mod drip;
mod fetch;
mod flood;
mod handshakes;
mod hoard;
mod resets;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What attackers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Attack {
    /// Sessions of three titles are opened until they are refused, fetch whole segments, and are
    /// opened again when they end.
    Hoard,
    /// 32 clients fetch film after film, each as fast as it comes.
    Fetch,
    /// Heads of requests that never end: a byte every 2 s.
    Slowloris,
    /// 600 uploads that are told to be large: a byte every 2 s.
    SlowPosts,
    /// 16 uploads of 1 kB/s.
    Crawl,
    /// Small uploads that are costly: boxes without end, samples that overlap, films.
    Costly,
    /// TLS handshakes that are begun and dropped.
    Handshakes,
    /// HTTP/2 requests that are reset at once.
    Resets,
    /// Pages and API as often as the server answers.
    Flood,
    /// The description of the API over 30 connections of one address, as often as it is answered.
    Api,
    /// A member whose file system is frozen in the last part. No client does this.
    Frozen,
}

/// How the process of attackers is started.
#[derive(clap::Args)]
pub(crate) struct AttackArguments {
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    https: SocketAddr,
    /// The server's certificate.
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// A small film, for uploads.
    #[arg(long)]
    film: PathBuf,
    /// Playlists of titles that are hoarded, as paths.
    #[arg(long, value_delimiter = ',')]
    titles: Vec<String>,
    #[arg(long, value_delimiter = ',')]
    attacks: Vec<Attack>,
    #[arg(long)]
    seconds: u64,
}

/// What the attackers did.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Attacked {
    /// Processor time of the process.
    pub(crate) processor_s: f64,
    /// What happened to each attack, and how often.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// What all attacks share.
struct Field<'a> {
    arguments: &'a AttackArguments,
    until: Instant,
    counts: Mutex<BTreeMap<String, u64>>,
}

/// A server that does not answer for so long is left.
const PATIENCE: Duration = Duration::from_secs(10);

impl Attack {
    /// Viewers that the attack is made of, each of which is sent a whole film: the network must
    /// have room for them beside the ordinary ones.
    pub(super) fn viewers(self) -> usize {
        match self {
            Attack::Fetch => fetch::ADDRESSES,
            _ => 0,
        }
    }

    /// All of them.
    pub(crate) const ALL: [Self; 11] = [
        Self::Hoard,
        Self::Fetch,
        Self::Slowloris,
        Self::SlowPosts,
        Self::Crawl,
        Self::Costly,
        Self::Handshakes,
        Self::Resets,
        Self::Flood,
        Self::Api,
        Self::Frozen,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hoard => "hoard",
            Self::Fetch => "fetch",
            Self::Slowloris => "slowloris",
            Self::SlowPosts => "slow-posts",
            Self::Crawl => "crawl",
            Self::Costly => "costly",
            Self::Handshakes => "handshakes",
            Self::Resets => "resets",
            Self::Flood => "flood",
            Self::Api => "api",
            Self::Frozen => "frozen",
        }
    }

    /// The address of its client `number`.
    fn address(self, number: usize) -> Ipv4Addr {
        super::cable::Who::Attacker.address((self as usize) << 8 | number)
    }

    fn run(self, field: &Field<'_>) {
        match self {
            Self::Hoard => hoard::run(field),
            Self::Fetch => fetch::run(field),
            Self::Slowloris | Self::SlowPosts | Self::Crawl => drip::run(self, field),
            Self::Costly => costly::run(field),
            Self::Handshakes => handshakes::run(field),
            Self::Resets => resets::run(field),
            Self::Flood => flood::run(self, &flood::ALL, field),
            Self::Api => flood::run(self, &flood::LARGE, field),
            Self::Frozen => {}
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Attacks until the time is over, and prints what came of it.
pub(crate) fn attack(arguments: &AttackArguments) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let field = Field { arguments, until, counts: Mutex::default() };
    thread::scope(|scope| {
        for &attack in &arguments.attacks {
            let field = &field;
            scope.spawn(move || attack.run(field));
        }
    });
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let processor_s = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    let counts = field.counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{}", serde_json::to_string(&Attacked { processor_s, counts }).context("the counts")?);
    Ok(())
}

impl Field<'_> {
    /// Whether the time is over.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn count(&self, attack: Attack, what: impl fmt::Display) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(format!("{attack} {what}")).or_default() += 1;
    }

    /// Waits for the next of so many steps a second; `begun` is when the step before began.
    fn pace(&self, begun: Instant, per_s: u32) {
        let next = begun + Duration::from_secs(1) / per_s;
        thread::sleep(next.min(self.until).saturating_duration_since(Instant::now()));
    }
}
