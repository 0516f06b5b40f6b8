//! The whole corpus, or the variants that `REEL_CORPUS_ONLY` names by number (`7,168`).

use super::assert_served;
use super::variant::{COUNT, Container, Variant};

fn all_of(container: Container) -> Vec<Variant> {
    let only = std::env::var("REEL_CORPUS_ONLY").ok();
    let is_wanted = |variant: &Variant| {
        only.as_ref().is_none_or(|only| only.split(',').any(|number| number == variant.number.to_string()))
    };
    let variants = (0..COUNT).map(Variant::of).filter(|variant| variant.container == container);
    variants.filter(is_wanted).collect()
}

#[test]
#[ignore = "night"]
fn every_mp4() {
    assert_served(&all_of(Container::Mp4));
}

#[test]
#[ignore = "night"]
fn every_fragmented_mp4() {
    assert_served(&all_of(Container::Fragmented));
}

#[test]
#[ignore = "night"]
fn every_mov() {
    assert_served(&all_of(Container::Mov));
}

#[test]
#[ignore = "night"]
fn every_matroska() {
    assert_served(&all_of(Container::Mkv));
}

#[test]
#[ignore = "night"]
fn every_webm() {
    assert_served(&all_of(Container::Webm));
}

#[test]
#[ignore = "night"]
fn every_transport_stream() {
    assert_served(&all_of(Container::Ts));
}

#[test]
#[ignore = "night"]
fn every_stream_of_a_disc() {
    assert_served(&all_of(Container::M2ts));
}
