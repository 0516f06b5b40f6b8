//! The figures of `docs/design/casts.md`.

use proptest::prelude::*;
use reel_broadcast::limits::JOIN_NS;
use reel_broadcast::{BroadcastError, Buffer, CautiousHarmonic, Plan, Schedule, Scheme, Stream};

use super::schemes;

const S: u64 = 1_000_000_000;
const RFS: Scheme = Scheme::RecursiveFrequencySplitting;

/// The clip of the thesis, section 4.2.2: three minutes of 3.5 Mb/s.
fn clip() -> Stream {
    Stream::new(180 * S, 3_500_000).unwrap()
}

fn near(value: f64, figure: f64, step: f64) {
    assert!((value - figure).abs() <= step / 2.0 + 1e-9, "{value}, and not {figure}");
}

/// Channels for two hours in slots of 30, 60 and 120 s.
#[test]
fn two_hours_take_these_channels() {
    for (scheme, channels) in [
        (Scheme::Staggered, [240, 120, 60]),
        (Scheme::Fast, [8, 7, 6]),
        (RFS, [7, 6, 5]),
        (Scheme::Skyscraper { width: 52 }, [12, 10, 8]),
        (Scheme::Skyscraper { width: 12 }, [24, 14, 9]),
    ] {
        let counted =
            [240, 120, 60].map(|segments| Schedule::new(scheme, segments).unwrap().channels().len());
        assert_eq!(counted, channels, "{scheme}");
    }
    for (segments, units) in [(240, 6.6), (120, 5.9), (60, 5.2)] {
        near(CautiousHarmonic::new(segments).unwrap().bandwidth_units(), units, 0.1);
    }
}

#[test]
fn the_clip_takes_16_26_mbps_at_five_seconds() {
    let mbps = |harmonic: CautiousHarmonic| harmonic.bandwidth_units() * 3.5;
    // Section 4.2.2, and other waits by the same formula.
    for (wait_s, figure) in [
        (5, 16.26),
        (10, 13.79),
        (1, 21.94),
        (2, 19.50),
        (3, 18.07),
        (6, 15.62),
        (9, 14.17),
        (15, 12.32),
        (20, 11.26),
        (30, 9.74),
        (60, 7.00),
    ] {
        near(mbps(CautiousHarmonic::for_wait(clip(), wait_s * S, 1).unwrap()), figure, 0.01);
    }
    let harmonic = CautiousHarmonic::for_wait(clip(), 5 * S, 1).unwrap();
    assert_eq!((harmonic.segments(), harmonic.channels()), (36, 35));
    near(harmonic.buffer_share(), 0.377, 0.001);
    near(CautiousHarmonic::new(18).unwrap().buffer_share(), 0.385, 0.001);
    let staggered = Plan::for_wait(Scheme::Staggered, clip(), 5 * S).unwrap();
    assert_eq!((staggered.bandwidth_bps(), staggered.buffer_bytes()), (126_000_000, 0));
}

#[test]
fn recursive_frequency_splitting_waits_half_as_long_for_little_more() {
    let plan = Plan::for_bandwidth(RFS, clip(), 17_500_000).unwrap();
    assert_eq!((plan.schedule.segments(), plan.bandwidth_bps()), (73, 17_500_000));
    near(plan.slot_ns() as f64 / 1e9, 2.5, 0.1);
    near(CautiousHarmonic::new(73).unwrap().bandwidth_units() * 3.5, 18.8, 0.1);
    assert_eq!(plan.segments_max(), 73);
}

/// Less one slot, which stays in memory because clients play one slot behind: 50 % of the title for
/// `fast`, 42 to 52 % for `rfs`, W - 1 segments for a skyscraper.
#[test]
fn clients_need_these_buffers() {
    let buffer = |scheme, segments| Schedule::new(scheme, segments).unwrap().buffer();
    for (channels, segments) in [(2, 2), (3, 5), (4, 13), (5, 35)] {
        let buffer = buffer(RFS, Schedule::segments_of(RFS, channels).unwrap());
        assert_eq!((buffer.segments, buffer.is_exact), (segments, true), "{channels} channels");
    }
    // Bounds. The largest buffers that a search found are 89 and 234.
    for (channels, segments) in [(6, 90), (7, 242), (8, 643)] {
        let buffer = buffer(RFS, Schedule::segments_of(RFS, channels).unwrap());
        assert_eq!((buffer.segments, buffer.is_exact), (segments, false), "{channels} channels");
    }
    for channels in 1..=8 {
        let half = Buffer { segments: 1 << (channels - 1), is_exact: true };
        assert_eq!(buffer(Scheme::Fast, (1 << channels) - 1), half);
    }
    for (width, segments) in [(1, 60), (2, 60), (5, 60), (12, 60), (25, 60), (52, 240)] {
        let buffer = buffer(Scheme::Skyscraper { width }, segments);
        assert_eq!((buffer.segments, buffer.is_exact), (width, true));
    }
    assert_eq!(buffer(Scheme::Staggered, 60).segments, 1);
}

