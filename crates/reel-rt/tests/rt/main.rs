//! Cores, their tasks and their ends.

mod cores;
mod ends;
mod tasks;
