//! Sessions with promised memory, beside clients without.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_admit::{Loss, Session, SessionClient, Sessions, SessionsConfig, Stretch, demand};
use reel_cache::{Depth, Due, Ramp, Units};
use reel_fixture::{ClientBehaviour, Core, Ends, MEMBERS, STRIPE_BYTES, VolumeFixture};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, ClassTable, ClientShare, Demand, DiskPrice, MemberCapacity, UNLIMITED};
use reel_testkit::Rng;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const FILM: usize = 400_000;
const FILM_NS: u64 = 40 * ROUND_NS;
/// Three units that are sent, and the parity of one that is lost.
const PER_VIEWER: usize = 4;

fn film(fixture: &VolumeFixture) -> Arc<Demand> {
    let map = &fixture.objects[0];
    let stretch = Stretch {
        map,
        range: 0..FILM as u64,
        from_ns: 0,
        due_ns: ROUND_NS,
        duration_ns: FILM_NS,
        with_parity: false,
    };
    Arc::new(
        demand(MEMBERS, Depth::of(fixture.volume.disks().is_rotational()), [stretch], Loss::AnyOne).unwrap(),
    )
}

/// Only memory is scarce.
fn sessions(units: &Units) -> Sessions<()> {
    let price = DiskPrice {
        read_request_ns: 1,
        read_mib_ns: 1,
        write_request_ns: 1,
        write_mib_ns: 1,
        independent_limits: false,
    };
    let config = SessionsConfig {
        sessions_max: 100,
        idle_max_ns: u64::MAX,
        capacities: Some(Capacities {
            members: vec![MemberCapacity { price, round_ns: ROUND_NS }; MEMBERS],
            network_bytes: UNLIMITED,
            core_ns: UNLIMITED,
            core_mib_ns: vec![1],
            local_front_ends: Vec::new(),
            arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
        }),
        classes: ClassTable::default(),
        start_wait_s: 0,
        client_share: ClientShare::ALL,
    };
    Sessions::new(config).reading(units)
}

/// As many sessions as are admitted.
fn audience(sessions: &Sessions<()>, film: &Arc<Demand>) -> Vec<Arc<Session<()>>> {
    let open = |viewer: u32| {
        let who = SessionClient::new(IpAddr::V4(Ipv4Addr::from(viewer)), Class::PERIODIC);
        sessions.open("film", Arc::new(()), Arc::from([Arc::clone(film)]), who, ROUND_NS).ok()
    };
    (0..100).map_while(open).collect()
}

fn watch(core: &mut Core, fixture: &VolumeFixture, session: &Session<()>) -> u64 {
    let due = Due::Ramp(Ramp { due_ns: 2 * ROUND_NS, duration_ns: FILM_NS, bytes: FILM as u64 });
    core.watch_promised(fixture.whole(0), fixture.bytes[0].clone(), due, session.memory())
}

/// Downloads of another title that take all memory they can get. Their clients then take nothing
/// more.
fn hoard(core: &mut Core, fixture: &VolumeFixture, count: usize) -> Vec<u64> {
    let downloads: Vec<u64> =
        (0..count).map(|_| core.download(fixture.whole(1), fixture.bytes[1].clone())).collect();
    let mut ends = Ends::default();
    for _ in 0..20 {
        core.turn(ClientBehaviour::default(), &mut ends);
        core.settle(&mut ends);
        downloads.iter().for_each(|download| core.stop_taking(*download));
    }
    assert_eq!(ends, Ends::default());
    downloads
}

fn fixture() -> (VolumeFixture, Units) {
    let fixture = VolumeFixture::new(&[FILM, 2_000_000], 3 << 20, None).on_flash();
    let units = fixture.units(8);
    (fixture, units)
}

#[test]
fn promised_memory_ends_with_the_reservation() {
    let (fixture, units) = fixture();
    let (sessions, film) = (sessions(&units), film(&fixture));
    let viewers = audience(&sessions, &film);
    let promised = viewers.len() * PER_VIEWER;
    assert_eq!(units.budget().promised(), promised);
    assert!(units.budget().promisable() - promised < PER_VIEWER, "all that may be promised is promised");
    assert!(sessions.close(&viewers[0].key()));
    assert_eq!(units.budget().promised(), promised - PER_VIEWER);
    // No client has requested anything. All clients are considered gone, and nothing is promised to
    // their sessions any more.
    sessions.tick(100 * ROUND_NS);
    assert_eq!(units.budget().promised(), 0);
    assert!(viewers.iter().all(|viewer| viewer.memory().unwrap().buffers() == 0));
}

