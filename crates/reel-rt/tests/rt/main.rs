//! Cores, their tasks and their ends, and processors that several processes share.

mod cores;
mod ends;
mod split;
mod tasks;
