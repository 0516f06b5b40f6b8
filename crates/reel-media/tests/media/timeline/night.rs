//! Many more timelines.

use super::{
    holds, in_joined_ts, in_matroska, in_mp4, in_ts, is_right_in_joined_ts, is_right_in_matroska,
    is_right_in_mp4, is_right_in_ts,
};

const AT_NIGHT: u32 = 5_000;

#[test]
#[ignore = "night"]
fn many_timelines_in_mp4() {
    holds(AT_NIGHT, in_mp4(), is_right_in_mp4);
}

#[test]
#[ignore = "night"]
fn many_timelines_in_matroska() {
    holds(AT_NIGHT, in_matroska(), is_right_in_matroska);
}

#[test]
#[ignore = "night"]
fn many_timelines_in_transport_streams() {
    holds(AT_NIGHT, in_ts(), is_right_in_ts);
}

#[test]
#[ignore = "night"]
fn many_joined_timelines_in_transport_streams() {
    holds(AT_NIGHT, in_joined_ts(), is_right_in_joined_ts);
}
