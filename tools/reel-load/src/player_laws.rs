//! The player against servers in simulated time.

use super::chance::{Purpose, sequence};
use super::player::{Next, Phase, Player, PlayerSettings, Tally};
use reel_testkit::{Media, Piece};
use std::collections::VecDeque;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// What a server does with a request for (track, segment) at a time: when how many bytes come, and
/// whether it says how many.
type Server<'a> = &'a dyn Fn(usize, usize, u64) -> (Vec<(u64, u64)>, bool);

/// What the viewer does at a time.
type Script<'a> = Vec<(u64, &'a dyn Fn(&mut Player, u64))>;

/// A segment that is on its way, and when how many bytes of it come.
type Loading = (usize, VecDeque<(u64, u64)>);

/// What was seen from outside.
#[derive(Debug)]
struct Seen {
    tally: Tally,
    phase: Phase,
    /// Every request: time, track, segment.
    asked: Vec<(u64, usize, usize)>,
    /// Everything that came, per track: time, segment, bytes.
    came: Vec<Vec<(u64, usize, u64)>>,
    ended_ns: u64,
}

/// A track of segments that last so long.
fn media(lasts_ns: &[u64]) -> Rc<Media> {
    let mut borders_ns = vec![0];
    lasts_ns.iter().for_each(|ns| borders_ns.push(borders_ns.last().unwrap() + ns));
    let segments = lasts_ns.iter().map(|_| Piece { uri: "x".into(), range: None }).collect();
    Rc::new(Media { init: None, segments, borders_ns })
}

/// Plays to the end, or until nothing more happens.
fn play(settings: PlayerSettings, tracks: Vec<Rc<Media>>, server: Server, mut script: Script) -> Seen {
    let count = tracks.len();
    let mut player = Player::new(settings, tracks, 0);
    let mut loading: Vec<Option<Loading>> = vec![None; count];
    let (mut asked, mut came) = (Vec::new(), vec![Vec::new(); count]);
    let (mut now_ns, mut generation) = (0, 0);
    script.reverse();
    loop {
        if player.generation() != generation {
            generation = player.generation();
            loading = vec![None; count];
        }
        let mut wake_ns = u64::MAX;
        for (track, slot) in loading.iter_mut().enumerate() {
            if slot.is_none() {
                match player.next(now_ns, track) {
                    Next::Fetch(segment) => {
                        asked.push((now_ns, track, segment));
                        let (arrivals, says_length) = server(track, segment, now_ns);
                        let bytes = arrivals.iter().map(|arrival| arrival.1).sum();
                        player.begin(track, segment, says_length.then_some(bytes));
                        *slot = Some((segment, arrivals.into()));
                    }
                    Next::WaitUntil(at_ns) => wake_ns = wake_ns.min(at_ns),
                    Next::WaitForChange | Next::Done => {}
                }
            }
            if let Some((_, arrivals)) = slot {
                wake_ns = wake_ns.min(arrivals.front().map_or(now_ns, |arrival| arrival.0));
            }
        }
        wake_ns = wake_ns.min(player.next_event_ns().unwrap_or(u64::MAX));
        wake_ns = wake_ns.min(script.last().map_or(u64::MAX, |line| line.0));
        if wake_ns == u64::MAX || player.phase() == Phase::Ended {
            let phase = player.phase();
            return Seen { tally: player.finish(now_ns), phase, asked, came, ended_ns: now_ns };
        }
        now_ns = wake_ns.max(now_ns);
        player.advance(now_ns);
        if script.last().is_some_and(|line| line.0 <= now_ns) {
            let (_, act) = script.pop().unwrap();
            act(&mut player, now_ns);
            continue;
        }
        for (track, slot) in loading.iter_mut().enumerate() {
            let Some((segment, arrivals)) = slot else { continue };
            while let Some((at_ns, bytes)) = arrivals.front().copied().filter(|arrival| arrival.0 <= now_ns) {
                arrivals.pop_front();
                came[track].push((at_ns, *segment, bytes));
                player.received(now_ns, track, bytes);
            }
            if arrivals.is_empty() {
                player.complete(now_ns, track);
                *slot = None;
            }
        }
    }
}

