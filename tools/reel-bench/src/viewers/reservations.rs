//! What Reel says of its promises while viewers are there.

use crate::api;
use anyhow::Result;
use std::net::SocketAddr;

/// How much of each resource is reserved, and which resource was exhausted when a viewer was
/// refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// The greatest of all members.
    pub(super) member: f64,
    pub(super) core: f64,
    pub(super) arena: f64,
    /// Viewers that find in memory what others have read, and the part of the memory that is
    /// reserved for them.
    pub(super) followers: f64,
    pub(super) kept: f64,
    /// Resource, and how often it was the reason of a refusal.
    refusals: Vec<(String, u64)>,
}

impl Reservations {
    /// As a server stands now.
    pub(super) fn fetch(server: SocketAddr) -> Result<Self> {
        let answer = api::get(server, "/api/v1/dashboard")?;
        let number = |name: &str| answer["sharing"][name].as_f64().unwrap_or(0.0);
        let mut reservations = Self { followers: number("followers"), ..Self::default() };
        for resource in answer["resources"].as_array().into_iter().flatten() {
            let (name, used) = (resource["resource"].as_str(), resource["peak_used"].as_f64());
            // A resource of unknown capacity has none in the answer, and is no reason of a refusal.
            let (Some(name), Some(used), Some(capacity)) = (name, used, resource["capacity"].as_f64()) else {
                continue;
            };
            let place = match name {
                "processor" => &mut reservations.core,
                "memory" => &mut reservations.arena,
                "network" => continue,
                _ => &mut reservations.member,
            };
            *place = place.max(used / capacity.max(1.0));
            if name == "memory" {
                reservations.kept = number("kept_bytes") / capacity.max(1.0);
            }
        }
        for refusal in answer["refusals"].as_array().into_iter().flatten() {
            if let (Some(name), Some(count @ 1..)) = (refusal["resource"].as_str(), refusal["count"].as_u64())
            {
                reservations.refusals.push((name.to_owned(), count));
            }
        }
        Ok(reservations)
    }

    /// The most frequent reason of a refusal.
    pub(super) fn stop(&self) -> String {
        let most = self.refusals.iter().max_by_key(|(_, count)| *count);
        most.map_or("an unknown refusal".to_owned(), |(name, _)| format!("what it promises of its {name}"))
    }
}
