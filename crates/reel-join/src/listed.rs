//! The outlets of one session, as they are listed. Pure.

use crate::destination::Destination;
use crate::limits::OUTLETS_MAX;
use crate::outlet::SharedOutlet;
use crate::refused::JoinRefused;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Outlets {
    next: u64,
    lease: Option<Lease>,
    pub(crate) outlets: BTreeMap<u64, Arc<SharedOutlet>>,
    /// Those that are to take the place of the one with the same number.
    replacing: BTreeMap<u64, Arc<SharedOutlet>>,
}

/// The outlets of a session end unless their client asks for them now and then.
#[derive(Clone, Copy)]
struct Lease {
    ns: u64,
    until_ns: u64,
}

impl Outlets {
    /// Its client asks for the outlets within every `ns` from now on.
    pub(crate) fn lease(&mut self, ns: u64, now_ns: u64) {
        self.lease = Some(Lease { ns, until_ns: now_ns.saturating_add(ns) });
    }

    /// Its client has asked for them.
    pub(crate) fn renew(&mut self, now_ns: u64) {
        if let Some(Lease { ns, .. }) = self.lease {
            self.lease(ns, now_ns);
        }
    }

    /// Whether its client has not asked for them in time.
    pub(crate) fn is_forsaken(&self, now_ns: u64) -> bool {
        self.lease.is_some_and(|lease| lease.until_ns < now_ns)
    }

    /// Lists a new outlet. The oldest one that has ended leaves the list for it if need be.
    pub(crate) fn add(
        &mut self,
        (to, destination): (&str, &Destination),
        has_deadlines: bool,
    ) -> Result<Arc<SharedOutlet>, JoinRefused> {
        self.check_link(destination, has_deadlines, None)?;
        if self.outlets.len() >= OUTLETS_MAX {
            let ended = self.outlets.values().find(|outlet| outlet.has_ended());
            let ended = ended.map(|outlet| outlet.number).ok_or(JoinRefused::TooManyOfSession)?;
            self.outlets.remove(&ended);
        }
        let outlet = Arc::new(SharedOutlet::new(self.next, to.to_owned(), destination));
        self.next += 1;
        self.outlets.insert(outlet.number, Arc::clone(&outlet));
        Ok(outlet)
    }

    /// Notes an outlet that is to take the place of another one.
    pub(crate) fn replace(
        &mut self,
        number: u64,
        (to, destination): (&str, &Destination),
        has_deadlines: bool,
    ) -> Result<Arc<SharedOutlet>, JoinRefused> {
        let is_open = self.outlets.get(&number).is_some_and(|outlet| !outlet.has_ended());
        if !is_open {
            return Err(JoinRefused::NoSuchOutlet(number));
        }
        if self.replacing.contains_key(&number) {
            return Err(JoinRefused::BeingReplaced(number));
        }
        self.check_link(destination, has_deadlines, Some(number))?;
        let outlet = Arc::new(SharedOutlet::new(number, to.to_owned(), destination));
        self.replacing.insert(number, Arc::clone(&outlet));
        Ok(outlet)
    }

    /// An outlet that was noted is played into, or not. It ends if the one whose place it was to
    /// take was removed meanwhile.
    pub(crate) fn replaced(&mut self, number: u64, is_played: bool) {
        let Some(outlet) = self.replacing.remove(&number) else { return };
        match self.outlets.get_mut(&number) {
            Some(listed) if is_played => *listed = outlet,
            _ => outlet.remove(),
        }
    }

    /// Whether one that is open sends datagrams there, or is about to; other than that one.
    pub(crate) fn is_any_to(&self, to: SocketAddr, but: Option<u64>) -> bool {
        self.open(but).any(|outlet| outlet.datagrams_to == Some(to))
    }

    /// An address among those that one that is open sends datagrams to, or is about to.
    pub(crate) fn sends_where(&self, is_asked: &dyn Fn(SocketAddr) -> bool) -> Option<SocketAddr> {
        self.open(None).filter_map(|outlet| outlet.datagrams_to).find(|to| is_asked(*to))
    }

