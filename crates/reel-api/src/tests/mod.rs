//! The router as a whole, over titles held in memory.

mod admission;
mod api;
mod below;
mod casts;
mod connection;
mod dav;
mod fake;
mod fake_outlets;
mod http2;
mod openapi;
mod outlets;
mod pours;
mod turns;
mod uploads;
