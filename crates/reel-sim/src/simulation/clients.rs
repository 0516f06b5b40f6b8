//! The clients: viewers, interactive clients, downloads.

use crate::client::Player;
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
    /// It was told to wait for room until then; 0 if never.
    pub(super) waits_until_ns: u64,
    pub(super) session: Option<ClientSession>,
}

pub(super) enum Kind {
    Viewer(Player),
    Browser,
    Bulk,
}

/// All clients of a scenario.
pub(super) fn make_clients(scenario: &Scenario, seed: &Rng) -> Vec<Client> {
    let viewers = (0..scenario.viewers).map(|_| None::<Kind>);
    let others = (0..scenario.browsers)
        .map(|_| Some(Kind::Browser))
        .chain((0..scenario.bulks).map(|_| Some(Kind::Bulk)));
    let make = |(number, kind): (usize, Option<Kind>)| {
        let mut rng = seed.part(number as u64);
        let link_bps = match kind {
            Some(Kind::Bulk) => scenario.bulk_bps,
            _ => rng.range(scenario.link_bps.0, scenario.link_bps.1 + 1),
        };
        let kind = kind.unwrap_or_else(|| Kind::Viewer(Player::new(scenario.player, rng.part(1))));
        let bytes_per_s = (link_bps / 8 / OBJECT_SCALE).max(1);
        Client {
            kind,
            rng,
            bytes_per_s,
            turn: 0,
            generation: 0,
            asked_ns: 0,
            began_late: false,
            waits_until_ns: 0,
            session: None,
        }
    };
    viewers.chain(others).enumerate().map(make).collect()
}

/// What a client asks for side by side, each by a number of its own.
pub(super) mod lanes {
    use reel_cache::MediaKind;

    /// Pictures and sound.
    pub(in crate::simulation) const LANES: u32 = 2;

    pub(in crate::simulation) fn of(client: u32) -> impl Iterator<Item = u32> {
        client * LANES..client * LANES + LANES
    }

    pub(in crate::simulation) fn client(lane: u32) -> u32 {
        lane / LANES
    }

    pub(in crate::simulation) fn kind(lane: u32) -> MediaKind {
        if lane.is_multiple_of(LANES) { MediaKind::Video } else { MediaKind::Audio }
    }
}

/// The number under which a client requests a media kind.
pub(super) fn lane(client: u32, kind: MediaKind) -> u32 {
    client * lanes::LANES + u32::from(kind != MediaKind::Video)
}
