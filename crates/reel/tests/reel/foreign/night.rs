//! All films, in every form, for every foreign player; and the whole browser suite.

use crate::foreign::browser::assert_suite_passes;
use crate::foreign::changes::{CHANNELS, Changing, assert_played};
use crate::foreign::damage::{HARMS, assert_no_member_is_needed};
use crate::foreign::films::{FILMS, Film};
use crate::foreign::gstreamer::assert_every_frame_is_shown;
use crate::foreign::odd::{
    assert_films_that_pause_and_end_early_are_right, assert_joined_and_far_cut_films_are_right,
};
use crate::foreign::players::{assert_plays_as_the_source, assert_subtitles_are_webvtt};
use crate::foreign::rig::shared_at_night;
use reel_compare::Form;

fn all() -> Vec<&'static Film> {
    FILMS.iter().collect()
}

#[test]
#[ignore = "night"]
fn every_film_as_a_file_is_the_source() {
    assert_plays_as_the_source(shared_at_night(), &all(), Form::Progressive);
}

#[test]
#[ignore = "night"]
fn every_film_by_hls_is_the_source() {
    assert_plays_as_the_source(shared_at_night(), &all(), Form::Hls);
}

#[test]
#[ignore = "night"]
fn every_film_by_dash_is_the_source() {
    assert_plays_as_the_source(shared_at_night(), &all(), Form::Dash);
}

#[test]
#[ignore = "night"]
fn subtitles_of_every_film_are_served_as_webvtt() {
    assert_subtitles_are_webvtt(shared_at_night(), &all());
}

#[test]
#[ignore = "night"]
fn hlsdemux2_shows_every_frame_of_every_film() {
    assert_every_frame_is_shown(shared_at_night(), &all(), "master.m3u8");
}

#[test]
#[ignore = "night"]
fn dashdemux2_shows_every_frame_of_every_film() {
    assert_every_frame_is_shown(shared_at_night(), &all(), "manifest.mpd");
}

#[test]
#[ignore = "night"]
fn the_whole_browser_suite_passes_against_the_real_server() {
    assert_suite_passes(&[]);
}

#[test]
#[ignore = "night"]
fn no_single_member_is_needed() {
    assert_no_member_is_needed(0..HARMS.len());
}

#[test]
#[ignore = "night"]
fn players_show_the_right_pictures_of_joined_and_far_cut_films() {
    assert_joined_and_far_cut_films_are_right();
}

#[test]
#[ignore = "night"]
fn players_show_the_right_pictures_of_films_that_pause_and_end_early() {
    assert_films_that_pause_and_end_early_are_right();
}

#[test]
#[ignore = "night"]
fn players_pass_changes_of_every_kind() {
    assert_played(
        &[
            CHANNELS,
            Changing::at_once("rate", &["-c:a aac -ar 48000", "-c:a aac -ar 44100"]),
            Changing::at_once("size", &["-c:a aac", "-c:a aac -s 320x180"]),
            Changing::at_once("back", &["-c:a aac -ac 2", "-c:a aac -ac 6", "-c:a aac -ac 2"]),
            Changing::at_once(
                "size-and-sound",
                &["-c:a aac -ac 6", "-c:a aac -ac 2 -s 320x180", "-c:a aac -ac 6"],
            ),
        ],
        false,
    );
}
