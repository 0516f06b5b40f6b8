//! Titles as playable things, and the engine that delivers them.
//!
//! A front end opens a session for a title ([`open_session`]). It asks the
//! [`Engine`] of its thread how each request is delivered ([`Engine::policy`]), and opens a
//! delivery. The engine reads, orders and accounts; the front end moves bytes. This crate does no
//! I/O, reads no clock and starts no thread: HTTP, programs on this machine and the simulator drive
//! the same engine.
#![forbid(unsafe_code)]

mod capacity;
mod counters;
mod engine;
mod files;
mod housekeeping;
mod late;
pub mod limits;
mod memory_plan;
mod metrics;
mod offers;
mod opening;
mod playable;
mod policy;
mod processor;
mod pushed;
mod slots;
mod step_source;
mod texts;
mod title;
mod transfers;
mod transport;
mod uplink;

pub use capacity::{Capacity, CapacityConfig, network_bytes};
pub use counters::{FrontEndCounters, PlayCounters, RESOURCES};
pub use engine::{
    DeliveryId, DeliveryOrder, DeliveryReport, Engine, Event, NetworkPath, NewDelivery, Readiness,
};
pub use files::{MANIFEST_TYPE, PLAYLIST_TYPE, SessionFile, TitleFile, Unwritten};
pub use housekeeping::Housekeeper;
pub use late::{LateViewer, LateViewers};
pub use memory_plan::{MemoryPlan, MemoryUse};
pub use metrics::{PlayMetrics, TitleMetrics};
pub use offers::{FilePart, Ladder, LadderTrack, file_demand, title_demand};
pub use opening::{NewSession, SessionRefused, change_class, open_session, resume_session};
pub use playable::{Form, MediaRequest, PlainFile, Playable, Segment};
pub use policy::{Decided, DeliveryPolicy, StepTerms};
pub use processor::ProcessorPrice;
pub use pushed::{PushedStream, PushedTimes, SlotPiece, pushed_packet_bytes};
pub use slots::Slots;
pub use step_source::{Cut, StepSource, StepTimes, TitlePart};
pub use title::PlayableTitle;
pub use transfers::{MachineTime, TransferPause, TransferSchedule, TransferTurns, TransferWork};
pub use uplink::{
    FlowMeter, FlowSample, MaySend, SendTerms, Uplink, UplinkGate, UplinkPort, UplinkRate, UplinkSender,
    UplinkView, uplink_client,
};
