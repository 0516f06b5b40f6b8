//! Properties of a [`UdpSender`] for any flows, answers of the kernel and delays.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::Arc;

use proptest::prelude::*;
use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{Done, Op, Train};
use rustix::io::Errno;

use crate::{FlowId, Pacer, Packets, UdpSender, UdpStep};

const PACKET_BYTES: usize = 1000;
const PACKETS: usize = 200;
const UNSENT_BYTES_MAX: usize = 100;

/// Address and length of some bytes.
type Place = (usize, usize);

/// What the simulated kernel does with a train.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Taken,
    Lent { copied: bool },
    Full,
    CannotCut,
    Refused(Errno),
}

fn fates() -> impl Strategy<Value = Vec<(Fate, u64)>> {
    let fate = prop_oneof![
        8 => Just(Fate::Taken),
        4 => any::<bool>().prop_map(|copied| Fate::Lent { copied }),
        1 => Just(Fate::Full),
        1 => Just(Fate::CannotCut),
        2 => prop_oneof![Just(Errno::NETUNREACH), Just(Errno::PERM), Just(Errno::MSGSIZE)].prop_map(Fate::Refused),
    ];
    proptest::collection::vec((fate, 0..30_000_000u64), 1..200)
}

/// A simulated kernel: what it was given, and what each flow has received.
struct Kernel {
    fates: VecDeque<(Fate, u64)>,
    under_way: Vec<(u32, Op)>,
    lent: Vec<(u32, Op)>,
    /// For each destination, the places of the bytes that were taken or refused, in order.
    gone: HashMap<SocketAddr, Vec<Place>>,
    delay_ns: u64,
}

impl Kernel {
    fn answer(&mut self, sender: &mut UdpSender, now_ns: u64) {
        for (slot, op) in mem::take(&mut self.lent) {
            sender.done(now_ns, slot, Done { token: 0, result: Ok(0), op, accepted: None });
        }
        for (slot, op) in mem::take(&mut self.under_way) {
            let (fate, delay_ns) = self.fates.pop_front().unwrap_or((Fate::Taken, 0));
            self.delay_ns = delay_ns;
            let (op, result) = match op {
                Op::Train(train) => self.train(slot, train, fate),
                op => (op, Ok(4)),
            };
            sender.done(now_ns, slot, Done { token: 0, result, op, accepted: None });
        }
    }

    fn train(&mut self, slot: u32, mut train: Train, fate: Fate) -> (Op, std::io::Result<usize>) {
        let bytes = train.bytes();
        let gone = self.gone.entry(train.to.expect("a destination")).or_default();
        let mut is_gone = || train.chunks.iter().for_each(|chunk| join(gone, place(chunk)));
        let result = match fate {
            Fate::Taken | Fate::Lent { .. } => {
                is_gone();
                Ok(bytes)
            }
            Fate::Full => Err(Errno::AGAIN.into()),
            // Only trains are cut.
            Fate::CannotCut if bytes > PACKET_BYTES => Err(Errno::IO.into()),
            Fate::CannotCut => {
                is_gone();
                Ok(bytes)
            }
            Fate::Refused(errno) => {
                is_gone();
                Err(errno.into())
            }
        };
        if let Fate::Lent { copied } = fate
            && train.zero_copy
        {
            self.lent.push((slot, Op::Lent { chunks: mem::take(&mut train.chunks), copied }));
        }
        (Op::Train(train), result)
    }
}

fn place(bytes: &[u8]) -> Place {
    (bytes.as_ptr().addr(), bytes.len())
}

/// Appends a place, to the last one if it continues there.
fn join(places: &mut Vec<Place>, (at, length): Place) {
    match places.last_mut() {
        Some((last, bytes)) if *last + *bytes == at => *bytes += length,
        _ => places.push((at, length)),
    }
}

/// How the packets of a flow are stored.
#[derive(Clone, Debug)]
enum Layout {
    /// One behind the other, as they are sent.
    Framed,
    /// Payloads in rows of so many packets, with so many bytes that are not sent behind each;
    /// headers of so many bytes in another place.
    Gathered { rows: Vec<usize>, unsent_bytes: usize, header_bytes: usize },
}

fn layouts() -> impl Strategy<Value = Layout> {
    let gathered = (proptest::collection::vec(1usize..50, 1..12), 0..UNSENT_BYTES_MAX, 1usize..40);
    prop_oneof![
        Just(Layout::Framed),
        gathered.prop_map(|(rows, unsent_bytes, header_bytes)| Layout::Gathered {
            rows,
            unsent_bytes,
            header_bytes
        }),
    ]
}

