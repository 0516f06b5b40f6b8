//! Volumes that are written, damaged, rebuilt and cut off at every write.

mod crash;
mod damage;
mod faults;
mod rebuild;
mod round_trip;
mod volumes;
