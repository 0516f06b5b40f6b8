//! What becomes of trains that the kernel does not take.

use super::*;
use crate::framing::Framing;
use crate::packet_times::PACKET_BYTES;
use reel_ring::Chunk;
use reel_rtp::Packet;
use reel_serve::streams::{Offer, Outlet};
use std::net::UdpSocket;

const MS: u64 = 1_000_000;
/// The datagrams that are offered. All of them are due at once.
const DATAGRAMS: usize = 100;

/// An outlet of RTP on this machine, and a chain that has offered it all.
fn outlet() -> (Datagrams, Tee) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let to = socket.local_addr().expect("bound");
    let framing = Framing::rtp().expect("random bytes");
    let socket = DatagramSocket { socket: Arc::new(socket.into()), to, framing };
    // A millisecond for each datagram.
    let times = PacketTimes::new(|packet| packet * MS / 7, [(0, 0)].into());
    let mut tee = Tee::of_packets(0, times, 0);
    tee.join_at_packet(0);
    let chunk = Chunk::from(vec![7; DATAGRAMS * 7 * PACKET_BYTES as usize]);
    tee.offer(&Offer { chunk: &chunk, position: 0, due_ns: 0 });
    tee.settle(false);
    (Datagrams::new(socket, None), tee)
}

fn train(datagrams: &mut Datagrams, tee: &mut Tee, now_ns: u64) -> Train {
    tee.set_now(now_ns);
    let queue = Queue::of(tee, 0).expect("something waits");
    let most = datagrams.train_max(&queue);
    match datagrams.begin((tee, 0), &queue, most, now_ns) {
        Next::Train(train) => train,
        _ => panic!("nothing leaves at {now_ns}"),
    }
}

/// The first sequence number and the datagrams of a train.
fn first_and_count(train: &Train) -> (u16, usize) {
    let first: Vec<u8> = train.chunks[..2].iter().flat_map(|chunk| chunk.to_vec()).collect();
    let sequence = Packet::parse(&first).expect("RTP").sequence;
    (sequence, train.bytes() / usize::from(train.packet_bytes))
}

fn refused(errno: Errno) -> io::Result<usize> {
    Err(errno.into())
}

#[test]
fn what_a_full_socket_did_not_take_is_sent_again() {
    let (mut datagrams, mut tee) = outlet();
    let first = first_and_count(&train(&mut datagrams, &mut tee, 0));
    assert!(Queue::of(&tee, 0).is_none(), "one train at a time");
    assert!(matches!(datagrams.answered(refused(Errno::AGAIN)), Answer::Full));
    tee.sent(0, 0);
    let again = train(&mut datagrams, &mut tee, 0);
    assert_eq!(first_and_count(&again), first, "the same numbers, and as many");
    let Answer::Sent(bytes) = datagrams.answered(Ok(again.bytes())) else { panic!("it was sent") };
    assert_eq!(bytes, first.1 * PAYLOAD_BYTES, "without headers");
    tee.sent(0, bytes);
    let next = first_and_count(&train(&mut datagrams, &mut tee, 20 * MS));
    assert_eq!(next.0, first.0.wrapping_add(first.1 as u16));
}

#[test]
fn a_device_that_cannot_cut_trains_gets_single_datagrams() {
    let (mut datagrams, mut tee) = outlet();
    let (sequence, count) = first_and_count(&train(&mut datagrams, &mut tee, 0));
    assert!(count > 1);
    assert!(matches!(datagrams.answered(refused(Errno::IO)), Answer::Again));
    tee.sent(0, 0);
    assert_eq!(first_and_count(&train(&mut datagrams, &mut tee, 0)), (sequence, 1));
    assert!(matches!(datagrams.answered(refused(Errno::IO)), Answer::Failed(_)), "not for ever");
}

#[test]
fn other_errors_end_the_outlet_with_what_to_do() {
    for (errno, says) in [
        (Errno::NETUNREACH, "ip route add"),
        (Errno::PERM, "nft list ruleset"),
        (Errno::MSGSIZE, "1328 bytes"),
        (Errno::NETDOWN, "ip link set INTERFACE up"),
    ] {
        let (mut datagrams, mut tee) = outlet();
        train(&mut datagrams, &mut tee, 0);
        let Answer::Failed(why) = datagrams.answered(refused(errno)) else { panic!("{errno} is no error") };
        assert!(why.contains(says), "{why}");
    }
}
