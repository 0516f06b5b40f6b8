//! Outlets that send nothing.

use crate::wire::{NewOutlet, OtherDestination, Outlet, OutletStage};
use crate::{OutletRefusal, OutletService};
use reel_admit::Client;
use std::sync::Mutex;

/// Outlets of the session `k0`, into which nothing is sent.
#[derive(Default)]
pub(super) struct FakeOutlets(Mutex<Vec<Outlet>>);

impl OutletService for FakeOutlets {
    fn add(&self, key: &str, wanted: NewOutlet, _: Client) -> Result<Outlet, OutletRefusal> {
        let detail = || wanted.to.clone();
        match wanted.to.as_str() {
            _ if key != "k0" => return Err(OutletRefusal::NoSuchSession),
            "impossible" => return Err(OutletRefusal::Impossible(detail())),
            "denied" => return Err(OutletRefusal::NotAllowed(detail())),
            "taken" => return Err(OutletRefusal::Taken(detail())),
            "many" => return Err(OutletRefusal::TooMany(detail())),
            "busy" => return Err(OutletRefusal::Unavailable { detail: detail(), retry_after_s: 5 }),
            "full" => return Err(OutletRefusal::NoSpace(detail())),
            _ => {}
        }
        let mut outlets = self.0.lock().expect("lock");
        let outlet = Outlet {
            number: outlets.len() as u64,
            to: wanted.to,
            state: OutletStage::Joined,
            reason: None,
            from_byte: wanted.from_byte.unwrap_or(0),
            bytes: 0,
            late_bytes: 0,
            run_bytes: 0,
            pause_ms: 0.0,
        };
        outlets.push(outlet.clone());
        Ok(outlet)
    }

    fn replace(
        &self,
        key: &str,
        number: u64,
        wanted: OtherDestination,
        _: Client,
    ) -> Result<Outlet, OutletRefusal> {
        if wanted.to == "taken" {
            return Err(OutletRefusal::Taken(wanted.to));
        }
        let mut outlets = self.0.lock().expect("lock");
        let outlet = outlets.iter_mut().find(|outlet| key == "k0" && outlet.number == number);
        let outlet = outlet.ok_or(OutletRefusal::NoSuchOutlet(wanted.to.clone()))?;
        outlet.to = wanted.to;
        Ok(outlet.clone())
    }

    fn list(&self, key: &str) -> Option<Vec<Outlet>> {
        (key == "k0").then(|| self.0.lock().expect("lock").clone())
    }

    fn remove(&self, key: &str, number: u64) -> bool {
        let mut outlets = self.0.lock().expect("lock");
        let before = outlets.len();
        outlets.retain(|outlet| key != "k0" || outlet.number != number);
        outlets.len() < before
    }
}
