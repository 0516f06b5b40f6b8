//! Memory that is taken, lent and shared, and every order in which its two sides may meet.

mod mms_orders;
mod pieces;
mod shared;
