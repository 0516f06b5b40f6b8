//! What a receiver gets back with column FEC, and how fast: the decoder of `reel receive`, with
//! losses from a seed. The thesis measured its decoder so (table 5.1), at the most losses that its
//! code can repair.

use crate::cpu::seconds_of;
use crate::link::Link;
use anyhow::{Context, Result, ensure};
use reel_code::xor_rows;
use reel_report::{Claim, Report};
use reel_rtp::fec::{Decoder, FecHeader, FecPacket, Geometry, Recovery};
use reel_rtp::{MP2T, Packet};
use reel_testkit::Rng;

/// L and D of volumes with `--geometry ts`, and of one with `--geometry cmaf` and five members.
const GEOMETRIES: [(u16, u16); 10] =
    [(20, 4), (20, 5), (16, 6), (14, 7), (12, 8), (10, 10), (8, 12), (6, 16), (5, 20), (32, 4)];
/// Shares of packets that are lost, of media and FEC alike.
const LOSSES: [f64; 5] = [0.001, 0.01, 0.02, 0.05, 0.1];
/// Lost shares with mean bursts.
const BURSTS: [(f64, f64); 3] = [(0.01, 4.0), (0.01, 16.0), (0.05, 8.0)];
/// Transport packets in a payload.
const TS_PACKETS: [usize; 4] = [1, 3, 5, 7];
const TS_BYTES: usize = 188;

/// Matrices whose payloads are different; then they begin again.
const MATRICES_OF_CONTENT: usize = 16;

const BY_LOSS: &str = "repair, independent losses";
const BY_BURST: &str = "repair, bursts";
const BY_SIZE: &str = "repair of 20 x 4, 5 % lost";

/// What one run is of.
#[derive(Clone, Copy)]
struct Trial {
    geometry: Geometry,
    payload_bytes: usize,
    share: f64,
    mean_burst: f64,
    matrices: usize,
    seed: u64,
}

/// What came of it.
#[derive(Default)]
struct Found {
    media: u64,
    lost: u64,
    repaired: u64,
    cpu_s: f64,
}

/// Measures what comes back by loss, geometry and size of packets.
///
/// # Errors
/// If a repaired packet is not what was lost.
pub fn measure(report: &mut Report, quick: bool, runs: usize) -> Result<()> {
    report.note(
        "repair: the decoder of reel receive on one thread, media and FEC packets in the order in which a cast sends them, losses of both from a seed; \
         mb_per_cpu_s counts the payloads that were sent; residual is the share of media packets that are missing at the end, formula is p(1-(1-p)^D)",
    );
    let packets = if quick { 4_000 } else { 400_000 };
    for run in 0..runs {
        for (columns, rows) in GEOMETRIES {
            let geometry = Geometry::new(columns, rows).context("a geometry that RTP cannot carry")?;
            let matrices = packets / usize::from(geometry.packets());
            let plain = Trial {
                geometry,
                payload_bytes: 7 * TS_BYTES,
                share: 0.0,
                mean_burst: 1.0,
                matrices,
                seed: run as u64,
            };
            for share in LOSSES {
                trial(report, BY_LOSS, share * 100.0, run, Trial { share, ..plain })?;
            }
            if (columns, rows) == (20, 4) {
                for (share, mean_burst) in BURSTS {
                    trial(report, BY_BURST, share * 100.0, run, Trial { share, mean_burst, ..plain })?;
                }
                trial(report, BY_LOSS, 0.0, run, plain)?;
                for packets in TS_PACKETS {
                    let payload_bytes = packets * TS_BYTES;
                    trial(
                        report,
                        BY_SIZE,
                        payload_bytes as f64,
                        run,
                        Trial { share: 0.05, payload_bytes, ..plain },
                    )?;
                }
            }
        }
    }
    claims(report);
    Ok(())
}

fn trial(report: &mut Report, case: &str, at: f64, run: usize, trial: Trial) -> Result<()> {
    let found = run_trial(trial)?;
    let (media, lost, repaired) = (found.media as f64, found.lost as f64, found.repaired as f64);
    let bytes = media * trial.payload_bytes as f64;
    let values = [
        ("recovered_share", if lost > 0.0 { repaired / lost } else { f64::NAN }),
        ("residual", (lost - repaired) / media),
        ("formula", formula(trial.share, trial.geometry.rows())),
        ("mb_per_cpu_s", bytes / found.cpu_s / 1e6),
        ("cpu_us_per_packet", found.cpu_s * 1e6 / media),
        ("lost", lost),
        ("repaired", repaired),
    ];
    let burst =
        if trial.mean_burst > 1.0 { format!(", bursts of {}", trial.mean_burst) } else { String::new() };
    let system = format!("{} x {}{burst}", trial.geometry.columns(), trial.geometry.rows());
    report.row(case, &system, at, run, &values);
    Ok(())
}

/// The share of packets that is missing after repair, if losses are independent: one is lost, and
/// one of the D others of its column, its FEC packet included, is lost as well.
fn formula(share: f64, rows: u8) -> f64 {
    share * (1.0 - (1.0 - share).powi(i32::from(rows)))
}