#[test]
fn impossible_plans_are_refused() {
    assert_eq!(Stream::new(0, 1), Err(BroadcastError::Duration(0)));
    assert_eq!(Stream::new(1, 0), Err(BroadcastError::NoRate));
    assert_eq!(Plan::for_wait(RFS, clip(), 0), Err(BroadcastError::NoWait));
    assert_eq!(Plan::for_wait(RFS, clip(), S / 100), Err(BroadcastError::Segments(36_000)));
    assert!(Plan::for_wait(RFS, clip(), 1).is_err());
    assert_eq!(Plan::for_receivers(RFS, clip(), 0), Err(BroadcastError::NoWait));
    assert_eq!(Plan::for_receivers(RFS, clip(), JOIN_NS), Err(BroadcastError::NoTimeToJoin(JOIN_NS)));
    assert_eq!(Plan::for_receivers(Scheme::Linear, clip(), S), Err(BroadcastError::LinearWait));
    assert_eq!(Plan::for_wait(Scheme::Linear, clip(), S), Err(BroadcastError::LinearWait));
    assert_eq!(Plan::for_bandwidth(Scheme::Linear, clip(), S), Err(BroadcastError::LinearWait));
    let below = Plan::for_bandwidth(RFS, clip(), 3_499_999);
    assert!(matches!(below, Err(BroadcastError::Bandwidth { needed_bps: 3_500_000, .. })), "{below:?}");
    assert!(CautiousHarmonic::for_bandwidth(clip(), 3_499_999).is_err());
    assert_eq!(CautiousHarmonic::for_bandwidth(clip(), 16_270_000).unwrap().segments(), 36);
    assert!(CautiousHarmonic::new(0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_plan_keeps_the_wait(scheme in schemes(), duration_s in 10_u64..20_000, permille in 5_u64..3000) {
        let stream = Stream::new(duration_s * S, 4_000_000).unwrap();
        let wait_ns = stream.duration_ns / 1000 * permille;
        let plan = Plan::for_wait(scheme, stream, wait_ns).unwrap();
        prop_assert!(plan.wait_ns() <= wait_ns);
        prop_assert!(plan.wait_ns() == plan.slot_ns() * u64::from(scheme.wait_slots()));
        // One segment less would not.
        if plan.schedule.segments() > 1 {
            let slots = u64::from(scheme.wait_slots());
            prop_assert!(stream.duration_ns * slots > wait_ns * u64::from(plan.schedule.segments() - 1));
        }
        // Receivers wait for two slots of any scheme, and for the time to join.
        let plan = Plan::for_receivers(scheme, stream, wait_ns + JOIN_NS).unwrap();
        prop_assert!(plan.receivers_wait_ns() <= wait_ns + JOIN_NS);
        prop_assert_eq!(plan.receivers_wait_ns(), 2 * plan.slot_ns() + JOIN_NS);
        prop_assert!(plan.receivers_buffer_share() >= plan.buffer_share());
        prop_assert!(plan.buffer_share() <= 1.0 && plan.segments_max() >= plan.schedule.segments());
    }

    #[test]
    fn a_plan_keeps_the_bandwidth(scheme in schemes(), units in 1_u64..12, percent in 0_u64..100) {
        let bps = 3_500_000 * units + 35_000 * percent;
        let plan = Plan::for_bandwidth(scheme, clip(), bps).unwrap();
        prop_assert!(plan.bandwidth_bps() <= bps);
        prop_assert_eq!(plan.segments_max(), plan.schedule.segments());
    }
}