fn settings(startup_ns: u64, buffer_ns: u64) -> PlayerSettings {
    PlayerSettings { startup_ns, buffer_ns }
}

/// 1000 bytes in three parts within 60 ms.
fn prompt(_: usize, _: usize, asked_ns: u64) -> (Vec<(u64, u64)>, bool) {
    (vec![(asked_ns + 20 * MS, 300), (asked_ns + 40 * MS, 300), (asked_ns + 60 * MS, 400)], true)
}

#[test]
fn a_prompt_server_makes_no_viewer_wait() {
    let tracks = vec![media(&[2 * S; 30]), media(&[S; 60])];
    let seen = play(settings(0, 10 * S), tracks, &prompt, vec![]);
    let tally = &seen.tally;
    assert_eq!((seen.phase, tally.startup_ns), (Phase::Ended, Some(60 * MS)));
    assert_eq!((tally.stalls, tally.late_bytes, tally.late_segments, tally.latest_ns), (0, 0, 0, 0));
    assert_eq!((tally.segments, tally.bytes, tally.played_ns), (90, 90_000, 60 * S));
    assert_eq!(seen.ended_ns, 60 * S + 60 * MS);
}

#[test]
fn no_more_is_fetched_than_the_buffer_holds() {
    let seen = play(settings(0, 10 * S), vec![media(&[2 * S; 30])], &prompt, vec![]);
    for (asked_ns, _, segment) in seen.asked {
        let begins_ns = segment as u64 * 2 * S;
        let position_ns = asked_ns.saturating_sub(60 * MS);
        assert!(begins_ns.saturating_sub(position_ns) < 10 * S, "segment {segment} at {asked_ns}");
        // And as soon as there is room: five segments at once, the others when one has been shown.
        assert!(
            asked_ns <= begins_ns.saturating_sub(10 * S) + 60 * MS * 6,
            "segment {segment} at {asked_ns}"
        );
    }
}

#[test]
fn more_startup_is_more_waiting_at_the_start() {
    let seen = play(settings(5 * S, 10 * S), vec![media(&[2 * S; 5])], &prompt, vec![]);
    assert_eq!(seen.tally.startup_ns, Some(180 * MS));
    // More than the buffer, and more than there is.
    let seen = play(settings(100 * S, S), vec![media(&[2 * S; 5])], &prompt, vec![]);
    assert_eq!((seen.phase, seen.tally.startup_ns), (Phase::Ended, Some(300 * MS)));
}

#[test]
fn a_segment_that_is_withheld_is_one_stall_of_that_length() {
    // Segment 3 is due 60 ms + 6 s after the start and comes 2.5 s later, all at once.
    let due_ns = 60 * MS + 6 * S;
    let server = |track, segment, asked_ns| match segment {
        3 => (vec![(due_ns + 2500 * MS, 1000)], true),
        _ => prompt(track, segment, asked_ns),
    };
    let seen = play(settings(0, 30 * S), vec![media(&[2 * S; 6])], &server, vec![]);
    let tally = &seen.tally;
    assert_eq!((tally.stalls, tally.stalled_ns, tally.longest_stall_ns), (1, 2500 * MS, 2500 * MS));
    // Every byte of it was due before it came.
    assert_eq!((tally.late_bytes, tally.late_segments, tally.latest_ns), (1000, 1, 2500 * MS));
    assert_eq!(tally.first_late_ns, Some(due_ns + 2500 * MS));
    assert_eq!((tally.played_ns, seen.ended_ns), (12 * S, 60 * MS + 12 * S + 2500 * MS));
}

