//! The workloads of E1 to E6, in the thesis' units.

/// What 0.9 ms of work per message were in 1991, against a system call of 34 us, are 2.5 us against
/// one of about 95 ns.
pub(super) const WORK_NS: f64 = 2_500.0;
pub(super) const WORK_1991_NS: f64 = 900_000.0;
/// Today's time for one of 1991 where system calls are what decides.
pub(super) const BY_CALLS: f64 = WORK_NS / WORK_1991_NS;
/// The same where the processor changes hands: a switch between processes took 180 to 297 us, and
/// takes 3 to 5. Divided like system calls, two switches would take longer than the work of a
/// message, and no stream could ever work ahead.
pub(super) const BY_SWITCHES: f64 = 1.0 / 60.0;

/// One workload: streams, and the work of one message.
pub(super) struct Workload {
    pub(super) case: &'static str,
    pub(super) at: f64,
    /// Numbers of equal streams.
    streams: &'static [(usize, Stream)],
    pub(super) work_1991_ns: f64,
    /// Today's time for one of 1991.
    pub(super) scale: f64,
    pub(super) members: u64,
    /// Only what shares a processor among members is measured, with this workahead policy.
    pub(super) workahead: Option<&'static str>,
    /// Whether a quick run has it too.
    pub(super) is_quick: bool,
}

/// In the thesis' units.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub(super) per_second: f64,
    pub(super) delay_ms: f64,
    pub(super) buffer: u64,
}

impl Workload {
    /// Every stream by itself.
    pub(super) fn streams(&self) -> impl Iterator<Item = Stream> + '_ {
        self.streams.iter().flat_map(|&(count, stream)| std::iter::repeat_n(stream, count))
    }
}

const HIGH: Stream = stream(50.0, 250.0, 12);
const LOW: Stream = stream(50.0, 5.0, 1);
const FAR: Stream = stream(50.0, 200.0, 10);

/// All of them.
pub(super) const WORKLOADS: [Workload; 33] = [
    quick(one_member("E1 streams", 2.0, &[(2, HIGH)])),
    one_member("E1 streams", 6.0, &[(6, HIGH)]),
    one_member("E1 streams", 10.0, &[(10, HIGH)]),
    one_member("E1 streams", 14.0, &[(14, HIGH)]),
    one_member("E1 streams", 18.0, &[(18, HIGH)]),
    quick(one_member("E2 rate", 50.0, &[(5, stream(50.0, 200.0, 10))])),
    one_member("E2 rate", 100.0, &[(5, stream(100.0, 100.0, 10))]),
    one_member("E2 rate", 150.0, &[(5, stream(150.0, 67.0, 10))]),
    one_member("E2 rate", 200.0, &[(5, stream(200.0, 50.0, 10))]),
    quick(one_member("E3 low delay", 0.0, &[(0, LOW), (8, HIGH)])),
    quick(one_member("E3 low delay", 1.0, &[(1, LOW), (7, HIGH)])),
    one_member("E3 low delay", 3.0, &[(3, LOW), (5, HIGH)]),
    one_member("E3 low delay", 5.0, &[(5, LOW), (3, HIGH)]),
    quick(working(1.5e6, one_member("E4 buffer", 1.0, &[(8, stream(50.0, 500.0, 1))]))),
    quick(working(1.5e6, one_member("E4 buffer", 2.0, &[(8, stream(50.0, 500.0, 2))]))),
    working(1.5e6, one_member("E4 buffer", 3.0, &[(8, stream(50.0, 500.0, 3))])),
    working(1.5e6, one_member("E4 buffer", 4.0, &[(8, stream(50.0, 500.0, 4))])),
    working(1.5e6, one_member("E4 buffer", 8.0, &[(8, stream(50.0, 500.0, 8))])),
    working(1.5e6, one_member("E4 buffer", 16.0, &[(8, stream(50.0, 500.0, 16))])),
    quick(members("E5 members", 1, &[(1, LOW), (11, FAR)], "low delay")),
    quick(members("E5 members", 1, &[(12, FAR)], "high delay")),
    quick(members("E5 members", 2, &[(2, LOW), (10, FAR)], "low delay")),
    quick(members("E5 members", 2, &[(12, FAR)], "high delay")),
    members("E5 members", 3, &[(3, LOW), (9, FAR)], "low delay"),
    members("E5 members", 3, &[(12, FAR)], "high delay"),
    quick(members("E6 workahead", 1, &[(8, FAR)], "within")),
    quick(members("E6 workahead", 1, &[(8, FAR)], "global")),
    quick(members("E6 workahead", 2, &[(8, FAR)], "within")),
    quick(members("E6 workahead", 2, &[(8, FAR)], "global")),
    members("E6 workahead", 4, &[(8, FAR)], "within"),
    members("E6 workahead", 4, &[(8, FAR)], "global"),
    members("E6 workahead", 8, &[(8, FAR)], "within"),
    members("E6 workahead", 8, &[(8, FAR)], "global"),
];

const fn stream(per_second: f64, delay_ms: f64, buffer: u64) -> Stream {
    Stream { per_second, delay_ms, buffer }
}

/// Streams of one member.
const fn one_member(case: &'static str, at: f64, streams: &'static [(usize, Stream)]) -> Workload {
    let (work_1991_ns, scale) = (WORK_1991_NS, BY_CALLS);
    Workload { case, at, streams, work_1991_ns, scale, members: 1, workahead: None, is_quick: false }
}

/// Streams shared among members.
const fn members(
    case: &'static str,
    members: u64,
    streams: &'static [(usize, Stream)],
    policy: &'static str,
) -> Workload {
    let (scale, workahead) = (BY_SWITCHES, Some(policy));
    Workload { members, scale, workahead, ..one_member(case, members as f64, streams) }
}

/// The same with other work for each message.
const fn working(work_1991_ns: f64, workload: Workload) -> Workload {
    Workload { work_1991_ns, ..workload }
}

/// The same in quick runs too.
const fn quick(workload: Workload) -> Workload {
    Workload { is_quick: true, ..workload }
}
