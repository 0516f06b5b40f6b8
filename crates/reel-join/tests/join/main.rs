//! Joins without a server: what branches of one chain get, and what they cost each other.

mod pace;
mod paced_branches;
mod tee;
