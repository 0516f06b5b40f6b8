//! The router as a whole, over titles held in memory.

mod api;
mod connection;
mod fake;
mod openapi;
mod promises;
mod uploads;