#[test]
fn half_a_segment_in_time_is_half_late() {
    // The first half comes in time; the second half when 3/4 of the segment should have been shown.
    let due_ns = 60 * MS + 6 * S;
    let server = |track, segment, asked_ns| match segment {
        3 => (vec![(due_ns - MS, 500), (due_ns + 1500 * MS, 500)], true),
        _ => prompt(track, segment, asked_ns),
    };
    let seen = play(settings(0, 30 * S), vec![media(&[2 * S; 6])], &server, vec![]);
    let tally = &seen.tally;
    // The picture stops where the first byte is missing.
    assert_eq!((tally.stalls, tally.stalled_ns), (1, 500 * MS));
    assert_eq!((tally.late_bytes, tally.late_segments, tally.latest_ns), (250, 1, 500 * MS));
}

#[test]
fn sound_that_is_late_stops_the_picture_too() {
    let server = |track, segment, asked_ns| match (track, segment) {
        (1, 4) => (vec![(60 * MS + 4 * S + 700 * MS, 80)], true),
        _ => prompt(track, segment, asked_ns),
    };
    let seen = play(settings(0, 30 * S), vec![media(&[2 * S; 5]), media(&[S; 10])], &server, vec![]);
    assert_eq!((seen.tally.stalls, seen.tally.stalled_ns), (1, 700 * MS));
    // Byte b is due 1000 / 80 ms after byte b - 1: those before 700 ms are 56.
    assert_eq!((seen.tally.late_bytes, seen.tally.late_segments), (56, 1));
}

#[test]
fn nothing_is_late_during_a_pause() {
    // Everything from segment 2 on comes 50 s after it was asked for; the viewer pauses for 60 s.
    let server = |track, segment, asked_ns| match segment {
        0 | 1 => prompt(track, segment, asked_ns),
        _ => (vec![(asked_ns.max(50 * S), 1000)], true),
    };
    let pause = |player: &mut Player, now_ns: u64| assert!(player.pause(now_ns));
    let resume = |player: &mut Player, now_ns: u64| player.resume(now_ns);
    let script: Script = vec![(3 * S, &pause), (63 * S, &resume)];
    let seen = play(settings(0, 30 * S), vec![media(&[2 * S; 5])], &server, script);
    let tally = &seen.tally;
    assert_eq!((tally.stalls, tally.late_bytes, tally.played_ns), (0, 0, 10 * S));
    assert_eq!(seen.ended_ns, 70 * S + 60 * MS);
}

#[test]
fn seeking_far_loads_again_and_near_does_not() {
    let far = |player: &mut Player, now_ns: u64| player.seek(now_ns, 45 * S);
    let near = |player: &mut Player, now_ns: u64| player.seek(now_ns, 49 * S);
    let script: Script = vec![(5 * S, &far), (6 * S, &near)];
    let seen = play(settings(0, 6 * S), vec![media(&[2 * S; 30])], &prompt, script);
    let tally = &seen.tally;
    assert_eq!((seen.phase, tally.stalls, tally.late_bytes), (Phase::Ended, 0, 0));
    assert_eq!((tally.startup_ns, tally.seeks_ns.clone()), (Some(60 * MS), vec![120 * MS]));
    let segments: Vec<_> = seen.asked.iter().map(|asked| asked.2).collect();
    // 45 s lies in the middle of a segment: as much as a segment lasts is there when the next is
    // whole too. Up to 11 s ahead at the first seek; from the segment that holds 45 s on; nothing
    // twice.
    assert_eq!(segments[..6], [0, 1, 2, 3, 4, 5][..]);
    assert_eq!(segments[6..], (22..30).collect::<Vec<_>>()[..]);
    // 4.94 s, then 45 s until the second seek, then 49 s to the end.
    assert_eq!(tally.played_ns, 4940 * MS + 880 * MS + 11 * S);
}

