//! Plays tracks in step: `in-step reel.sock SECONDS TITLE#TRACK=FILE...` (docs/programs.md).

mod play;

use play::{Screen, play};
use reel_client::Client;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Messages that a file or a pipe may be behind. A pipe that takes none has the clock of the set
/// stand.
const BEHIND_MAX: usize = 8;

/// A file or a named pipe, which a thread opens and writes: a player opens its pipes one after the
/// other.
struct ToFile(SyncSender<Vec<u8>>);

impl Screen for ToFile {
    fn show(&mut self, bytes: &[u8]) -> bool {
        self.0.try_send(bytes.to_vec()).is_ok()
    }
}

fn write(path: &str, messages: &Receiver<Vec<u8>>) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    messages.iter().try_for_each(|message| file.write_all(&message))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, seconds, streams @ ..] = &arguments[..] else {
        return Err("usage: in-step SOCKET SECONDS TITLE[#TRACK]=FILE...".into());
    };
    let from_ns = std::time::Duration::try_from_secs_f64(seconds.parse()?)?;
    let from_ns = u64::try_from(from_ns.as_nanos())?;
    let mut threads: Vec<JoinHandle<std::io::Result<()>>> = Vec::new();
    let mut screens = Vec::new();
    for stream in streams {
        let (title, path) = stream.rsplit_once('=').ok_or("a stream is TITLE=FILE")?;
        let (sender, messages) = sync_channel(BEHIND_MAX);
        let path = path.to_owned();
        threads.push(std::thread::spawn(move || write(&path, &messages)));
        screens.push((title, ToFile(sender)));
    }
    let mut client = Client::connect(socket.as_ref())?;
    let mut shown: Vec<(&str, &mut dyn Screen)> =
        screens.iter_mut().map(|(title, screen)| (*title, screen as &mut dyn Screen)).collect();
    let played = play(&mut client, &mut shown, from_ns)?;
    drop(screens);
    for thread in threads {
        thread.join().map_err(|_| "a thread that writes has panicked")??;
    }
    let apart_ms = played.apart_ns / 1_000_000;
    println!("{} messages, at most {apart_ms} ms apart", played.messages);
    Ok(())
}
