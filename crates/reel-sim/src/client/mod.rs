//! Clients: what they ask for and when. Pure state machines; the simulation gives them time and
//! bytes.

mod mounted;
mod player;
mod read_ahead;
mod screen;

pub use mounted::{Mounted, MountedControl};
pub use player::PlayerControl;
pub use player::{Player, PlayerSpec, Want};