#[test]
fn a_seek_to_the_last_moment_of_a_segment_does_not_make_the_next_one_late() {
    // 1 ms before the end of what is loaded, and 1 ms before the end of a segment that is not.
    for to_ns in [6 * S - MS, 40 * S - MS] {
        let seek = |player: &mut Player, now_ns: u64| player.seek(now_ns, to_ns);
        let slow = |_, _, asked_ns| (vec![(asked_ns + 1500 * MS, 1000)], true);
        let seen = play(settings(0, 30 * S), vec![media(&[2 * S; 30])], &slow, vec![(5 * S, &seek)]);
        assert_eq!((seen.tally.stalls, seen.tally.late_bytes), (0, 0), "{to_ns}");
        assert_eq!(seen.tally.seeks_ns.len(), 1, "{to_ns}");
    }
}

#[test]
fn a_seek_backwards_loads_what_was_thrown_away() {
    let back = |player: &mut Player, now_ns: u64| player.seek(now_ns, 0);
    let seen = play(settings(0, 6 * S), vec![media(&[2 * S; 10])], &prompt, vec![(8 * S, &back)]);
    assert_eq!(seen.asked.iter().filter(|asked| asked.2 == 0).count(), 2);
    assert_eq!((seen.phase, seen.tally.late_bytes), (Phase::Ended, 0));
}

#[test]
fn a_stall_that_is_under_way_counts_at_the_end() {
    let mut player = Player::new(settings(0, 30 * S), vec![media(&[2 * S; 3])], 0);
    player.begin(0, 0, Some(10));
    player.received(S, 0, 10);
    player.complete(S, 0);
    assert_eq!(player.phase(), Phase::Playing);
    let tally = player.finish(8 * S);
    assert_eq!((tally.stalls, tally.stalled_ns, tally.played_ns), (1, 5 * S, 2 * S));
    // How many bytes were missing is unknown, but some were.
    assert_eq!((tally.late_bytes, tally.first_late_ns), (1, Some(8 * S)));
}

#[test]
fn bytes_that_never_came_are_late_when_the_viewer_gives_up() {
    let mut player = Player::new(settings(0, 30 * S), vec![media(&[2 * S; 3])], 0);
    player.begin(0, 0, Some(10));
    player.received(S, 0, 10);
    player.complete(S, 0);
    player.begin(0, 1, Some(100));
    player.received(2 * S, 0, 20);
    // Byte 20 is due at 3.4 s; at 4 s the bytes 20 to 49 should be here.
    player.seek(4 * S, 5 * S);
    let tally = player.finish(4 * S);
    assert_eq!((tally.stalls, tally.stalled_ns, tally.late_bytes, tally.late_segments), (1, 600 * MS, 30, 1));
    assert_eq!(tally.latest_ns, 600 * MS);
}

#[test]
fn a_segment_that_breaks_off_is_asked_for_again() {
    let mut player = Player::new(settings(0, 30 * S), vec![media(&[2 * S; 2])], 0);
    assert_eq!(player.next(0, 0), Next::Fetch(0));
    player.begin(0, 0, Some(10));
    player.received(MS, 0, 4);
    player.broke_off(2 * MS, 0);
    assert_eq!((player.next(3 * MS, 0), player.phase()), (Next::Fetch(0), Phase::Starting));
}

#[test]
fn another_rendition_continues_at_the_nearest_border() {
    let mut player = Player::new(settings(0, 30 * S), vec![media(&[2 * S; 4])], 0);
    for segment in 0..2 {
        player.begin(0, segment, Some(10));
        player.received(MS, 0, 10);
        player.complete(MS, 0);
    }
    // Its playlist is rounded otherwise.
    player.switch(0, media(&[2 * S - 3000, 2 * S + 1000, 2 * S, 2 * S]));
    assert_eq!(player.next(2 * MS, 0), Next::Fetch(2));
}

