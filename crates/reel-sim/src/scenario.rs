//! What is simulated: everything that a seed decides.

use crate::casts::CastSpec;
use crate::client::PlayerSpec;
use crate::device::{Device, DeviceSpec, HddSpec, SleepSpec, Sleeper, SsdSpec, ThrottledSpec};
use crate::fault::FaultKinds;
use crate::pours::PourSpec;
use crate::title::TitleSpec;
use reel_disk::{MeasuredPrice, Policy};
use reel_qos::DiskPrice;
use reel_testkit::Rng;

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Everything that is left to chance follows from it.
    pub seed: u64,
    /// How long it lasts.
    pub duration_ns: u64,
    /// Members of the volume.
    pub members: usize,
    /// Data rows of a matrix; one of parity is beside them.
    pub data_rows: usize,
    /// What members are.
    pub device: DeviceSpec,
    /// Whether they sleep, from the start and whenever they are idle.
    pub sleep: Option<SleepSpec>,
    /// Who decides what a device gets next.
    pub policy: Policy,
    /// The titles.
    pub titles: TitleSpec,
    /// Viewers, if they are admitted.
    pub viewers: usize,
    /// How they watch.
    pub player: PlayerSpec,
    /// The links of viewers, at least and at most, in real bits per second.
    pub link_bps: (u64, u64),
    /// The link that all clients share, in real bits per second; `None` if it never runs out.
    pub uplink_bps: Option<u64>,
    /// Clients that have mounted the server and play titles as files, if they are admitted.
    pub mounted: usize,
    /// Titles that are sent by the clock.
    pub casts: CastSpec,
    /// Programs that pour streams, and viewers of these.
    pub pours: PourSpec,
    /// Interactive clients: small interactive reads.
    pub browsers: usize,
    /// Between two reads of one of them.
    pub browse_ns: u64,
    /// Downloads of whole titles side by side.
    pub bulks: usize,
    /// The rate that a download is given at most, in real bits per second.
    pub bulk_bps: u64,
    /// Stripes a second of titles that are ingested, one after another.
    pub ingest_stripes_per_s: u64,
    /// Whether all that is stored is verified now and then.
    pub scrubs: bool,
    /// Whether now and then the check is made of what would be left if the server stopped.
    pub crashes: bool,
    /// Whether viewers are admitted only if their demand fits. Without admission nothing is
    /// reserved, and late bytes break no invariant unless `strict`.
    pub admission: bool,
    /// Being late breaks the run even though nothing was promised: to see invariants fail.
    pub strict: bool,
    /// What may go wrong.
    pub faults: FaultKinds,
    /// Between two faults.
    pub fault_rest_ns: u64,
    /// Between two changes of a device's speed or of the shares of classes; `None` for no such
    /// changes.
    pub change_rest_ns: Option<u64>,
    /// Members that a fault strikes at once. More than 1, the parity of every geometry, breaks a
    /// run: to see invariants fail.
    pub members_at_fault: usize,
    /// Buffers of the arena.
    pub buffers: usize,
    /// The price that the server is given, in thousandths of what the devices cost. A measurement
    /// that was disturbed gives another than 1000.
    pub given_price_permille: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

/// What half of single requests cost, in thousandths of the price by windows.
const SINGLE_PERMILLE: u64 = 700;

impl Scenario {
    /// The device of a member.
    pub(crate) fn make_device(&self, member: usize, seed: &Rng) -> Box<dyn Device> {
        let device = self.device.make(seed.part(100 + member as u64));
        match self.sleep {
            Some(spec) => Box::new(Sleeper::new(device, spec, seed.part(200 + member as u64))),
            None => device,
        }
    }

    /// Whether its policy gives every class its share.
    pub fn keeps_shares(&self) -> bool {
        self.strict || matches!(self.policy, Policy::Rounds | Policy::Drr)
    }

    /// What the server is told that requests cost which cost so much: single requests were measured
    /// right where windows were not.
    pub fn given(&self, price: DiskPrice) -> MeasuredPrice {
        let permille = self.given_price_permille;
        let floor_permille = 1000 * SINGLE_PERMILLE / permille.max(SINGLE_PERMILLE);
        if permille == 1000 {
            return price.into();
        }
        // Fits: it is at most 1000.
        MeasuredPrice {
            floor_permille: floor_permille as u32,
            ..MeasuredPrice::from(price.times(permille as f64 / 1000.0))
        }
    }

