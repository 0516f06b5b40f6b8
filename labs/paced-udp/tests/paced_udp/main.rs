//! Packets that are sent at their time: over loopback, and as ffmpeg receives them.

mod judge;
mod loopback;