/// What must come out, byte by byte and without any cleverness, for one track.
fn count_late(lasts_ns: &[u64], startup_ns: u64, came: &[(u64, usize, u64)]) -> (u64, u64, u64) {
    // Every byte: its segment, its media time, its arrival.
    let mut bytes = Vec::new();
    let mut whole_ns = Vec::new();
    let mut start_ns = 0;
    for (segment, lasts) in lasts_ns.iter().enumerate() {
        let mine = || came.iter().filter(|arrival| arrival.1 == segment);
        let count: u64 = mine().map(|arrival| arrival.2).sum();
        let arrivals = mine().flat_map(|arrival| (0..arrival.2).map(|_| arrival.0));
        bytes.extend(
            (0..count).zip(arrivals).map(|(byte, at_ns)| (segment, start_ns + lasts * byte / count, at_ns)),
        );
        whole_ns.push(mine().map(|arrival| arrival.0).max().unwrap());
        start_ns += lasts;
    }
    let total_ns = start_ns;
    // When the film can continue from a media time: all segments up to it, and up to the startup
    // after it, are whole.
    let ready = |media_ns: u64| {
        let (mut start_ns, mut at_ns) = (0, 0);
        for (lasts, whole) in lasts_ns.iter().zip(&whole_ns) {
            if start_ns <= media_ns || start_ns < (media_ns + startup_ns).min(total_ns) {
                at_ns = at_ns.max(*whole);
            }
            start_ns += lasts;
        }
        at_ns
    };
    let mut epoch_ns = ready(0);
    let (mut stalls, mut stalled_ns, mut late) = (0, 0, vec![false; bytes.len()]);
    let mut next = 0;
    while next < bytes.len() {
        let (_, media_ns, at_ns) = bytes[next];
        let due_ns = epoch_ns + media_ns;
        if at_ns > due_ns {
            stalls += 1;
            let continues_ns = ready(media_ns);
            for (byte, late) in bytes.iter().zip(&mut late).skip(next) {
                *late |= byte.2 <= continues_ns && byte.2 > epoch_ns + byte.1;
            }
            stalled_ns += continues_ns - due_ns;
            epoch_ns += continues_ns - due_ns;
        }
        next += 1;
    }
    (stalls, stalled_ns, late.iter().filter(|late| **late).count() as u64)
}

#[test]
fn random_servers_are_judged_as_byte_by_byte() {
    let mut stalled = 0;
    for seed in 0..400 {
        let mut rng = sequence(seed, Purpose::Title, 0);
        let lasts_ns: Vec<u64> = (0..12).map(|_| (500 + rng.below(3000)) * MS).collect();
        let startup_ns = rng.below(5) * S;
        let lengths_known = seed % 4 > 0;
        let rng = std::cell::RefCell::new(rng);
        let server = |_, _, asked_ns| {
            let mut rng = rng.borrow_mut();
            let mut at_ns = asked_ns;
            let pieces = 1 + rng.below(6);
            let mut slow = 1 + rng.below(900);
            if rng.below(5) == 0 {
                slow *= 6;
            }
            let piece = |_| {
                at_ns += rng.below(slow * MS);
                (at_ns, 1 + rng.below(40))
            };
            let arrivals: Vec<_> = (0..pieces).map(piece).collect();
            (arrivals, lengths_known)
        };
        let tracks = vec![media(&lasts_ns)];
        // A buffer for the whole film: what is judged here is what came when, not when it was asked
        // for.
        let seen = play(settings(startup_ns, 1000 * S), tracks, &server, vec![]);
        let tally = &seen.tally;
        let reckoned = count_late(&lasts_ns, startup_ns, &seen.came[0]);
        let total_ns: u64 = lasts_ns.iter().sum();
        assert_eq!(seen.phase, Phase::Ended);
        assert_eq!(tally.played_ns, total_ns, "seed {seed}");
        assert_eq!(seen.ended_ns, tally.startup_ns.unwrap() + total_ns + tally.stalled_ns, "seed {seed}");
        // A segment whose length is not known cannot be shown in part: it stalls earlier.
        if lengths_known {
            assert_eq!((tally.stalls, tally.stalled_ns, tally.late_bytes), reckoned, "seed {seed}");
            stalled += reckoned.0;
        }
    }
    assert!(stalled > 100, "only {stalled} stalls were compared");
}
