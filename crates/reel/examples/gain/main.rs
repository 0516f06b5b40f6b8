//! A filter for poured sound, in shared memory or between pipes (docs/programs.md):
//! `reel tap --mapped live/left -- reel pour --mapped loud --rate 800k --type audio/L16 -- gain 2`.

mod gain;

use gain::Gain;
use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, InheritedPour};
use std::error::Error;
use std::io::{Read, Write};

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let mut gain = Gain::new(std::env::args().nth(1).ok_or("usage: gain FACTOR")?.parse()?);
    let tap = if_inherited(Client::inherit_tap())?;
    let mut pour = if_inherited(Client::inherit_pour())?;
    let mut filter = |sound: &[u8]| put(pour.as_mut(), &gain.of(sound));
    match tap {
        Some((mut client, streams)) => {
            streams.iter().try_for_each(|stream| read_all(&mut client, *stream, &mut filter))?;
        }
        None => read_input(&mut filter)?,
    }
    match &mut pour {
        Some(pour) => Ok(pour.client.end_pour(pour.stream)?),
        None => Ok(std::io::stdout().flush()?),
    }
}

/// What a command has opened; `None` if there is a pipe instead.
fn if_inherited<T>(taken: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match taken {
        Err(ClientError::NotInherited(_)) => Ok(None),
        taken => taken.map(Some),
    }
}

/// Reads a stream to its end, in the server's memory.
fn read_all(client: &mut Client, stream: u64, filter: &mut impl FnMut(&[u8]) -> Done) -> Done {
    loop {
        for held in client.read(&[stream], true)? {
            let mut sound = Vec::new();
            client.copy(&held, &mut sound);
            // After this it is known that these were the right bytes.
            client.give_back(stream, 1)?;
            filter(&sound)?;
        }
        match client.state(&[stream]).pop().flatten().and_then(|state| state.ending) {
            None => {}
            Some(Ending::Complete) => return Ok(()),
            Some(other) => return Err(other.text().into()),
        }
    }
}

fn read_input(filter: &mut impl FnMut(&[u8]) -> Done) -> Done {
    let (mut sound, mut input) = ([0; 4096], std::io::stdin());
    loop {
        match input.read(&mut sound)? {
            0 => return Ok(()),
            bytes => filter(&sound[..bytes])?,
        }
    }
}

fn put(pour: Option<&mut InheritedPour>, sound: &[u8]) -> Done {
    match pour {
        Some(pour) => Ok(pour.client.put(pour.stream, sound)?),
        None => Ok(std::io::stdout().write_all(sound)?),
    }
}
