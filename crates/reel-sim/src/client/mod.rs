//! Clients: what they ask for and when. Pure state machines; the simulation gives them time and
//! bytes.

mod player;

pub use player::PlayerControl;
pub use player::{Player, PlayerSpec, Want};
