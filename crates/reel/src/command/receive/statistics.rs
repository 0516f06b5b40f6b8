//! What is printed of a receiver's counters.

use reel_receive::Counts;

/// The counters in one line. Those that are rarely above zero are shown only then. `dropped` are
/// datagrams that found no room in memory.
pub(super) fn line(counts: &Counts, dropped: u64) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut line = format!(
        "received {}, lost {}, repaired {}, unrepaired {}, delay {:.1} ms (at most {:.1} ms)",
        counts.received,
        counts.lost,
        counts.repaired,
        counts.unrepaired,
        ms(counts.delay_mean_ns()),
        ms(counts.delay_max_ns)
    );
    for (name, count) in [
        ("late", counts.late),
        ("duplicates", counts.duplicates),
        ("foreign", counts.foreign),
        ("of another broadcast", counts.undescribed),
        ("malformed", counts.malformed),
        ("restarts", counts.restarts),
        ("rejected FEC", counts.fec_rejected),
        ("overrun", counts.overrun + dropped),
    ] {
        if count > 0 {
            line.push_str(&format!(", {name} {count}"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_counters_are_shown_if_they_count() {
        let counts = Counts {
            received: 95,
            lost: 5,
            repaired: 4,
            unrepaired: 1,
            delivered: 99,
            delay_sum_ns: 990_000_000,
            delay_max_ns: 120_000_000,
            ..Counts::default()
        };
        let usual = "received 95, lost 5, repaired 4, unrepaired 1, delay 10.0 ms (at most 120.0 ms)";
        assert_eq!(line(&counts, 0), usual);
        assert_eq!(line(&Counts { foreign: 3, ..counts }, 2), format!("{usual}, foreign 3, overrun 2"));
    }
}
