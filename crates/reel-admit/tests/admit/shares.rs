//! The share of one client in what is promised.

use crate::sessions::{START_NS, of_bytes, open_for, promising, segment, shared_out, waiting};
use reel_admit::limits::{CLIENT_SHARE_PERMILLE, PAUSE_GRACE_NS};
use reel_admit::{OpenRefused, Session, SessionClient, Sessions};
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Class, ClientShare, Demand};
use reel_testkit::Rng;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const FILM: &[u64] = &[8_000_000];
const GREEDY: IpAddr = address(1);

/// Clients with addresses of the network 192.0.2.0/24.
const fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))
}

/// A table for twenty streams, of which one client may hold the default share.
fn twenty() -> Sessions<()> {
    shared_out(20, ClientShare::permille(CLIENT_SHARE_PERMILLE))
}

fn open(sessions: &Sessions<()>, client: IpAddr) -> Result<Arc<Session<()>>, OpenRefused> {
    open_for(sessions, FILM, client, START_NS)
}

/// Opens sessions of one client until it is refused.
fn fill(sessions: &Sessions<()>, client: IpAddr) -> (Vec<Arc<Session<()>>>, OpenRefused) {
    let mut held = Vec::new();
    loop {
        match open(sessions, client) {
            Ok(session) => held.push(session),
            Err(refused) => return (held, refused),
        }
    }
}

fn is_share(refused: &OpenRefused) -> bool {
    matches!(refused, OpenRefused::NotAdmitted(AdmitError::Share(_)))
}

#[test]
fn one_client_takes_most_of_an_idle_server_and_newcomers_find_the_rest() {
    let sessions = twenty();
    let (held, refused) = fill(&sessions, GREEDY);
    assert_eq!(held.len(), 15);
    assert!(is_share(&refused) && refused.is_of_client(), "{refused}");
    assert!(refused.to_string().contains("at most 3.0 times what it leaves free"), "{refused}");
    for newcomer in 2..7 {
        open(&sessions, address(newcomer)).unwrap();
    }
    let full = open(&sessions, address(7)).unwrap_err();
    assert!(!full.is_of_client() && full.refusal().is_some(), "{full}");
    assert!(sessions.admission().adds_up());
}

#[test]
fn different_clients_fill_the_server_to_its_end() {
    let sessions = twenty();
    for client in 0..20 {
        open(&sessions, address(client)).unwrap();
    }
    assert!(!open(&sessions, address(20)).unwrap_err().is_of_client());
    assert!(!open(&sessions, address(0)).unwrap_err().is_of_client(), "it does not fit at all");
}

#[test]
fn gateways_and_this_machine_speak_for_many_viewers() {
    let sessions = twenty().for_gateways(vec!["192.0.2.0/30".parse().unwrap()]);
    for client in [GREEDY, IpAddr::V4(Ipv4Addr::LOCALHOST)] {
        let (held, refused) = fill(&sessions, client);
        assert!(held.len() == 20 && !refused.is_of_client(), "{refused}");
        held.iter().for_each(|session| assert!(sessions.close(&session.key())));
    }
}

#[test]
fn an_ipv6_network_is_one_client() {
    let sessions = twenty();
    let [one, other, next]: [IpAddr; 3] =
        ["2001:db8:1::1", "2001:db8:1::ffff:2", "2001:db8:2::1"].map(|text| text.parse().unwrap());
    fill(&sessions, one);
    assert!(is_share(&open(&sessions, other).unwrap_err()));
    open(&sessions, next).unwrap();
}

#[test]
fn what_a_client_gives_back_counts_no_more() {
    let sessions = twenty();
    let (held, _) = fill(&sessions, GREEDY);
    assert!(sessions.close(&held[0].key()));
    open(&sessions, GREEDY).unwrap();
    assert!(is_share(&open(&sessions, GREEDY).unwrap_err()));
    // All are silent and lose their reservations, but not their sessions.
    sessions.tick(START_NS + 2 * PAUSE_GRACE_NS);
    let (again, _) = fill(&sessions, GREEDY);
    assert_eq!(again.len(), 15);
}

