//! How much one client may hold.
//!
//! A client is bound by what it leaves to others. With a share of `s` thousandths, its streams
//! hold at most `s / (1000 - s)` times what stays free, of each resource and in each round. So a
//! client that is alone holds `s` thousandths of the machine. A client that holds nothing is bound
//! by nothing: with one stream each, clients use the machine up to its end.
//!
//! What a client holds is not taken back when others come, so `n` greedy clients that come one
//! after another would leave `((1000 - s) / 1000)^n` free, soon less than one stream. Of each
//! resource, [`NEWCOMERS_PART`] therefore stays free beside each stream of a client that has one.
//!
//! What a client holds is counted with the mean of each demand over its rounds. What is free is
//! compared in each round. (This is the dynamic threshold of shared-memory switches: Choudhury and
//! Hahne, IEEE/ACM Transactions on Networking 6(2), 1998.)

use crate::claim::{Claim, DemandStart};
use crate::ledger::Ledger;
use crate::limits::NEWCOMERS_PART;
use crate::price::DiskPrice;
use crate::resource::Resource;
use crate::{AdmitError, Demand, Refusal, Sender};

/// The part of an idle machine that one client may hold, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientShare(u32);

/// What a client, or one of its streams, holds of each resource on average: by the place of the
/// resource in the ledger, in the unit of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeanCosts(Vec<u64>);

/// The stream would fit, but its client would hold more than its share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the share of this client in {} is used up: its streams hold {}, and this one needs {} more in one second; one client may hold at most {:.1} times what it leaves free, and one part in {} stays free for clients without a stream, which allows for {} more; {}",
    refusal.resource, refusal.resource.amount(*held), refusal.resource.amount(refusal.asked),
    share.times_free(), NEWCOMERS_PART, refusal.resource.amount(refusal.available), self.help()
)]
pub struct ShareRefusal {
    /// What is short for this client.
    pub refusal: Refusal,
    /// What its other streams hold of that, on average.
    pub held: u64,
    /// The share that is kept.
    pub share: ClientShare,
}

/// A stream of a client that asks for a reservation.
#[derive(Clone, Copy, Debug)]
pub struct ShareClaim<'a> {
    /// Its class, and the front end that sends it.
    pub sender: Sender,
    /// What it will be charged with.
    pub demand: &'a Demand,
    /// From where on, and when.
    pub start: DemandStart,
    /// What the stream holds already, which it gives back.
    pub had: Option<&'a MeanCosts>,
    /// What it holds is charged to another class. Media memory, which all classes share, it gives
    /// back all the same.
    pub changes_class: bool,
    /// What the client's streams hold together, with this one.
    pub held: &'a MeanCosts,
}

impl ClientShare {
    /// One client may hold everything.
    pub const ALL: ClientShare = ClientShare(1000);

    /// So many thousandths of an idle machine, 1 to 1000.
    pub fn permille(permille: u32) -> ClientShare {
        ClientShare(permille.clamp(1, 1000))
    }

    /// Whether a client may hold so much while so much is free.
    pub fn allows(self, held: u64, free: u64) -> bool {
        u128::from(held) * u128::from(1000 - self.0) <= u128::from(free) * u128::from(self.0)
    }

    /// How many times what it leaves free a client may hold.
    fn times_free(self) -> f64 {
        f64::from(self.0) / f64::from((1000 - self.0).max(1))
    }

    /// What must stay free beside a client that holds this.
    fn kept(self, held: u64) -> u64 {
        let kept = u128::from(held) * u128::from(1000 - self.0) / u128::from(self.0);
        u64::try_from(kept).unwrap_or(u64::MAX)
    }
}

impl MeanCosts {
    /// Adds those of another stream.
    pub fn add(&mut self, other: &MeanCosts) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }

    /// Subtracts those of a stream that was added.
    pub fn subtract(&mut self, other: &MeanCosts) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, less)| *sum = sum.saturating_sub(*less));
    }

    fn of(&self, series: usize) -> u64 {
        self.0.get(series).copied().unwrap_or(0)
    }
}

