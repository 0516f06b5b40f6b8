//! What a ring promises, on both drivers.

mod drivers;
mod trains;