    /// What is reserved for a session with deadlines is for one other machine.
    fn check_link(
        &self,
        destination: &Destination,
        has_deadlines: bool,
        but: Option<u64>,
    ) -> Result<(), JoinRefused> {
        let is_any = || self.open(but).any(|outlet| outlet.uplink_client.is_some());
        if has_deadlines && destination.uplink_client().is_some() && is_any() {
            return Err(JoinRefused::OneOnLink);
        }
        Ok(())
    }

    fn open(&self, but: Option<u64>) -> impl Iterator<Item = &Arc<SharedOutlet>> {
        let listed = self.outlets.values().chain(self.replacing.values());
        listed.filter(move |outlet| Some(outlet.number) != but && !outlet.has_ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outlet::OutletState;

    fn to(text: &str) -> (&str, Destination) {
        (text, Destination::parse(text).expect(text))
    }

    fn add(outlets: &mut Outlets, text: &str) -> Result<u64, JoinRefused> {
        let (text, destination) = to(text);
        outlets.add((text, &destination), true).map(|outlet| outlet.number)
    }

    fn replace(outlets: &mut Outlets, number: u64, text: &str) -> Result<Arc<SharedOutlet>, JoinRefused> {
        let (text, destination) = to(text);
        outlets.replace(number, (text, &destination), true)
    }

    #[test]
    fn a_lease_is_renewed_by_each_question() {
        let mut outlets = Outlets::default();
        outlets.renew(5);
        assert!(!outlets.is_forsaken(u64::MAX), "there is none");
        outlets.lease(10, 100);
        assert!(!outlets.is_forsaken(110) && outlets.is_forsaken(111));
        outlets.renew(105);
        assert!(!outlets.is_forsaken(115) && outlets.is_forsaken(116));
        outlets.lease(u64::MAX, 7);
        assert!(!outlets.is_forsaken(u64::MAX));
    }

    #[test]
    fn an_outlet_is_replaced_by_one_at_a_time() {
        let mut outlets = Outlets::default();
        assert_eq!(add(&mut outlets, "file:a").expect("room"), 0);
        let first = replace(&mut outlets, 0, "file:b").expect("it is open");
        assert!(matches!(replace(&mut outlets, 0, "file:c"), Err(JoinRefused::BeingReplaced(0))));
        assert_eq!(outlets.outlets[&0].to, "file:a", "until the other one is played into");
        outlets.replaced(0, false);
        assert!(first.is_unwanted() && outlets.outlets[&0].to == "file:a");
        let second = replace(&mut outlets, 0, "file:c").expect("the first one has failed");
        outlets.replaced(0, true);
        assert!(!second.is_unwanted() && outlets.outlets[&0].to == "file:c");
        second.ends(OutletState::Complete);
        assert!(matches!(replace(&mut outlets, 0, "file:d"), Err(JoinRefused::NoSuchOutlet(0))));
        assert!(matches!(replace(&mut outlets, 7, "file:d"), Err(JoinRefused::NoSuchOutlet(7))));
    }

    #[test]
    fn one_whose_place_is_gone_ends() {
        let mut outlets = Outlets::default();
        add(&mut outlets, "file:a").expect("room");
        let other = replace(&mut outlets, 0, "file:b").expect("it is open");
        outlets.outlets.remove(&0);
        outlets.replaced(0, true);
        assert!(other.is_unwanted() && outlets.outlets.is_empty());
    }

    #[test]
    fn one_that_is_about_to_begin_counts_as_open() {
        let mut outlets = Outlets::default();
        add(&mut outlets, "file:a").expect("room");
        add(&mut outlets, "file:b").expect("room");
        let group = "239.1.1.1:5000".parse().expect("an address");
        replace(&mut outlets, 0, "udp:239.1.1.1:5000").expect("none leads to another machine");
        assert!(outlets.is_any_to(group, None) && outlets.is_any_to(group, Some(1)));
        assert!(!outlets.is_any_to(group, Some(0)));
        // What is reserved is for one, and the one that is replaced needs it no longer.
        assert!(matches!(replace(&mut outlets, 1, "tcp:192.0.2.7:5000"), Err(JoinRefused::OneOnLink)));
        assert!(matches!(add(&mut outlets, "tcp:192.0.2.7:5000"), Err(JoinRefused::OneOnLink)));
        outlets.replaced(0, true);
        replace(&mut outlets, 0, "tcp:192.0.2.7:5000").expect("in place of the other one");
    }
}