impl ShareRefusal {
    /// What to do about it. The message ends with it.
    pub fn help(&self) -> String {
        match self.refusal.retry_after_s {
            Some(seconds) => format!("end another stream of this client, or try again in {seconds} s"),
            None => "end another stream of this client".to_owned(),
        }
    }
}

impl Ledger {
    /// What a demand that a front end sends costs of each resource in a round, on average, at the
    /// present prices.
    pub fn mean_costs(&self, demand: &Demand, front_end: usize) -> MeanCosts {
        let of = |series| self.mean_cost(demand, front_end, Resource::of_series(series));
        MeanCosts((0..self.capacities.series()).map(of).collect())
    }

    /// Whether a client stays within its share with this stream, if the stream fits at all.
    ///
    /// # Errors
    /// [`AdmitError::Share`].
    pub fn check_share(&self, share: ClientShare, asked: &ShareClaim<'_>) -> Result<(), AdmitError> {
        let &ShareClaim { sender, demand, start, had, changes_class, held } = asked;
        let others = |series| held.of(series).saturating_sub(had.map_or(0, |had| had.of(series)));
        let needs = self.mean_costs(demand, sender.front_end);
        let series = 0..self.capacities.series();
        let grows = changes_class
            || series.clone().any(|series| needs.of(series) > had.map_or(0, |had| had.of(series)));
        if share == ClientShare::ALL || !grows || series.clone().all(|series| others(series) == 0) {
            return Ok(());
        }
        let kept: Vec<u64> = series
            .map(|series| {
                let newcomers = self.capacity(sender.class, series) / NEWCOMERS_PART;
                let kept = share.kept(others(series).saturating_add(needs.of(series))).max(newcomers);
                // The ledger still counts what the stream gives back.
                let is_given_back = !changes_class || Resource::of_series(series) == Resource::Arena;
                kept.saturating_sub(had.filter(|_| is_given_back).map_or(0, |had| had.of(series)))
            })
            .collect();
        let claim = self.claim(sender, demand, start.from_round, start.start_round)?;
        let Err(refusal) = self.require(&Claim { kept: &kept, ..claim }) else { return Ok(()) };
        // Where it does not fit at all, the ledger says so. The memory of a stream that changes its
        // class is still counted.
        if had.is_none() || changes_class {
            match self.require(&claim) {
                Err(refusal) if had.is_none() || refusal.resource != Resource::Arena => return Ok(()),
                _ => {}
            }
        }
        let held = others(refusal.resource.series());
        Err(AdmitError::Share(Box::new(ShareRefusal { refusal, held, share })))
    }

