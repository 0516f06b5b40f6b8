//! The example that writes a set of streams to files.

use crate::server::pours::{pattern, wanted};
use crate::server::rig::Rig;
use copy::copy;
use reel_client::{Client, ClientError};
use std::fs::File;

#[path = "../../../examples/to-files/copy.rs"]
mod copy;

/// Copies these titles to files, and returns what is said and what is in the files.
fn to_files(rig: &Rig, titles: &[&str], held_bytes: u64) -> (Result<Vec<u64>, ClientError>, Vec<Vec<u8>>) {
    let path = |place: usize| rig.path(&format!("{place}.file"));
    let create = |place: usize| File::create(path(place)).expect("created");
    let files: Vec<File> = (0..titles.len()).map(create).collect();
    let set: Vec<(&str, &File)> = titles.iter().copied().zip(&files).collect();
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let copied = copy(&mut client, &set, held_bytes);
    // Nothing is left open, although the program is still connected.
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    (copied, (0..titles.len()).map(|place| std::fs::read(path(place)).expect("read")).collect())
}

/// Titles, and what a program pours beside them, each byte of each. They end at different times.
#[test]
fn a_set_of_streams_is_written_to_files() {
    let rig = Rig::with_memory(192 << 20, |_| {});
    let mut program = Client::connect(&rig.socket()).expect("connected");
    let stream = program.pour(wanted("studio")).expect("poured");
    let bytes = pattern(300_000);
    let (copied, files) = std::thread::scope(|scope| {
        let copying = scope.spawn(|| to_files(&rig, &["film", "live/studio", "film"], 64 << 10));
        rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
        program.put(stream, &bytes).expect("put");
        program.end_pour(stream).expect("ended");
        copying.join().expect("ended")
    });
    let film_bytes = rig.film.len() as u64;
    assert_eq!(copied.expect("copied"), [film_bytes, bytes.len() as u64, film_bytes]);
    assert!(files == [rig.film.clone(), bytes, rig.film.clone()]);
    for held_bytes in [1, 64 << 20] {
        let (copied, files) = to_files(&rig, &["film", "film"], held_bytes);
        assert_eq!(copied.expect("copied"), [film_bytes; 2], "{held_bytes}");
        assert!(files == [rig.film.clone(), rig.film.clone()], "{held_bytes}");
    }
}

/// One that is refused leaves none open; one that breaks off leaves what came.
#[test]
fn a_set_is_written_as_one_or_says_why_not() {
    let rig = Rig::new(|_| {});
    let (refused, files) = to_files(&rig, &["film", "nothing"], 1);
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("there is no title nothing") && files == [b"", b""], "{text}");
    let mut program = Client::connect(&rig.socket()).expect("connected");
    let stream = program.pour(wanted("studio")).expect("poured");
    let (broken, files) = std::thread::scope(|scope| {
        let copying = scope.spawn(|| to_files(&rig, &["live/studio"], 64 << 10));
        rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
        program.put(stream, b"only this").expect("put");
        rig.await_metric("reel_program_bytes_total", |bytes| bytes == 9.0);
        drop(program);
        copying.join().expect("ended")
    });
    assert!(matches!(broken, Err(ClientError::TakenBack(_))), "{broken:?}");
    assert_eq!(files, [b"only this"]);
}
