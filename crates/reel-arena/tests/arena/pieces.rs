//! The arena as its users see it, from one thread and from many.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use reel_arena::{Arena, ArenaConfig, ArenaError, Lease, PageKind, PieceState};

fn config() -> ArenaConfig {
    ArenaConfig { buffer_bytes: 65536, buffer_count: 4, cells_per_buffer: 4, huge_pages: false }
}

fn arena() -> Arena {
    Arena::new(config()).expect("256 KiB of memory")
}

#[test]
fn small_requests_get_cells_large_ones_buffers_too_large_ones_nothing() {
    let arena = arena();
    let cell = arena.take(1).expect("free");
    let whole = arena.take(16385).expect("free");
    assert_eq!((cell.len(), whole.len()), (16384, 65536));
    assert!(arena.take(65537).is_none());
    let usage = arena.usage();
    assert_eq!((usage.bytes_taken, usage.buffers_taken), (16384 + 65536, 2));
    assert_eq!((usage.bytes_total, usage.buffers_total), (4 * 65536, 4));
}

#[test]
fn an_exhausted_arena_gives_nothing_until_a_piece_is_free() {
    let arena = arena();
    let mut all: Vec<_> = (0..4).map(|_| arena.take(65536).expect("free")).collect();
    assert!(arena.take(1).is_none() && arena.take(65536).is_none());
    all.pop();
    let cells: Vec<_> = (0..4).map(|_| arena.take(1).expect("a cell of the freed buffer")).collect();
    assert!(arena.take(1).is_none());
    let offsets: HashSet<usize> = cells.iter().map(|c| c.region_offset()).collect();
    assert_eq!(offsets.len(), 4);
    drop(cells);
    assert!(arena.take(65536).is_some(), "the cells have become a buffer again");
}

#[test]
fn every_piece_is_aligned_and_lies_at_its_offset() {
    let odd =
        ArenaConfig { buffer_bytes: 264 * 1024, buffer_count: 3, cells_per_buffer: 7, huge_pages: false };
    let arena = Arena::new(odd).expect("memory");
    assert_eq!(arena.cell_bytes() % 4096, 0);
    let base = arena.region().base.as_ptr() as usize;
    for bytes in [1, 264 * 1024] {
        let mut pieces = Vec::new();
        while let Some(piece) = arena.take(bytes) {
            assert_eq!(piece.as_ptr() as usize % 4096, 0);
            assert_eq!(piece.as_ptr() as usize, base + piece.region_offset());
            assert!(piece.region_offset() + piece.len() <= arena.region().bytes);
            pieces.push(piece);
        }
        assert_eq!(pieces.len(), if bytes == 1 { 21 } else { 3 });
    }
}

#[test]
fn leases_share_bytes_and_the_last_one_returns_them() {
    let arena = arena();
    let mut buffer = arena.take(65536).expect("free");
    buffer.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
    let first = buffer.freeze();
    let part = first.slice(256..512);
    let smaller = part.slice(1..3);
    assert_eq!(&smaller[..], &[1, 2]);
    assert_eq!(smaller.region_offset(), first.region_offset() + 257);
    assert!(part.slice(256..256).is_empty());
    let first = first.try_into_buffer().expect_err("others hold it");
    drop((first, part));
    assert_eq!(arena.usage().buffers_taken, 1, "one lease is left");
    let buffer = smaller.try_into_buffer().expect("the only one");
    assert_eq!((buffer.len(), buffer[300]), (65536, 44));
    drop(buffer);
    assert_eq!(arena.usage().buffers_taken, 0);
}

#[test]
#[should_panic(expected = "slice 0..65537")]
fn a_slice_beyond_the_lease_is_refused() {
    arena().take(65536).expect("free").freeze().slice(0..65537);
}

#[test]
fn memory_outlives_the_handle() {
    let arena = arena();
    let lease = arena.take(65536).expect("free").freeze();
    let buffer = arena.take(65536).expect("free");
    drop(arena);
    assert_eq!(lease.len() + buffer.len(), 2 * 65536);
    assert!(lease.iter().chain(buffer.iter()).all(|b| *b == 0));
}

#[test]
fn states_are_counted_through_the_life_of_a_piece() {
    let arena = arena();
    let counts = || {
        let u = arena.usage();
        [u.pieces_empty, u.pieces_reading, u.pieces_full, u.pieces_sending]
    };
    let buffer = arena.take(65536).expect("free");
    let other = arena.take(1).expect("free");
    assert_eq!((counts(), buffer.state()), ([2, 0, 0, 0], PieceState::Empty));
    buffer.set_state(PieceState::Reading);
    assert_eq!(counts(), [1, 1, 0, 0]);
    let lease = buffer.freeze();
    assert_eq!(counts(), [1, 0, 1, 0]);
    let (one, two) = (lease.sending(), lease.slice(0..10).sending());
    assert_eq!((counts(), lease.state()), ([1, 0, 0, 1], PieceState::Sending));
    drop(one);
    assert_eq!(counts(), [1, 0, 0, 1], "the other send continues");
    drop(lease);
    assert_eq!(counts(), [1, 0, 0, 1], "a send keeps the piece");
    drop(two);
    assert_eq!(counts(), [1, 0, 0, 0]);
    drop(other);
    assert_eq!(counts(), [0; 4]);
}

