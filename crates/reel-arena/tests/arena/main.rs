//! Memory that is taken, lent and shared, and every order in which its two sides may meet.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod mms_orders;
mod pieces;
mod shared;
