//! The router as a whole, over titles held in memory.

mod admission;
mod api;
mod connection;
mod fake;
mod http2;
mod openapi;
mod uploads;
