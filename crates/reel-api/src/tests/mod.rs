//! The router as a whole, over titles held in memory.

mod api;
mod connection;
mod fake;
mod http2;
mod openapi;
mod promises;
mod uploads;
