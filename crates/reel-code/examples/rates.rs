//! Prints how fast this machine checks and encodes rows of the default size: `cargo run --release
//! -p reel-code --example rates`.

use std::hint::black_box;
use std::time::Instant;

const ROW_BYTES: usize = 45_056;
const DATA_ROWS: usize = 4;
/// Enough matrices to exceed the second-level cache, as with a stripe that has just been read from
/// a disk.
const MATRICES: usize = 64;
const ROUNDS: usize = 40;

fn main() {
    let bytes: Vec<u8> =
        (0..MATRICES * DATA_ROWS * ROW_BYTES).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    let mut parity = vec![0u8; ROW_BYTES];

    let from = Instant::now();
    for _ in 0..ROUNDS {
        for row in bytes.chunks_exact(ROW_BYTES) {
            black_box(reel_code::crc32c(black_box(row)));
        }
    }
    report("crc32c", from, bytes.len());

    let from = Instant::now();
    for _ in 0..ROUNDS {
        for matrix in bytes.chunks_exact(DATA_ROWS * ROW_BYTES) {
            let rows: Vec<&[u8]> = matrix.chunks_exact(ROW_BYTES).collect();
            reel_code::Code::Xor.encode(black_box(&rows), &mut [&mut parity]);
        }
    }
    report("xor 4+1 encode", from, bytes.len());
}

fn report(name: &str, from: Instant, bytes: usize) {
    let seconds = from.elapsed().as_secs_f64();
    let gigabytes = (bytes * ROUNDS) as f64 / 1e9;
    println!(
        "{name}: {:.1} GB/s, {:.1} ms of processor per GB",
        gigabytes / seconds,
        seconds / gigabytes * 1e3
    );
}
