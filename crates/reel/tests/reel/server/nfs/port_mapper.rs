//! The port mapper as programs of the system ask it. In a network name space, because it is at port
//! 111.

use super::serving;
use crate::server::casts::in_a_network;
use crate::server::rig::Rig;
use reel_nfs::limits::DATAGRAMS_PER_TURN_MAX;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

#[test]
fn programs_of_the_system_find_nfs_by_the_port_mapper() {
    in_a_network("server::nfs::port_mapper::inside::found");
}

#[test]
fn other_addresses_get_no_answer_by_udp() {
    in_a_network("server::nfs::port_mapper::inside::others");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of programs_of_the_system_find_nfs_by_the_port_mapper, in a name space of its own"]
    fn found() {
        let rig = mapped("127.0.0.1:2049", "127.0.0.1");
        // The program, and what it says.
        for (block, wanted) in [
            ("rpcinfo -p 127.0.0.1", &["100000 2 udp 111 portmapper", "100003 3 tcp 2049 nfs"][..]),
            ("rpcinfo 127.0.0.1", &["100003 3 tcp 127.0.0.1.8.1 nfs"]),
            ("rpcinfo -s 127.0.0.1", &["100005 3,1 tcp mountd"]),
            ("rpcinfo -u 127.0.0.1 100000 2", &["program 100000 version 2 ready and waiting"]),
            ("rpcinfo -t 127.0.0.1 100000 4", &["program 100000 version 4 ready and waiting"]),
            ("rpcinfo -t 127.0.0.1 100003 3", &["program 100003 version 3 ready and waiting"]),
            ("rpcinfo -T tcp 127.0.0.1 100005 3", &["program 100005 version 3 ready and waiting"]),
            ("showmount -e 127.0.0.1", &["/ (everyone)", "/play (everyone)"]),
            ("showmount -a 127.0.0.1", &["All mount points"]),
            ("nfs-ls nfs://127.0.0.1/copy", &["film.mp4"]),
        ] {
            let Some(said) = run(block) else { continue };
            for wanted in wanted {
                assert!(said.contains(wanted), "{block}: {said}");
            }
        }
        assert_eq!(rig.metric("reel_nfs_garbage_total"), 0.0);
    }

    #[test]
    #[ignore = "child of other_addresses_get_no_answer_by_udp, in a name space of its own"]
    fn others() {
        let rig = mapped("0.0.0.0:2049", "127.0.0.9");
        let [other, allowed] = ["127.0.0.1:0", "127.0.0.9:0"].map(|at| UdpSocket::bind(at).expect("bound"));
        let mapper = SocketAddr::from(([127, 0, 0, 1], 111));
        // More than are answered at once, and of them every second one is no call.
        for number in 0..4 * DATAGRAMS_PER_TURN_MAX as u32 {
            other.send_to(&question(number), mapper).expect("sent");
            allowed.send_to(&question(number)[..if number % 2 == 0 { 40 } else { 7 }], mapper).expect("sent");
        }
        allowed.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        for number in (0..4 * DATAGRAMS_PER_TURN_MAX as u32).step_by(2) {
            let mut answer = [0; 100];
            let bytes = allowed.recv(&mut answer).expect("an answer");
            assert_eq!((bytes, &answer[..4]), (24, &number.to_be_bytes()[..]));
        }
        // Datagrams are read in their order, so those of the other one were read.
        other.set_nonblocking(true).expect("set");
        assert!(other.recv(&mut [0; 100]).is_err(), "no answer");
        assert_eq!(rig.metric("reel_nfs_calls_total"), 2.0 * DATAGRAMS_PER_TURN_MAX as f64);
    }
}

/// A server with a port mapper, for clients of an address.
fn mapped(listen: &str, clients: &str) -> Rig {
    Rig::new(|config| {
        let mut nfs = serving(listen.parse().expect("an address"));
        nfs.clients = vec![clients.parse().expect("a range")];
        nfs.portmap = true;
        config.nfs = Some(nfs);
    })
}

/// NULL of version 2.
fn question(xid: u32) -> Vec<u8> {
    [xid, 0, 2, 100_000, 2, 0, 0, 0, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// What a program says, with one space between words; `None` if it is not here.
fn run(block: &str) -> Option<String> {
    let mut words = block.split(' ');
    let name = words.next().expect("a program");
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").expect("a path"));
    let Ok(output) = Command::new(name).args(words).env("PATH", path).output() else {
        println!("skipped: {name} is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{block}: {said}{errors}");
    Some(said.split_whitespace().collect::<Vec<_>>().join(" "))
}
