//! A set of streams that is written to files: each call is made once for the whole set.

use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, ClientState, Wanted};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

/// Writes streams to files until all have ended, and holds at most so much of each. Returns the
/// bytes of each.
///
/// # Errors
/// One of them is refused; then none is left open. Or one of them ends early: what came of it is
/// in its file.
pub(crate) fn copy(
    client: &mut Client,
    streams: &[(&str, &File)],
    held_bytes: u64,
) -> Result<Vec<u64>, ClientError> {
    let wanted: Vec<Wanted> =
        streams.iter().map(|(title, _)| Wanted { title: (*title).to_owned(), ..Wanted::default() }).collect();
    let set = open_all(client, &wanted)?;
    client.resize(&set, held_bytes)?;
    let mut bytes = vec![0; set.len()];
    let mut left: Vec<usize> = (0..set.len()).collect();
    while !left.is_empty() {
        let names: Vec<u64> = left.iter().map(|place| set[*place]).collect();
        let files: Vec<(u64, BorrowedFd<'_>)> =
            left.iter().map(|place| (set[*place], streams[*place].1.as_fd())).collect();
        client.read(&names, true)?;
        client.send(&files)?;
        let states = client.state(&names);
        let mut ended = Vec::new();
        for (place, state) in left.iter().zip(&states) {
            bytes[*place] = state.map_or(bytes[*place], |state| state.done_bytes);
            if is_over(*state)? {
                ended.push(set[*place]);
            }
        }
        client.close(&ended)?;
        left.retain(|place| !ended.contains(&set[*place]));
    }
    Ok(bytes)
}

/// Opens all, or none.
fn open_all(client: &mut Client, wanted: &[Wanted]) -> Result<Vec<u64>, ClientError> {
    let (mut set, mut refused) = (Vec::new(), None);
    for opened in client.open(wanted)? {
        match opened {
            Ok(stream) => set.push(stream),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        None => Ok(set),
        Some(error) => {
            client.close(&set)?;
            Err(error)
        }
    }
}

/// Whether all of a stream was written.
fn is_over(state: Option<ClientState>) -> Result<bool, ClientError> {
    match state.map(|state| (state.ending, state.held)) {
        None | Some((Some(Ending::Complete), 0)) => Ok(true),
        Some((None | Some(Ending::Complete), _)) => Ok(false),
        Some((Some(ending), _)) => Err(ClientError::TakenBack(ending)),
    }
}
