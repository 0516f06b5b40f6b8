//! What a group needs of the ledger, and where its streams are. Pure.

use crate::Demand;
use crate::claim::DemandStart;
use crate::demand::DiskDemand;
use crate::limits::{DEMAND_ROUNDS_MAX, GROUP_EXACT_STREAMS, REACH_ROUNDS, START_ROUNDS};
use std::collections::VecDeque;

impl Demand {
    /// What a stream holds for itself when another stream reads for it.
    pub fn without_disks(&self) -> Demand {
        self.with(Vec::new(), self.sent_bytes().to_vec(), self.held_bytes())
    }

    /// The same for a stream that begins at a round of it. The segment that is shown there would
    /// have been sent in the rounds before. It is sent while the next one is.
    pub(super) fn without_disks_from(&self, round: usize) -> Demand {
        let ahead = self.ahead_rounds();
        let mut sent = self.sent_bytes().to_vec();
        let round = round.min(sent.len());
        let before = round.saturating_sub(ahead)..round;
        let bytes: u64 = sent[before].iter().sum();
        let after = round..(round + ahead).min(sent.len());
        let each = bytes.div_ceil(after.len().max(1) as u64);
        sent[after].iter_mut().for_each(|sent| *sent = sent.saturating_add(each));
        self.with(Vec::new(), sent, self.held_bytes())
    }

    /// The same for a stream whose first segment is sent over so many rounds before its first one.
    /// Then there is more time for what is sent after that segment, too. The disks are charged when
    /// sending begins, and again as if it were read in its rounds: the stream may read for others.
    pub(super) fn without_disks_spread(&self, early_rounds: u64) -> Demand {
        let early = usize::try_from(early_rounds).unwrap_or(usize::MAX).min(DEMAND_ROUNDS_MAX);
        let sent = self.sent_bytes();
        let begins = sent.len().min(START_ROUNDS as usize);
        let second = self.ahead_rounds().clamp(begins, sent.len());
        let sent = spread(&sent[..begins], early)
            .chain(spread(&sent[begins..second], second))
            .chain(sent[second..].iter().copied())
            .collect();
        let members = (0..self.members()).map(|member| {
            let reads = self.reads(member);
            reads[..reads.len().min(begins)].to_vec()
        });
        self.with(members.collect(), sent, self.held_bytes())
    }
}

/// All of these bytes, evenly in so many rounds.
fn spread(bytes: &[u64], rounds: usize) -> impl Iterator<Item = u64> {
    let (bytes, of) = (bytes.iter().copied().map(u128::from).sum::<u128>(), rounds.max(1) as u128);
    // Fits: bytes of a title.
    let upto = move |round: usize| (bytes * round as u128 / of) as u64;
    (0..rounds).map(move |round| upto(round + 1) - upto(round))
}

/// What a group holds from the present on, and the round that this is. Disks: in each round the
/// largest demand of its streams. Memory: what is between the first and the last. `epochs` ascend.
pub(super) fn shape(demand: &Demand, epochs: &[i64], now_round: u64) -> (Demand, u64) {
    let (first, last) = (epochs.first().copied().unwrap_or(0), epochs.last().copied().unwrap_or(0));
    let base = first.max(signed(now_round));
    let rounds = usize::try_from(last + signed(demand.rounds() as u64) - base).unwrap_or(0);
    // A stream that reads for others reads whole units.
    let needs = if epochs.len() > 1 { demand.shared() } else { demand };
    let members = (0..needs.members()).map(|member| {
        let reads = needs.reads(member);
        if epochs.len() <= GROUP_EXACT_STREAMS {
            most_of_all(reads, epochs, base, rounds)
        } else {
            most_between(reads, (first, last), base, rounds)
        }
    });
    let held_bytes = if epochs.len() > 1 { interval_bytes(needs, last - first) } else { 0 };
    // Fits: a base is the present or after it.
    (demand.with(members.collect(), vec![0; rounds], held_bytes), base.max(0) as u64)
}

/// In each round the largest demand of these streams.
fn most_of_all(reads: &[DiskDemand], epochs: &[i64], base: i64, rounds: usize) -> Vec<DiskDemand> {
    let mut most = vec![DiskDemand::default(); rounds];
    for epoch in epochs {
        let (skipped, ahead) = ((base - epoch).max(0) as usize, (epoch - base).max(0) as usize);
        let mine = most.iter_mut().skip(ahead).zip(reads.iter().skip(skipped));
        mine.for_each(|(most, read)| *most = most.most(read));
    }
    most
}

/// In each round the largest demand of a stream at any place between the first and the last. It is
/// never less than [`most_of_all`], and takes as long for any number of streams.
fn most_between(
    reads: &[DiskDemand],
    (first, last): (i64, i64),
    base: i64,
    rounds: usize,
) -> Vec<DiskDemand> {
    let most = |part: fn(&DiskDemand) -> u64| -> Vec<u64> {
        // Candidates for the largest, in descending order; each is later than the one before it.
        let mut window: VecDeque<(i64, u64)> = VecDeque::new();
        let mut next = (base - last).max(0);
        let at_round = |round: usize| {
            let (from, until) = (base + round as i64 - last, base + round as i64 - first);
            while next <= until && next < reads.len() as i64 {
                let value = part(&reads[next as usize]);
                while window.pop_back_if(|(_, smaller)| *smaller <= value).is_some() {}
                window.push_back((next, value));
                next += 1;
            }
            while window.pop_front_if(|(place, _)| *place < from).is_some() {}
            window.front().map_or(0, |(_, value)| *value)
        };
        (0..rounds).map(at_round).collect()
    };
    let (requests, seeks, bytes) =
        (most(|read| read.reads.into()), most(|read| read.seeks.into()), most(|read| read.bytes));
    let all = requests.into_iter().zip(seeks).zip(bytes);
    // Fits: they were 32 bits.
    all.map(|((reads, seeks), bytes)| DiskDemand { reads: reads as u32, seeks: seeks as u32, bytes })
        .collect()
}

/// The most bytes in memory between two streams, with what the first one's client fetches ahead,
/// and with a reader's window for the units that both ends cut.
pub(super) fn interval_bytes(demand: &Demand, lag: i64) -> u64 {
    let width = usize::try_from(lag).unwrap_or(0).saturating_add(REACH_ROUNDS);
    let sent = demand.sent_bytes();
    let (mut sum, mut most) = (0_u64, 0);
    for (round, bytes) in sent.iter().enumerate() {
        sum = sum.saturating_add(*bytes);
        if let Some(before) = round.checked_sub(width) {
            sum = sum.saturating_sub(sent[before]);
        }
        most = most.max(sum);
    }
    most.saturating_add(demand.held_bytes())
}

/// The round of media time 0.
pub(super) fn epoch(start: DemandStart) -> i64 {
    signed(start.start_round).saturating_sub(signed(start.from_round as u64))
}

/// Rounds as a signed number. A clock of nanoseconds in 64 bits stays far below the limit.
pub(super) fn signed(rounds: u64) -> i64 {
    i64::try_from(rounds).unwrap_or(i64::MAX / 4)
}