    fn mean_cost(&self, demand: &Demand, front_end: usize, resource: Resource) -> u64 {
        let prices = &self.capacities;
        if !prices.counts(resource) {
            return 0;
        }
        let rounds = demand.sent_bytes().len().max(1) as u64;
        let total = match resource {
            Resource::Arena => return demand.held_bytes(),
            Resource::Network if prices.is_local(front_end) => 0,
            Resource::Network => demand.sent_total(),
            Resource::Core => {
                let read_mib_ns = prices.core_mib_ns_of(front_end);
                DiskPrice { read_mib_ns, ..DiskPrice::FREE }.read_ns(demand.sent_total())
            }
            Resource::Member(member) | Resource::MemberBytes(member) => {
                let part = usize::from(matches!(resource, Resource::MemberBytes(_)));
                let price = prices.members.get(member).map(|member| member.price);
                price.map_or(0, |price| price.demand_parts_ns(&demand.reads_total(member))[part])
            }
        };
        total.div_ceil(rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROUND_NS;
    use crate::{Capacities, Class};
    use std::sync::Arc;

    /// A network of 1000 bytes in a round for the periodic class.
    fn ledger() -> Ledger {
        let capacities = Capacities {
            members: Vec::new(),
            network_bytes: 1177,
            core_ns: ROUND_NS,
            core_mib_ns: Vec::new(),
            local_front_ends: Vec::new(),
            arena_bytes: 1 << 30,
        };
        Ledger::new(capacities, 100)
    }

    fn sends(bytes: u64) -> Arc<Demand> {
        Arc::new(Demand::new(Vec::new(), vec![bytes; 10], 0))
    }

    const NOW: DemandStart = DemandStart::new(0, 0);

    /// Admits streams of so many bytes for one client until its share is used up; returns what the
    /// client holds then, and the refusal.
    fn fill(ledger: &mut Ledger, share: ClientShare, bytes: u64) -> (u64, AdmitError) {
        let demand = sends(bytes);
        let costs = ledger.mean_costs(&demand, 0);
        let mut held = MeanCosts::default();
        loop {
            let asked = ShareClaim {
                sender: Class::PERIODIC.into(),
                demand: &demand,
                start: NOW,
                had: None,
                changes_class: false,
                held: &held,
            };
            let granted = ledger.check_share(share, &asked);
            match granted.and_then(|()| ledger.admit(Class::PERIODIC, &demand, 0, 0, "")) {
                Ok(_) => held.add(&costs),
                Err(refused) => return (held.of(Resource::Network.series()), refused),
            }
        }
    }

    #[test]
    fn a_client_alone_holds_its_share_and_the_next_one_the_same_part_of_what_is_left() {
        let mut ledger = ledger();
        let share = ClientShare::permille(750);
        let (first, refused) = fill(&mut ledger, share, 10);
        assert_eq!(first, 750);
        let AdmitError::Share(refused) = refused else { panic!("{refused}") };
        assert_eq!((refused.held, refused.refusal.resource), (750, Resource::Network));
        assert_eq!(refused.refusal.available, 0, "what is left stays free for others");
        let text = refused.to_string();
        assert!(
            text.contains("at most 3.0 times what it leaves free") && text.ends_with(&refused.help()),
            "{text}"
        );
        assert_eq!(fill(&mut ledger, share, 20).0, 140, "a part stays for clients without a stream");
    }

    #[test]
    fn greedy_clients_leave_a_part_for_clients_without_a_stream() {
        let mut ledger = ledger();
        let share = ClientShare::permille(750);
        let held: Vec<u64> = (0..3).map(|_| fill(&mut ledger, share, 10).0).collect();
        assert_eq!(held, [750, 150, 10], "the third one has nothing but its first stream");
        let newcomers: Vec<u64> = (0..10).map(|_| fill(&mut ledger, share, 10).0).collect();
        assert_eq!(newcomers, [10, 10, 10, 10, 10, 10, 10, 10, 10, 0]);
    }

    #[test]
    fn clients_with_one_stream_each_use_all_of_it() {
        let mut ledger = ledger();
        for _ in 0..10 {
            let held = MeanCosts::default();
            let demand = sends(100);
            let asked = ShareClaim {
                sender: Class::PERIODIC.into(),
                demand: &demand,
                start: NOW,
                had: None,
                changes_class: false,
                held: &held,
            };
            ledger.check_share(ClientShare::permille(1), &asked).unwrap();
            ledger.admit(Class::PERIODIC, &demand, 0, 0, "").unwrap();
        }
    }

    #[test]
    fn without_a_bound_one_client_holds_all_and_the_ledger_refuses() {
        let (held, refused) = fill(&mut ledger(), ClientShare::ALL, 10);
        assert!(held == 1000 && matches!(refused, AdmitError::Refused(_)), "{refused}");
    }

    #[test]
    fn a_stream_that_moves_is_not_refused_and_one_that_grows_counts_what_it_gives_back() {
        let mut ledger = ledger();
        let share = ClientShare::permille(500);
        let (small, large) = (sends(200), sends(300));
        let costs = ledger.mean_costs(&small, 0);
        let mut held = costs.clone();
        held.add(&costs);
        for _ in 0..2 {
            ledger.admit(Class::PERIODIC, &small, 0, 0, "").unwrap();
        }
        ledger.admit(Class::PERIODIC, &sends(600), 0, 0, "of another client").unwrap();
        let check = |ledger: &Ledger, demand: &Demand| {
            let asked = ShareClaim {
                sender: Class::PERIODIC.into(),
                demand,
                start: NOW,
                had: Some(&costs),
                changes_class: false,
                held: &held,
            };
            ledger.check_share(share, &asked)
        };
        check(&ledger, &small).unwrap();
        assert!(matches!(check(&ledger, &large), Err(AdmitError::Share(_))));
    }
}
