//! Warnings say where the first fault is, how many there are, and how much is missing.

use super::*;

#[test]
fn jumps_of_the_clock_are_said_with_their_time() {
    let film_dir = FilmDir::new();
    let at = |offset: u32| {
        make(&film_dir, &format!("{offset}.ts"), 4, &format!("{H264_AAC} -output_ts_offset {offset}"))
    };
    let parts = [at(0), at(500), at(50)];
    let played = Played::of(&parts[..2].concat());
    assert!(played.warns_of("the clock jumps one time, first at 00:00:03.9"), "{:?}", played.warnings);
    let played = Played::of(&parts.concat());
    assert!(played.warns_of("the clock jumps 2 times, first at 00:00:03.9"), "{:?}", played.warnings);
}

#[test]
fn damaged_sound_is_counted() {
    let film_dir = FilmDir::new();
    for (codecs, sync) in [(HEVC_AC3, [0x0b, 0x77]), (H264_AAC, [0xff, 0xf1])] {
        let mut bytes = make(&film_dir, "a.ts", 8, codecs);
        let packets = packets_of(&bytes, SOUND_PID);
        // A frame that begins within a packet, after each of two places.
        for from in [packets.len() / 3, packets.len() / 2] {
            let begins = |at: &usize| (at + 20..at + PACKET - 8).find(|at| bytes[*at..at + 2] == sync);
            let frame = packets[from..].iter().filter(|at| bytes[**at + 1] & 0x40 == 0).find_map(begins);
            bytes[frame.expect("a frame")] = 0;
        }
        let played = Played::of(&bytes);
        let said = "sound frames of stream 257 are damaged at 2 places, the first near 00:00:02.";
        assert!(played.warns_of(said), "{:?}", played.warnings);
        assert!(played.warns_of(" bytes are left out"), "{:?}", played.warnings);
    }
}

#[test]
fn gaps_of_sound_are_summed_and_short_ones_are_not_said() {
    let film_dir = FilmDir::new();
    let with = |gaps: &str| {
        let arguments = format!("-af asetpts='PTS+({gaps})/TB' -ac 2 {H264_AAC}");
        Played::of(&make(&film_dir, "a.ts", 8, &arguments))
    };
    let played = with("0.5*gte(T,3)+0.7*gte(T,5)");
    let said = "sound of stream 257 has 2 gaps, the first at 00:00:03.";
    assert!(played.warns_of(said) && played.warns_of(": 1.2 s in all"), "{:?}", played.warnings);
    let played = with("0.07*gte(T,3)");
    assert!(played.warnings.is_empty(), "{:?}", played.warnings);
}

#[test]
fn pictures_before_a_key_frame_are_counted() {
    let film_dir = FilmDir::new();
    let bytes = make(&film_dir, "a.ts", 8, H264_AAC);
    let from = packets_of(&bytes, PICTURE_PID)[60];
    let played = Played::of(&bytes[from..]);
    let text = played.warnings.iter().find(|text| text.contains("pictures before a key frame"));
    let said = text.expect("named").trim_start_matches("stream 256: ");
    let count: usize = said.split(' ').next().unwrap().parse().unwrap();
    let lost = 200 - played.pictures().len();
    let cut_off = packets_of(&bytes[..from], PICTURE_PID);
    let cut_off = cut_off.iter().filter(|at| bytes[**at + 1] & 0x40 != 0).count();
    assert_eq!(count, lost - cut_off, "{said}");
}

#[test]
fn damaged_packets_are_counted() {
    let film_dir = FilmDir::new();
    let mut bytes = make(&film_dir, "a.ts", 8, H264_AAC);
    let packets = packets_of(&bytes, PICTURE_PID);
    let marked = [packets.len() / 2, packets.len() / 2 + 50].map(|place| packets[place]);
    marked.into_iter().for_each(|at| bytes[at + 1] |= 0x80);
    let played = Played::of(&bytes);
    let said = format!("left out: 2 damaged packets, the first at byte {} (near 00:00:0", marked[0]);
    assert!(played.warns_of(&said), "{:?}", played.warnings);
}
