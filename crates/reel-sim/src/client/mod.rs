//! Clients: what they ask for and when. Pure state machines; the world gives them time and bytes.

mod player;

pub use player::Touch;
pub use player::{Player, PlayerSpec, Want};