fn claims(report: &mut Report) {
    for (share, columns, rows) in [(0.01, 20, 4), (0.05, 20, 4), (0.1, 20, 4), (0.05, 10, 10), (0.05, 5, 20)]
    {
        let system = format!("{columns} x {rows}");
        let residual = report.median_or_nan(BY_LOSS, &system, share * 100.0, "residual");
        let name = format!("missing after repair / formula, {system}, {} % lost", share * 100.0);
        report.claim(Claim::within(name, residual / formula(share, rows), 1.0, 0.1));
    }
}

/// The content of a few matrices: payloads, and the parity of each column.
struct Content {
    media: Vec<Vec<u8>>,
    parity: Vec<Vec<u8>>,
}

impl Content {
    fn new(trial: &Trial) -> Self {
        let (columns, packets) =
            (usize::from(trial.geometry.columns()), usize::from(trial.geometry.packets()));
        let mut rng = Rng::new(1);
        let media: Vec<Vec<u8>> =
            (0..MATRICES_OF_CONTENT * packets).map(|_| rng.bytes(trial.payload_bytes)).collect();
        let mut parity = Vec::new();
        for matrix in media.chunks_exact(packets) {
            for column in 0..columns {
                let rows: Vec<&[u8]> = matrix[column..].iter().step_by(columns).map(Vec::as_slice).collect();
                let mut sum = vec![0; trial.payload_bytes];
                xor_rows(&mut sum, &rows);
                parity.push(sum);
            }
        }
        Self { media, parity }
    }
}

fn run_trial(trial: Trial) -> Result<Found> {
    let content = Content::new(&trial);
    let mut link = Link::new(trial.seed, trial.share, trial.mean_burst);
    let packets = usize::from(trial.geometry.packets());
    let rows = usize::from(trial.geometry.rows());
    // The last matrix only carries the FEC of the one before it.
    let counted = (trial.matrices - 1) * packets;
    let is_lost: Vec<[bool; 2]> =
        (0..trial.matrices * packets).map(|n| [link.loses(), n % rows == rows - 1 && link.loses()]).collect();
    let mut decoder = Decoder::new(trial.geometry);
    let mut wrong = 0;
    let mut found = Found { media: counted as u64, ..Found::default() };
    let cpu_s = seconds_of(|| {
        for (number, [media, fec]) in is_lost.iter().enumerate() {
            if !media {
                decoder.push_media(&media_packet(&content, number));
            } else if number < counted {
                found.lost += 1;
            }
            // FEC packet c of a matrix leaves with packet D x c of the next one.
            if number % rows == rows - 1 && number >= packets && !fec {
                let column = (number % packets) / rows;
                decoder.push_fec(&fec_packet(&content, &trial, number / packets - 1, column));
            }
            while let Some(repaired) = decoder.next_repaired() {
                // A sequence number says which of the last 65,536 packets it is.
                let back = (number as u16).wrapping_sub(repaired.sequence);
                let original = number - usize::from(back);
                wrong += u64::from(repaired.payload != media_packet(&content, original).payload);
                found.repaired += u64::from(original < counted);
            }
        }
    });
    ensure!(wrong == 0, "{wrong} packets were repaired wrongly");
    found.cpu_s = cpu_s;
    Ok(found)
}

fn media_packet(content: &Content, number: usize) -> Packet<'_> {
    Packet {
        marker: false,
        payload_type: MP2T,
        sequence: number as u16,
        time_stamp: (number * 30) as u32,
        ssrc: 7,
        is_plain: true,
        payload: &content.media[number % content.media.len()],
    }
}

fn fec_packet<'a>(content: &'a Content, trial: &Trial, matrix: usize, column: usize) -> FecPacket<'a> {
    let columns = usize::from(trial.geometry.columns());
    let base = matrix * usize::from(trial.geometry.packets()) + column;
    let mut recovery = Recovery::default();
    for row in 0..usize::from(trial.geometry.rows()) {
        let packet = media_packet(content, base + row * columns);
        recovery.add(&Recovery {
            length: packet.payload.len() as u16,
            payload_type: packet.payload_type,
            marker: packet.marker,
            time_stamp: packet.time_stamp,
        });
    }
    let number = matrix * columns + column;
    FecPacket {
        sequence: number as u16,
        time_stamp: 0,
        header: FecHeader { base: base as u16, geometry: trial.geometry, recovery },
        parity: &content.parity[number % content.parity.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missing_without_losses_and_as_much_as_expected_with_them() {
        let geometry = Geometry::new(20, 4).expect("valid");
        let trial =
            Trial { geometry, payload_bytes: 188, share: 0.0, mean_burst: 1.0, matrices: 500, seed: 3 };
        let found = run_trial(trial).expect("repaired as sent");
        assert_eq!((found.media, found.lost, found.repaired), (499 * 80, 0, 0));
        let found = run_trial(Trial { share: 0.05, ..trial }).expect("repaired as sent");
        let residual = (found.lost - found.repaired) as f64 / found.media as f64;
        assert!((residual / formula(0.05, 4) - 1.0).abs() < 0.15, "{residual}");
    }
}
