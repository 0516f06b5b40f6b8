//! The clients: viewers, interactive clients, downloads, players of files.

use super::mounted::MountedClient;
use crate::client::{Mounted, Player};
use crate::limits::{MOUNTED_LINK_BPS, MOUNTED_READS_MAX};
use crate::scale::OBJECT_SCALE;
use crate::scenario::Scenario;
use crate::sessions::ClientSession;
use reel_cache::MediaKind;
use reel_testkit::Rng;

/// One client.
pub(super) struct Client {
    pub(super) kind: Kind,
    pub(super) rng: Rng,
    pub(super) bytes_per_s: u64,
    /// Changes whenever an older wake means nothing any more.
    pub(super) turn: u32,
    /// Changes whenever what is under way means nothing any more.
    pub(super) generation: u32,
    pub(super) asked_ns: u64,
    /// Its last start or seek took so long that its schedule had to move. The ledger is asked again
    /// for the rest.
    pub(super) began_late: bool,
    /// Of which media kinds there was no room where it seeked to, or for a better rendition. From
    /// there to the next start of each, not all that it is sent is promised.
    pub(super) displaced: [bool; MediaKind::COUNT],
    /// It jumped where the server could not see it, in its buffer or to the next segment.
    pub(super) is_unseen: bool,
    /// It was told to wait for room until then; 0 if never.
    pub(super) waits_until_ns: u64,
    pub(super) session: Option<ClientSession>,
}

pub(super) enum Kind {
    Viewer(Player),
    Browser,
    Bulk,
    Mounted(Box<MountedClient>),
}

/// Makes what a client does, of its own chance.
type MakeKind<'a> = dyn Fn(&Rng) -> Kind + 'a;

/// All clients of a scenario.
pub(super) fn make_clients(scenario: &Scenario, seed: &Rng) -> Vec<Client> {
    let (player, links) = (scenario.player, scenario.link_bps);
    let viewer = |rng: &Rng| Kind::Viewer(Player::new(player, rng.part(1)));
    let mounted = |rng: &Rng| Kind::Mounted(Box::new(MountedClient::new(Mounted::new(player, rng.part(1)))));
    let (bulks, full_link) = (scenario.bulks, (scenario.bulk_bps, scenario.bulk_bps));
    // Each read of a mount has its part of the link.
    let part_bps = |bps| bps / MOUNTED_READS_MAX as u64;
    let mounted_links = (part_bps(MOUNTED_LINK_BPS.0), part_bps(MOUNTED_LINK_BPS.1));
    let kinds = [
        (scenario.viewers, links, &viewer as &MakeKind<'_>),
        (scenario.browsers, links, &|_| Kind::Browser),
        (bulks, full_link, &|_| Kind::Bulk),
        (scenario.mounted, mounted_links, &mounted),
    ];
    let all = kinds.into_iter().flat_map(|(count, links, kind)| std::iter::repeat_n((links, kind), count));
    all.zip(0..).map(|((links, kind), number)| Client::new(links, kind, seed.part(number))).collect()
}

impl Client {
    fn new(links: (u64, u64), kind: &MakeKind<'_>, mut rng: Rng) -> Client {
        let link_bps = if links.0 < links.1 { rng.range(links.0, links.1 + 1) } else { links.0 };
        Client {
            kind: kind(&rng),
            rng,
            bytes_per_s: (link_bps / 8 / OBJECT_SCALE).max(1),
            turn: 0,
            generation: 0,
            asked_ns: 0,
            began_late: false,
            displaced: [false; MediaKind::COUNT],
            is_unseen: false,
            waits_until_ns: 0,
            session: None,
        }
    }

    /// Whether not all that it is sent is promised.
    pub(super) fn is_displaced(&self) -> bool {
        self.displaced.contains(&true)
    }
}

/// What a client asks for side by side, each by a number of its own.
pub(super) mod lanes {
    use reel_cache::MediaKind;

    /// The reads of a kernel, of which a viewer uses the first two for pictures and sound, and the
    /// lane of its thumbnailer.
    pub(in crate::simulation) const LANES: u32 = LOOKS + 1;

    /// What a thumbnailer reads.
    pub(in crate::simulation) const LOOKS: u32 = crate::limits::MOUNTED_READS_MAX as u32;

    pub(in crate::simulation) fn of(client: u32) -> impl Iterator<Item = u32> {
        client * LANES..client * LANES + LANES
    }

    pub(in crate::simulation) fn client(lane: u32) -> u32 {
        lane / LANES
    }

    pub(in crate::simulation) fn lane(client: u32, of_client: u32) -> u32 {
        client * LANES + of_client
    }

    /// Which of its client's lanes it is.
    pub(in crate::simulation) fn of_client(lane: u32) -> u32 {
        lane % LANES
    }

    pub(in crate::simulation) fn kind(lane: u32) -> MediaKind {
        if lane.is_multiple_of(LANES) { MediaKind::Video } else { MediaKind::Audio }
    }
}

/// The number under which a client requests a media kind.
pub(super) fn lane(client: u32, kind: MediaKind) -> u32 {
    client * lanes::LANES + u32::from(kind != MediaKind::Video)
}
