//! Titles and poured streams as files, read as one set:
//! `to-files reel.sock live/left=left.pcm live/right=right.pcm` (docs/programs.md).

mod copy;

use copy::copy;
use reel_client::Client;
use std::error::Error;
use std::fs::File;

/// What is held of each stream: some messages, so that a slow disk holds none of the others up.
const HELD_BYTES: u64 = 256 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, streams @ ..] = &arguments[..] else {
        return Err("usage: to-files SOCKET TITLE=FILE...".into());
    };
    let mut files = Vec::new();
    for stream in streams {
        let (title, path) = stream.rsplit_once('=').ok_or("a stream is TITLE=FILE")?;
        files.push((title, File::create(path)?));
    }
    let mut client = Client::connect(socket.as_ref())?;
    let set: Vec<(&str, &File)> = files.iter().map(|(title, file)| (*title, file)).collect();
    for ((title, _), bytes) in set.iter().zip(copy(&mut client, &set, HELD_BYTES)?) {
        println!("{title}: {bytes} bytes");
    }
    Ok(())
}
