//! The JSON of the API as types: the one source of the answers, of the OpenAPI document, and of the
//! web client's `types.ts`.
//!
//! A comment on a type or a field here is its description in the document and in the web client.
//! Units are in the names of the fields.

mod cast_plans;
mod casts;
mod dashboard;
mod outlets;
mod pours;
mod problem;
mod resource;
mod server;
mod sessions;
mod titles;
mod watch;

pub use cast_plans::{CastChannel, CastClient, CastPlan, CastPlans, CastSegment, CastSlots};
pub use casts::{Cast, CastFec, CastList, CastMatrix, CastSchedule, CastStage, NewCast};
pub use dashboard::{
    Capacity, ClassUse, Dashboard, DashboardCasts, DashboardVolume, LateRequest, Member, MemberClass, Price,
    RefusalCount, ResourceUnit, ResourceUse,
};
pub use outlets::{NewOutlet, Outlet, OutletList, OutletStage};
pub use pours::{OpenPouredSession, Pour, PourList, PouredSession};
pub use problem::ProblemBody;
pub use resource::{ResourceCode, ResourceId};
pub use server::{JobList, Readiness, ReadinessCheck, Replacement};
pub use sessions::{ListedSession, OpenSession, Session, SessionChange, SessionList};
pub use titles::{
    AddedSubtitles, AudioTrack, FileForm, FileStretch, FileTimes, FileTimesQuery, SourceFile, SubtitleTrack,
    Title, TitleChange, TitleList, VideoTrack, WatchAddresses,
};
pub use watch::{Watch, WatchFile, WatchFileState};