#[test]
fn a_viewer_that_seeks_keeps_its_place_on_a_full_server() {
    let sessions = twenty();
    let (held, _) = fill(&sessions, GREEDY);
    for newcomer in 2..7 {
        open(&sessions, address(newcomer)).unwrap();
    }
    let now_ns = START_NS + ROUND_NS;
    sessions.request(&held[0], Some(0), &segment(0), now_ns).unwrap();
    let permit = sessions.request(&held[0], Some(0), &segment(50), now_ns + ROUND_NS).unwrap();
    assert!(permit.rate_bps.is_some() && !permit.is_displaced, "{permit:?}");
    assert!(sessions.admission().adds_up());
}

/// Starts that come at once need more in the first seconds than later. They wait for each other,
/// within the share of their client.
#[test]
fn streams_of_one_client_that_begin_together_wait_for_each_other() {
    let share = ClientShare::permille(CLIENT_SHARE_PERMILLE);
    for (start_wait_s, wanted) in [(0, 5), (8, 14)] {
        let sessions = waiting(20, share, start_wait_s);
        let mut bytes = vec![1_000_000; 600];
        bytes[..2].fill(2_000_000);
        let film: Arc<[Arc<Demand>]> = Arc::from([of_bytes(bytes)]);
        let client = SessionClient::new(GREEDY, Class::PERIODIC);
        let open = || sessions.open("film", Arc::new(()), Arc::clone(&film), client, START_NS);
        let held: Vec<_> = std::iter::from_fn(|| open().ok()).collect();
        assert!(held.len() >= wanted && held.len() <= 15, "{start_wait_s} s: {}", held.len());
        assert!(start_wait_s > 0 || held.len() < 10, "{}", held.len());
    }
}

/// There is no room now, and when there is, the client has its share: that is why it is refused.
#[test]
fn a_start_that_waited_in_vain_is_told_of_the_share_of_its_client() {
    let sessions = waiting(20, ClientShare::permille(CLIENT_SHARE_PERMILLE), 8);
    let (held, _) = fill(&sessions, GREEDY);
    assert_eq!(held.len(), 15);
    let short: Arc<[Arc<Demand>]> = Arc::from([of_bytes(vec![5_000_000; 4])]);
    let other = SessionClient::new(address(2), Class::PERIODIC);
    sessions.open("short", Arc::new(()), short, other, START_NS).unwrap();
    let refused = open(&sessions, GREEDY).unwrap_err();
    assert!(is_share(&refused) && refused.is_of_client(), "{refused}");
    // The first of its own streams ends in ten minutes.
    let retry_after_s = refused.refusal().unwrap().retry_after_s.unwrap();
    assert!((598..=602).contains(&retry_after_s), "{retry_after_s} s");
    // Others wait for the same room and get it.
    assert!(open(&sessions, address(3)).is_ok());
    assert!(sessions.admission().adds_up());
}

#[test]
fn without_a_share_one_client_takes_all() {
    let (held, refused) = fill(&promising(20), GREEDY);
    assert!(held.len() == 20 && !refused.is_of_client(), "{refused}");
}

/// Clients come and go at random. A client is refused because of its share only if it holds at
/// least that, or if no more is free than the part for newcomers. A client without a session never
/// is. The server has room for twenty sessions, two of them for newcomers.
#[test]
fn a_client_is_refused_its_share_only_if_it_holds_it() {
    for seed in 0..40 {
        let mut random = Rng::new(seed);
        let sessions = twenty();
        let mut held: HashMap<u8, Vec<Arc<Session<()>>>> = HashMap::new();
        for _ in 0..400 {
            let client = random.below(6) as u8;
            let own = held.entry(client).or_default();
            if random.below(3) == 0 && !own.is_empty() {
                let session = own.swap_remove(random.below(own.len() as u64) as usize);
                assert!(sessions.close(&session.key()));
                continue;
            }
            let count = own.len();
            let is_within = |all: usize| count < 3 * (20 - all) && 20 - all >= 2;
            match open(&sessions, address(client)) {
                Ok(session) => {
                    own.push(session);
                    let all: usize = held.values().map(Vec::len).sum();
                    assert!(count == 0 || is_within(all), "seed {seed}: {count} of {all}");
                }
                Err(refused) => {
                    let all: usize = held.values().map(Vec::len).sum();
                    assert_eq!(is_share(&refused), all < 20, "seed {seed}: {refused}");
                    assert!(all == 20 || count > 0 && !is_within(all + 1), "seed {seed}: {count} of {all}");
                }
            }
        }
    }
}