#[test]
fn viewers_get_what_they_were_promised_whatever_downloads_hold() {
    let (fixture, units) = fixture();
    let (sessions, film) = (sessions(&units), film(&fixture));
    let viewers = audience(&sessions, &film);
    assert!(viewers.len() > 10);
    let mut core = Core::new(&units, 1);
    let downloads = hoard(&mut core, &fixture, 40);
    let held = units.budget().unpromised();
    assert!(held > 0 && held <= units.budget().total() - units.budget().promised(), "{held}");
    assert!(
        units.budget().is_helped_by(false) && !units.budget().is_helped_by(true),
        "downloads would take more"
    );
    let watched: Vec<u64> = viewers.iter().map(|viewer| watch(&mut core, &fixture, viewer)).collect();
    core.wait_until(ClientBehaviour::default(), |core| {
        !watched.iter().any(|viewer| core.is_watching(*viewer))
    });
    assert!(downloads.iter().all(|download| core.is_watching(*download)), "nothing was taken from them");
    assert_eq!(units.budget().unpromised(), held);
}

#[test]
fn downloads_continue_while_viewers_hold_all_they_were_promised() {
    let (fixture, units) = fixture();
    let (sessions, film) = (sessions(&units), film(&fixture));
    let mut core = Core::new(&units, 1);
    for viewer in audience(&sessions, &film) {
        let number = watch(&mut core, &fixture, &viewer);
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        core.stop_taking(number);
    }
    let downloads: Vec<u64> =
        (0..5).map(|_| core.download(fixture.whole(1), fixture.bytes[1].clone())).collect();
    core.wait_until(ClientBehaviour::default(), |core| {
        !downloads.iter().any(|download| core.is_watching(*download))
    });
}

#[test]
fn clients_without_a_promise_wait_behind_clients_with_one() {
    let (fixture, units) = fixture();
    let mut core = Core::new(&units, 1);
    // All memory, before anything was promised.
    let early = units.budget().reserve(units.budget().total()).unwrap();
    let downloads: Vec<u64> =
        (0..5).map(|_| core.download(fixture.whole(1), fixture.bytes[1].clone())).collect();
    let mut ends = Ends::default();
    core.turn(ClientBehaviour::default(), &mut ends);
    let (sessions, film) = (sessions(&units), film(&fixture));
    let viewers = audience(&sessions, &film);
    let watched = watch(&mut core, &fixture, &viewers[0]);
    core.turn(ClientBehaviour::default(), &mut ends);
    assert_eq!(units.budget().waiting_readers(), 6);
    early.give_back(PER_VIEWER);
    core.wait_until(ClientBehaviour::default(), |core| !core.is_watching(watched));
    assert!(downloads.iter().all(|download| core.is_watching(*download)));
    assert_eq!(units.budget().waiting_readers(), 5);
    drop((viewers, sessions, early));
    core.wait_until(ClientBehaviour::default(), |core| {
        !downloads.iter().any(|download| core.is_watching(*download))
    });
}

/// Clients come and go faster than the disks answer. What is asked of the disks must be bounded by
/// the available memory. Otherwise a client that is still there would wait behind the reads of
/// clients that have left. It would also request again what it had to give up meanwhile.
#[test]
fn outstanding_reads_of_clients_that_left_are_reserved_until_they_complete() {
    let (fixture, units) = fixture();
    let mut core = Core::new(&units, 1);
    core.hold_all();
    let total = units.budget().total();
    let stripes = fixture.bytes[1].len() / STRIPE_BYTES;
    let mut rng = Rng::new(3);
    for _ in 0..total {
        // Each client reads at another position.
        let at = rng.below(stripes as u64) as usize * STRIPE_BYTES;
        let body = fixture.whole(1).slice(at as u64..(at + STRIPE_BYTES) as u64);
        let viewer = core.watch(body, fixture.bytes[1][at..at + STRIPE_BYTES].to_vec());
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        core.leave(viewer);
        assert!(core.fetcher.in_flight() <= units.budget().reserved());
    }
    assert!(units.budget().reserved() > 0 && units.budget().waiting_readers() == 0);
    core.release_all();
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 0);
    assert_eq!(units.budget().reserved(), 0);
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

/// A viewer that seeks does not wait for what it does not need any more.
#[test]
fn a_viewer_that_seeks_is_promised_as_much_for_the_new_position_at_once() {
    let (fixture, units) = fixture();
    let (sessions, film) = (sessions(&units), film(&fixture));
    let viewers = audience(&sessions, &film);
    let mut core = Core::new(&units, 1);
    core.hold_all();
    for place in 0..3 {
        let watched = watch(&mut core, &fixture, &viewers[0]);
        core.turn(ClientBehaviour::default(), &mut Ends::default());
        assert_eq!(units.budget().unpromised(), 0, "place {place}");
        core.leave(watched);
        assert!(units.budget().reserved() > 0, "place {place}");
    }
    core.release_all();
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 0);
    assert_eq!(units.budget().reserved(), 0);
}