/// Packets of a layout, and the places of their bytes in the order of sending.
fn packets(layout: &Layout, bytes: &Lease) -> (Packets, Vec<Place>) {
    let Layout::Gathered { rows, unsent_bytes, header_bytes } = layout else {
        let bytes = bytes.slice(0..PACKETS * PACKET_BYTES);
        return (Packets::framed(bytes.clone(), PACKET_BYTES), vec![place(&bytes)]);
    };
    let payload_bytes = PACKET_BYTES - header_bytes;
    let stride_bytes = payload_bytes + unsent_bytes;
    let headers = bytes.slice(0..PACKETS * header_bytes);
    let (mut payloads, mut places, mut packet) = (Vec::new(), Vec::new(), 0);
    for count in rows.iter().chain([&PACKETS]).map(|count| (*count).min(PACKETS)) {
        let count = count.min(PACKETS - packet);
        if count == 0 {
            break;
        }
        // The last row is stored first, so that no row continues another.
        let at = headers.len() + (PACKETS - packet - count) * stride_bytes;
        let row = bytes.slice(at..at + count * stride_bytes);
        for payload in row.chunks(stride_bytes) {
            join(&mut places, place(&headers[packet * header_bytes..(packet + 1) * header_bytes]));
            join(&mut places, place(&payload[..payload_bytes]));
            packet += 1;
        }
        payloads.push(row.into());
    }
    (Packets::gathered(headers, *header_bytes, payloads, payload_bytes, stride_bytes), places)
}

fn lease() -> Lease {
    let bytes = (PACKETS * (PACKET_BYTES + UNSENT_BYTES_MAX)).next_multiple_of(4096);
    let shape = ArenaConfig { buffer_bytes: bytes, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
    Arena::new(shape).expect("an arena").take(bytes).expect("free").freeze()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_flow_keeps_its_order_and_one_train_and_gets_its_turn(
        flows in proptest::collection::vec((500_000u64..400_000_000, layouts()), 1..12),
        fates in fates(),
    ) {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut sender = UdpSender::new(Arc::new(socket.into()));
        let bytes = lease();
        let flows: Vec<(FlowId, SocketAddr, Vec<Place>)> = flows.iter().enumerate().map(|(number, (rate_bps, layout))| {
            let to: SocketAddr = (Ipv4Addr::new(239, 0, 0, number as u8), 5000).into();
            let pacer = Pacer::new(NonZeroU64::new(*rate_bps).expect("a rate"), 0);
            let id = sender.open(to, pacer).expect("room for a flow");
            let (packets, places) = packets(layout, &bytes);
            sender.offer(id, packets).expect("room");
            (id, to, places)
        }).collect();
        let mut kernel = Kernel {
            fates: fates.into(), under_way: Vec::new(), lent: Vec::new(), gone: HashMap::new(), delay_ns: 0,
        };
        let (mut now_ns, mut steps) = (0, 0);
        while !sender.is_idle() {
            steps += 1;
            prop_assert!(steps < 100_000, "it does not end");
            let mut before_ns = 0;
            let next = loop {
                match sender.step(now_ns) {
                    UdpStep::Push { slot, op, due_ns } => {
                        prop_assert!(due_ns <= now_ns && due_ns >= before_ns, "the earliest goes first");
                        prop_assert!(kernel.under_way.iter().all(|(other, _)| *other != slot), "one train of a flow");
                        before_ns = due_ns;
                        kernel.under_way.push((slot, op));
                    }
                    next => break next,
                }
            };
            if kernel.under_way.is_empty() && kernel.lent.is_empty() {
                let UdpStep::At(due_ns) = next else { panic!("it waits for nothing") };
                prop_assert!(due_ns > now_ns);
                now_ns = due_ns + mem::take(&mut kernel.delay_ns);
            }
            kernel.answer(&mut sender, now_ns);
        }
        for (id, to, places) in flows {
            let state = sender.flow(id).expect("an open flow");
            prop_assert_eq!(state.counts.packets + state.counts.refused_packets, PACKETS as u64);
            prop_assert_eq!(state.queued_bytes, 0);
            prop_assert_eq!(&kernel.gone[&to], &places, "in the order of the offer, nothing twice, nothing left out");
        }
    }
}