    /// What `seed` decides, for so many viewers.
    pub fn drawn(seed: u64, duration_ns: u64, viewers: usize) -> Scenario {
        let mut rng = Rng::new(seed).part(1);
        let (data_rows, more) = (rng.range(2, 6) as usize, rng.below(4) as usize);
        let device = rng.below(3);
        // Now and then more clients browse, or download, than there is time for: shares are seen
        // only then.
        let crowds = (rng.permille(100), rng.permille(150));
        let device = match device {
            0 => DeviceSpec::Hdd(HddSpec::default()),
            // Who downloads takes all that a disk gives, and each read of it is simulated: such a
            // disk is behind a slow link.
            1 if crowds.1 => DeviceSpec::Ssd(SsdSpec { link_bytes_per_s: 100_000_000, ..SsdSpec::default() }),
            1 => DeviceSpec::Ssd(SsdSpec::default()),
            _ => DeviceSpec::Throttled(ThrottledSpec::default()),
        };
        // In every second seed, up to half of the viewers play files.
        let mut files = Rng::new(seed).part(11);
        let mounted = if files.permille(500) { files.below(viewers as u64 / 2 + 1) as usize } else { 0 };
        Scenario {
            mounted,
            casts: CastSpec::default(),
            pours: PourSpec::default(),
            viewers: viewers - mounted,
            members: data_rows + 1 + more,
            data_rows,
            device,
            titles: TitleSpec {
                titles: rng.range(5, 30) as usize,
                segments: (75, 900),
                rate_bps: (1_500_000, 8_000_000),
                renditions: 4,
                sound_permille: 800,
                languages: 3,
                shared: true,
            },
            browsers: if crowds.0 { rng.range(100, 400) as usize } else { rng.below(20) as usize },
            browse_ns: if crowds.0 { SECOND_NS / 4 } else { 5 * SECOND_NS },
            bulks: if crowds.1 { rng.range(20, 60) as usize } else { rng.below(6) as usize },
            bulk_bps: if crowds.1 { 1_000_000_000 } else { 100_000_000 },
            ingest_stripes_per_s: if rng.permille(500) { rng.range(1, 10) } else { 0 },
            scrubs: true,
            crashes: true,
            faults: FaultKinds::all(),
            fault_rest_ns: rng.range(60, 600) * SECOND_NS,
            change_rest_ns: rng.permille(500).then(|| rng.range(60, 600) * SECOND_NS),
            ..Scenario::plain(seed, duration_ns, viewers)
        }
    }

    /// Five solid state disks, viewers, nothing else and nothing wrong.
    pub fn plain(seed: u64, duration_ns: u64, viewers: usize) -> Scenario {
        Scenario {
            seed,
            duration_ns,
            members: 5,
            data_rows: 4,
            device: DeviceSpec::Ssd(SsdSpec::default()),
            sleep: None,
            policy: Policy::default(),
            titles: TitleSpec {
                titles: 20,
                segments: (300, 1500),
                rate_bps: (2_000_000, 6_000_000),
                renditions: 1,
                sound_permille: 1000,
                languages: 1,
                shared: true,
            },
            viewers,
            player: PlayerSpec::default(),
            link_bps: (40_000_000, 200_000_000),
            uplink_bps: None,
            mounted: 0,
            casts: CastSpec::default(),
            pours: PourSpec::default(),
            browsers: 0,
            browse_ns: 5 * SECOND_NS,
            bulks: 0,
            bulk_bps: 100_000_000,
            ingest_stripes_per_s: 0,
            scrubs: false,
            crashes: false,
            admission: true,
            strict: false,
            faults: FaultKinds::default(),
            fault_rest_ns: 300 * SECOND_NS,
            change_rest_ns: None,
            members_at_fault: 1,
            buffers: 2048 + viewers * 96,
            given_price_permille: 1000,
        }
    }
}