#[test]
fn impossible_sizes_are_refused_by_name() {
    for (wrong, name) in [
        (ArenaConfig { buffer_bytes: 0, ..config() }, "buffer_bytes"),
        (ArenaConfig { buffer_bytes: 4097, ..config() }, "buffer_bytes"),
        (ArenaConfig { buffer_bytes: (1 << 30) + 4096, ..config() }, "buffer_bytes"),
        (ArenaConfig { buffer_count: 0, ..config() }, "buffer_count"),
        (ArenaConfig { buffer_count: usize::MAX, ..config() }, "buffer_count"),
        (ArenaConfig { cells_per_buffer: 0, ..config() }, "cells_per_buffer"),
        (ArenaConfig { cells_per_buffer: 17, ..config() }, "cells_per_buffer"),
        (ArenaConfig { buffer_bytes: 1 << 20, cells_per_buffer: 65, ..config() }, "cells_per_buffer"),
    ] {
        let error = Arena::new(wrong.clone()).expect_err("refused");
        assert!(matches!(&error, ArenaError::Config { what, .. } if *what == name), "{wrong:?}: {error}");
    }
}

#[test]
fn the_error_for_an_arena_beyond_the_address_space_says_what_to_do() {
    let huge =
        ArenaConfig { buffer_bytes: 1 << 30, buffer_count: 1 << 20, cells_per_buffer: 1, huge_pages: false };
    let error = Arena::new(huge).expect_err("1 PiB is more than a process can map");
    assert!(error.to_string().contains("make the arena smaller"), "{error}");
}

#[test]
fn huge_pages_are_optional_and_the_kind_is_reported() {
    for buffer_count in [1, 4, 33, 64, 100] {
        let wished =
            Arena::new(ArenaConfig { huge_pages: true, buffer_count, ..config() }).expect("some pages");
        let region = wished.region();
        let huge = region.pages != PageKind::Normal;
        assert_eq!(region.base.as_ptr() as usize % if huge { 2 << 20 } else { 4096 }, 0, "{region:?}");
        assert_eq!(region.fd.is_none(), region.pages == PageKind::TransparentHugePrivate);
        assert_eq!(region.bytes, buffer_count * 65536);
        let mut all: Vec<_> = std::iter::from_fn(|| wished.take(65536)).collect();
        all.iter_mut().for_each(|buffer| buffer.fill(7));
        assert_eq!(all.len(), buffer_count);
    }
    let plain = arena();
    assert_eq!((plain.region().pages, plain.region().fd.is_some()), (PageKind::Normal, true));
}

/// The return of pieces under stress. Pieces are stamped, shared between threads, checked by every
/// owner and given back from whichever thread is last. A piece that is given out twice, or given
/// back while it is in use, breaks the stamp; a lost one breaks the count.
#[test]
fn many_threads_share_and_give_back() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 3000;
    let arena = Arena::new(ArenaConfig {
        buffer_bytes: 16384,
        buffer_count: 8,
        cells_per_buffer: 4,
        huge_pages: false,
    })
    .expect("memory");
    let checks = AtomicUsize::new(0);
    let reused = AtomicUsize::new(0);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<(Lease, u8)>()).unzip();
    let receivers: Vec<_> = receivers.into_iter().map(Mutex::new).collect();
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (arena, senders, receivers, checks, reused) =
                (arena.clone(), senders.clone(), &receivers, &checks, &reused);
            scope.spawn(move || {
                let inbox = receivers[me].lock().expect("only this thread takes it");
                let check = |lease: &Lease, stamp: u8| {
                    assert!(lease.iter().all(|b| *b == stamp), "a piece changed under its lease");
                    checks.fetch_add(1, Ordering::Relaxed);
                };
                for round in 0..ROUNDS {
                    let bytes = if round % 3 == 0 { 16384 } else { 4096 };
                    if let Some(mut buffer) = arena.take(bytes) {
                        let stamp = (me * ROUNDS + round) as u8;
                        buffer.fill(stamp);
                        let lease = buffer.freeze();
                        for other in 1..THREADS {
                            let part = lease.slice(other * 100..lease.len());
                            senders[(me + other) % THREADS].send((part, stamp)).expect("all threads live");
                        }
                        check(&lease, stamp);
                        if let Ok(mut buffer) = lease.try_into_buffer() {
                            buffer.fill(!stamp);
                            reused.fetch_add(1, Ordering::Relaxed);
                        }
                    } else {
                        thread::yield_now();
                    }
                    for (lease, stamp) in inbox.try_iter() {
                        let _sending = lease.sending();
                        check(&lease, stamp);
                    }
                }
                drop(senders);
                for (lease, stamp) in inbox.iter() {
                    check(&lease, stamp);
                }
            });
        }
        drop(senders);
    });
    assert!(checks.load(Ordering::Relaxed) > 0);
    let usage = arena.usage();
    assert_eq!((usage.bytes_taken, usage.buffers_taken), (0, 0));
    assert_eq!([usage.pieces_empty, usage.pieces_reading, usage.pieces_full, usage.pieces_sending], [0; 4]);
    let all: Vec<_> = std::iter::from_fn(|| arena.take(16384)).collect();
    assert_eq!(all.len(), 8, "every buffer is whole again");
}
